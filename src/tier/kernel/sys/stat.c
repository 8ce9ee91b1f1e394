/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/stat.c - stat in all its forms, statfs, access.
 *
 * Owns:  the layouts of struct stat, statx and statfs of x86-64.
 * Rules: a result is filled whole, with zeroes between, and copied out once.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/stat.h> /* statx; S_IF* too */
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/stat.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"

enum { NS = 1000000000 };

struct guest_stat {
	uint64_t dev, ino, nlink;
	uint32_t mode, uid, gid, pad0;
	uint64_t rdev;
	int64_t size, blksize, blocks;
	int64_t atime[2], mtime[2], ctime[2];
	int64_t unused[3];
};

static void split(int64_t ns, int64_t out[2])
{
	out[0] = ns / NS;
	out[1] = ns % NS;
	if (out[1] < 0) {
		out[0]--;
		out[1] += NS;
	}
}

void stat_lay(const struct kstat *k, uint8_t ret[GUEST_STAT_BYTES])
{
	struct guest_stat s = { .dev = k->dev,
		.ino = k->ino,
		.nlink = k->nlink,
		.mode = k->mode,
		.uid = k->uid,
		.gid = k->gid,
		.rdev = k->rdev,
		.size = k->size,
		.blksize = k->blksize,
		.blocks = k->blocks };

	split(k->atime, s.atime);
	split(k->mtime, s.mtime);
	split(k->ctime, s.ctime);
	_Static_assert(sizeof(s) == GUEST_STAT_BYTES, "as it is told");
	memcpy(ret, &s, sizeof(s));
}

static long put_stat(struct task *t, gva_t dst, const struct kstat *k)
{
	uint8_t s[GUEST_STAT_BYTES];
	struct kstat own = *k;

	own.uid = uid_out(t, k->uid);
	own.gid = gid_out(t, k->gid);
	stat_lay(&own, s);
	answers_keep(t, s, sizeof(s));
	return guest_write(t, dst, s, sizeof(s));
}

static long stat_at(struct task *t, int dirfd, gva_t upath, unsigned flags, struct kstat *ret)
{
	struct path p;
	int r = path_at(t, dirfd, upath, flags, &p);

	if (r < 0)
		return r;
	t->call.fixed = answers_fixed(t, p);
	r = vfs_stat(p, ret);
	path_unref(p);
	return r;
}

static long stat_to(struct task *t, int dirfd, gva_t upath, gva_t dst, unsigned flags)
{
	struct kstat k;
	long r = stat_at(t, dirfd, upath, flags, &k);

	return r < 0 ? r : put_stat(t, dst, &k);
}

SYSCALL2(stat, gva_t, upath, gva_t, dst)
{
	return stat_to(task, AT_FDCWD, upath, dst, 0);
}

SYSCALL2(lstat, gva_t, upath, gva_t, dst)
{
	return stat_to(task, AT_FDCWD, upath, dst, AT_SYMLINK_NOFOLLOW);
}

SYSCALL4(newfstatat, int, dirfd, gva_t, upath, gva_t, dst, unsigned, flags)
{
	if (flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT))
		return -EINVAL;
	return stat_to(task, dirfd, upath, dst, flags);
}

SYSCALL2(fstat, int, fd, gva_t, dst)
{
	struct file *f = fd_get_path(task, fd);
	struct kstat k;
	int r;

	if (!f)
		return -EBADF;
	task->call.fixed = f->path.dentry && answers_fixed(task, f->path);
	r = vfs_fstat(f, &k);
	return r < 0 ? r : put_stat(task, dst, &k);
}

static void put_time(struct statx_timestamp *out, int64_t ns)
{
	int64_t v[2];

	split(ns, v);
	out->tv_sec = v[0];
	out->tv_nsec = (uint32_t)v[1];
}

SYSCALL5(statx, int, dirfd, gva_t, upath, unsigned, flags, unsigned, mask, gva_t, dst)
{
	enum {
		MNT_ID = 0x1000,
		MNT_ID_UNIQUE = 0x4000,
		SYNC_TYPE = 0x6000,
		ATTRIBUTES = STATX_ATTR_MOUNT_ROOT_
	};
	struct statx x = { 0 };
	struct kstat k;
	long r;

	if ((mask & 0x80000000u) || (flags & SYNC_TYPE) == SYNC_TYPE)
		return -EINVAL;
	if (flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT | SYNC_TYPE))
		return -EINVAL;
	r = stat_at(task, dirfd, upath, flags, &k);
	if (r < 0)
		return r;
	x.stx_mask = STATX_BASIC_STATS | STATX_BTIME | MNT_ID;
	if (mask & MNT_ID_UNIQUE) {
		x.stx_mask ^= MNT_ID | MNT_ID_UNIQUE;
		k.mnt_id += MOUNT_ID_UNIQUE;
	}
	x.stx_attributes = k.attributes;
	x.stx_attributes_mask = ATTRIBUTES | (k.attributes_mask & ~(uint64_t)ATTRIBUTES);
	x.stx_blksize = k.blksize;
	x.stx_nlink = k.nlink;
	x.stx_uid = uid_out(task, k.uid);
	x.stx_gid = gid_out(task, k.gid);
	x.stx_mode = (uint16_t)k.mode;
	x.stx_ino = k.ino;
	x.stx_size = (uint64_t)k.size;
	x.stx_blocks = (uint64_t)k.blocks;
	put_time(&x.stx_atime, k.atime);
	put_time(&x.stx_mtime, k.mtime);
	put_time(&x.stx_ctime, k.ctime);
	put_time(&x.stx_btime, k.btime);
	x.stx_rdev_major = major(k.rdev);
	x.stx_rdev_minor = minor(k.rdev);
	x.stx_dev_major = major(k.dev);
	x.stx_dev_minor = minor(k.dev);
	memcpy((char *)&x + 0x90, &k.mnt_id,
		sizeof(k.mnt_id)); /* stx_mnt_id: newer than our headers */
	return guest_write(task, dst, &x, sizeof(x));
}

struct guest_statfs {
	int64_t type, bsize;
	uint64_t blocks, bfree, bavail, files, ffree;
	int32_t fsid[2];
	int64_t namelen, frsize, flags, spare[4];
};

/* Of what has no file system with a name. */
static int64_t unnamed_type(const struct inode *i)
{
	uint32_t kind = i->mode & S_IFMT;

	return kind == S_IFIFO    ? PIPEFS_MAGIC
	       : kind == S_IFSOCK ? SOCKFS_MAGIC
				  : ANON_INODE_FS_MAGIC;
}

static long put_statfs(struct task *t, struct path p, gva_t dst)
{
	struct guest_statfs s = { 0 };
	struct kstatfs k;
	int r = vfs_statfs(p, &k);

	if (r < 0)
		return r;
	s.type = k.type ? (int64_t)k.type : unnamed_type(p.dentry->inode);
	s.bsize = s.frsize = (int64_t)k.bsize;
	s.blocks = k.blocks;
	s.bfree = k.bfree;
	s.bavail = k.bavail;
	s.files = k.files;
	s.ffree = k.ffree;
	s.namelen = (int64_t)k.namelen;
	s.fsid[0] = (int32_t)p.dentry->sb->dev;
	s.flags = 0x20 /* ST_VALID */ | (p.mnt->flags & 15) |
		  (p.dentry->sb->flags & SB_READ_ONLY ? 1 : 0) |
		  (p.mnt->flags & MOUNT_NO_ATIME ? 0x400 : 0) |
		  (p.mnt->flags & MOUNT_NO_DIRATIME ? 0x800 : 0) |
		  (p.mnt->flags & (MOUNT_NO_ATIME | MOUNT_STRICT_ATIME) ? 0 : 0x1000) |
		  (p.mnt->flags & MOUNT_NO_FOLLOW ? 0x2000 : 0);
	return guest_write(t, dst, &s, sizeof(s));
}

SYSCALL2(statfs, gva_t, upath, gva_t, dst)
{
	struct path p;
	long r = path_at(task, AT_FDCWD, upath, 0, &p);

	if (r < 0)
		return r;
	r = put_statfs(task, p, dst);
	path_unref(p);
	return r;
}

SYSCALL2(fstatfs, int, fd, gva_t, dst)
{
	struct file *f = fd_get_path(task, fd);
	struct path p;
	long r = f ? file_path(f, &p) : -EBADF;

	if (r < 0)
		return r;
	r = put_statfs(task, p, dst);
	path_unref(p);
	return r;
}

SYSCALL2(ustat, unsigned, dev, gva_t, dst)
{
	char out[32] = { 0 };

	for (struct super *sb = task->k->vfs->supers; sb; sb = sb->next)
		if (sb->dev == dev)
			return guest_write(task, dst, out, sizeof(out));
	return -EINVAL;
}

/* access(2) asks for the real user, not for the one that acts. */
static long access_as(struct task *t, int dirfd, gva_t upath, int mode, unsigned flags)
{
	struct cred *acting = t->cred, *real = NULL;
	struct path p;
	long r;

	if (mode & ~(R_OK | W_OK | X_OK))
		return -EINVAL;
	if (!(flags & AT_EACCESS)) {
		real = cred_copy(acting);
		if (!real)
			return -ENOMEM;
		real->fsuid = acting->uid;
		real->fsgid = acting->gid;
		real->cap_effective = cred_is_root(acting, acting->uid) ? acting->cap_permitted : 0;
		t->cred = real;
	}
	r = path_at(t, dirfd, upath, flags, &p);
	if (r == 0) {
		struct inode *i = p.dentry->inode;

		if ((mode & X_OK) && (i->mode & S_IFMT) == S_IFREG &&
			(p.mnt->flags & MOUNT_NO_EXEC))
			r = -EACCES;
		else if (mode)
			r = inode_permission(t, i, mode);
		if (r == 0 && (mode & W_OK)) {
			uint32_t type = i->mode & S_IFMT;

			if (type != S_IFCHR && type != S_IFBLK && type != S_IFIFO &&
				type != S_IFSOCK)
				r = mount_writable(p);
		}
		t->call.fixed = answers_fixed(t, p);
		path_unref(p);
	}
	t->cred = acting;
	cred_unref(real);
	return r;
}

SYSCALL2(access, gva_t, upath, int, mode)
{
	return access_as(task, AT_FDCWD, upath, mode, 0);
}

SYSCALL3(faccessat, int, dirfd, gva_t, upath, int, mode)
{
	return access_as(task, dirfd, upath, mode, 0);
}

SYSCALL4(faccessat2, int, dirfd, gva_t, upath, int, mode, unsigned, flags)
{
	if (flags & ~(unsigned)(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	return access_as(task, dirfd, upath, mode, flags);
}
