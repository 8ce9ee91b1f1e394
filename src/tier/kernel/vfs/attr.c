/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/attr.c - attributes: reading them, and who may change which.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/lease.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/vfs/ops.h"

enum { ANON_DEV = 15, BLOCK = 4096, RELATIME_S = 24 * 3600 };

void inode_attr(struct inode *i, struct kstat *ret)
{
	*ret = (struct kstat){
		.dev = i->sb ? i->sb->dev : ANON_DEV,
		.ino = i->ino,
		.rdev = i->rdev,
		.mode = i->mode & (S_IFMT | 07777),
		.nlink = i->nlink,
		.uid = i->uid,
		.gid = i->gid,
		.size = i->size,
		.blocks = S_ISREG(i->mode)
				  ? (i->size / BLOCK + (i->size % BLOCK > 0)) * (BLOCK / 512)
				  : 0,
		.blksize = BLOCK,
		.atime = i->atime,
		.mtime = i->mtime,
		.ctime = i->ctime,
		.btime = i->btime,
	};
}

static int inode_stat(struct inode *i, struct kstat *ret)
{
	if (i->ops->getattr)
		return i->ops->getattr(i, ret);
	inode_attr(i, ret);
	return 0;
}

int vfs_stat(struct path p, struct kstat *ret)
{
	int r = inode_stat(p.dentry->inode, ret);

	ret->mnt_id = p.mnt->id;
	if (p.dentry == p.mnt->root)
		ret->attributes |= STATX_ATTR_MOUNT_ROOT_;
	return r;
}

int vfs_fstat(struct file *f, struct kstat *ret)
{
	int r = inode_stat(f->inode, ret);

	ret->mnt_id = f->path.mnt ? f->path.mnt->id : 0;
	if (f->path.mnt && f->path.dentry == f->path.mnt->root)
		ret->attributes |= STATX_ATTR_MOUNT_ROOT_;
	return r;
}

void inode_apply(struct inode *i, const struct iattr *a)
{
	if (a->valid & ATTR_MODE)
		i->mode = (i->mode & ~07777u) | (a->mode & 07777);
	if (a->valid & ATTR_UID)
		i->uid = a->uid;
	if (a->valid & ATTR_GID)
		i->gid = a->gid;
	if (a->valid & ATTR_SIZE)
		i->size = a->size;
	if (a->valid & ATTR_ATIME)
		i->atime = a->atime;
	if (a->valid & ATTR_MTIME)
		i->mtime = a->mtime;
	if (a->valid & ATTR_CTIME)
		i->ctime = a->ctime;
}

/* One of the two times alone looks like what would have changed it. */
static void tell_change(struct kernel *k, struct dentry *d, unsigned valid)
{
	const unsigned both = ATTR_ATIME | ATTR_MTIME;

	if ((valid & (ATTR_MODE | ATTR_UID | ATTR_GID)) || (valid & both) == both)
		notify_dentry(k, d, IN_ATTRIB);
	else if (valid & both)
		notify_dentry(k, d, valid & ATTR_ATIME ? IN_ACCESS : IN_MODIFY);
}

static int set_attr(struct task *t, struct inode *i, struct dentry *d, struct iattr *a)
{
	int r = 0;

	if (!(a->valid & ATTR_CTIME)) {
		a->valid |= ATTR_CTIME;
		a->ctime = kernel_realtime(t->k);
	}
	if (S_ISDIR(i->mode) && (a->valid & (ATTR_MODE | ATTR_UID | ATTR_GID)))
		answers_all(t->k); /* who may look there */
	if (i->ops->setattr)
		r = i->ops->setattr(i, a);
	else
		inode_apply(i, a);
	if (r == 0 && !(a->valid & ATTR_SIZE))
		tell_change(t->k, d, a->valid);
	return r;
}

/* chattr's words stand above the owner's. */
static int changeable(const struct inode *i)
{
	return i->flags & (INODE_IMMUTABLE | INODE_APPEND) ? -EPERM : 0;
}

int vfs_chmod(struct task *t, struct path p, uint32_t mode)
{
	struct inode *i = p.dentry->inode;
	struct iattr a = { .valid = ATTR_MODE, .mode = mode & 07777 };
	int r = mount_writable(p);

	if (r < 0)
		return r;
	if (S_ISLNK(i->mode))
		return -EOPNOTSUPP;
	if (!inode_owner(t, i) || changeable(i) < 0)
		return -EPERM;
	/* Who is not in the group cannot lend it. */
	if ((mode & S_ISGID) && !task_in_group(t, i->gid) &&
		!task_capable_ids(t, i->uid, i->gid, CAP_FSETID))
		a.mode &= ~(uint32_t)S_ISGID;
	return set_attr(t, i, p.dentry, &a);
}

int vfs_chown(struct task *t, struct path p, uint32_t uid, uint32_t gid)
{
	struct inode *i = p.dentry->inode;
	struct iattr a = { .uid = uid, .gid = gid };
	int r = mount_writable(p);
	bool mine = t->cred->fsuid == i->uid;

	if (r < 0)
		return r;
	if (uid != (uint32_t)-1) {
		if (!(mine && uid == i->uid) && !task_capable_ids(t, i->uid, i->gid, CAP_CHOWN))
			return -EPERM;
		a.valid |= ATTR_UID;
	}
	if (gid != (uint32_t)-1) {
		if (!(mine && (task_in_group(t, gid) || gid == i->gid)) &&
			!task_capable_ids(t, i->uid, i->gid, CAP_CHOWN))
			return -EPERM;
		a.valid |= ATTR_GID;
	}
	if (!S_ISDIR(i->mode) && (i->mode & (S_ISUID | S_ISGID))) {
		a.mode = i->mode & 07777 & ~(uint32_t)S_ISUID;
		if (i->mode & S_IXGRP)
			a.mode &= ~(uint32_t)S_ISGID;
		a.valid |= ATTR_MODE;
	}
	if (!a.valid)
		return 0;
	r = changeable(i);
	if (r == 0)
		r = set_attr(t, i, p.dentry, &a);
	/* What it may do was meant for its last owner. */
	if (r == 0 && !S_ISDIR(i->mode) && i->ops->removexattr)
		i->ops->removexattr(i, "security.capability");
	return r;
}

int vfs_utimes(struct task *t, struct path p, int64_t atime, int64_t mtime)
{
	struct inode *i = p.dentry->inode;
	int64_t now = kernel_realtime(t->k);
	struct iattr a = { .atime = atime == UTIME_NOW_NS ? now : atime,
		.mtime = mtime == UTIME_NOW_NS ? now : mtime };
	int r = mount_writable(p);

	if (r < 0)
		return r;
	if (atime == UTIME_NOW_NS && mtime == UTIME_NOW_NS) {
		if (i->flags & INODE_IMMUTABLE)
			return -EPERM;
		if (!inode_owner(t, i)) {
			r = inode_permission(t, i, W_OK);
			if (r < 0)
				return r;
		}
	} else if (!inode_owner(t, i) || changeable(i) < 0) {
		return -EPERM;
	}
	if (atime != UTIME_OMIT_NS)
		a.valid |= ATTR_ATIME;
	if (mtime != UTIME_OMIT_NS)
		a.valid |= ATTR_MTIME;
	return set_attr(t, i, p.dentry, &a);
}

void inode_drop_setid(struct task *t, struct inode *i)
{
	struct iattr a = { .valid = ATTR_MODE, .mode = i->mode & 07777 & ~(uint32_t)S_ISUID };

	if (!(i->mode & (S_ISUID | S_ISGID)) || !S_ISREG(i->mode) ||
		task_capable_ids(t, i->uid, i->gid, CAP_FSETID))
		return;
	if (i->mode & S_IXGRP)
		a.mode &= ~(uint32_t)S_ISGID;
	if (i->ops->setattr)
		i->ops->setattr(i, &a);
	else
		inode_apply(i, &a);
}

static int set_size(struct task *t, struct inode *i, struct dentry *d, int64_t size)
{
	struct iattr a = { .valid = ATTR_SIZE | ATTR_MTIME | ATTR_CTIME, .size = size };
	uint64_t limit = t->proc->limits[RLIMIT_FSIZE].rlim_cur;
	int r;

	if (size > i->size && (uint64_t)size > limit) {
		signal_send_task(t, SIGXFSZ, NULL);
		return -EFBIG;
	}
	inode_drop_setid(t, i);
	a.mtime = a.ctime = kernel_realtime(t->k);
	r = set_attr(t, i, d, &a);
	if (r == 0)
		notify_dentry(t->k, d, IN_MODIFY);
	return r;
}

int vfs_truncate(struct task *t, struct path p, int64_t size)
{
	struct inode *i = p.dentry->inode;
	int r;

	if (S_ISDIR(i->mode))
		return -EISDIR;
	if (!S_ISREG(i->mode))
		return -EINVAL;
	r = inode_permission(t, i, W_OK);
	if (r == 0)
		r = mount_writable(p);
	if (r == 0 && (i->flags & (INODE_IMMUTABLE | INODE_APPEND)))
		r = -EPERM;
	if (r == 0 && i->writers < 0)
		r = -ETXTBSY;
	if (r == 0)
		r = landlock_path(t, p, LANDLOCK_TRUNCATE);
	if (r == 0 && i->leases)
		r = (int)lease_break(t, i, true, true);
	return r < 0 ? r : set_size(t, i, p.dentry, size);
}

int vfs_ftruncate(struct task *t, struct file *f, int64_t size)
{
	if (!S_ISREG(f->inode->mode) || !file_writable(f))
		return -EINVAL;
	if (f->refused & LANDLOCK_TRUNCATE)
		return -EACCES;
	if (f->ops->truncate) {
		int r = f->ops->truncate(f, size);

		if (r <= 0)
			return r;
	}
	return set_size(t, f->inode, f->path.dentry, size);
}

int vfs_statfs(struct path p, struct kstatfs *ret)
{
	struct super *sb = p.dentry->sb;

	*ret = (struct kstatfs){ .type = sb->ops->magic, .bsize = BLOCK, .namelen = 255 };
	return sb->ops->statfs ? sb->ops->statfs(sb, ret) : 0;
}

void file_modified(struct file *f)
{
	f->inode->mtime = f->inode->ctime = kernel_realtime(f->k);
	notify_file(f, IN_MODIFY);
}

/* As relatime does: once a day, or when it is older than the contents. */
void file_mapped(struct file *f)
{
	struct inode *i = f->inode;
	int64_t now;

	if ((f->flags & O_NOATIME) || !f->path.mnt ||
		(f->path.mnt->flags & (MOUNT_READ_ONLY | MOUNT_NO_ATIME)) ||
		(i->sb && (i->sb->flags & SB_READ_ONLY)) ||
		((f->path.mnt->flags & MOUNT_NO_DIRATIME) && S_ISDIR(i->mode)))
		return;
	now = kernel_realtime(f->k);
	if ((f->path.mnt->flags & MOUNT_STRICT_ATIME) || i->atime <= i->mtime ||
		i->atime <= i->ctime || now - i->atime > RELATIME_S * 1000000000LL) {
		i->atime = now;
		answers_files(f->k);
	}
}

void file_accessed(struct file *f, size_t n)
{
	if (n)
		notify_file(f, IN_ACCESS);
	file_mapped(f);
}
