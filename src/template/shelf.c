/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/shelf.c - templates and layers on disk.
 *
 * Owns:  STATE/templates, STATE/layers and their lock, STATE/layers/.lock.
 * Rules: a record appears and disappears in one rename or unlink, under the lock. A layer is there
 *        before the record that names it, and is removed only by a sweep. Whoever is killed leaves
 *        a folder or file that the next sweep knows by its name and by its lock being free.
 *        Lock order, outermost first: shelf lock > work folder, record.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "template/record.h"
#include "template/shelf.h"
#include "host/tree.h"

/* Makes @path and what is missing above it. Only its owner enters: images hold set-uid programs. */
static int make_path(const char *path, struct err *e)
{
	char part[WARD_PATH_MAX];
	int r;

	if (str_copy(part, sizeof(part), path) < 0)
		return err_say(e, ENAMETOOLONG, "the path of the state directory is too long");
	for (char *p = part + 1;; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		r = host_mkdirat(AT_FDCWD, part, 0700);
		if (r < 0 && r != -EEXIST)
			return err_set(e, -r, "making %s", part);
		*p = c;
		if (!c)
			return 0;
	}
}

static int open_folder(const char *state_dir, const char *name, bool make, int *ret, struct err *e)
{
	char path[WARD_PATH_MAX];
	int fd, r;

	if (str_fmt(path, sizeof(path), "%s/%s", state_dir, name) < 0)
		return err_say(e, ENAMETOOLONG, "the path of the state directory is too long");
	if (make) {
		r = make_path(path, e);
		if (r < 0)
			return r;
	}
	fd = host_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd == -ENOENT && !make)
		return -ENOENT;
	if (fd < 0)
		return err_set(e, -fd, "opening %s", path);
	*ret = fd;
	return 0;
}

int shelf_open(const char *state_dir, bool make, struct shelf *ret, struct err *e)
{
	struct shelf s = { -1, -1, -1, -1 };
	int r;

	r = open_folder(state_dir, "layers", make, &s.layers, e);
	if (r == 0)
		r = open_folder(state_dir, "templates", make, &s.templates, e);
	if (r == 0) {
		r = open_folder(state_dir, "boxes", false, &s.boxes, e);
		r = r == -ENOENT ? 0 : r;
	}
	if (r == 0) {
		s.lock_ = host_openat(s.layers, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
		if (s.lock_ < 0)
			r = err_set(e, -s.lock_, "opening %s/layers/.lock", state_dir);
	}
	if (r < 0) {
		shelf_done(&s);
		return r;
	}
	*ret = s;
	return 0;
}

void shelf_done(struct shelf *s)
{
	int *const fds[] = { &s->lock_, &s->boxes, &s->templates, &s->layers };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (*fds[i] >= 0)
			host_close(*fds[i]);
		*fds[i] = -1;
	}
}

int shelf_lock(struct shelf *s, struct err *e)
{
	while (flock(s->lock_, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "locking the templates");
	return 0;
}

void shelf_unlock(struct shelf *s)
{
	flock(s->lock_, LOCK_UN);
}

static int work_make(struct shelf *s, char name[ID_LEN + 6], int *ret_fd, struct err *e)
{
	char id[ID_LEN + 1];
	own_fd int fd = -1;
	int r = id_make(id);

	if (r < 0)
		return err_set(e, -r, "making a random name");
	str_fmt(name, ID_LEN + 6, ".tmp-%s", id);
	r = host_mkdirat(s->layers, name, 0700);
	if (r < 0)
		return err_set(e, -r, "making a folder in the folder of layers");
	fd = host_openat(s->layers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
		r = fd < 0 ? fd : -errno;
		host_unlinkat(s->layers, name, AT_REMOVEDIR);
		return err_set(e, -r, "opening %s in the folder of layers", name);
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int shelf_work_begin(struct shelf *s, char name[ID_LEN + 6], int *ret_fd, struct err *e)
{
	int r = shelf_lock(s, e);

	if (r < 0)
		return r;
	r = work_make(s, name, ret_fd, e);
	shelf_unlock(s);
	return r;
}

int shelf_pin(struct shelf *s, int work, const char *layer, struct err *e)
{
	own_fd int fd = host_openat(work, "uses", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
	char line[LAYER_NAME_MAX + 2];
	int r = fd;

	(void)s;
	if (r >= 0)
		r = str_fmt(line, sizeof(line), "%s\n", layer);
	if (r >= 0)
		r = host_write_all(fd, line, strlen(line));
	return r < 0 ? err_set(e, -r, "noting that layer %s is needed", layer) : 0;
}

int shelf_work_owns(int work, const char *name, struct err *e)
{
	own_fd int fd =
		host_openat(work, "template", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	int r = fd < 0 ? fd : host_write_all(fd, name, strlen(name));

	return r < 0 ? err_set(e, -r, "noting that template '%s' is temporary", name) : 0;
}

void shelf_work_end(struct shelf *s, const char *name, int *fd)
{
	if (*fd < 0)
		return;
	rm_tree(s->layers, name, NULL);
	host_close(take_fd(fd)); /* last: until here no sweep may touch it */
}

static int write_new(int dir, const char *file, const struct buf *text, struct err *e)
{
	own_fd int fd = host_openat(dir, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	int r = fd;

	if (r >= 0)
		r = host_write_all(fd, text->data, text->len);
	if (r >= 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? err_set(e, -r, "writing its record") : 0;
}

/* A record that a sandbox runs from gets a second name, so that its layers still count as used. */
static int keep_if_held(int dir, const char *id, struct err *e)
{
	own_fd int old = host_openat(dir, "template", O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	char kept[ID_LEN + 8];

	if (old == -ENOENT)
		return 0;
	if (old < 0)
		return err_set(e, -old, "opening the record that was there");
	if (flock(old, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return err_set(e, errno, "locking the record that was there");
	str_fmt(kept, sizeof(kept), "in-use-%s", id);
	if (linkat(dir, "template", dir, kept, 0) < 0)
		return err_set(e, errno, "keeping the record that was there");
	return 0;
}

static int put_at(int dir, const struct buf *text, struct err *e)
{
	char id[ID_LEN + 1], fresh[ID_LEN + 6];
	int r = id_make(id);

	if (r < 0)
		return err_set(e, -r, "making a random name");
	str_fmt(fresh, sizeof(fresh), ".new-%s", id);
	r = write_new(dir, fresh, text, e);
	if (r == 0)
		r = keep_if_held(dir, id, e);
	if (r == 0) {
		r = host_renameat(dir, fresh, dir, "template");
		if (r < 0)
			err_set(e, -r, "writing its record");
	}
	if (r < 0)
		host_unlinkat(dir, fresh, 0);
	else if (fsync(dir) < 0)
		r = err_set(e, errno, "writing its record");
	return r;
}

int shelf_put(struct shelf *s, const char *name, const struct record *rec, struct err *e)
{
	char file[TEMPLATE_NAME_MAX + 1];
	own_buf struct buf text = { 0 };
	own_fd int dir = -1;
	int r;

	r = record_file_name(name, file);
	if (r < 0)
		return err_set(e, -r, "template '%s'", name);
	r = record_format(rec, &text, e);
	if (r < 0)
		return err_wrap(e, r, "template '%s'", name);
	r = host_mkdirat(s->templates, file, 0700);
	if (r < 0 && r != -EEXIST)
		return err_set(e, -r, "template '%s': making its folder", name);
	dir = host_openat(s->templates, file, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir < 0)
		return err_set(e, -dir, "template '%s': opening its folder", name);
	r = put_at(dir, &text, e);
	if (r < 0) {
		host_unlinkat(s->templates, file, AT_REMOVEDIR); /* stays if a record is in it */
		return err_wrap(e, r, "template '%s'", name);
	}
	return fsync(s->templates) < 0 ? err_set(e, errno, "template '%s': its folder", name) : 0;
}

/* The record's file, locked against sandboxes that want to start from it. */
static int open_unused(struct shelf *s, const char *name, int *ret_dir, int *ret_fd, struct err *e)
{
	char file[TEMPLATE_NAME_MAX + 1];
	own_fd int dir = -1, fd = -1;

	if (record_file_name(name, file) == 0)
		dir = host_openat(s->templates, file, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir >= 0)
		fd = host_openat(dir, "template", O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (dir == -1 || dir == -ENOENT || dir == -ENOTDIR || fd == -ENOENT)
		return err_say(e, ENOENT,
			"there is no template '%s'; 'ward template ls' lists them", name);
	if (dir < 0 || fd < 0)
		return err_set(
			e, dir < 0 ? -dir : -fd, "opening the record of template '%s'", name);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_set(e, errno, "locking the record of template '%s'", name);
		return err_say(e, EBUSY,
			"template '%s' is in use by a running sandbox; end that one first", name);
	}
	*ret_dir = take_fd(&dir);
	*ret_fd = take_fd(&fd);
	return 0;
}

int shelf_check_removable(struct shelf *s, const char *name, struct err *e)
{
	own_fd int dir = -1, fd = -1;

	return open_unused(s, name, &dir, &fd, e);
}

int shelf_remove(struct shelf *s, const char *name, struct err *e)
{
	char file[TEMPLATE_NAME_MAX + 1];
	own_fd int dir = -1, fd = -1;
	int r = open_unused(s, name, &dir, &fd, e);

	if (r < 0)
		return r;
	r = host_unlinkat(dir, "template", 0);
	if (r < 0)
		return err_set(e, -r, "removing the record of template '%s'", name);
	/* The folder stays while an older record in it is still in use; a sweep takes it then. */
	if (record_file_name(name, file) == 0)
		host_unlinkat(s->templates, file, AT_REMOVEDIR);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_names(struct shelf *s, char ***ret, size_t *ret_count, struct err *e)
{
	int fd = host_openat(s->templates, ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	char **names = NULL, **more;
	size_t count = 0;
	struct dirent *d;
	int r = 0;

	if (!list) {
		if (fd >= 0)
			host_close(fd);
		return err_set(e, fd < 0 ? -fd : errno, "reading the folder of templates");
	}
	for (errno = 0; r == 0 && (d = readdir(list)); errno = 0) {
		if (d->d_name[0] == '.')
			continue;
		more = realloc(names, (count + 1) * sizeof(*names));
		if (more) {
			names = more;
			names[count] = strdup(d->d_name);
		}
		if (!more || !names[count])
			r = err_set(e, ENOMEM, "reading the folder of templates");
		else
			record_file_name_back(names[count++]);
	}
	if (r == 0 && errno)
		r = err_set(e, errno, "reading the folder of templates");
	closedir(list);
	*ret = names;
	*ret_count = count;
	return r;
}

int shelf_each(struct shelf *s, int (*fn)(const char *name, void *data), void *data, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = list_names(s, &names, &count, e);

	if (count)
		qsort(names, count, sizeof(*names), by_name);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = fn(names[i], data);
		free(names[i]);
	}
	free(names);
	return r;
}
