/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/fcntl.c - fcntl and flock.
 *
 * Owns:  nothing.
 * Rules: as sys/sys.h says.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "tier/kernel/fs/memfd.h"
#include "tier/kernel/io/inotify.h"
#include "tier/kernel/io/pipe.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/lease.h"
#include "tier/kernel/vfs/lock.h"
#include "tier/kernel/vfs/ops.h"

enum {
	SETTABLE = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME | O_ASYNC,
	GUEST_F_SETSIG = 10,
	GUEST_F_GETSIG = 11,
	GUEST_F_SETOWN_EX = 15,
	GUEST_F_GETOWN_EX = 16,
	GUEST_F_SETLEASE = 1024,
	GUEST_F_GETLEASE = 1025,
	GUEST_F_NOTIFY = 1026,
	GUEST_F_DUPFD_QUERY = 1027,
	GUEST_F_CREATED_QUERY = 1028,
	GUEST_F_GET_RW_HINT = 1035,
	GUEST_F_SET_FILE_RW_HINT = 1038,
};

struct guest_flock {
	int16_t type, whence;
	int32_t pad;
	int64_t start, len;
	int32_t pid, pad2;
};

static long dup_from(struct task *t, struct file *f, uint64_t min, bool cloexec)
{
	int fd;

	if (min >= t->proc->limits[RLIMIT_NOFILE].rlim_cur || min >= GUEST_FDS_MAX)
		return -EINVAL;
	fd = fd_install(t, file_ref(f), cloexec, (int)min);
	if (fd < 0)
		file_unref(f);
	return fd;
}

static long set_flags(struct task *t, struct file *f, int fd, unsigned flags)
{
	bool was_async = f->flags & O_ASYNC;

	if ((flags & O_NOATIME) && !(f->flags & O_NOATIME) && !inode_owner(t, f->inode))
		return -EPERM;
	if ((flags & O_DIRECT) && !S_ISREG(f->inode->mode) && !S_ISBLK(f->inode->mode) &&
		!S_ISFIFO(f->inode->mode))
		return -EINVAL;
	f->flags = (f->flags & ~(unsigned)SETTABLE) | (flags & SETTABLE);
	if (f->ops->set_flags)
		f->ops->set_flags(f, f->flags);
	if (was_async != !!(f->flags & O_ASYNC))
		file_set_async(f, fd);
	return 0;
}

static long range_of(struct file *f, const struct guest_flock *g, struct lock_range *r)
{
	int64_t base, end;

	switch (g->whence) {
	case SEEK_SET:
		base = 0;
		break;
	case SEEK_CUR:
		base = f->pos;
		break;
	case SEEK_END:
		base = f->inode->size;
		break;
	default:
		return -EINVAL;
	}
	if (ckd_add(&r->start, base, g->start))
		return -EOVERFLOW;
	if (r->start < 0)
		return -EINVAL;
	r->end = INT64_MAX;
	if (g->len > 0) {
		if (ckd_add(&end, r->start, g->len - 1))
			return -EOVERFLOW;
		r->end = end;
	} else if (g->len < 0) {
		r->end = r->start - 1;
		if (ckd_add(&r->start, r->start, g->len) || r->start < 0)
			return -EINVAL;
	}
	return 0;
}

static void fill_owner(struct task *t, struct file *f, bool ofd, struct lock_range *r)
{
	r->kind = ofd ? LOCK_OFD : LOCK_POSIX;
	r->owner = ofd ? (const void *)f : (const void *)t->files;
	r->pid = ofd ? -1 : t->proc->pid;
}

static long get_lock(struct task *t, struct file *f, gva_t arg, bool ofd)
{
	const struct lock_range *in_way;
	struct lock_range want = { 0 };
	struct guest_flock g;
	long r;

	if (guest_read(t, &g, arg, sizeof(g)) < 0)
		return -EFAULT;
	if (ofd && g.pid)
		return -EINVAL;
	if (g.type != F_RDLCK && g.type != F_WRLCK && !(ofd && g.type == F_UNLCK))
		return -EINVAL;
	r = range_of(f, &g, &want);
	if (r < 0)
		return r;
	want.write = g.type == F_WRLCK;
	fill_owner(t, f, ofd, &want);
	in_way = lock_conflict(f->inode, &want);
	if (!in_way) {
		g.type = F_UNLCK;
	} else {
		g.type = in_way->write ? F_WRLCK : F_RDLCK;
		g.whence = SEEK_SET;
		g.start = in_way->start;
		g.len = in_way->end == INT64_MAX ? 0 : in_way->end - in_way->start + 1;
		g.pid = pid_out(t, in_way->pid);
	}
	return guest_write(t, arg, &g, sizeof(g));
}

static long set_lock(struct task *t, struct file *f, gva_t arg, bool ofd, bool wait)
{
	struct lock_range want = { 0 };
	struct guest_flock g;
	long r;

	/* Copied in once: entered again, it is still what was asked for at first. */
	if (t->call.first) {
		if (guest_read(t, &g, arg, sizeof(g)) < 0)
			return -EFAULT;
		memcpy(t->call.u, &g, sizeof(g));
	}
	memcpy(&g, t->call.u, sizeof(g));
	if (ofd && g.pid)
		return -EINVAL;
	r = range_of(f, &g, &want);
	if (r < 0)
		return r;
	fill_owner(t, f, ofd, &want);
	want.write = g.type == F_WRLCK;
	switch (g.type) {
	case F_UNLCK:
		return lock_clear(t->k, f->inode, &want);
	case F_RDLCK:
		if (!file_readable(f))
			return -EBADF;
		break;
	case F_WRLCK:
		if (!file_writable(f))
			return -EBADF;
		break;
	default:
		return -EINVAL;
	}
	if (lock_conflict(f->inode, &want))
		return wait ? lock_wait(t, f->inode, &want) : -EAGAIN;
	return lock_set(t->k, f->inode, &want);
}

static long get_owner(struct task *t, struct file *f, unsigned cmd, uint64_t arg)
{
	int32_t v[2] = { f->owner_type, pid_out(t, f->owner_pid) };

	if (cmd == F_GETOWN)
		return v[0] == 2 /* a group */ ? -v[1] : v[1];
	return guest_write(t, GVA(arg), v, sizeof(v));
}

static long set_owner(struct task *t, struct file *f, unsigned cmd, uint64_t arg)
{
	int32_t v[2];

	if (cmd == F_SETOWN) {
		int32_t who = (int32_t)arg;

		if (who == INT32_MIN)
			return -EINVAL;
		v[0] = who < 0 ? 2 : 1;
		v[1] = who < 0 ? -who : who;
	} else {
		if (guest_read(t, v, GVA(arg), sizeof(v)) < 0)
			return -EFAULT;
		if (v[0] < 0 || v[0] > 2)
			return -EINVAL;
	}
	if (v[1] && v[0] == 2 && !pgrp_at(t, v[1]))
		return -ESRCH;
	if (v[1] && v[0] != 2 && !task_at(t, v[1]))
		return -ESRCH;
	if (v[1])
		v[1] = v[0] == 2 ? pgrp_in(t, v[1]) : pid_in(t, v[1]);
	f->owner_type = v[0];
	f->owner_pid = v[1];
	f->owner_uid = t->cred->uid;
	f->owner_euid = t->cred->euid;
	return 0;
}

static long set_notify(struct task *t, struct file *f, int fd, uint32_t arg)
{
	long r = dnotify_set(f, fd, arg);

	if (r == 0 && f->dnotify && !f->owner_pid) {
		f->owner_type = 1;
		f->owner_pid = t->proc->pid;
		f->owner_uid = t->cred->uid;
		f->owner_euid = t->cred->euid;
	}
	return r;
}

static long on_descriptor(
	struct task *t, struct file *f, int fd, unsigned cmd, uint64_t arg, bool *ret_done)
{
	*ret_done = true;
	switch (cmd) {
	case F_DUPFD:
		return dup_from(t, f, (unsigned)arg, false);
	case F_DUPFD_CLOEXEC:
		return dup_from(t, f, (unsigned)arg, true);
	case F_GETFD:
		return t->files->slots[fd].cloexec ? FD_CLOEXEC : 0;
	case F_SETFD:
		t->files->slots[fd].cloexec = arg & FD_CLOEXEC;
		return 0;
	case F_GETFL:
		return f->flags;
	case GUEST_F_DUPFD_QUERY:
		return fd_get_path(t, (int)arg) == f;
	case GUEST_F_CREATED_QUERY:
		return f->created;
	default:
		*ret_done = false;
		return f->flags & O_PATH ? -EBADF : 0;
	}
}

SYSCALL3(fcntl, int, fd, unsigned, cmd, uint64_t, arg)
{
	struct file *f = fd_get_path(task, fd);
	bool done;
	long r = f ? on_descriptor(task, f, fd, cmd, arg, &done) : -EBADF;

	if (!f || done || r < 0)
		return r;
	switch (cmd) {
	case F_SETFL:
		return set_flags(task, f, fd, (unsigned)arg);
	case F_GETLK:
		return get_lock(task, f, GVA(arg), false);
	case F_SETLK:
		return set_lock(task, f, GVA(arg), false, false);
	case F_SETLKW:
		return set_lock(task, f, GVA(arg), false, true);
	case F_OFD_GETLK:
		return get_lock(task, f, GVA(arg), true);
	case F_OFD_SETLK:
		return set_lock(task, f, GVA(arg), true, false);
	case F_OFD_SETLKW:
		return set_lock(task, f, GVA(arg), true, true);
	case F_GETOWN:
	case GUEST_F_GETOWN_EX:
		return get_owner(task, f, cmd, arg);
	case F_SETOWN:
	case GUEST_F_SETOWN_EX:
		return set_owner(task, f, cmd, arg);
	case GUEST_F_GETSIG:
		return f->owner_sig;
	case GUEST_F_SETSIG:
		if (arg > GSIG_MAX)
			return -EINVAL;
		f->owner_sig = (int32_t)arg;
		return 0;
	case F_GETPIPE_SZ:
		return pipe_size(f);
	case F_SETPIPE_SZ:
		return pipe_set_size(f, task, (unsigned)arg);
	case F_GET_SEALS:
		return memfd_get_seals(f);
	case F_ADD_SEALS:
		return memfd_add_seals(f, (unsigned)arg);
	case GUEST_F_GETLEASE:
		return lease_get(f);
	case GUEST_F_NOTIFY:
		return set_notify(task, f, fd, (uint32_t)arg);
	case GUEST_F_SETLEASE:
		return lease_set(task, f, fd, arg);
	default:
		return -EINVAL;
	}
}

SYSCALL2(flock, int, fd, unsigned, op)
{
	struct file *f = fd_get(task, fd);
	struct lock_range want = { .kind = LOCK_FLOCK, .owner = f, .end = INT64_MAX, .pid = -1 };
	bool wait = !(op & LOCK_NB);

	if (op & 32 /* LOCK_MAND: gone from Linux, and accepted there since */)
		return 0;
	op &= ~(unsigned)LOCK_NB;
	if (op != LOCK_SH && op != LOCK_EX && op != LOCK_UN)
		return -EINVAL;
	if (!f)
		return -EBADF;
	want.write = op == LOCK_EX;
	if (op == LOCK_UN)
		return lock_clear(task->k, f->inode, &want);
	if (lock_conflict(f->inode, &want)) {
		/* A conversion gives the old lock up first, as Linux does. */
		lock_clear(task->k, f->inode, &want);
		if (wait)
			file_hold(task, f);
		return wait ? lock_wait(task, f->inode, &want) : -EAGAIN;
	}
	return lock_set(task->k, f->inode, &want);
}
