/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/tree.c - removing a tree of files.
 *
 * Owns:  nothing.
 * Rules: works by descriptors, so that a link put in the way leads nowhere; holds one descriptor
 *        per level, so IMAGE_TREE_DEPTH_MAX bounds both the stack and the open files.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"
#include "host/host.h"
#include "template/tree.h"

static int remove_at(int dir, const char *name, dev_t dev, unsigned depth, struct err *e);

static int fail(struct err *e, int r, const char *name)
{
	char shown[128];

	return err_set(e, -r, "removing '%s'", str_show(shown, sizeof(shown), name));
}

static int open_folder(int dir, const char *name)
{
	int fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

	/* An image may have left it closed even to its owner; the owner can always open it. */
	if (fd == -EACCES && fchmodat(dir, name, 0700, 0) == 0)
		fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	return fd;
}

static int empty(int fd, dev_t dev, unsigned depth, struct err *e)
{
	struct dirent *d;
	struct stat st;
	DIR *list;
	int r = 0;

	if (fstat(fd, &st) < 0 || st.st_dev != dev) {
		host_close(fd);
		return err_say(
			e, EXDEV, "something is mounted inside a tree that is to be removed");
	}
	if ((st.st_mode & 0300) != 0300 && st.st_uid == geteuid())
		fchmod(fd, 0700); /* if it fails, so does the unlink below, with a message */
	list = fdopendir(fd);
	if (!list) {
		r = -errno;
		host_close(fd);
		return err_set(e, -r, "reading a tree that is to be removed");
	}
	for (errno = 0; r == 0 && (d = readdir(list)); errno = 0)
		if (!str_eq(d->d_name, ".") && !str_eq(d->d_name, ".."))
			r = remove_at(dirfd(list), d->d_name, dev, depth + 1, e);
	if (r == 0 && errno)
		r = err_set(e, errno, "reading a tree that is to be removed");
	closedir(list);
	return r;
}

static int remove_at(int dir, const char *name, dev_t dev, unsigned depth, struct err *e)
{
	int fd, r = host_unlinkat(dir, name, 0);

	if (r == 0 || r == -ENOENT)
		return 0;
	if (r != -EISDIR && r != -EPERM)
		return fail(e, r, name);
	if (depth > IMAGE_TREE_DEPTH_MAX)
		return err_say(e, ELOOP,
			"a tree that is to be removed is more than %d folders deep",
			IMAGE_TREE_DEPTH_MAX);
	fd = open_folder(dir, name);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fail(e, fd == -ENOTDIR ? r : fd, name);
	r = empty(fd, dev, depth, e);
	if (r < 0)
		return r;
	r = host_unlinkat(dir, name, AT_REMOVEDIR);
	return r < 0 && r != -ENOENT ? fail(e, r, name) : 0;
}

int tree_remove_at(int dir, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail(e, -errno, name);
	return remove_at(dir, name, st.st_dev, 0, e);
}
