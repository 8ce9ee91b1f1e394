/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/xattr.c - extended attributes: which names there are, and whose.
 *
 * Owns:  nothing.
 * Rules: user.* is kept. trusted.* is for who has CAP_SYS_ADMIN inside, and kept too.
 *        security.capability is refused: a file capability would promise what is not there.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/vfs/ops.h"

enum { VALUE_MAX = XATTR_SIZE_MAX, LIST_MAX = XATTR_LIST_MAX };
typedef char attr_name[XATTR_NAME_MAX + 1];

static long get_name(struct task *t, gva_t src, attr_name name)
{
	ssize_t n = guest_copy_string(t, src, name, sizeof(attr_name));

	if (n == -ENAMETOOLONG || n == 0)
		return -ERANGE;
	return n < 0 ? n : 0;
}

/* May @t touch @name of @p so? */
static long allowed(struct task *t, struct path p, const char *name, int want)
{
	struct inode *i = p.dentry->inode;
	long r = want == W_OK ? mount_writable(p) : 0;

	if (r < 0)
		return r;
	if (want == W_OK && (i->flags & (INODE_IMMUTABLE | INODE_APPEND)))
		return -EPERM;
	if (str_after(name, "trusted.")) {
		if (task_capable(t, CAP_SYS_ADMIN))
			return 0;
		return want == W_OK ? -EPERM : -ENODATA;
	}
	/* Anybody may look; file capabilities are words like the others, and give nothing. */
	if (str_after(name, "security."))
		return want != W_OK || task_capable(t, CAP_SYS_ADMIN) ? 0 : -EPERM;
	if (str_after(name, "system."))
		return -EOPNOTSUPP;
	if (!str_after(name, "user."))
		return -EOPNOTSUPP;
	if (!S_ISREG(i->mode) && !S_ISDIR(i->mode))
		return want == W_OK ? -EPERM : -ENODATA;
	if (S_ISDIR(i->mode) && (i->mode & S_ISVTX) && want == W_OK && !inode_owner(t, i))
		return -EPERM;
	return inode_permission(t, i, want);
}

static long set_one(
	struct task *t, struct path p, gva_t uname, gva_t uvalue, uint64_t size, unsigned flags)
{
	struct inode *i = p.dentry->inode;
	void *value = NULL;
	attr_name name;
	long r;

	if (flags & ~(unsigned)(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	r = get_name(t, uname, name);
	if (r < 0)
		return r;
	if (size > VALUE_MAX)
		return -E2BIG;
	if (size) {
		value = malloc(size);
		if (!value)
			return -ENOMEM;
		if (guest_read(t, value, uvalue, size) < 0) {
			free(value);
			return -EFAULT;
		}
	}
	r = allowed(t, p, name, W_OK);
	if (r == 0)
		r = i->ops->setxattr ? i->ops->setxattr(i, name, value, size, (int)flags)
				     : -EOPNOTSUPP;
	free(value);
	if (r == 0)
		notify_dentry(t->k, p.dentry, IN_ATTRIB);
	return r;
}

static long get_one(struct task *t, struct path p, gva_t uname, gva_t uvalue, uint64_t size)
{
	struct inode *i = p.dentry->inode;
	void *value = NULL;
	attr_name name;
	long r = get_name(t, uname, name);

	if (r == 0)
		r = allowed(t, p, name, R_OK);
	if (r < 0)
		return r;
	if (!i->ops->getxattr)
		return -EOPNOTSUPP;
	if (size > VALUE_MAX)
		size = VALUE_MAX;
	if (size) {
		value = malloc(size);
		if (!value)
			return -ENOMEM;
	}
	r = i->ops->getxattr(i, name, value, size);
	if (r > 0 && size && guest_write(t, uvalue, value, (size_t)r) < 0)
		r = -EFAULT;
	free(value);
	return r;
}

/* Who may not read trusted names does not hear of them. */
static long without_trusted(struct inode *i, char *list, uint64_t size, long len)
{
	char *all = size ? list : malloc((size_t)len), *to = all;
	long kept = 0;

	if (!all)
		return -ENOMEM;
	if (!size)
		len = i->ops->listxattr(i, all, (size_t)len);
	for (long at = 0; at < len;) {
		size_t one = strlen(all + at) + 1;

		if (!str_after(all + at, "trusted.")) {
			memmove(to, all + at, one);
			to += one;
			kept += (long)one;
		}
		at += (long)one;
	}
	if (!size)
		free(all);
	return kept;
}

static long list_all(struct task *t, struct path p, gva_t ulist, uint64_t size)
{
	struct inode *i = p.dentry->inode;
	char *list = NULL;
	long r;

	if (!i->ops->listxattr)
		return 0;
	if (size > LIST_MAX)
		size = LIST_MAX;
	if (size) {
		list = malloc(size);
		if (!list)
			return -ENOMEM;
	}
	r = i->ops->listxattr(i, list, size);
	if (r > 0 && !task_capable(t, CAP_SYS_ADMIN))
		r = without_trusted(i, list, size, r);
	if (r > 0 && size && guest_write(t, ulist, list, (size_t)r) < 0)
		r = -EFAULT;
	free(list);
	return r;
}

static long remove_one(struct task *t, struct path p, gva_t uname)
{
	struct inode *i = p.dentry->inode;
	attr_name name;
	long r = get_name(t, uname, name);

	if (r == 0)
		r = allowed(t, p, name, W_OK);
	if (r == 0)
		r = i->ops->removexattr ? i->ops->removexattr(i, name) : -EOPNOTSUPP;
	if (r == 0)
		notify_dentry(t->k, p.dentry, IN_ATTRIB);
	return r;
}

static long by_fd(struct task *t, int fd, struct path *ret)
{
	struct file *f = fd_get(t, fd);

	return f ? file_path(f, ret) : -EBADF;
}

static long done(struct path p, long r)
{
	path_unref(p);
	return r;
}

/* Three ways to say which file: through links, the link itself, by descriptor. */
/* clang-format off */
#define THREE_WAYS(base, what)                                                       \
	static long base##_at(struct task *task, struct path p, const uint64_t *a)           \
	{                                                                                    \
		return what;                                                                 \
	}                                                                                    \
	SYSCALL0(base)                                                                       \
	{                                                                                    \
		struct path p;                                                               \
		long r = path_at(task, AT_FDCWD, GVA(a[0]), 0, &p);                          \
		return r < 0 ? r : done(p, base##_at(task, p, a));                           \
	}                                                                                    \
	SYSCALL0(l##base)                                                                    \
	{                                                                                    \
		struct path p;                                                               \
		long r = path_at(task, AT_FDCWD, GVA(a[0]), AT_SYMLINK_NOFOLLOW, &p);        \
		return r < 0 ? r : done(p, base##_at(task, p, a));                           \
	}                                                                                    \
	SYSCALL0(f##base)                                                                    \
	{                                                                                    \
		struct path p;                                                               \
		long r = by_fd(task, (int)a[0], &p);                                         \
		return r < 0 ? r : done(p, base##_at(task, p, a));                           \
	}
/* clang-format on */

THREE_WAYS(setxattr, set_one(task, p, GVA(a[1]), GVA(a[2]), a[3], (unsigned)a[4]))
THREE_WAYS(getxattr, get_one(task, p, GVA(a[1]), GVA(a[2]), a[3]))
THREE_WAYS(listxattr, list_all(task, p, GVA(a[1]), a[2]))
THREE_WAYS(removexattr, remove_one(task, p, GVA(a[1])))

/* The fourth way, of Linux 6.13: a directory, a name, and flags; values by a struct that may grow.
 */
struct xattr_args_guest {
	uint64_t value;
	uint32_t size, flags;
};

enum { ARGS_MAX = 4096 };

static long args_in(struct task *t, gva_t src, uint64_t size, struct xattr_args_guest *args)
{
	if (size < sizeof(*args))
		return -EINVAL;
	return size > ARGS_MAX ? -E2BIG : guest_read_struct(t, args, sizeof(*args), src, size);
}

static long which(struct task *t, int dirfd, gva_t upath, unsigned at_flags, struct path *ret)
{
	if (at_flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	return path_at(t, dirfd, upath, at_flags, ret);
}

SYSCALL6(setxattrat, int, dirfd, gva_t, upath, unsigned, at_flags, gva_t, uname, gva_t, uargs,
	uint64_t, size)
{
	struct xattr_args_guest args;
	struct path p;
	long r = args_in(task, uargs, size, &args);

	if (r == 0)
		r = which(task, dirfd, upath, at_flags, &p);
	if (r < 0)
		return r;
	return done(p, set_one(task, p, uname, GVA(args.value), args.size, args.flags));
}

SYSCALL6(getxattrat, int, dirfd, gva_t, upath, unsigned, at_flags, gva_t, uname, gva_t, uargs,
	uint64_t, size)
{
	struct xattr_args_guest args;
	struct path p;
	long r = args_in(task, uargs, size, &args);

	if (r == 0 && args.flags)
		r = -EINVAL;
	if (r == 0)
		r = which(task, dirfd, upath, at_flags, &p);
	return r < 0 ? r : done(p, get_one(task, p, uname, GVA(args.value), args.size));
}

SYSCALL5(listxattrat, int, dirfd, gva_t, upath, unsigned, at_flags, gva_t, ulist, uint64_t, size)
{
	struct path p;
	long r = which(task, dirfd, upath, at_flags, &p);

	return r < 0 ? r : done(p, list_all(task, p, ulist, size));
}

SYSCALL4(removexattrat, int, dirfd, gva_t, upath, unsigned, at_flags, gva_t, uname)
{
	struct path p;
	long r = which(task, dirfd, upath, at_flags, &p);

	return r < 0 ? r : done(p, remove_one(task, p, uname));
}
