/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/trash.c - what is to be deleted leaves its place at once and is deleted from the trash.
 *
 * Owns:  trash/.
 * Rules: every step is relative to an open directory; no symlink is followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <linux/openat2.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "store/trash.h"

enum { DENTS_BYTES = 4096, TRASH_TRIES_MAX = 16 };

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
	dir = host_openat2(state_fd, lead, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
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
			if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
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
