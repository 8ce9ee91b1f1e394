/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/file.c - open files, and the one place where a transfer blocks.
 *
 * Owns:  struct file from create to the last reference.
 * Rules: under the kernel lock; operations never wait, this file does.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/inotify.h>

#include "base/ckd.h"
#include "tier/kernel/io/epoll.h"
#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/io/inotify.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/lease.h"
#include "tier/kernel/vfs/lock.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/vfs/vfs.h"

struct file *file_create(struct kernel *k, const struct file_ops *ops, unsigned flags,
	struct inode *inode, void *priv)
{
	struct file *f = k->file_count < GUEST_FILES_MAX ? calloc(1, sizeof(*f)) : NULL;

	if (!f)
		return NULL;
	k->file_count++;
	f->refs = 1;
	f->ops = ops;
	f->k = k;
	f->flags = flags;
	f->inode = inode;
	f->priv = priv;
	return f;
}

struct file *file_ref(struct file *f)
{
	f->refs++;
	return f;
}

void file_unref(struct file *f)
{
	if (!f || --f->refs)
		return;
	wait_remove(&f->async_entry);
	if (f->epolls)
		epoll_forget(f);
	if (f->dnotify)
		dnotify_forget(f);
	if (f->inode->leases)
		leases_release(f);
	if (f->inode->locks)
		locks_release(f);
	if (f->flags & FILE_RUNS)
		f->inode->writers++;
	if (f->path.dentry && !(f->flags & O_PATH))
		notify_file(f, file_writable(f) ? IN_CLOSE_WRITE : IN_CLOSE_NOWRITE);
	if (f->ops && f->ops->release)
		f->ops->release(f);
	if (f->counted) {
		f->inode->opens--;
		f->inode->write_opens -= file_writable(f);
		f->path.mnt->writers -= file_writable(f);
	}
	if (f->path.dentry)
		path_unref(f->path);
	inode_unref(f->inode);
	cred_unref(f->cred);
	f->k->file_count--;
	free(f);
}

void file_hold(struct task *t, struct file *f)
{
	struct call *c = &t->call;

	if (c->held)
		return;
	for (unsigned i = 0; i < ARRAY_LEN(c->args); i++) {
		if (fd_get(t, (int)c->args[i]) == f) {
			c->held = file_ref(f);
			c->held_fd = (int)c->args[i];
			return;
		}
	}
}

void file_let_go(struct task *t)
{
	struct file *f = t->call.held;

	t->call.held = NULL;
	file_unref(f);
}

long file_wait(struct task *t, struct file *f, unsigned events)
{
	struct poll_reg reg;
	long r;

	poll_reg_task(&reg, t, events);
	if (f->ops->poll)
		f->ops->poll(f, &reg);
	r = wait_block(t);
	if (r == SYS_BLOCK)
		file_hold(t, f);
	return r;
}

long file_ask_read(struct task *t, struct file *f)
{
	long r;

	if (!t->k->fan || !f->path.dentry || f->quiet)
		return 0;
	r = fan_ask(t, f->path, FAN_W_ACCESS_PERM);
	if (r == SYS_BLOCK)
		file_hold(t, f);
	return r;
}

long file_read(struct task *t, struct file *f, struct uio *io, int64_t *pos)
{
	ssize_t n;

	if (!f->ops->read)
		return -EINVAL;
	n = file_ask_read(t, f);
	if (n < 0)
		return n;
	io->may_wait = true;
	n = f->ops->read(f, io, pos);
	if (n != -EAGAIN || (f->flags & O_NONBLOCK))
		return n;
	n = file_wait(t, f, POLLIN);
	return n == -ETIMEDOUT ? -EAGAIN : n; /* SO_RCVTIMEO */
}

/* What a re-entered write has done already is skipped: the caller builds the same uio again. */
static void skip_done(struct uio *io, uint64_t done)
{
	while (done && io->left) {
		uint64_t room = io->iov[io->at].len - io->skip;
		uint64_t n = room < done ? room : done;

		io->skip += n;
		io->left -= n;
		done -= n;
		if (io->skip == io->iov[io->at].len) {
			io->at++;
			io->skip = 0;
		}
	}
}

long file_write(struct task *t, struct file *f, struct uio *io, int64_t *pos)
{
	bool stream = (f->ops->flags & FILE_STREAM) && !(f->ops->flags & FILE_NO_PARTIAL);
	uint64_t *done = &t->call.done;
	long r;

	if (!f->ops->write)
		return -EINVAL;
	if (*done)
		skip_done(io, *done);
	for (;;) {
		r = f->ops->write(f, io, pos);
		if (r > 0)
			*done += (uint64_t)r;
		if (r < 0 || !stream || !io->left)
			break;
		if (r == 0)
			break;
	}
	if (r == -EAGAIN && !(f->flags & O_NONBLOCK))
		r = file_wait(t, f, POLLOUT);
	if (r == -ETIMEDOUT)
		r = -EAGAIN; /* SO_SNDTIMEO */
	if (r == SYS_BLOCK)
		return r;
	return *done ? (long)*done : r;
}

ssize_t file_kread(struct file *f, void *buf, size_t len, int64_t off)
{
	struct uio io;

	if (!f->ops->read)
		return -EINVAL;
	uio_kernel(&io, buf, len);
	return f->ops->read(f, &io, &off);
}

ssize_t file_kwrite(struct file *f, const void *buf, size_t len, int64_t off)
{
	struct uio io;

	if (!f->ops->write)
		return -EINVAL;
	uio_kernel(&io, (void *)(uintptr_t)buf, len);
	return f->ops->write(f, &io, &off);
}
