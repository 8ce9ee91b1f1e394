/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/size.c - how much disk a tree takes while others work in it.
 *
 * Owns:  nothing.
 * Rules: by descriptor and without following links, so that whoever moves things about meanwhile
 *        can make the count wrong but never lead it out. What vanishes while we look counts as
 *        nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"

struct count {
	uint64_t bytes;
	dev_t dev; /* other file systems below are somebody else's */
};

static int count_folder(struct count *c, int fd, unsigned depth);

static int count_entry(struct count *c, int dir, const char *name, unsigned depth)
{
	struct stat st;
	int r = host_fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (st.st_dev != c->dev)
		return 0;
	c->bytes += (uint64_t)st.st_blocks * 512;
	if (!S_ISDIR(st.st_mode))
		return 0;
	r = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES)
		return 0;
	return r < 0 ? r : count_folder(c, r, depth + 1);
}

/* Takes @fd. */
static int count_folder(struct count *c, int fd, unsigned depth)
{
	DIR *list = fdopendir(fd);
	struct dirent *d;
	int r = 0;

	if (!list) {
		r = -errno;
		close(fd);
		return r;
	}
	if (depth > TREE_SIZE_DEPTH_MAX)
		r = -ELOOP;
	for (errno = 0; r == 0 && (d = readdir(list)); errno = 0)
		if (!str_eq(d->d_name, ".") && !str_eq(d->d_name, ".."))
			r = count_entry(c, dirfd(list), d->d_name, depth);
	closedir(list);
	return r;
}

int tree_size(const char *path, uint64_t *ret_bytes)
{
	int fd = host_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0), r;
	struct count c = { 0 };
	struct stat st;

	if (fd < 0)
		return fd;
	r = host_fstat(fd, &st);
	if (r < 0) {
		close(fd);
		return r;
	}
	c.dev = st.st_dev;
	r = count_folder(&c, fd, 0);
	*ret_bytes = c.bytes;
	return r;
}
