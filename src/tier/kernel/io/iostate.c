/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/iostate.c - what the files of this folder share.
 *
 * Owns:  kernel.io: the counts that limits are checked against.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "tier/kernel/io/iostate.h"

#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

struct io_state *io_state(struct kernel *k)
{
	if (!k->io)
		k->io = calloc(1, sizeof(*k->io));
	return k->io;
}

void io_done(struct kernel *k)
{
	ipc_done(k);
	tty_done(k);
	sock_done(k);
	free(k->io);
	k->io = NULL;
}

struct file *io_file(
	struct kernel *k, const struct file_ops *ops, unsigned flags, uint32_t mode, void *priv)
{
	struct inode *i = inode_anon(k, mode);

	return i ? file_create(k, ops, flags, i, priv) : NULL;
}

int64_t io_no_seek(struct file *f, int64_t off, int whence)
{
	return f->pos;
}

long io_install(struct task *t, struct file *f, bool cloexec)
{
	int fd;

	if (!f)
		return -ENFILE;
	fd = fd_install(t, f, cloexec, 0);
	if (fd < 0)
		file_unref(f);
	return fd;
}

static int add_nothing(struct poll_reg *reg, struct wait_queue *q)
{
	return 0;
}

unsigned io_poll_state(struct file *f, struct task *t)
{
	/* Not NULL: signalfd's answer depends on who asks. */
	struct poll_reg reg = { .add = add_nothing, .task = t };

	return f->ops->poll ? f->ops->poll(f, &reg) : POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
}

void wait_flush(struct wait_queue *q)
{
	while (q->first) {
		struct wait_entry *e = q->first;
		struct task *t = e->task;

		wait_remove(e);
		if (t)
			wait_rouse(t);
	}
}
