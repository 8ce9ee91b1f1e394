/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/kept.c - sandboxes that ended and were kept.
 *
 * Owns:  the files boxes/<id>/record.
 * Rules: a record appears by rename, so it is whole. Without a record, and without a slot that
 * names it, boxes/<id> is a leftover that `ward gc` deletes.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/kept.h"
#include "host/tree.h"
#include "store/trash.h"

enum { KEPT_VERSION = 1, KEPT_PATH = 64, LIST_BYTES = 4096 };

static int kept_path(char out[KEPT_PATH], const char *id, const char *file, struct err *e)
{
	if (!id_is_valid(id))
		return err_say(e, EINVAL,
			"'%.64s' is not a sandbox id: %d characters out of a-z and 2-7", id,
			ID_LEN);
	return str_fmt(out, KEPT_PATH, "boxes/%s%s", id, file);
}

static int fill(struct record *r, const struct kept_record *rec, struct err *e)
{
	char now[CLOCK_TEXT];
	struct record_line line;
	int rc;

	clock_text(now);
	record_init(r);
	record_add_num(r, "version", KEPT_VERSION);
	record_add(r, "id", rec->id);
	record_add(r, "tier", rec->tier);
	record_add(r, "created", rec->created);
	record_add(r, "ended", rec->ended ? rec->ended : now);
	record_add(r, "cause", rec->cause);
	record_add(r, "detail", rec->detail);
	record_add_num(r, "status", rec->status);
	record_add_argv(r, "command", rec->argv);
	record_add(r, "template", rec->template_name);
	rc = undo_write(r, rec->id, rec->undo, rec->undo_count, e);
	if (rc < 0)
		return rc;
	for (size_t at = 0; rec->more && record_next(rec->more, &at, &line);)
		record_add_raw(r, &line);
	if (r->bad || (rec->more && rec->more->bad))
		return err_say(e, E2BIG, "the record of sandbox %s does not fit into %d bytes",
			rec->id, RECORD_BYTES_MAX);
	return 0;
}

static int put_file(int state_fd, const char *path, const struct record *r)
{
	own_fd int fd =
		host_openat(state_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);

	return fd < 0 ? fd : host_write_all(fd, r->text, r->len);
}

int kept_write(int state_fd, const struct kept_record *rec, struct err *e)
{
	char dir[KEPT_PATH], next[KEPT_PATH], path[KEPT_PATH];
	struct record r;
	int rc = fill(&r, rec, e);

	if (rc == 0)
		rc = kept_path(dir, rec->id, "", e);
	if (rc == 0)
		rc = kept_path(next, rec->id, "/record.new", e);
	if (rc == 0)
		rc = kept_path(path, rec->id, "/record", e);
	if (rc < 0)
		return rc;
	rc = host_mkdirat(state_fd, dir, 0700);
	if (rc < 0 && rc != -EEXIST)
		return err_set(e, -rc, "making '%s' in the state directory", dir);
	rc = put_file(state_fd, next, &r);
	if (rc == 0)
		rc = host_renameat(state_fd, next, state_fd, path);
	return rc < 0 ? err_set(e, -rc, "writing '%s' in the state directory", path) : 0;
}

int kept_read(int state_fd, const char *id, struct record *ret, struct err *e)
{
	char path[KEPT_PATH];
	int rc = kept_path(path, id, "/record", e);
	own_fd int fd = -1;

	if (rc < 0)
		return rc;
	fd = host_openat(state_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd == -ENOENT)
		return err_say(
			e, ENOENT, "there is no kept sandbox '%s'; 'ward ls' lists them", id);
	if (fd < 0)
		return err_set(e, -fd, "opening '%s' in the state directory", path);
	rc = record_load(ret, fd);
	return rc < 0 ? err_set(e, -rc, "reading '%s' in the state directory", path) : 0;
}

int kept_list(int state_fd, int (*each)(void *arg, const char *id, const struct record *rec),
	void *arg, struct err *e)
{
	_Alignas(struct host_dirent) char room[LIST_BYTES];
	own_fd int fd = host_openat(state_fd, "boxes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	ssize_t n;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(e, -fd, "opening 'boxes' in the state directory");
	while ((n = host_getdents(fd, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);
			struct record rec;
			int r;

			at += d->d_reclen;
			if (!id_is_valid(d->d_name))
				continue;
			r = kept_read(state_fd, d->d_name, &rec, e);
			if (r == 0)
				r = each(arg, d->d_name, &rec);
			else if (r == -ENOENT)
				r = 0; /* of a live sandbox, or a leftover: not kept */
			if (r)
				return r;
		}
	}
	return n < 0 ? err_set(e, (int)-n, "reading 'boxes' in the state directory") : 0;
}

int kept_remove(int state_fd, const char *id, const struct sweep_hooks *hooks, struct err *e)
{
	char dir[KEPT_PATH];
	struct record rec;
	int r = kept_path(dir, id, "", e);

	if (r == 0)
		r = kept_read(state_fd, id, &rec, e);
	if (r == 0)
		r = undo_do(state_fd, id, &rec, false, hooks, e);
	return r < 0 ? r : tree_discard(state_fd, dir, e);
}
