/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/none.c - a kernel without files; vfs/open.c takes these places.
 *
 * Owns:  nothing.
 * Rules: weak, so that the real ones win.
 */
#include <errno.h>

#include "tier/kernel/vfs/vfs.h"

__attribute__((weak)) int vfs_open_exec(
	struct task *t, int dirfd, const char *path, unsigned at_flags, struct file **ret)
{
	return -ENOENT;
}

__attribute__((weak)) int vfs_fstat(struct file *f, struct kstat *ret)
{
	return -ENOSYS;
}

__attribute__((weak)) ssize_t path_show(struct path p, struct path root, char *buf, size_t cap)
{
	return -ENOENT;
}

__attribute__((weak)) int vfs_walk(
	struct task *t, int dirfd, const char *path, unsigned flags, struct path *ret)
{
	return -ENOENT;
}

__attribute__((weak)) int vfs_mknod(
	struct task *t, int dirfd, const char *path, uint32_t mode, uint64_t rdev, struct path *ret)
{
	return -ENOENT;
}

__attribute__((weak)) int inode_permission(struct task *t, struct inode *i, int want)
{
	return 0;
}

int pts_add(struct kernel *k, unsigned n, uint32_t uid, uint32_t gid, uint32_t mode);
__attribute__((weak)) int pts_add(
	struct kernel *k, unsigned n, uint32_t uid, uint32_t gid, uint32_t mode)
{
	return 0;
}

void pts_remove(struct kernel *k, unsigned n);
__attribute__((weak)) void pts_remove(struct kernel *k, unsigned n)
{
}
