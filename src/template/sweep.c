/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/sweep.c - removing what no template needs.
 *
 * Owns:  nothing; STATE/layers and STATE/templates belong to template/shelf.c.
 * Rules: decides under the shelf's lock and renames to .trash-*; the slow removing comes after,
 *        without the lock. A record that cannot be read may name any layer, so then none is
 *        removed. Work folders and old records count as alive while somebody holds their lock.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "template/record.h"
#include "template/ref.h"
#include "template/shelf.h"
#include "host/tree.h"

struct sweep {
	struct shelf *shelf;
	struct sweep_count count;
	struct buf used; /* "\nname\nname\n": the layers that somebody needs */
	struct err *e;
};

typedef int entry_fn(struct sweep *s, int dir, const char *name);

/* Calls @fn for each name in @dir that starts with @prefix. */
static int each(struct sweep *s, int dir, const char *prefix, entry_fn *fn)
{
	int fd = host_openat(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	int r = 0;

	if (!list) {
		r = fd < 0 ? fd : -errno;
		if (fd >= 0)
			host_close(fd);
		return err_set(s->e, -r, "reading the templates");
	}
	for (errno = 0; r == 0 && (d = readdir(list)); errno = 0)
		if (str_after(d->d_name, prefix) && !str_eq(d->d_name, ".") &&
			!str_eq(d->d_name, ".."))
			r = fn(s, dir, d->d_name);
	if (r == 0 && errno)
		r = err_set(s->e, errno, "reading the templates");
	closedir(list);
	return r;
}

static int to_trash(struct sweep *s, int dir, const char *name)
{
	char id[ID_LEN + 1], trash[ID_LEN + 8];
	int r = id_make(id);

	if (r == 0)
		r = str_fmt(trash, sizeof(trash), ".trash-%s", id);
	if (r == 0)
		r = host_renameat(dir, name, s->shelf->layers, trash);
	return r < 0 ? err_set(s->e, -r, "removing %s", name) : 0;
}

static int use_pins(struct sweep *s, int work)
{
	own_mem char *text = malloc(LAYERS_MAX * (LAYER_NAME_MAX + 1) + 1);
	ssize_t n;

	if (!text)
		return err_set(s->e, ENOMEM, "reading the templates");
	n = host_get(work, "uses", text, LAYERS_MAX * (LAYER_NAME_MAX + 1) + 1);
	if (n < 0)
		return n == -ENOENT ? 0 : err_set(s->e, (int)-n, "reading which layers are needed");
	buf_add(&s->used, text, (size_t)n);
	return 0;
}

/* A build's own template; -EBUSY: a command of the build runs on without it. */
static int drop_owned(struct sweep *s, int work)
{
	char name[TEMPLATE_NAME_MAX + 1];
	ssize_t n = host_get(work, "template", name, sizeof(name));
	int r = n > 0 && template_name_is_valid(name) ? shelf_remove(s->shelf, name, NULL) : 0;

	return r == -ENOENT ? 0 : r;
}

static int sweep_work(struct sweep *s, int dir, const char *name)
{
	own_fd int fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(s->e, -fd, "opening %s", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? use_pins(s, fd)
					    : err_set(s->e, errno, "locking %s", name);
	if (drop_owned(s, fd) == -EBUSY)
		return use_pins(s, fd); /* next time */
	s->count.works++;
	return to_trash(s, dir, name);
}

static int use_record(struct sweep *s, int fd)
{
	own_record struct record *rec = NULL;
	int r = record_read(fd, &rec, s->e);

	for (unsigned i = 0; r == 0 && i < rec->layer_count; i++)
		buf_add_fmt(&s->used, "%s\n", rec->layers[i]);
	return r;
}

static int sweep_record(struct sweep *s, int dir, const char *name)
{
	own_fd int fd = -1;

	if (str_after(name, ".new-")) { /* its writer held the shelf's lock, and we have it now */
		s->count.records++;
		host_unlinkat(dir, name, 0);
		return 0;
	}
	fd = host_openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return err_set(s->e, -fd, "opening its record %s", name);
	if (str_after(name, "in-use-") && flock(fd, LOCK_EX | LOCK_NB) == 0) {
		s->count.records++;
		host_unlinkat(dir, name, 0);
		return 0;
	}
	return use_record(s, fd);
}

static int sweep_template(struct sweep *s, int dir, const char *name)
{
	char shown[TEMPLATE_NAME_MAX + 1];
	own_fd int fd = -1;
	int r;

	if (name[0] == '.')
		return 0; /* no template's name starts so: template/host.c keeps its own things
			     there */
	fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	r = fd < 0 ? err_set(s->e, -fd, "opening its folder") : each(s, fd, "", sweep_record);
	if (r < 0) {
		str_show(shown, sizeof(shown), name);
		record_file_name_back(shown);
		return err_wrap(s->e, r, "template '%s'", shown);
	}
	host_unlinkat(dir, name, AT_REMOVEDIR); /* an empty folder is the rest of a killed import */
	return 0;
}

/* A kept sandbox is what was written on top of layers: without them it is nothing. */
static int use_box(struct sweep *s, int dir, const char *name)
{
	own_fd int fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0; /* removed just now, or nothing of ours */
	return fd < 0 ? err_set(s->e, -fd, "opening the kept sandbox %s", name) : use_pins(s, fd);
}

static int sweep_layer(struct sweep *s, int dir, const char *name)
{
	char line[LAYER_NAME_MAX + 3];

	if (str_fmt(line, sizeof(line), "\n%s\n", name) == 0 && strstr(s->used.data, line))
		return 0;
	s->count.layers++;
	return to_trash(s, dir, name);
}

static int empty_trash(struct sweep *s, int dir, const char *name)
{
	return rm_tree(dir, name, s->e);
}

static int decide(struct sweep *s)
{
	int r = each(s, s->shelf->layers, ".tmp-", sweep_work);

	if (r == 0)
		r = each(s, s->shelf->templates, "", sweep_template);
	if (r == 0 && s->shelf->boxes >= 0)
		r = each(s, s->shelf->boxes, "", use_box);
	if (r == 0 && s->used.bad)
		r = err_set(s->e, ENOMEM, "listing the layers in use");
	return r < 0 ? r : each(s, s->shelf->layers, "sha256-", sweep_layer);
}

int shelf_sweep(struct shelf *shelf, struct sweep_count *ret, struct err *e)
{
	struct sweep s = { .shelf = shelf, .e = e };
	int r = shelf_lock(shelf, e), t;

	if (r < 0)
		return r;
	buf_init(&s.used, SIZE_MAX);
	buf_add_str(&s.used, "\n");
	r = decide(&s);
	shelf_unlock(shelf);
	buf_done(&s.used);
	if (r < 0)
		s.e = NULL; /* the first error is the one to report */
	t = each(&s, shelf->layers, ".trash-", empty_trash);
	if (ret)
		*ret = s.count;
	return r < 0 ? r : t;
}

int image_sweep(const char *state_dir, struct sweep_count *ret, struct err *e)
{
	struct shelf shelf;
	int r = shelf_open(state_dir, false, &shelf, e);

	if (ret)
		memset(ret, 0, sizeof(*ret));
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = shelf_sweep(&shelf, ret, e);
	shelf_done(&shelf);
	return r;
}
