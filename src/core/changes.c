/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/changes.c - what a command did to a folder, and what others did to it meanwhile.
 *
 * Owns:  the rule of who changed what.
 * Rules: the workspace is hostile: no symlink in it is followed, and a path that is too deep or too
 *        long is an error. Sockets and devices are nobody's change.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "core/changes.h"
#include "host/host.h"
#include "tier/workspace/manifest.h"

enum { CHANGES_MAX = 1 << 20, CHANGES_DEPTH_MAX = 128, COMPARE_CHUNK = 32 * 1024 };

struct compare {
	struct changes *out;
	struct manifest base;
	bool overlay;
	struct timespec before; /* the command started after this */
	struct stat top[2];     /* of the view and the source: other file systems are left out */
	char path[WARD_PATH_MAX];
};

/* One folder on its way: -1 where it does not exist. */
struct level {
	int view, src, upper;
	size_t len; /* of its own path, with the last '/' */
	unsigned depth;
};

static bool earlier(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

bool change_has_text(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

static bool is_ours(mode_t mode)
{
	return change_has_text(mode) || S_ISDIR(mode) || S_ISFIFO(mode);
}

/* 0, or -ENOENT: nothing that counts is there. */
static int look(int dir, const char *name, struct stat *st)
{
	if (dir < 0)
		return -ENOENT;
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return is_ours(st->st_mode) ? 0 : -ENOENT;
}

static int same_bytes(int a_dir, int b_dir, const char *name)
{
	own_fd int a = host_openat(a_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	own_fd int b = host_openat(b_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	char x[COMPARE_CHUNK], y[COMPARE_CHUNK];
	off_t at = 0;

	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	for (;;) {
		ssize_t n = pread(a, x, sizeof(x), at), m = pread(b, y, sizeof(y), at);

		if (n < 0 || m < 0)
			return -errno;
		if (n != m || memcmp(x, y, (size_t)n) != 0)
			return 0;
		if (n == 0)
			return 1;
		at += n;
	}
}

static int same_link(int a_dir, int b_dir, const char *name)
{
	char x[WARD_PATH_MAX], y[WARD_PATH_MAX];
	ssize_t n = readlinkat(a_dir, name, x, sizeof(x)),
		m = readlinkat(b_dir, name, y, sizeof(y));

	if (n < 0 || m < 0)
		return -errno;
	return n == m && memcmp(x, y, (size_t)n) == 0;
}

/* 1: the same in both places; 0: not; or an error. */
static int same(const struct level *l, const char *name, const struct stat *v, const struct stat *s)
{
	if ((v->st_mode ^ s->st_mode) & S_IFMT)
		return 0;
	if (S_ISLNK(v->st_mode))
		return same_link(l->view, l->src, name);
	if ((v->st_mode ^ s->st_mode) & 01777)
		return 0;
	if (!S_ISREG(v->st_mode))
		return 1;
	return v->st_size == s->st_size ? same_bytes(l->view, l->src, name) : 0;
}

/* The command has not been at it, for all that can be told without the content. */
static bool untouched(
	const struct compare *c, const struct manifest_entry *base, const struct stat *v)
{
	return !c->overlay && base && manifest_same(base, v) && earlier(&v->st_ctim, &c->before);
}

static int add(struct compare *c, enum change_kind kind, mode_t mode, mode_t old, bool conflict)
{
	struct changes *out = c->out;

	if (out->count >= CHANGES_MAX)
		return -E2BIG;
	if (out->count == out->cap) {
		size_t cap = out->cap ? out->cap * 2 : 64;
		struct change *list = realloc(out->list, cap * sizeof(*list));

		if (!list)
			return -ENOMEM;
		out->list = list;
		out->cap = cap;
	}
	out->list[out->count] = (struct change){ strdup(c->path), kind, mode, old, conflict };
	return out->list[out->count++].path ? 0 : -ENOMEM;
}

static int set_name(struct compare *c, const struct level *l, const char *name)
{
	size_t n = strlen(name);

	if (l->len + n + 2 > sizeof(c->path) || l->depth > CHANGES_DEPTH_MAX)
		return -ENAMETOOLONG;
	memcpy(c->path + l->len, name, n + 1);
	return 0;
}

static int walk(struct compare *c, const struct level *l);

static int open_sub(int dir, const char *name)
{
	return dir < 0 ? -ENOENT : host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* Goes into the folder @name, wherever it is one. */
static int descend(struct compare *c, const struct level *l, const char *name, bool view, bool src)
{
	own_fd int v = view ? open_sub(l->view, name) : -ENOENT;
	own_fd int s = src ? open_sub(l->src, name) : -ENOENT;
	own_fd int u = view ? open_sub(l->upper, name) : -ENOENT;
	struct level sub = { v, s, u, l->len + strlen(name) + 1, l->depth + 1 };

	if ((v < 0 && v != -ENOENT) || (s < 0 && s != -ENOENT))
		return v < 0 && v != -ENOENT ? v : s;
	c->path[sub.len - 1] = '/';
	c->path[sub.len] = '\0';
	return walk(c, &sub);
}

/* It is in the source, and not (any more) in the workspace. */
static int gone(struct compare *c, const struct level *l, const char *name, const struct stat *s)
{
	const struct manifest_entry *base = manifest_find(&c->base, c->path);
	int r;

	if (!base)
		return 0; /* somebody else's, since */
	r = add(c, CHANGE_DELETED, s->st_mode, s->st_mode, !manifest_same(base, s));
	if (r == 0 && S_ISDIR(s->st_mode)) {
		r = descend(c, l, name, false, true);
		c->path[l->len + strlen(name)] = '\0';
	}
	return r;
}

/* A folder is changed by its permissions alone; what is in it speaks for itself. */
static int folder(struct compare *c, const struct stat *v, const struct stat *s)
{
	const struct manifest_entry *base = manifest_find(&c->base, c->path);

	if (!s)
		return base ? 0 : add(c, CHANGE_ADDED, v->st_mode, 0, false);
	if (((v->st_mode ^ s->st_mode) & 01777) == 0 ||
		(base && ((v->st_mode ^ base->mode) & 01777) == 0))
		return 0;
	return add(c, CHANGE_EDITED, v->st_mode, s->st_mode,
		!base || ((s->st_mode ^ base->mode) & 01777));
}

/* Not a folder, and in the source it is another or nothing. */
static int differs(struct compare *c, const struct stat *v, const struct stat *s)
{
	const struct manifest_entry *base = manifest_find(&c->base, c->path);
	bool others = s ? !base || !manifest_same(base, s) : base != NULL;

	if (others && untouched(c, base, v))
		return 0;
	return add(c, s ? CHANGE_EDITED : CHANGE_ADDED, v->st_mode, s ? s->st_mode : 0, others);
}

/* A thing of another kind has taken its place. */
static int replaced(struct compare *c, const struct level *l, const char *name,
	const struct stat *v, const struct stat *s)
{
	const struct manifest_entry *base = manifest_find(&c->base, c->path);
	bool others = !base || !manifest_same(base, s);
	int r;

	if (others && base && ((base->mode ^ v->st_mode) & S_IFMT) == 0 &&
		(S_ISDIR(v->st_mode) || untouched(c, base, v)))
		return 0; /* in the source, by somebody else */
	r = gone(c, l, name, s);
	return r < 0 ? r : add(c, CHANGE_ADDED, v->st_mode, 0, others);
}

static int visit(struct compare *c, const struct level *l, const char *name)
{
	struct stat v, s, u;
	int r = set_name(c, l, name), have;

	if (r == 0)
		r = look(l->view, name, &v);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (c->overlay && (l->upper < 0 || fstatat(l->upper, name, &u, AT_SYMLINK_NOFOLLOW) < 0))
		return 0; /* what is not in the upper folder is the source itself */
	if (!c->overlay && v.st_dev != c->top[0].st_dev)
		return 0;
	have = look(l->src, name, &s);
	if (have < 0 && have != -ENOENT)
		return have;
	if (have == 0 && ((v.st_mode ^ s.st_mode) & S_IFMT)) {
		r = replaced(c, l, name, &v, &s);
	} else if (S_ISDIR(v.st_mode)) {
		r = folder(c, &v, have == 0 ? &s : NULL);
	} else {
		r = have == 0 ? same(l, name, &v, &s) : 0;
		r = r == 0 ? differs(c, &v, have == 0 ? &s : NULL) : r < 0 ? r : 0;
	}
	if (r == 0 && S_ISDIR(v.st_mode))
		r = descend(c, l, name, true, have == 0 && S_ISDIR(s.st_mode));
	return r;
}

/* Calls @each for every name in @dir; the folder may be read by others at the same time. */
static int for_names(struct compare *c, const struct level *l, int dir,
	int (*each)(struct compare *c, const struct level *l, const char *name))
{
	int fd = dir < 0 ? -ENOENT : host_openat(dir, ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
	struct dirent *de;
	DIR *d;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (errno = 0, de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			r = each(c, l, de->d_name);
	if (r == 0 && errno)
		r = -errno;
	closedir(d);
	return r;
}

static int visit_source(struct compare *c, const struct level *l, const char *name)
{
	struct stat v, s;
	int r = set_name(c, l, name);

	if (r < 0)
		return r;
	r = look(l->src, name, &s);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (s.st_dev != c->top[1].st_dev)
		return 0;
	if (l->view >= 0 && fstatat(l->view, name, &v, AT_SYMLINK_NOFOLLOW) == 0)
		return 0; /* seen from the other side */
	return gone(c, l, name, &s);
}

static int walk(struct compare *c, const struct level *l)
{
	int r = for_names(c, l, l->view, visit);

	c->path[l->len] = '\0';
	return r < 0 ? r : for_names(c, l, l->src, visit_source);
}

static int by_path(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	/* Where one thing takes the place of another, the old one goes first. */
	return r ? r : (y->kind == CHANGE_DELETED) - (x->kind == CHANGE_DELETED);
}

static int open_all(
	struct compare *c, const struct workspace_source *s, struct level *l, struct err *e)
{
	/* The command may have put a link to anywhere in its place. */
	l->view = host_open(s->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	l->src = host_open(s->src, O_RDONLY | O_DIRECTORY, 0);
	l->upper = *s->upper ? host_open(s->upper, O_RDONLY | O_DIRECTORY, 0) : -ENOENT;
	if (l->view < 0)
		return err_set(e, -l->view, "opening the workspace '%s'", s->work);
	if (l->src < 0)
		return err_set(e, -l->src, "opening the source '%s'", s->src);
	if (*s->upper && l->upper < 0)
		return err_set(e, -l->upper, "opening what was changed, '%s'", s->upper);
	if (fstat(l->view, &c->top[0]) < 0 || fstat(l->src, &c->top[1]) < 0)
		return err_set(e, errno, "looking at '%s'", s->src);
	return 0;
}

int changes_find(const char *state_dir, const char *id, const struct workspace_source *s,
	struct changes *ret, struct err *e)
{
	struct compare c = { .out = ret, .overlay = *s->upper != '\0' };
	struct level l = { -1, -1, -1, 0, 0 };
	char path[WARD_PATH_MAX];
	struct stat record;
	int r = str_fmt(path, sizeof(path), "%s/boxes/%s/workspace", state_dir, id);

	*ret = (struct changes){ 0 };
	if (r < 0 || stat(path, &record) < 0)
		return err_set(e, r < 0 ? -r : errno, "looking at '%s'", path);
	c.before = record.st_mtim;
	r = str_fmt(path, sizeof(path), "%s/boxes/%s/base/%s", state_dir, id, s->name);
	r = r < 0 ? err_set(e, -r, "workspace %s", id) : manifest_read(path, &c.base, e);
	if (r == 0)
		r = open_all(&c, s, &l, e);
	if (r == 0) {
		r = walk(&c, &l);
		if (r < 0)
			err_set(e, -r, "comparing '%s' with its workspace, at '%s'", s->src,
				c.path);
	}
	manifest_done(&c.base);
	for (size_t i = 0; i < 3; i++) {
		int fd = ((int[]){ l.view, l.src, l.upper })[i];

		if (fd >= 0)
			close(fd);
	}
	if (r < 0)
		changes_done(ret);
	else if (ret->count)
		qsort(ret->list, ret->count, sizeof(*ret->list), by_path);
	return r;
}

void changes_done(struct changes *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->list[i].path);
	free(c->list);
	*c = (struct changes){ 0 };
}
