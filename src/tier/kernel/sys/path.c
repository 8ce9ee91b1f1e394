/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/path.c - from the words of a call to a place.
 *
 * Owns:  nothing.
 * Rules: a path is copied in once, here.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"

int file_path(struct file *f, struct path *ret)
{
	if (!f->path.dentry)
		return anon_path(f->k, f->inode, f->ops->name ? f->ops->name : "anon", ret);
	*ret = path_ref(f->path);
	return 0;
}

int path_at(struct task *t, int dirfd, gva_t upath, unsigned at_flags, struct path *ret)
{
	unsigned flags = at_flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	char path[GUEST_PATH_MAX];
	ssize_t n;

	/* Newer programs pass no path at all where they mean the descriptor. */
	if ((at_flags & AT_EMPTY_PATH) && gva_null(upath)) {
		path[0] = '\0';
		n = 0;
	} else {
		n = guest_copy_path(t, upath, path, sizeof(path));
	}
	if (n < 0)
		return (int)n;
	if (n == 0 && (at_flags & AT_EMPTY_PATH)) {
		struct file *f;

		if (dirfd == AT_FDCWD) {
			*ret = path_ref(t->fs->cwd);
			return 0;
		}
		f = fd_get_path(t, dirfd);
		return f ? file_path(f, ret) : -EBADF;
	}
	return vfs_walk(t, dirfd, path, flags, ret);
}

int guest_read_struct(struct task *t, void *dst, size_t known, gva_t src, uint64_t size)
{
	size_t n = size < known ? (size_t)size : known;
	unsigned char rest[64];

	memset(dst, 0, known);
	if (guest_read(t, dst, src, n) < 0)
		return -EFAULT;
	for (uint64_t at = n; at < size;) {
		size_t piece = size - at < sizeof(rest) ? (size_t)(size - at) : sizeof(rest);

		if (guest_read(t, rest, gva_add(src, at), piece) < 0)
			return -EFAULT;
		for (size_t i = 0; i < piece; i++)
			if (rest[i])
				return -E2BIG;
		at += piece;
	}
	return 0;
}
