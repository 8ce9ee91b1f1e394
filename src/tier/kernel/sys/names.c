/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/names.c - calls that make, move and remove names, or ask where one is.
 *
 * Owns:  nothing.
 * Rules: as sys/sys.h says.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"

/* A path on the heap would cost more than the stack that these calls have. */
typedef char guest_path[GUEST_PATH_MAX];

static long get(struct task *t, gva_t src, guest_path path)
{
	ssize_t n = guest_copy_path(t, src, path, GUEST_PATH_MAX);

	return n < 0 ? n : n == 0 ? -ENOENT : 0;
}

static long make_dir(struct task *t, int dirfd, gva_t upath, uint32_t mode)
{
	guest_path path;
	long r = get(t, upath, path);

	return r < 0 ? r : vfs_mkdir(t, dirfd, path, mode);
}

SYSCALL2(mkdir, gva_t, upath, unsigned, mode)
{
	return make_dir(task, AT_FDCWD, upath, mode);
}

SYSCALL3(mkdirat, int, dirfd, gva_t, upath, unsigned, mode)
{
	return make_dir(task, dirfd, upath, mode);
}

static long remove_name(struct task *t, int dirfd, gva_t upath, bool dir)
{
	guest_path path;
	long r = get(t, upath, path);

	if (r < 0)
		return r;
	return dir ? vfs_rmdir(t, dirfd, path) : vfs_unlink(t, dirfd, path);
}

SYSCALL1(rmdir, gva_t, upath)
{
	return remove_name(task, AT_FDCWD, upath, true);
}

SYSCALL1(unlink, gva_t, upath)
{
	return remove_name(task, AT_FDCWD, upath, false);
}

SYSCALL3(unlinkat, int, dirfd, gva_t, upath, unsigned, flags)
{
	if (flags & ~(unsigned)AT_REMOVEDIR)
		return -EINVAL;
	return remove_name(task, dirfd, upath, flags & AT_REMOVEDIR);
}

static long make_node(struct task *t, int dirfd, gva_t upath, uint32_t mode, uint64_t dev)
{
	guest_path path;
	long r = get(t, upath, path);

	return r < 0 ? r : vfs_mknod(t, dirfd, path, mode, dev, NULL);
}

SYSCALL3(mknod, gva_t, upath, unsigned, mode, unsigned, dev)
{
	return make_node(task, AT_FDCWD, upath, mode, dev);
}

SYSCALL4(mknodat, int, dirfd, gva_t, upath, unsigned, mode, unsigned, dev)
{
	return make_node(task, dirfd, upath, mode, dev);
}

static long make_link(struct task *t, gva_t utarget, int dirfd, gva_t upath)
{
	guest_path target, path;
	long r = get(t, utarget, target);

	if (r == 0)
		r = get(t, upath, path);
	return r < 0 ? r : vfs_symlink(t, target, dirfd, path);
}

SYSCALL2(symlink, gva_t, utarget, gva_t, upath)
{
	return make_link(task, utarget, AT_FDCWD, upath);
}

SYSCALL3(symlinkat, gva_t, utarget, int, dirfd, gva_t, upath)
{
	return make_link(task, utarget, dirfd, upath);
}

static long hard_link(struct task *t, int oldfd, gva_t uold, int newfd, gva_t unew, unsigned flags)
{
	unsigned at =
		(flags & AT_EMPTY_PATH) | (flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW);
	guest_path path;
	struct path old;
	long r;

	if (flags & ~(unsigned)(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	r = get(t, unew, path);
	if (r < 0 && r != -ENOENT)
		return r;
	/* The old name is looked at before the new one is called empty. */
	if (r == -ENOENT) {
		r = path_at(t, oldfd, uold, at, &old);
		if (r == 0)
			path_unref(old);
		return r < 0 ? r : -ENOENT;
	}
	r = path_at(t, oldfd, uold, at, &old);
	if (r < 0)
		return r;
	r = vfs_link(t, old, newfd, path);
	path_unref(old);
	return r;
}

SYSCALL2(link, gva_t, uold, gva_t, unew)
{
	return hard_link(task, AT_FDCWD, uold, AT_FDCWD, unew, 0);
}

SYSCALL5(linkat, int, oldfd, gva_t, uold, int, newfd, gva_t, unew, unsigned, flags)
{
	return hard_link(task, oldfd, uold, newfd, unew, flags);
}

static long move(struct task *t, int oldfd, gva_t uold, int newfd, gva_t unew, unsigned flags)
{
	guest_path from, to;
	long r;

	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if ((flags & RENAME_NOREPLACE) && (flags & RENAME_EXCHANGE))
		return -EINVAL;
	r = get(t, uold, from);
	if (r < 0)
		return r;
	r = get(t, unew, to);
	if (r < 0) {
		/* What is wrong on the way to the old name is found first. */
		long w = vfs_check_parent(t, oldfd, from);

		return w < 0 ? w : r;
	}
	return vfs_rename(t, oldfd, from, newfd, to, flags);
}

SYSCALL2(rename, gva_t, uold, gva_t, unew)
{
	return move(task, AT_FDCWD, uold, AT_FDCWD, unew, 0);
}

SYSCALL4(renameat, int, oldfd, gva_t, uold, int, newfd, gva_t, unew)
{
	return move(task, oldfd, uold, newfd, unew, 0);
}

SYSCALL5(renameat2, int, oldfd, gva_t, uold, int, newfd, gva_t, unew, unsigned, flags)
{
	return move(task, oldfd, uold, newfd, unew, flags);
}

static long read_link(struct task *t, int dirfd, gva_t upath, unsigned flags, gva_t ubuf, int size)
{
	char text[GUEST_PATH_MAX];
	struct inode *i;
	struct path p;
	ssize_t n;
	long r;

	if (size <= 0)
		return -EINVAL;
	r = path_at(t, dirfd, upath, AT_SYMLINK_NOFOLLOW | flags, &p);
	if (r < 0)
		return r;
	i = p.dentry->inode;
	if (S_ISLNK(i->mode) && i->ops->readlink)
		n = i->ops->readlink(i, t, text, sizeof(text));
	else
		n = -EINVAL;
	path_unref(p);
	if (n > size)
		n = size;
	if (n > 0 && guest_write(t, ubuf, text, (size_t)n) < 0)
		return -EFAULT;
	return n;
}

SYSCALL3(readlink, gva_t, upath, gva_t, buf, int, size)
{
	/* Here an empty path is never the descriptor's. */
	return read_link(task, AT_FDCWD, upath, 0, buf, size);
}

SYSCALL4(readlinkat, int, dirfd, gva_t, upath, gva_t, buf, int, size)
{
	return read_link(task, dirfd, upath, AT_EMPTY_PATH, buf, size);
}

/* Takes @p on success. */
static long stand_in(struct task *t, struct path p, bool root)
{
	struct path *at = root ? &t->fs->root : &t->fs->cwd;
	int r = S_ISDIR(p.dentry->inode->mode) ? inode_permission(t, p.dentry->inode, X_OK)
					       : -ENOTDIR;

	if (r == 0 && root && !task_capable_own(t, CAP_SYS_CHROOT))
		r = -EPERM;
	if (r < 0) {
		path_unref(p);
		return r;
	}
	path_unref(*at);
	*at = p;
	return 0;
}

SYSCALL1(chdir, gva_t, upath)
{
	struct path p;
	long r = path_at(task, AT_FDCWD, upath, 0, &p);

	return r < 0 ? r : stand_in(task, p, false);
}

SYSCALL1(fchdir, int, fd)
{
	struct file *f = fd_get_path(task, fd);

	if (!f)
		return -EBADF;
	if (!f->path.dentry)
		return -ENOTDIR;
	return stand_in(task, path_ref(f->path), false);
}

SYSCALL1(chroot, gva_t, upath)
{
	struct path p;
	long r = path_at(task, AT_FDCWD, upath, 0, &p);

	return r < 0 ? r : stand_in(task, p, true);
}

SYSCALL2(getcwd, gva_t, ubuf, uint64_t, size)
{
	char text[GUEST_PATH_MAX];
	ssize_t n;

	if (task->fs->cwd.dentry->flags & DENTRY_DELETED)
		return -ENOENT;
	n = path_show(task->fs->cwd, task->fs->root, text, sizeof(text));
	if (n < 0)
		return n;
	if ((uint64_t)n + 1 > size)
		return -ERANGE;
	if (guest_write(task, ubuf, text, (size_t)n + 1) < 0)
		return -EFAULT;
	return n + 1;
}

SYSCALL1(umask, unsigned, mask)
{
	uint32_t was = task->fs->umask;

	task->fs->umask = mask & 0777;
	return was;
}
