/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/signalfd.c - pending signals read from a descriptor.
 *
 * Owns:  struct signalfd: a mask. The signals are those of whoever reads, not of who made it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "tier/kernel/io/event.h"

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

struct signalfd {
	gsigset_t mask;
};

static void show_info(const union gsiginfo *i, struct signalfd_siginfo *s)
{
	memset(s, 0, sizeof(*s));
	s->ssi_signo = (uint32_t)i->signo;
	s->ssi_errno = i->err;
	s->ssi_code = i->code;
	if (i->code == SI_TIMER) {
		s->ssi_tid = (uint32_t)i->timer.tid;
		s->ssi_overrun = (uint32_t)i->timer.overrun;
		s->ssi_ptr = i->timer.value;
		s->ssi_int = (int32_t)i->timer.value;
	} else if (i->code <= 0 || i->code == SI_KERNEL) {
		s->ssi_pid = (uint32_t)i->kill.pid;
		s->ssi_uid = i->kill.uid;
		if (i->code != SI_USER && i->code != SI_KERNEL) {
			s->ssi_ptr = i->kill.value;
			s->ssi_int = (int32_t)i->kill.value;
		}
	} else if (i->signo == SIGCHLD) {
		s->ssi_pid = (uint32_t)i->chld.pid;
		s->ssi_uid = i->chld.uid;
		s->ssi_status = i->chld.status;
		s->ssi_utime = (uint64_t)i->chld.utime;
		s->ssi_stime = (uint64_t)i->chld.stime;
	} else if (i->signo == SIGPOLL) {
		s->ssi_band = (uint32_t)i->poll.band;
		s->ssi_fd = i->poll.fd;
	} else {
		s->ssi_addr = i->fault.addr;
		s->ssi_addr_lsb = (uint16_t)i->fault.lsb;
	}
}

static ssize_t signalfd_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct signalfd *s = f->priv;
	ssize_t done = 0;

	if (io->left < sizeof(struct signalfd_siginfo))
		return -EINVAL;
	if (!io->task)
		return -EAGAIN;
	while (io->left >= sizeof(struct signalfd_siginfo)) {
		struct signalfd_siginfo out;
		union gsiginfo in;

		if (signal_take(io->task, s->mask, &in) <= 0)
			break;
		show_info(&in, &out);
		if (uio_out(io, &out, sizeof(out)) < (ssize_t)sizeof(out))
			return done ? done : -EFAULT;
		done += (ssize_t)sizeof(out);
	}
	return done ? done : -EAGAIN;
}

static unsigned signalfd_poll(struct file *f, struct poll_reg *reg)
{
	struct signalfd *s = f->priv;

	if (!reg || !reg->task)
		return 0;
	poll_wait(reg, signal_queue(reg->task));
	return signal_set(reg->task) & s->mask ? POLLIN : 0;
}

static void signalfd_release(struct file *f)
{
	free(f->priv);
}

static gsigset_t usable(gsigset_t mask)
{
	return mask & ~(GSIG_BIT(SIGKILL) | GSIG_BIT(SIGSTOP));
}

static void signalfd_walk(struct file *f, struct walk *w)
{
	struct signalfd *s = f->priv;

	if (!s)
		s = f->priv = calloc(1, sizeof(*s));
	if (!s) {
		w->err = -ENOMEM;
		return;
	}
	walk_u64(w, "mask", &s->mask);
	s->mask = usable(s->mask);
}

const struct file_ops signalfd_ops = {
	.name = "[signalfd]",
	.flags = FILE_STREAM | FILE_NO_SPLICE,
	.read = signalfd_read,
	.poll = signalfd_poll,
	.lseek = io_no_seek,
	.release = signalfd_release,
	.walk = signalfd_walk,
};

struct file *signalfd_create(struct kernel *k, gsigset_t mask, unsigned flags)
{
	struct signalfd *s = calloc(1, sizeof(*s));
	struct file *f;

	if (!s)
		return NULL;
	s->mask = usable(mask);
	f = io_file(k, &signalfd_ops, O_RDWR | (flags & O_NONBLOCK), 0600, s);
	if (!f)
		free(s);
	return f;
}

int signalfd_set(struct file *f, gsigset_t mask)
{
	struct signalfd *s = f->priv;

	if (f->ops != &signalfd_ops)
		return -EINVAL;
	s->mask = usable(mask);
	return 0;
}
