/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/async.c - O_ASYNC: a signal when a file becomes ready.
 *
 * Owns:  file.async_entry.
 * Rules: who is told was said by F_SETOWN, and with whose rights then. Nobody is told who could not
 *        be signalled.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"

/* As kill(2) asks, with the rights of whoever said F_SETOWN. */
static bool may_tell(const struct file *f, const struct proc *p)
{
	const struct task *t = p->tasks;

	if (!t)
		return false;
	return f->owner_euid == 0 || f->owner_euid == t->cred->suid ||
	       f->owner_euid == t->cred->uid || f->owner_uid == t->cred->suid ||
	       f->owner_uid == t->cred->uid;
}

static void tell_owner(struct file *f, int sig, const union gsiginfo *info)
{
	struct task *t;
	struct pgrp *g;

	if (f->owner_type == 2) {
		g = f->owner_pid ? pgrp_find(f->k, f->owner_pid) : NULL;
		for (struct proc *p = g ? g->members : NULL, *next; p; p = next) {
			next = p->pgrp_next;
			if (may_tell(f, p))
				signal_send_proc(p, sig, info);
		}
		return;
	}
	t = f->owner_pid ? task_find(f->k, f->owner_pid) : NULL;
	if (!t || !may_tell(f, t->proc))
		return;
	if (f->owner_type == 0)
		signal_send_task(t, sig, info);
	else
		signal_send_proc(t->proc, sig, info);
}

void file_signal(struct file *f, unsigned events)
{
	int sig = f->owner_sig ? f->owner_sig : SIGIO;
	union gsiginfo info = { .signo = sig, .code = events & POLLOUT ? POLL_OUT : POLL_IN };

	/* Only who asked for a signal of its own is told which file it was. */
	info.poll.band = events & POLLOUT ? POLLOUT | POLLWRNORM : POLLIN | POLLRDNORM;
	info.poll.fd = f->owner_fd;
	tell_owner(f, sig, f->owner_sig ? &info : NULL);
}

void file_signal_change(struct file *f, int fd)
{
	int sig = f->owner_sig ? f->owner_sig : SIGIO;
	union gsiginfo info = { .signo = sig, .code = POLL_MSG };

	info.poll.band = POLLIN | POLLRDNORM | POLLMSG;
	info.poll.fd = fd;
	tell_owner(f, sig, f->owner_sig ? &info : NULL);
}

void file_signal_urgent(struct file *f)
{
	tell_owner(f, SIGURG, NULL);
}

static void on_ready(struct wait_entry *e, unsigned events)
{
	file_signal((struct file *)((char *)e - offsetof(struct file, async_entry)), events);
}

struct async_reg {
	struct poll_reg reg;
	struct file *file;
};

static int add_file(struct poll_reg *reg, struct wait_queue *q)
{
	struct file *f = ((struct async_reg *)reg)->file;

	if (!f->async_entry.q) /* one is enough: the first is the one for reading */
		wait_add(q, &f->async_entry);
	return 0;
}

void file_set_async(struct file *f, int fd)
{
	struct async_reg reg = { .reg = { .add = add_file }, .file = f };

	wait_remove(&f->async_entry);
	if (!(f->flags & O_ASYNC) || !f->ops->poll)
		return;
	f->owner_fd = fd;
	f->async_entry.fn = on_ready;
	f->async_entry.events =
		(file_readable(f) ? POLLIN : 0u) | (file_writable(f) ? POLLOUT : 0u);
	f->ops->poll(f, &reg.reg);
}
