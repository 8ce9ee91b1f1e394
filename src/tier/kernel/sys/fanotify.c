/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/fanotify.c - the fanotify calls: which of their flags go together.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/vfs.h"

enum {
	EVENT_OPEN_FLAGS = O_ACCMODE | O_APPEND | O_NONBLOCK | O_DSYNC | O_SYNC | O_CLOEXEC |
			   0100000 /* O_LARGEFILE */ | O_NOATIME,
};

SYSCALL2(fanotify_init, unsigned, flags, unsigned, event_flags)
{
	unsigned own = flags;
	struct file *f;
	int err;

	if (!task_capable(task, CAP_SYS_ADMIN)) {
		if ((flags & FAN_I_ADMIN) || !(flags & FAN_I_FIDS))
			return -EPERM;
		own |= FAN_I_UNPRIVILEGED;
	}
	if (flags & ~(unsigned)FAN_I_KNOWN)
		return -EINVAL;
	if ((flags & FAN_I_PIDFD) && (flags & FAN_I_TID))
		return -EINVAL;
	if ((event_flags & ~(unsigned)EVENT_OPEN_FLAGS) || (event_flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	if ((flags & FAN_I_CLASS) == FAN_I_CLASS || ((flags & FAN_I_FIDS) && (flags & FAN_I_CLASS)))
		return -EINVAL;
	if ((flags & FAN_I_NAME) && !(flags & FAN_I_DIR_FID))
		return -EINVAL;
	if ((flags & FAN_I_TARGET_FID) && (!(flags & FAN_I_NAME) || !(flags & FAN_I_FID)))
		return -EINVAL;
	if ((flags & FAN_I_AUDIT) && !task_capable(task, CAP_AUDIT_WRITE))
		return -EPERM;
	f = fanotify_create(task->k, own, event_flags, &err);
	return f ? io_install(task, f, flags & FAN_I_CLOEXEC) : err;
}

/* Do the flags and the mask say something together? */
static long check_words(unsigned flags, uint64_t mask)
{
	unsigned cmd = flags & FAN_M_CMD;

	if ((flags & ~(unsigned)FAN_M_KNOWN) || (flags & FAN_M_TYPE) == FAN_M_TYPE)
		return -EINVAL;
	if (cmd == FAN_M_FLUSH)
		return flags & ~(unsigned)(FAN_M_FLUSH | FAN_M_TYPE) ? -EINVAL : 0;
	if ((cmd != FAN_M_ADD && cmd != FAN_M_REMOVE) || !mask)
		return -EINVAL;
	if (mask & ~(uint64_t)(FAN_W_ALL | FAN_W_FLAGS | FAN_W_PRE_ACCESS))
		return -EINVAL;
	return (flags & FAN_M_IGNORES) == FAN_M_IGNORES ? -EINVAL : 0;
}

/* And may such a descriptor have it? */
static long check_group(struct task *t, unsigned group, unsigned flags, uint32_t mask)
{
	unsigned type = flags & FAN_M_TYPE;
	const uint32_t by_path = FAN_W_PATH | FAN_W_PERM | FAN_W_FLAGS | FAN_W_PRE_ACCESS;

	if (type && (!task_capable(t, CAP_SYS_ADMIN) || (group & FAN_I_UNPRIVILEGED)))
		return -EPERM;
	if ((mask & FAN_W_PERM) && !(group & FAN_I_CLASS))
		return -EINVAL;
	if ((mask & FAN_W_PRE_ACCESS) && (!(group & FAN_I_PRE_CONTENT) || (mask & FAN_W_ON_DIR)))
		return -EINVAL;
	if ((flags & FAN_M_EVICTABLE) && type)
		return -EINVAL;
	/* What has no path has no descriptor, and happens in no mount. */
	if ((mask & ~by_path) && (!(group & FAN_I_FIDS) || type == FAN_M_MOUNT))
		return -EINVAL;
	return (mask & FAN_W_RENAME) && !(group & FAN_I_NAME) ? -EINVAL : 0;
}

static bool has_names(struct task *t, struct path p)
{
	return p.mnt != t->k->vfs->anon && p.dentry->sb != t->k->vfs->memfds;
}

/* May it be at @p? */
static long check_place(
	struct task *t, unsigned group, unsigned flags, uint32_t mask, struct path p)
{
	unsigned type = flags & FAN_M_TYPE;
	bool dir = S_ISDIR(p.dentry->inode->mode);
	bool strict = (group & FAN_I_TARGET_FID) || (mask & FAN_W_RENAME) || (flags & FAN_M_IGNORE);

	if (mask & FAN_W_PRE_ACCESS)
		return -EOPNOTSUPP;
	if (flags & FAN_M_ADD) {
		if ((mask & FAN_W_PERM) && str_eq(p.dentry->sb->ops->name, "proc"))
			return -EINVAL;
		if (type && !has_names(t, p))
			return -EINVAL;
		if (strict && !type && !dir && (mask & (FAN_W_ENTRY | FAN_W_FLAGS)))
			return -ENOTDIR;
	}
	/* A handle that leads nowhere is good for one inode, not for a tree. */
	if ((group & FAN_I_FIDS) &&
		(!has_names(t, p) || (type && (p.dentry->sb->flags & SB_NO_CACHE))))
		return -EOPNOTSUPP;
	if ((flags & FAN_M_ADD) && (flags & FAN_M_IGNORE) && !(flags & FAN_M_SURVIVES) &&
		(type || dir))
		return type ? -EINVAL : -EISDIR;
	return 0;
}

static long find_place(struct task *t, unsigned flags, int dirfd, gva_t upath, struct path *ret)
{
	struct file *f;
	long r;

	if (gva_null(upath)) {
		f = fd_get_path(t, dirfd);
		if (!f)
			return -EBADF;
		if ((flags & FAN_M_ONLYDIR) && !S_ISDIR(f->inode->mode))
			return -ENOTDIR;
		if (!f->path.dentry)
			return -EINVAL; /* a pipe, a socket */
		*ret = path_ref(f->path);
	} else {
		r = path_at(
			t, dirfd, upath, flags & FAN_M_DONT_FOLLOW ? AT_SYMLINK_NOFOLLOW : 0, ret);
		if (r < 0)
			return r;
		if ((flags & FAN_M_ONLYDIR) && !S_ISDIR(ret->dentry->inode->mode)) {
			path_unref(*ret);
			return -ENOTDIR;
		}
	}
	r = inode_permission(t, ret->dentry->inode, R_OK);
	if (r < 0)
		path_unref(*ret);
	return r;
}

SYSCALL5(fanotify_mark, int, fd, unsigned, flags, uint64_t, mask, int, dirfd, gva_t, upath)
{
	struct file *f;
	struct path at;
	unsigned group;
	long r = check_words(flags, mask);

	if (r < 0)
		return r;
	f = fd_get(task, fd);
	if (!f)
		return -EBADF;
	if (f->ops != &fanotify_ops)
		return -EINVAL;
	group = fanotify_flags(f);
	if ((flags & FAN_M_IGNORES) == FAN_M_IGNORED)
		mask &= ~(uint64_t)FAN_W_FLAGS;
	r = check_group(task, group, flags, (uint32_t)mask);
	if (r < 0)
		return r;
	if (flags & FAN_M_FLUSH) {
		fanotify_flush(f, flags & FAN_M_TYPE);
		return 0;
	}
	r = find_place(task, flags, dirfd, upath, &at);
	if (r < 0)
		return r;
	r = check_place(task, group, flags, (uint32_t)mask, at);
	if (r == 0)
		r = fanotify_mark_at(f, flags, (uint32_t)mask, at);
	path_unref(at);
	return r;
}
