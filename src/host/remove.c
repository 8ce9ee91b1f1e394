/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/remove.c - removes a tree that its maker may have made hard to remove.
 *
 * Owns:  nothing.
 * Rules: no process of the sandbox is alive any more, so nobody moves things under our feet.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"

enum { REMOVE_DEPTH = 32 }; /* deeper folders are first moved to the top */

struct removal {
	int top;
	unsigned moves; /* names given at the top so far */
};

/* Opens a folder and makes sure that its entries can be listed and removed. */
static int open_folder(int dir, const char *name)
{
	int fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct stat st;

	if (fd == -EACCES && fchmodat(dir, name, 0700, 0) == 0)
		fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		fchmod(fd, 0700); /* when this fails, removing the entries says why */
	return fd;
}

static int move_to_top(struct removal *rm, int dir, const char *name)
{
	char to[32];
	int r;

	/* Moving a folder writes its "..", which needs the right to write into it. */
	fchmodat(dir, name, 0700, 0);
	do {
		str_fmt(to, sizeof(to), ".ward-removed-%u", rm->moves++);
		r = host_renameat(dir, name, rm->top, to);
	} while (r == -EEXIST || r == -ENOTEMPTY || r == -ENOTDIR);
	return r;
}

static int remove_below(struct removal *rm, int dir, unsigned depth);

static int remove_folder(struct removal *rm, int dir, const char *name, unsigned depth)
{
	int r = host_unlinkat(dir, name, AT_REMOVEDIR), fd;

	if (r != -ENOTEMPTY && r != -EEXIST)
		return r == -ENOENT ? 0 : r;
	if (depth >= REMOVE_DEPTH)
		return move_to_top(rm, dir, name);
	fd = open_folder(dir, name);
	if (fd < 0)
		return fd;
	r = remove_below(rm, fd, depth + 1);
	if (r < 0)
		return r;
	return host_unlinkat(dir, name, AT_REMOVEDIR);
}

/* Takes @dir. */
static int remove_below(struct removal *rm, int dir, unsigned depth)
{
	DIR *d = fdopendir(dir);
	struct dirent *de;
	int r = 0;

	if (!d) {
		close(dir);
		return -ENOMEM;
	}
	while (r == 0 && (errno = 0, de = readdir(d))) {
		if (str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		r = de->d_type == DT_DIR ? -EISDIR : host_unlinkat(dirfd(d), de->d_name, 0);
		if (r == -EISDIR)
			r = remove_folder(rm, dirfd(d), de->d_name, depth);
		else if (r == -ENOENT)
			r = 0;
	}
	if (r == 0 && errno)
		r = -errno;
	closedir(d);
	return r;
}

static int remove_top(const char *path)
{
	own_fd int top = open_folder(AT_FDCWD, path);
	struct removal rm = { .top = top };
	int r, fd;

	if (top < 0)
		return top;
	for (;;) {
		unsigned before = rm.moves;

		fd = open_folder(top, ".");
		if (fd < 0)
			return fd;
		r = remove_below(&rm, fd, 0);
		if (r < 0)
			return r;
		r = host_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
		/* Not empty is right only while deep folders still move up. */
		if ((r != -ENOTEMPTY && r != -EEXIST) || rm.moves == before)
			return r;
	}
}

int tree_remove(const char *path, struct err *e)
{
	int r = host_unlinkat(AT_FDCWD, path, 0);

	if (r == -EISDIR || r == -EPERM)
		r = remove_top(path);
	if (r == 0 || r == -ENOENT || r == -ENOTDIR)
		return 0;
	return err_set(e, -r, "removing '%s'", path);
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
