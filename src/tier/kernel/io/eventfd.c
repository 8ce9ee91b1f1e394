/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/eventfd.c - a counter behind a descriptor.
 *
 * Owns:  struct eventfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "tier/kernel/io/event.h"

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

struct eventfd {
	uint64_t count;
	bool semaphore;
	struct wait_queue wait;
};

static ssize_t event_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct eventfd *e = f->priv;
	uint64_t v;
	ssize_t r;

	if (io->left < sizeof(v))
		return -EINVAL;
	if (e->count == 0)
		return -EAGAIN;
	v = e->semaphore ? 1 : e->count;
	e->count -= v;
	wait_wake(&e->wait, POLLOUT);
	r = uio_out(io, &v, sizeof(v));
	return r < (ssize_t)sizeof(v) ? -EFAULT : r;
}

static ssize_t event_write(struct file *f, struct uio *io, int64_t *pos)
{
	struct eventfd *e = f->priv;
	uint64_t v;
	ssize_t r;

	if (io->left < sizeof(v) || (io->count == 1 && io->left > sizeof(v)))
		return -EINVAL;
	r = uio_in(io, &v, sizeof(v));
	if (r < (ssize_t)sizeof(v))
		return -EFAULT;
	if (v == UINT64_MAX)
		return -EINVAL;
	if (UINT64_MAX - e->count <= v) {
		uio_back(io, sizeof(v));
		return -EAGAIN;
	}
	e->count += v;
	wait_wake(&e->wait, POLLIN);
	return sizeof(v);
}

static unsigned eventfd_poll(struct file *f, struct poll_reg *reg)
{
	struct eventfd *e = f->priv;

	poll_wait(reg, &e->wait);
	return (e->count > 0 ? POLLIN : 0) | (e->count == UINT64_MAX ? POLLERR : 0) |
	       (e->count < UINT64_MAX - 1 ? POLLOUT : 0);
}

static void eventfd_release(struct file *f)
{
	struct eventfd *e = f->priv;

	wait_flush(&e->wait);
	free(e);
}

static void eventfd_walk(struct file *f, struct walk *w)
{
	struct eventfd *e = f->priv;

	if (!e)
		e = f->priv = calloc(1, sizeof(*e));
	if (!e) {
		w->err = -ENOMEM;
		return;
	}
	walk_u64(w, "count", &e->count);
	walk_bool(w, "semaphore", &e->semaphore);
}

const struct file_ops eventfd_ops = {
	.name = "[eventfd]",
	.flags = FILE_STREAM | FILE_NO_PARTIAL | FILE_NO_SPLICE,
	.read = event_read,
	.write = event_write,
	.poll = eventfd_poll,
	.lseek = io_no_seek,
	.release = eventfd_release,
	.walk = eventfd_walk,
};

bool file_is_eventfd(const struct file *f)
{
	return f->ops == &eventfd_ops;
}

void eventfd_add(struct file *f, uint64_t n)
{
	struct eventfd *e = f->priv;
	uint64_t room = UINT64_MAX - e->count;

	e->count += n < room ? n : room;
	wait_wake(&e->wait, POLLIN);
}

struct file *eventfd_create(struct kernel *k, uint32_t count, unsigned flags)
{
	struct eventfd *e = calloc(1, sizeof(*e));
	struct file *f;

	if (!e)
		return NULL;
	e->count = count;
	e->semaphore = flags & EFD_SEMAPHORE;
	f = io_file(k, &eventfd_ops, O_RDWR | (flags & O_NONBLOCK), 0600, e);
	if (!f)
		free(e);
	return f;
}
