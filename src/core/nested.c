/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/nested.c - repositories inside a working copy.
 *
 * Owns:  nothing.
 * Rules: the tree is hostile; how deep it may be has a limit.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/str.h"
#include "core/nested.h"
#include "host/host.h"

enum { NESTED_DEPTH_MAX = 256 };

struct search {
	struct buf *list;
	char path[WARD_PATH_MAX];
};

static int search(struct search *s, int dir, size_t len, unsigned depth);

static int enter(struct search *s, int dir, const char *name, size_t len, unsigned depth)
{
	size_t n = strlen(name);
	struct stat st;
	int fd;

	if (len + n + 2 > sizeof(s->path) || depth == NESTED_DEPTH_MAX)
		return -ENAMETOOLONG;
	fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd == -ENOTDIR || fd == -ELOOP || fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	memcpy(s->path + len, name, n + 1);
	if (fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0) {
		close(fd);
		buf_add(s->list, s->path, len + n + 1);
		return 0;
	}
	s->path[len + n] = '/';
	return search(s, fd, len + n + 1, depth + 1);
}

/* Takes @dir, whose own path is the first @len bytes. */
static int search(struct search *s, int dir, size_t len, unsigned depth)
{
	DIR *d = fdopendir(dir);
	struct dirent *de;
	int r = 0;

	if (!d) {
		close(dir);
		return -ENOMEM;
	}
	while (r == 0 && (errno = 0, de = readdir(d))) {
		bool may_be = de->d_type == DT_DIR || de->d_type == DT_UNKNOWN;

		if (may_be && !str_eq(de->d_name, ".") && !str_eq(de->d_name, "..") &&
			!str_eq(de->d_name, ".git"))
			r = enter(s, dirfd(d), de->d_name, len, depth);
	}
	if (r == 0 && errno)
		r = -errno;
	closedir(d);
	return r;
}

int nested_repositories(const char *top, struct buf *list, struct err *e)
{
	struct search s = { .list = list };
	int fd = host_open(top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int r = fd < 0 ? fd : search(&s, fd, 0, 0);

	if (r == 0 && list->bad)
		r = -ENOMEM;
	return r < 0 ? err_set(e, -r, "looking through '%s', at '%s'", top, s.path) : 0;
}
