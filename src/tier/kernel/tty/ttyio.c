/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tty/ttyio.c - the two ends of a terminal as files.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>

#include "tier/kernel/tty/tty.h"

#include "base/str.h"
#include "tier/kernel/fs/dev.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"

enum { STEP = 4096, NS_PER_DS = 100000000 };

/* Slave */

static bool is_raw(const struct tty *t)
{
	return !(t->t.lflag & ICANON);
}

/* Raw mode: is there enough for this reader? Sets the deadline that VTIME asks for. */
static bool raw_ready(struct tty *t, struct file *f, struct uio *io)
{
	unsigned min = t->t.cc[VMIN], time = t->t.cc[VTIME];
	uint32_t have = ldisc_available(t);
	struct task *task = io->task;

	if (f->flags & O_NONBLOCK)
		return have > 0 || (min == 0 && time == 0);
	if (time && task && (min == 0 || have > 0)) {
		/* Between bytes the clock starts again with each; alone it runs from the start. */
		if (min == 0 || task->call.u[14] != have) {
			if (min || !task->call.deadline) {
				task->call.deadline = 0;
				task->call.timed_out = false;
				wait_set_timeout(task, (int64_t)time * NS_PER_DS);
			}
			task->call.u[14] = have;
		}
		if (wait_timed_out(task))
			return true;
	}
	if (min == 0)
		return have > 0 || time == 0;
	return have >= min || have >= io->left;
}

static ssize_t slave_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct tty *t = f->priv;
	ssize_t done = 0, r;
	int e;

	if (t->hung_up)
		return 0;
	e = tty_job_check(t, io->task, SIGTTIN);
	if (e < 0)
		return e;
	if (io->left == 0)
		return 0;
	if (is_raw(t) ? !raw_ready(t, f, io) : !ldisc_readable(t, 1))
		return t->masters == 0 ? -EIO : -EAGAIN;
	while (io->left > 0) {
		uint8_t buf[STEP];
		bool eof;
		size_t n = ldisc_read(t, buf, io->left < STEP ? io->left : STEP, &eof);

		if (n == 0)
			break;
		r = uio_out(io, buf, n);
		if (r < 0)
			return done ? done : r;
		done += r;
		if (!is_raw(t) || n < STEP)
			break;
	}
	return done;
}

static ssize_t slave_write(struct file *f, struct uio *io, int64_t *pos)
{
	struct tty *t = f->priv;
	ssize_t done = 0;
	int e;

	if (t->hung_up || t->masters == 0)
		return -EIO;
	if (t->t.lflag & TOSTOP) {
		e = tty_job_check(t, io->task, SIGTTOU);
		if (e < 0)
			return e;
	}
	while (io->left > 0 && !t->stopped) {
		uint8_t buf[STEP];
		ssize_t n = uio_in(io, buf, io->left < STEP ? io->left : STEP);
		size_t took;

		if (n < 0)
			return done ? done : n;
		took = ldisc_output(t, buf, (size_t)n);
		done += (ssize_t)took;
		if (took < (size_t)n) {
			uio_back(io, (size_t)n - took);
			break;
		}
	}
	return done || io->left == 0 ? done : -EAGAIN;
}

static unsigned slave_poll(struct file *f, struct poll_reg *reg)
{
	struct tty *t = f->priv;
	unsigned r = 0, min = t->t.cc[VTIME] == 0 ? t->t.cc[VMIN] : 1;

	poll_wait(reg, &t->slave_wait);
	if (t->hung_up)
		return POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDNORM | POLLWRNORM;
	/* A blocked reader is woken by every byte: VMIN and VTIME are its own business. */
	if (ldisc_readable(t, reg && reg->task && reg->task->call.nr == 0 ? 1 : min))
		r |= POLLIN | POLLRDNORM;
	if (t->masters == 0)
		r |= POLLHUP;
	if (!t->stopped && t->out_len < TTY_OUTPUT_MAX / 2)
		r |= POLLOUT | POLLWRNORM;
	return r;
}

static void slave_release(struct file *f)
{
	struct tty *t = f->priv;

	if (!t)
		return;
	if (--t->slaves == 0) {
		t->excl = false;
		wait_wake(&t->master_wait, 0);
	}
	tty_unref(t);
}

/* Master */

static ssize_t master_packet(struct tty *t, struct uio *io)
{
	uint8_t news = t->packet_news;

	if (news) {
		t->packet_news = 0;
		return uio_out(io, &news, 1);
	}
	return uio_out(io, "", 1); /* TIOCPKT_DATA, then the bytes */
}

static ssize_t master_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct tty *t = f->priv;
	bool was_full = t->out_len >= TTY_OUTPUT_MAX / 2;
	ssize_t done = 0, r;

	if (io->left == 0)
		return 0;
	if (t->out_len == 0 && !(t->packet && t->packet_news)) {
		if (t->slave_seen && t->slaves == 0)
			return -EIO;
		return -EAGAIN;
	}
	if (t->packet) {
		bool data = t->packet_news == 0;

		r = master_packet(t, io);
		if (r < 0 || !data)
			return r;
		done = r;
	}
	while (io->left > 0 && t->out_len > 0) {
		uint8_t buf[STEP];
		size_t n = out_take(t, buf, io->left < STEP ? io->left : STEP);

		r = uio_out(io, buf, n);
		if (r < 0)
			return done ? done : r;
		done += r;
	}
	if (was_full && t->out_len < TTY_OUTPUT_MAX / 2)
		wait_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
	return done;
}

static ssize_t master_write(struct file *f, struct uio *io, int64_t *pos)
{
	struct tty *t = f->priv;
	ssize_t done = 0;

	if (t->slave_seen && t->slaves == 0 && t->hung_up)
		return -EIO;
	while (io->left > 0 && ldisc_room(t)) {
		uint8_t buf[STEP];
		ssize_t n = uio_in(io, buf, io->left < STEP ? io->left : STEP);
		size_t took;

		if (n < 0)
			return done ? done : n;
		took = ldisc_input(t, buf, (size_t)n);
		done += (ssize_t)took;
		if (took < (size_t)n) {
			uio_back(io, (size_t)n - took);
			break;
		}
	}
	return done || io->left == 0 ? done : -EAGAIN;
}

static unsigned master_poll(struct file *f, struct poll_reg *reg)
{
	struct tty *t = f->priv;
	unsigned r = 0;

	poll_wait(reg, &t->master_wait);
	if (t->out_len > 0)
		r |= POLLIN | POLLRDNORM;
	if (t->packet && t->packet_news)
		r |= POLLIN | POLLRDNORM | POLLPRI;
	if (t->slave_seen && t->slaves == 0)
		r |= POLLHUP;
	if (ldisc_room(t))
		r |= POLLOUT | POLLWRNORM;
	return r;
}

static void master_release(struct file *f)
{
	struct tty *t = f->priv;

	if (!t)
		return;
	t->masters = 0;
	pts_remove(t->k, t->n);
	tty_hangup(t);
	tty_unref(t);
}

static int slave_show(struct file *f, char *buf, size_t cap)
{
	struct tty *t = f->priv;

	return str_fmt(buf, cap, "/dev/pts/%u", t->n);
}

const struct file_ops tty_slave_ops = {
	.name = "tty",
	.flags = FILE_STREAM,
	.read = slave_read,
	.write = slave_write,
	.poll = slave_poll,
	.ioctl = tty_ioctl,
	.release = slave_release,
	.show = slave_show,
	.walk = tty_file_walk,
};

const struct file_ops tty_master_ops = {
	.name = "ptmx",
	.flags = FILE_STREAM,
	.read = master_read,
	.write = master_write,
	.poll = master_poll,
	.ioctl = tty_ioctl,
	.release = master_release,
	.walk = tty_file_walk,
};
