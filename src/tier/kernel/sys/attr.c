/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/attr.c - chmod, chown, times, truncate, fallocate.
 *
 * Owns:  nothing.
 * Rules: as sys/sys.h says.
 */
#include <fcntl.h>
#include <signal.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"

static long chmod_at(struct task *t, int dirfd, gva_t upath, uint32_t mode, unsigned flags)
{
	struct path p;
	long r = path_at(t, dirfd, upath, flags, &p);

	if (r < 0)
		return r;
	r = vfs_chmod(t, p, mode);
	path_unref(p);
	return r;
}

SYSCALL2(chmod, gva_t, upath, unsigned, mode)
{
	return chmod_at(task, AT_FDCWD, upath, mode, 0);
}

SYSCALL3(fchmodat, int, dirfd, gva_t, upath, unsigned, mode)
{
	return chmod_at(task, dirfd, upath, mode, 0);
}

SYSCALL4(fchmodat2, int, dirfd, gva_t, upath, unsigned, mode, unsigned, flags)
{
	if (flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	return chmod_at(task, dirfd, upath, mode, flags);
}

/* By descriptor; one without a name has attributes too. */
static long with_file(struct task *t, int fd, struct path *ret)
{
	struct file *f = fd_get(t, fd);

	return f ? file_path(f, ret) : -EBADF;
}

SYSCALL2(fchmod, int, fd, unsigned, mode)
{
	struct path p;
	long r = with_file(task, fd, &p);

	if (r < 0)
		return r;
	r = vfs_chmod(task, p, mode);
	path_unref(p);
	return r;
}

/* The caller's ids as the kernel has them; those that have no meaning there are refused. */
static long chown_to(struct task *t, struct path p, uint32_t uid, uint32_t gid)
{
	uint32_t u = uid == ID_NONE ? ID_NONE : uid_in(t, uid);
	uint32_t g = gid == ID_NONE ? ID_NONE : gid_in(t, gid);

	if ((u == ID_NONE && uid != ID_NONE) || (g == ID_NONE && gid != ID_NONE))
		return -EINVAL;
	return vfs_chown(t, p, u, g);
}

static long chown_at(
	struct task *t, int dirfd, gva_t upath, uint32_t uid, uint32_t gid, unsigned flags)
{
	struct path p;
	long r = path_at(t, dirfd, upath, flags, &p);

	if (r < 0)
		return r;
	r = chown_to(t, p, uid, gid);
	path_unref(p);
	return r;
}

SYSCALL3(chown, gva_t, upath, uint32_t, uid, uint32_t, gid)
{
	return chown_at(task, AT_FDCWD, upath, uid, gid, 0);
}

SYSCALL3(lchown, gva_t, upath, uint32_t, uid, uint32_t, gid)
{
	return chown_at(task, AT_FDCWD, upath, uid, gid, AT_SYMLINK_NOFOLLOW);
}

SYSCALL5(fchownat, int, dirfd, gva_t, upath, uint32_t, uid, uint32_t, gid, unsigned, flags)
{
	if (flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	return chown_at(task, dirfd, upath, uid, gid, flags);
}

SYSCALL3(fchown, int, fd, uint32_t, uid, uint32_t, gid)
{
	struct path p;
	long r = with_file(task, fd, &p);

	if (r < 0)
		return r;
	r = chown_to(task, p, uid, gid);
	path_unref(p);
	return r;
}

static long times_at(struct task *t, int dirfd, gva_t upath, bool by_fd, unsigned flags,
	int64_t atime, int64_t mtime)
{
	struct path p;
	long r = by_fd ? with_file(t, dirfd, &p) : path_at(t, dirfd, upath, flags, &p);

	if (r < 0)
		return r;
	r = vfs_utimes(t, p, atime, mtime);
	path_unref(p);
	return r;
}

static long one_time(const int64_t v[2], int64_t *ret)
{
	if (v[1] == UTIME_NOW) {
		*ret = UTIME_NOW_NS;
	} else if (v[1] == UTIME_OMIT) {
		*ret = UTIME_OMIT_NS;
	} else {
		if (v[1] < 0 || v[1] > 999999999)
			return -EINVAL;
		/* Seconds that ns cannot hold are the furthest that they can. */
		if (ckd_mul(ret, v[0], 1000000000) || ckd_add(ret, *ret, v[1]))
			*ret = v[0] < 0 ? INT64_MIN + 2 : INT64_MAX;
	}
	return 0;
}

SYSCALL4(utimensat, int, dirfd, gva_t, upath, gva_t, utimes, unsigned, flags)
{
	int64_t v[4], atime = UTIME_NOW_NS, mtime = UTIME_NOW_NS;
	long r = 0;

	if (!gva_null(utimes)) {
		if (guest_read(task, v, utimes, sizeof(v)) < 0)
			return -EFAULT;
		r = one_time(v, &atime);
		if (r == 0)
			r = one_time(v + 2, &mtime);
		if (r < 0)
			return r;
		if (atime == UTIME_OMIT_NS && mtime == UTIME_OMIT_NS)
			return 0;
	}
	if (gva_null(upath) && dirfd != AT_FDCWD) {
		if (flags)
			return -EINVAL;
		return times_at(task, dirfd, upath, true, 0, atime, mtime);
	}
	if (flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	return times_at(task, dirfd, upath, false, flags, atime, mtime);
}

static long old_times(struct task *t, int dirfd, gva_t upath, gva_t utv)
{
	int64_t v[4], atime = UTIME_NOW_NS, mtime = UTIME_NOW_NS;
	bool by_fd = gva_null(upath) && dirfd != AT_FDCWD;

	if (!gva_null(utv)) {
		if (guest_read(t, v, utv, sizeof(v)) < 0)
			return -EFAULT;
		if (v[1] < 0 || v[1] >= 1000000 || v[3] < 0 || v[3] >= 1000000)
			return -EINVAL;
		v[1] *= 1000;
		v[3] *= 1000;
		one_time(v, &atime);
		one_time(v + 2, &mtime);
	}
	return times_at(t, dirfd, upath, by_fd, 0, atime, mtime);
}

SYSCALL2(utimes, gva_t, upath, gva_t, utv)
{
	return old_times(task, AT_FDCWD, upath, utv);
}

SYSCALL3(futimesat, int, dirfd, gva_t, upath, gva_t, utv)
{
	return old_times(task, dirfd, upath, utv);
}

SYSCALL2(utime, gva_t, upath, gva_t, ubuf)
{
	int64_t v[2], t4[4] = { 0 }, atime = UTIME_NOW_NS, mtime = UTIME_NOW_NS;

	if (!gva_null(ubuf)) {
		if (guest_read(task, v, ubuf, sizeof(v)) < 0)
			return -EFAULT;
		t4[0] = v[0];
		t4[2] = v[1];
		one_time(t4, &atime);
		one_time(t4 + 2, &mtime);
	}
	return times_at(task, AT_FDCWD, upath, false, 0, atime, mtime);
}

SYSCALL2(truncate, gva_t, upath, int64_t, size)
{
	struct path p;
	long r;

	if (size < 0)
		return -EINVAL;
	r = path_at(task, AT_FDCWD, upath, 0, &p);
	if (r < 0)
		return r;
	r = vfs_truncate(task, p, size);
	path_unref(p);
	return r;
}

SYSCALL2(ftruncate, int, fd, int64_t, size)
{
	struct file *f;

	if (size < 0)
		return -EINVAL;
	f = fd_get(task, fd);
	return f ? vfs_ftruncate(task, f, size) : -EBADF;
}

static long check_fallocate(struct file *f, int mode, int64_t off, int64_t len)
{
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE |
			  FALLOC_FL_ZERO_RANGE | FALLOC_FL_INSERT_RANGE | FALLOC_FL_UNSHARE_RANGE;
	int64_t end;

	if (off < 0 || len <= 0)
		return -EINVAL;
	if (mode & ~known)
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && (mode & FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && !(mode & FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	if (!file_writable(f))
		return -EBADF;
	if (S_ISFIFO(f->inode->mode))
		return -ESPIPE;
	if (S_ISDIR(f->inode->mode))
		return -EISDIR;
	if (!S_ISREG(f->inode->mode))
		return -ENODEV;
	if (ckd_add(&end, off, len))
		return -EFBIG;
	return f->ops->fallocate ? 0 : -EOPNOTSUPP;
}

SYSCALL4(fallocate, int, fd, int, mode, int64_t, off, int64_t, len)
{
	struct file *f = fd_get(task, fd);
	long r = f ? check_fallocate(f, mode, off, len) : -EBADF;

	if (r == 0 && !(mode & FALLOC_FL_KEEP_SIZE) && off + len > f->inode->size &&
		(uint64_t)(off + len) > task->proc->limits[RLIMIT_FSIZE].rlim_cur) {
		signal_send_task(task, SIGXFSZ, NULL);
		return -EFBIG;
	}
	return r < 0 ? r : f->ops->fallocate(f, mode, off, len);
}
