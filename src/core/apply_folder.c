/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/apply_folder.c - puts the changes of a workspace into the folder that it came from.
 *
 * Owns:  the folder .ward-apply-<id> in the source, while it works.
 * Rules: first all new contents are written beside the source's own, where running out of space
 *        changes nothing; then they are moved into place. No symlink on the way is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/stat.h>
#include <linux/openat2.h>

#include "base/own.h"
#include "base/str.h"
#include "core/apply.h"
#include "host/host.h"
#include "host/tree.h"

struct putting {
	const struct changes *c;
	int src, view, stage;
};

int apply_folder_check(
	const struct workspace_source *s, const struct changes *c, bool force, struct err *e)
{
	const struct change *first = NULL;
	size_t count = 0;

	for (size_t i = 0; i < c->count; i++) {
		if (!c->list[i].conflict)
			continue;
		first = first ? first : &c->list[i];
		count++;
	}
	if (!count || force)
		return 0;
	return err_say(e, ESTALE,
		"'%s' was changed since the workspace was made: %zu of its changes meet others, "
		"first '%.100s'; "
		"look at 'ward diff', or use --force to overwrite",
		s->src, count, first->path);
}

/* The folder of @path below @dir, and the last part of its name. */
static int open_parent(int dir, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char parent[WARD_PATH_MAX];
	int r;

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return host_openat(dir, ".", O_PATH | O_DIRECTORY, 0);
	r = str_fmt(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	if (r < 0)
		return r;
	return host_openat2(
		dir, parent, O_PATH | O_DIRECTORY, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static int stage_one(
	const struct putting *p, const struct change *ch, const char *as, struct err *e)
{
	const char *name;
	own_fd int dir = open_parent(p->view, ch->path, &name);
	char target[WARD_PATH_MAX];
	ssize_t n;
	int r;

	if (dir < 0)
		return err_set(e, -dir, "opening '%s' in the workspace", ch->path);
	if (S_ISREG(ch->mode))
		return tree_copy_file(dir, name, p->stage, as, e);
	if (S_ISFIFO(ch->mode)) {
		r = host_mknodat(p->stage, as, S_IFIFO | (ch->mode & 0777), 0);
	} else {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		r = n < 0 ? -errno : host_symlinkat(target, p->stage, as);
	}
	return r < 0 ? err_set(e, -r, "copying '%s'", ch->path) : 0;
}

static int stage_all(const struct putting *p, struct err *e)
{
	char as[24];
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->c->count; i++) {
		const struct change *ch = &p->c->list[i];

		if (ch->kind == CHANGE_DELETED || S_ISDIR(ch->mode))
			continue;
		r = str_fmt(as, sizeof(as), "%zu", i);
		if (r == 0)
			r = stage_one(p, ch, as, e);
	}
	return r;
}

static int delete_one(const struct putting *p, const struct change *ch)
{
	const char *name;
	own_fd int dir = open_parent(p->src, ch->path, &name);
	int r = dir < 0 ? dir : host_unlinkat(dir, name, S_ISDIR(ch->mode) ? AT_REMOVEDIR : 0);

	/* Gone already is what we want; a folder with somebody else's new files in it stays. */
	return r == -ENOENT || (S_ISDIR(ch->mode) && (r == -ENOTEMPTY || r == -EEXIST)) ? 0 : r;
}

static int put_folder(int dir, const char *name, mode_t mode)
{
	int r = host_mkdirat(dir, name, 0700);

	if (r == -EEXIST)
		r = 0;
	if (r == 0 && fchmodat(dir, name, mode & 01777, 0) < 0)
		r = -errno;
	return r;
}

/* With --force a folder above may have to be made again. */
static int make_parents(const struct putting *p, const char *path)
{
	char part[WARD_PATH_MAX];
	int r = str_copy(part, sizeof(part), path);

	for (char *s = strchr(part, '/'); r == 0 && s; s = strchr(s + 1, '/')) {
		const char *name;
		int dir;

		*s = '\0';
		dir = open_parent(p->src, part, &name);
		if (dir < 0)
			return dir;
		r = host_mkdirat(dir, name, 0755);
		close(dir);
		if (r == -EEXIST)
			r = 0;
		*s = '/';
	}
	return r;
}

static int put_one(const struct putting *p, size_t i)
{
	const struct change *ch = &p->c->list[i];
	const char *name;
	char as[24];
	own_fd int dir = open_parent(p->src, ch->path, &name);
	int r;

	if (dir == -ENOENT) {
		r = make_parents(p, ch->path);
		if (r < 0)
			return r;
		dir = open_parent(p->src, ch->path, &name);
	}
	if (dir < 0)
		return dir;
	if (S_ISDIR(ch->mode))
		return put_folder(dir, name, ch->mode);
	r = str_fmt(as, sizeof(as), "%zu", i);
	return r < 0 ? r : host_renameat(p->stage, as, dir, name);
}

static int put_all(const struct putting *p, const struct workspace_source *s, struct err *e)
{
	const char *at = "";
	int r = 0;

	for (size_t i = p->c->count; r == 0 && i > 0; i--) {
		at = p->c->list[i - 1].path;
		if (p->c->list[i - 1].kind == CHANGE_DELETED)
			r = delete_one(p, &p->c->list[i - 1]);
	}
	for (size_t i = 0; r == 0 && i < p->c->count; i++) {
		at = p->c->list[i].path;
		if (p->c->list[i].kind != CHANGE_DELETED)
			r = put_one(p, i);
	}
	return r < 0 ? err_set(e, -r, "'%s' is changed in part: stopped at '%s'", s->src, at) : 0;
}

int apply_folder(
	const struct workspace_source *s, const struct changes *c, const char *id, struct err *e)
{
	own_fd int src = host_open(s->src, O_RDONLY | O_DIRECTORY, 0);
	own_fd int view = host_open(s->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	own_fd int stage = -1;
	struct putting p = { c, src, view, -1 };
	char path[WARD_PATH_MAX];
	int r = src < 0 ? src : view < 0 ? view : 0;

	if (r == 0)
		r = str_fmt(path, sizeof(path), "%s/.ward-apply-%s", s->src, id);
	if (r < 0)
		return err_set(e, -r, "opening '%s' and its workspace", s->src);
	r = tree_remove(path, e); /* one that was killed at work */
	if (r < 0)
		return r;
	r = host_mkdirat(AT_FDCWD, path, 0700);
	if (r == 0)
		r = stage = host_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (r < 0)
		return err_set(e, -r, "making '%s'", path);
	p.stage = stage;
	r = stage_all(&p, e);
	if (r == 0)
		r = put_all(&p, s, e);
	tree_remove(path, r < 0 ? NULL : e);
	return r;
}
