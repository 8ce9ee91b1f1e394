/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/splice.c - splice, tee, vmsplice, vhangup: bytes between files without the guest's memory.
 *
 * Rules: pages are copied, not moved; what a program can see is the same. What was read and could
 *        not be written is not lost: no more is taken than the other side has room for.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/io/pipe.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

enum { FLAG_NONBLOCK = 2, FLAGS_ALL = 15, STEP = 64 * 1024 };

/* The offset that goes with one side: the guest's, or the file's own. */
struct side {
	struct file *f;
	gva_t uoff;
	int64_t off;
};

static int side_in(struct task *task, struct side *s)
{
	if (gva_null(s->uoff)) {
		s->off = s->f->pos;
		return 0;
	}
	if (file_is_pipe(s->f))
		return -ESPIPE;
	if (guest_read(task, &s->off, s->uoff, sizeof(s->off)) < 0)
		return -EFAULT;
	if (s->f->ops->flags & FILE_STREAM)
		return -ESPIPE;
	return s->off < 0 ? -EINVAL : 0;
}

static int side_out(struct task *task, struct side *s)
{
	if (gva_null(s->uoff)) {
		s->f->pos = s->off;
		return 0;
	}
	return guest_write(task, s->uoff, &s->off, sizeof(s->off));
}

static bool would_wait(struct file *f, unsigned flags)
{
	return !(f->flags & O_NONBLOCK) && !(flags & FLAG_NONBLOCK);
}

static long wait_for(struct task *task, struct file *f, unsigned events, unsigned flags)
{
	return would_wait(f, flags) ? file_wait(task, f, events) : -EAGAIN;
}

/* One step: as much as both sides can do now. */
static long move(struct task *task, struct side *in, struct side *out, uint64_t len, unsigned flags)
{
	own_mem char *buf = NULL;
	struct uio io;
	ssize_t n, w;

	if (file_is_pipe(out->f)) {
		uint64_t room = pipe_room(out->f);

		if (pipe_broken_now(out->f))
			len = 1; /* the write says so */
		else if (room == 0)
			return wait_for(task, out->f, POLLOUT, flags);
		else if (len > room)
			len = room;
	}
	if (len > STEP)
		len = STEP;
	buf = malloc(len);
	if (!buf)
		return -ENOMEM;
	uio_kernel(&io, buf, len);
	io.task = task;
	if (file_is_pipe(in->f)) {
		n = pipe_peek(in->f, buf, len);
		if (n == 0)
			n = pipe_ended(in->f) ? 0 : -EAGAIN;
	} else {
		n = in->f->ops->read(in->f, &io, &in->off);
	}
	if (n == -EAGAIN)
		return wait_for(task, in->f, POLLIN, flags);
	if (n <= 0)
		return n;
	uio_kernel(&io, buf, (size_t)n);
	io.task = task;
	w = out->f->ops->write(out->f, &io, &out->off);
	if (w == -EAGAIN)
		return wait_for(task, out->f, POLLOUT, flags);
	if (w > 0 && file_is_pipe(in->f))
		pipe_skip(in->f, (size_t)w);
	return w;
}

SYSCALL6(splice, int32_t, fd_in, gva_t, off_in, int32_t, fd_out, gva_t, off_out, uint64_t, len,
	uint32_t, flags)
{
	struct side in = { .uoff = off_in }, out = { .uoff = off_out };
	long r;

	if (len == 0)
		return 0;
	if (flags & ~(uint32_t)FLAGS_ALL)
		return -EINVAL;
	in.f = fd_get(task, fd_in);
	out.f = fd_get(task, fd_out);
	if (!in.f || !out.f || !file_readable(in.f) || !file_writable(out.f))
		return -EBADF;
	r = side_in(task, &in);
	if (r == 0)
		r = side_in(task, &out);
	if (r < 0)
		return r;
	if (!file_is_pipe(in.f) && !file_is_pipe(out.f))
		return -EINVAL;
	if ((in.f->ops->flags | out.f->ops->flags) & FILE_NO_SPLICE)
		return -EINVAL;
	if (!in.f->ops->read || !out.f->ops->write || (out.f->flags & O_APPEND))
		return -EINVAL;
	if (file_is_pipe(in.f) && file_is_pipe(out.f) && in.f->inode == out.f->inode)
		return -EINVAL;
	r = move(task, &in, &out, len, flags);
	if (r > 0 && ((!file_is_pipe(in.f) && side_out(task, &in) < 0) ||
			     (!file_is_pipe(out.f) && side_out(task, &out) < 0)))
		return -EFAULT;
	return r;
}

SYSCALL4(tee, int32_t, fd_in, int32_t, fd_out, uint64_t, len, uint32_t, flags)
{
	struct file *in = fd_get(task, fd_in), *out = fd_get(task, fd_out);
	own_mem char *buf = NULL;
	struct uio io;
	int64_t pos = 0;
	uint64_t room;
	ssize_t n;

	if (flags & ~(uint32_t)FLAGS_ALL)
		return -EINVAL;
	if (len == 0)
		return 0;
	if (!in || !out || !file_readable(in) || !file_writable(out))
		return -EBADF;
	if (!file_is_pipe(in) || !file_is_pipe(out) || in->inode == out->inode)
		return -EINVAL;
	room = pipe_room(out);
	if (pipe_broken_now(out))
		room = 1;
	if (room == 0)
		return wait_for(task, out, POLLOUT, flags);
	len = len < room ? len : room;
	len = len < STEP ? len : STEP;
	buf = malloc(len);
	if (!buf)
		return -ENOMEM;
	n = pipe_peek(in, buf, len);
	if (n == 0)
		return pipe_ended(in) ? 0 : wait_for(task, in, POLLIN, flags);
	uio_kernel(&io, buf, (size_t)n);
	io.task = task;
	return out->ops->write(out, &io, &pos);
}

SYSCALL4(vmsplice, int32_t, fd, gva_t, iov, uint64_t, count, uint32_t, flags)
{
	struct file *f = fd_get(task, fd);
	struct uio io;
	int64_t pos = 0;
	long r;

	if (flags & ~(uint32_t)FLAGS_ALL)
		return -EINVAL;
	if (!f || !file_is_pipe(f))
		return -EBADF;
	r = uio_guest_iov(&io, task, iov, count);
	if (r < 0)
		return r;
	if (io.left == 0)
		r = 0;
	else
		r = file_writable(f) ? f->ops->write(f, &io, &pos) : f->ops->read(f, &io, &pos);
	/* Unlike splice, it looks at its own flag only, not at O_NONBLOCK. */
	if (r == -EAGAIN && !(flags & FLAG_NONBLOCK))
		r = file_wait(task, f, file_writable(f) ? POLLOUT : POLLIN);
	uio_done(&io);
	return r;
}

SYSCALL0(vhangup)
{
	struct session *s = task->proc->pgrp->session;

	if (!task_capable(task, CAP_SYS_TTY_CONFIG))
		return -EPERM;
	if (s->tty)
		tty_hangup(s->tty);
	return 0;
}
