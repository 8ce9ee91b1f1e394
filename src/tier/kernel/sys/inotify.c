/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/inotify.c - the inotify calls.
 */
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "tier/kernel/io/inotify.h"

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/vfs/dentry.h"

#ifndef IN_MASK_CREATE
#define IN_MASK_CREATE 0x10000000
#endif

static long init_common(struct task *task, uint32_t flags)
{
	struct file *f;
	int err;

	if (flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	f = inotify_create(task->k, flags, &err);
	return f ? io_install(task, f, flags & O_CLOEXEC) : err;
}

SYSCALL0(inotify_init)
{
	return init_common(task, 0);
}

SYSCALL1(inotify_init1, uint32_t, flags)
{
	return init_common(task, flags);
}

SYSCALL3(inotify_add_watch, int32_t, fd, gva_t, upath, uint32_t, mask)
{
	char path[GUEST_PATH_MAX];
	unsigned how = mask & IN_DONT_FOLLOW ? 0 : LOOKUP_FOLLOW;
	struct file *f;
	struct path at;
	long r;

	if (!(mask & (IN_ALL_EVENTS | IN_UNMOUNT | IN_Q_OVERFLOW | IN_IGNORED | IN_ONLYDIR |
			     IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_MASK_ADD | IN_ISDIR | IN_ONESHOT |
			     IN_MASK_CREATE)))
		return -EINVAL;
	f = fd_get(task, fd);
	if (!f)
		return -EBADF;
	if ((mask & IN_MASK_ADD) && (mask & IN_MASK_CREATE))
		return -EINVAL;
	r = inotify_check(f);
	if (r < 0)
		return r;
	r = guest_copy_path(task, upath, path, sizeof(path));
	if (r < 0)
		return r;
	if (r == 0)
		return -ENOENT;
	r = vfs_walk(task, AT_FDCWD, path, how | (mask & IN_ONLYDIR ? LOOKUP_DIRECTORY : 0), &at);
	if (r < 0)
		return r;
	r = inode_permission(task, at.dentry->inode, R_OK);
	if (r == 0)
		r = inotify_add(f, at.dentry->inode, mask);
	path_unref(at);
	return r;
}

SYSCALL2(inotify_rm_watch, int32_t, fd, int32_t, wd)
{
	struct file *f = fd_get(task, fd);

	return f ? inotify_remove(f, wd) : -EBADF;
}
