/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/pidfd.c - a process as a descriptor.
 *
 * Owns:  struct pidfd.
 * Rules: holds a number and the process's birth, not the process: one that has been reaped is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "base/str.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/walk.h"

struct pidfd {
	int32_t pid;
	int64_t born;
};

static struct proc *proc_of(struct file *f)
{
	struct pidfd *d = f->priv;
	struct proc *p = proc_find(f->k, d->pid);

	return p && p->start_ns == d->born ? p : NULL;
}

static unsigned pidfd_poll(struct file *f, struct poll_reg *reg)
{
	struct proc *p = proc_of(f);

	if (!p)
		return POLLIN | POLLHUP;
	poll_wait(reg, &p->exit_queue);
	return p->state == PROC_ZOMBIE ? POLLIN : 0;
}

static void pidfd_release(struct file *f)
{
	free(f->priv);
}

static int pidfd_show(struct file *f, char *buf, size_t cap)
{
	return str_copy(buf, cap, "anon_inode:[pidfd]");
}

static void pidfd_walk(struct file *f, struct walk *w)
{
	struct pidfd *d = f->priv;

	if (!d)
		d = f->priv = calloc(1, sizeof(*d));
	if (!d) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_i32(w, "pid", &d->pid);
	walk_past(w, "born", &d->born);
}

const struct file_ops pidfd_ops = {
	.name = "pidfd",
	.flags = FILE_STREAM,
	.poll = pidfd_poll,
	.release = pidfd_release,
	.show = pidfd_show,
	.walk = pidfd_walk,
};

int pidfd_install(struct task *t, struct proc *p, unsigned flags)
{
	struct pidfd *d = calloc(1, sizeof(*d));
	struct inode *i = inode_anon(t->k, 0600);
	struct file *f = d && i ? file_create(t->k, &pidfd_ops, 2 | flags, i, d) : NULL;
	int fd;

	if (!f) {
		free(d);
		inode_unref(i);
		return -ENOMEM;
	}
	d->pid = p->pid;
	d->born = p->start_ns;
	fd = fd_install(t, f, true, 0);
	if (fd < 0)
		file_unref(f);
	return fd;
}

int32_t pidfd_pid(struct task *t, int fd)
{
	struct file *f = fd_get(t, fd);
	struct proc *p;

	if (!f || f->ops != &pidfd_ops)
		return -EBADF;
	p = proc_of(f);
	return p ? p->pid : -ESRCH;
}

int32_t pidfd_signal_pid(struct task *t, int fd)
{
	struct file *f = fd_get(t, fd);
	int32_t pid = f ? proc_dir_pid(f) : 0;

	return pid ? pid : pidfd_pid(t, fd);
}

bool pidfd_is_nonblocking(struct task *t, int fd)
{
	struct file *f = fd_get(t, fd);

	return f && (f->flags & O_NONBLOCK);
}
