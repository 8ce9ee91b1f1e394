/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/remove.c - deletes directory trees that somebody hostile may have made.
 *
 * Owns:  nothing.
 * Rules: every step is relative to an open directory; no symlink is followed and no mount point is
 *        entered. At most TREE_DEPTH_MAX directories are open: a deeper one is first moved up to
 *        the root of the tree, so depth costs time, not memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>
#include <linux/openat2.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"

enum { DENTS_BYTES = 4096, PASSES_MAX = 8 };

struct walk {
	int top;           /* the root of the tree */
	unsigned moved_up; /* names given out so far */
	int first;         /* the first error */
	struct err *e;
};

static int empty_dir(struct walk *w, int fd, unsigned depth);

/* Keeps the first error and goes on: the rest can be deleted all the same. */
static void note(struct walk *w, int r, const char *name)
{
	if (w->first == 0)
		w->first = r == -EXDEV || r == -EBUSY
				   ? err_set(w->e, EBUSY,
					     "deleting '%s': something is mounted there", name)
				   : err_set(w->e, -r, "deleting '%s'", name);
}

static int open_dir(int dir, const char *name, uint64_t flags)
{
	return host_openat2(dir, name, flags | O_DIRECTORY | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

int tree_unlock(int dir, const char *name)
{
	own_fd int fd = open_dir(dir, name, O_PATH);
	char self[32];
	int r;

	if (fd < 0)
		return fd;
	/* A descriptor that was opened as a path takes no fchmod(); its name in proc does. */
	r = str_fmt(self, sizeof(self), "/proc/self/fd/%d", fd);
	return r < 0 ? r : host_chmod(self, 0700);
}

static int open_readable(int dir, const char *name)
{
	int fd = open_dir(dir, name, O_RDONLY), r;

	if (fd != -EACCES)
		return fd;
	r = tree_unlock(dir, name);
	return r < 0 ? r : open_dir(dir, name, O_RDONLY);
}

/* Removes one name; when the directory forbids it to its owner, the directory is opened up. */
static int unlink_in(int dir, const char *name, int flags)
{
	int r = host_unlinkat(dir, name, flags);

	if (r == -EACCES && host_fchmod(dir, 0700) == 0)
		r = host_unlinkat(dir, name, flags);
	return r == -ENOENT ? 0 : r;
}

/* Too deep to go on: hangs @name into the root of the tree, where a later pass finds it. */
static int move_up(struct walk *w, int dir, const char *name)
{
	char up[32];
	int r;

	do {
		r = str_fmt(up, sizeof(up), "ward-deep-%u", w->moved_up++);
		if (r == 0)
			r = host_renameat(dir, name, w->top, up);
		if (r == -EACCES && host_fchmod(dir, 0700) == 0)
			r = host_renameat(dir, name, w->top, up);
	} while (r == -ENOTEMPTY || r == -EEXIST || r == -ENOTDIR);
	return r == -ENOENT ? 0 : r;
}

static int remove_dir(struct walk *w, int dir, const char *name, unsigned depth)
{
	own_fd int fd = -1;
	int r = unlink_in(dir, name, AT_REMOVEDIR);

	if (r != -ENOTEMPTY && r != -EEXIST)
		return r; /* gone, or not a directory any more, or a mount point */
	fd = open_readable(dir, name);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	if (depth >= TREE_DEPTH_MAX)
		return move_up(w, dir, name);
	for (unsigned pass = 0; pass < PASSES_MAX; pass++) {
		int before = w->first;

		r = empty_dir(w, fd, depth);
		if (r < 0)
			return r;
		r = unlink_in(dir, name, AT_REMOVEDIR);
		if (r != -ENOTEMPTY && r != -EEXIST)
			return r;
		if (w->first != before || w->first < 0)
			return 0; /* something inside stays; it was noted */
	}
	return r;
}

static void remove_one(
	struct walk *w, int dir, const char *name, unsigned char type, unsigned depth)
{
	int r = type == DT_DIR ? -EISDIR : unlink_in(dir, name, 0);

	if (r == -EISDIR)
		r = remove_dir(w, dir, name, depth + 1);
	if (r == -ENOTDIR || r == -ELOOP) /* became something else meanwhile */
		r = unlink_in(dir, name, 0);
	if (r < 0)
		note(w, r, name);
}

static bool is_dots(const char *name)
{
	return str_eq(name, ".") || str_eq(name, "..");
}

/* One pass over all entries; what cannot be deleted is noted. */
static int empty_dir(struct walk *w, int fd, unsigned depth)
{
	_Alignas(struct host_dirent) char room[DENTS_BYTES];
	ssize_t n;
	int r = host_rewind(fd);

	if (r < 0)
		return r;
	while ((n = host_getdents(fd, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);

			at += d->d_reclen;
			if (!is_dots(d->d_name))
				remove_one(w, fd, d->d_name, d->d_type, depth);
		}
	}
	return n == -ENOENT ? 0 : (int)n; /* another deleter was faster */
}

/* Passes over the root go on for as long as directories are being hung into it. */
static int empty_top(struct walk *w, int dir, const char *name)
{
	unsigned moved, passes = 0;
	int r;

	do {
		moved = w->moved_up;
		r = empty_dir(w, w->top, 0);
		if (r < 0)
			return r;
		r = unlink_in(dir, name, AT_REMOVEDIR);
		if (w->moved_up == moved)
			passes++;
	} while ((r == -ENOTEMPTY || r == -EEXIST) && w->first == 0 && passes < PASSES_MAX);
	return r;
}

int rm_tree(int dir, const char *name, struct err *e)
{
	struct walk w = { .top = -1, .e = e };
	int r = unlink_in(dir, name, 0);
	own_fd int top = -1;

	if (r != -EISDIR) {
		if (r < 0)
			note(&w, r, name);
		return r < 0 ? w.first : 0;
	}
	top = open_readable(dir, name);
	if (top == -ENOENT)
		return 0;
	if (top < 0) {
		note(&w, top, name);
		return w.first;
	}
	w.top = top;
	r = empty_top(&w, dir, name);
	if (r < 0)
		note(&w, r, name);
	return w.first;
}

int tree_remove(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char lead[WARD_PATH_MAX];
	own_fd int dir = -1;
	int r = str_fmt(lead, sizeof(lead), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		slash ? path : ".");

	if (r < 0)
		return err_set(e, -r, "removing '%s'", path);
	dir = host_open(lead, O_PATH | O_DIRECTORY, 0);
	if (dir == -ENOENT || dir == -ENOTDIR)
		return 0;
	if (dir < 0)
		return err_set(e, -dir, "removing '%s'", path);
	r = rm_tree(dir, base, e);
	return r < 0 ? err_wrap(e, r, "removing '%s'", path) : 0;
}

int tree_make(const char *path, unsigned mode, struct err *e)
{
	char part[WARD_PATH_MAX];
	int r = str_copy(part, sizeof(part), path);

	if (r < 0)
		return err_set(e, -r, "making folder '%s'", path);
	for (char *p = part + 1; r == 0 && *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		r = host_mkdirat(AT_FDCWD, part, mode);
		if (r == -EEXIST)
			r = 0;
		*p = '/';
	}
	if (r == 0)
		r = host_mkdirat(AT_FDCWD, part, mode);
	return r < 0 && r != -EEXIST ? err_set(e, -r, "making folder '%s'", part) : 0;
}
