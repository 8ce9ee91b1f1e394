/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/tree.c - deletes directory trees that somebody hostile may have made.
 *
 * Owns:  trash/.
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

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/tree.h"

enum { DENTS_BYTES = 4096, PASSES_MAX = 8, TRASH_TRIES_MAX = 16 };

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

/* Moving a directory needs the right to write into it; 000 does not stop its owner. */
static int move(int dir, const char *name, int state_fd, const char *to)
{
	int r = host_renameat(dir, name, state_fd, to);

	if (r == -EACCES && tree_unlock(dir, name) == 0)
		r = host_renameat(dir, name, state_fd, to);
	return r;
}

int tree_to_trash(int state_fd, const char *path, char *ret_name, size_t cap, struct err *e)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	char lead[WARD_PATH_MAX];
	own_fd int dir = -1;
	int r = str_fmt(
		lead, sizeof(lead), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");

	ret_name[0] = '\0';
	if (r < 0)
		return err_set(e, -r, "'%s'", path);
	/* Its parent is opened first: a rename by path would follow symlinks on the way. */
	dir = open_dir(state_fd, lead, O_PATH);
	if (dir == -ENOENT)
		return 0;
	r = dir < 0 ? dir : -EEXIST;
	for (unsigned i = 0; i < TRASH_TRIES_MAX && (r == -EEXIST || r == -ENOTEMPTY); i++) {
		r = str_fmt(ret_name, cap, "trash/%.64s.%llx.%x", base,
			(unsigned long long)clock_ns(), (unsigned)getpid());
		if (r == 0)
			r = move(dir, base, state_fd, ret_name);
	}
	if (r < 0)
		ret_name[0] = '\0';
	return r < 0 && r != -ENOENT ? err_set(e, -r, "moving '%s' to the trash", path) : 0;
}

int tree_discard(int state_fd, const char *path, struct err *e)
{
	char name[128];
	int r = tree_to_trash(state_fd, path, name, sizeof(name), e);

	if (r < 0 || !name[0])
		return r;
	return rm_tree(state_fd, name, e);
}

int trash_empty(int state_fd, void (*each)(void *arg, const char *name), void *arg, struct err *e)
{
	_Alignas(struct host_dirent) char room[DENTS_BYTES];
	own_fd int fd = host_openat(state_fd, "trash", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int first = 0;
	ssize_t n;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(e, -fd, "opening the trash");
	while ((n = host_getdents(fd, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);
			int r;

			at += d->d_reclen;
			if (is_dots(d->d_name))
				continue;
			r = rm_tree(fd, d->d_name, first ? NULL : e);
			if (r < 0 && first == 0)
				first = r;
			if (r == 0 && each)
				each(arg, d->d_name);
		}
	}
	return first ? first : n < 0 ? err_set(e, (int)-n, "reading the trash") : 0;
}
