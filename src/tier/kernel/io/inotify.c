/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/inotify.c - changes of files, read from a descriptor.
 *
 * Owns:  struct inotify, its watches and events; inode->watches.
 * Rules: a watch holds its inode. It goes with inotify_rm_watch, with the descriptor, after its
 *        one event (IN_ONESHOT), or when the inode's last name is gone. Each but the second says
 *        IN_IGNORED.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tier/kernel/io/inotify.h"

#include "base/buf.h"
#include "base/ckd.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/walk.h"

#ifndef IN_MASK_CREATE
#define IN_MASK_CREATE 0x10000000
#endif

enum { NAME_ALIGN = 16 };

struct event {
	struct event *next;
	int32_t wd;
	uint32_t mask, cookie, name_len; /* with the NUL and padding; 0: no name */
	char name[];
};

struct watch_on {
	struct inotify *in; /* NULL: F_NOTIFY's */
	struct file *dir;   /* F_NOTIFY's: the directory, which has this in file.dnotify */
	int dir_fd;
	struct inode *inode; /* reference */
	int32_t wd;
	uint32_t mask;
	struct watch_on *next;       /* of the descriptor */
	struct watch_on *inode_next; /* of the inode */
};

struct inotify {
	struct kernel *k;
	struct watch_on *watches;
	struct event *first, *last;
	uint32_t count, bytes;
	int32_t last_wd;
	bool overflowed;
	struct wait_queue wait;
};

static uint32_t event_bytes(const struct event *e)
{
	return (uint32_t)sizeof(struct inotify_event) + e->name_len;
}

static bool same_event(
	const struct event *a, int32_t wd, uint32_t mask, uint32_t cookie, const char *name)
{
	return a && a->wd == wd && a->mask == mask && a->cookie == cookie &&
	       strcmp(a->name_len ? a->name : "", name ? name : "") == 0;
}

static void queue_event(
	struct inotify *in, int32_t wd, uint32_t mask, uint32_t cookie, const char *name)
{
	size_t len = name ? strlen(name) + 1 : 0;
	struct event *e;

	if (same_event(in->last, wd, mask, cookie, name) && !(mask & IN_IGNORED))
		return; /* said already, and nobody has listened yet */
	if (in->count >= INOTIFY_QUEUE_MAX) {
		if (in->overflowed)
			return;
		in->overflowed = true;
		wd = -1;
		mask = IN_Q_OVERFLOW;
		cookie = 0;
		len = 0;
	}
	len = (len + NAME_ALIGN - 1) / NAME_ALIGN * NAME_ALIGN;
	e = calloc(1, sizeof(*e) + len);
	if (!e)
		return;
	e->wd = wd;
	e->mask = mask;
	e->cookie = cookie;
	e->name_len = (uint32_t)len;
	if (len)
		memcpy(e->name, name, strlen(name));
	if (in->last)
		in->last->next = e;
	else
		in->first = e;
	in->last = e;
	in->count++;
	in->bytes += event_bytes(e);
	wait_wake(&in->wait, POLLIN | POLLRDNORM);
}

static void watch_free(struct watch_on *w)
{
	struct kernel *k = w->in ? w->in->k : w->dir->k;
	struct watch_on **p;

	if (w->in) {
		for (p = &w->in->watches; *p != w; p = &(*p)->next)
			;
		*p = w->next;
	} else {
		w->dir->dnotify = NULL;
	}
	for (p = (struct watch_on **)&w->inode->watches; *p != w; p = &(*p)->inode_next)
		;
	*p = w->inode_next;
	io_state(k)->inotify_watches--;
	inode_unref(w->inode);
	free(w);
}

static void tell(struct watch_on *w, uint32_t mask, uint32_t cookie, const char *name)
{
	if (w->in)
		queue_event(w->in, w->wd, mask, cookie, name);
	else if (!(mask & (IN_IGNORED | IN_UNMOUNT)))
		file_signal_change(w->dir, w->dir_fd);
}

static void watch_gone(struct watch_on *w)
{
	tell(w, IN_IGNORED, 0, NULL);
	watch_free(w);
}

static void on_change(
	struct kernel *k, struct inode *i, uint32_t mask, uint32_t cookie, const char *name)
{
	bool unlinked = mask & NOTIFY_UNLINKED;
	struct watch_on *next;

	mask &= ~(uint32_t)NOTIFY_UNLINKED;
	inode_ref(i); /* the last watch may hold the last reference */
	for (struct watch_on *w = i->watches; w; w = next) {
		next = w->inode_next;
		if (unlinked && (w->mask & IN_EXCL_UNLINK))
			continue;
		if (mask & w->mask & (IN_ALL_EVENTS | (w->in ? 0 : (uint32_t)NOTIFY_RENAMED))) {
			uint32_t say = mask;

			/* About itself, a watch does not say that it is a directory for these two.
			 */
			if (mask & (IN_DELETE_SELF | IN_MOVE_SELF))
				say &= ~(uint32_t)IN_ISDIR;
			tell(w, say, cookie, name);
			if (w->mask & IN_ONESHOT) {
				watch_gone(w);
				continue;
			}
		}
		if (mask & IN_DELETE_SELF)
			watch_gone(w);
	}
	inode_unref(i);
}

static void on_unmount(struct inode *i)
{
	inode_ref(i);
	while (i->watches) {
		struct watch_on *w = i->watches;

		tell(w, IN_UNMOUNT, 0, NULL);
		watch_gone(w);
	}
	inode_unref(i);
}

static const struct notify_ops notify_ops = { .event = on_change, .unmount = on_unmount };

/* From now on each read and close counts, also those that were done unseen. */
static void heard(struct kernel *k)
{
	if (!k->notify)
		answers_take_back(k);
	k->notify = &notify_ops;
}

int inotify_check(const struct file *f)
{
	return f->ops == &inotify_ops ? 0 : -EINVAL;
}

int inotify_add(struct file *f, struct inode *i, uint32_t mask)
{
	struct inotify *in = f->priv;
	struct io_state *io = io_state(f->k);
	struct watch_on *w;

	if (f->ops != &inotify_ops)
		return -EINVAL;
	for (w = i->watches; w && w->in != in; w = w->inode_next)
		;
	if (w) {
		if (mask & IN_MASK_CREATE)
			return -EEXIST;
		w->mask = (mask & IN_MASK_ADD ? w->mask : 0) | (mask & ~(uint32_t)IN_MASK_ADD);
		return w->wd;
	}
	if (io->inotify_watches >= INOTIFY_WATCHES_MAX || in->last_wd == INT32_MAX)
		return -ENOSPC;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct watch_on){ .in = in,
		.inode = inode_ref(i),
		.wd = ++in->last_wd,
		.mask = mask,
		.next = in->watches,
		.inode_next = i->watches };
	in->watches = w;
	i->watches = w;
	io->inotify_watches++;
	heard(f->k);
	return w->wd;
}

/* F_NOTIFY's words in inotify's. */
static uint32_t dnotify_mask(uint32_t arg)
{
	static const uint32_t events[] = { IN_ACCESS, IN_MODIFY, IN_CREATE | IN_MOVED_TO,
		IN_DELETE | IN_MOVED_FROM, NOTIFY_RENAMED, IN_ATTRIB };
	uint32_t mask = arg & DN_MULTISHOT ? 0 : IN_ONESHOT;

	for (unsigned i = 0; i < ARRAY_LEN(events); i++)
		mask |= arg & 1U << i ? events[i] : 0;
	return mask;
}

int dnotify_set(struct file *f, int fd, uint32_t arg)
{
	struct io_state *io = io_state(f->k);
	struct watch_on *w = f->dnotify;
	uint32_t mask = dnotify_mask(arg);

	if (!S_ISDIR(f->inode->mode))
		return -ENOTDIR;
	if (!(arg & ~(uint32_t)DN_MULTISHOT)) {
		dnotify_forget(f);
		return 0;
	}
	if (w) { /* once more often is enough for all that it has asked for */
		w->mask = (w->mask | mask) & ~(uint32_t)(mask & IN_ONESHOT ? 0 : IN_ONESHOT);
		w->dir_fd = fd;
		return 0;
	}
	w = io && io->inotify_watches < INOTIFY_WATCHES_MAX ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		return -ENOMEM;
	*w = (struct watch_on){ .dir = f,
		.dir_fd = fd,
		.inode = inode_ref(f->inode),
		.mask = mask,
		.inode_next = f->inode->watches };
	f->inode->watches = f->dnotify = w;
	io->inotify_watches++;
	heard(f->k);
	return 0;
}

void dnotify_forget(struct file *f)
{
	if (f->dnotify)
		watch_free(f->dnotify);
}

void dnotify_walk(struct file *f, struct walk *w)
{
	struct watch_on *x = f->dnotify;
	int32_t fd = x ? x->dir_fd : 0;
	uint32_t mask = x ? x->mask : 0;
	bool any = x != NULL;

	walk_bool(w, "dnotify", &any);
	if (!any || w->err)
		return;
	walk_i32(w, "dir_fd", &fd);
	walk_u32(w, "mask", &mask);
	if (w->mode == WALK_SAVE || w->err)
		return;
	if (dnotify_set(f, fd, 1) < 0)
		walk_fail(w, -EBADMSG);
	else
		((struct watch_on *)f->dnotify)->mask = mask;
}

int inotify_remove(struct file *f, int32_t wd)
{
	struct inotify *in = f->priv;
	struct watch_on *w;

	if (f->ops != &inotify_ops)
		return -EINVAL;
	for (w = in->watches; w && w->wd != wd; w = w->next)
		;
	if (!w)
		return -EINVAL;
	watch_gone(w);
	return 0;
}

static ssize_t inotify_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct inotify *in = f->priv;
	ssize_t done = 0;

	if (!in->first)
		return -EAGAIN;
	while (in->first && event_bytes(in->first) <= io->left) {
		struct event *e = in->first;
		struct inotify_event h = {
			.wd = e->wd, .mask = e->mask, .cookie = e->cookie, .len = e->name_len
		};

		if (uio_out(io, &h, sizeof(h)) < (ssize_t)sizeof(h) ||
			(e->name_len && uio_out(io, e->name, e->name_len) < (ssize_t)e->name_len))
			return done ? done : -EFAULT;
		done += event_bytes(e);
		in->first = e->next;
		if (!in->first)
			in->last = NULL;
		in->count--;
		in->bytes -= event_bytes(e);
		if (e->mask & IN_Q_OVERFLOW)
			in->overflowed = false;
		free(e);
	}
	return done ? done : -EINVAL;
}

static unsigned inotify_poll(struct file *f, struct poll_reg *reg)
{
	struct inotify *in = f->priv;

	poll_wait(reg, &in->wait);
	return in->first ? POLLIN | POLLRDNORM : 0;
}

static long inotify_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	struct inotify *in = f->priv;

	return cmd == FIONREAD ? guest_write_u32(t, GVA(arg), in->bytes) : -ENOTTY;
}

static void inotify_release(struct file *f)
{
	struct inotify *in = f->priv;

	while (in->watches)
		watch_free(in->watches);
	while (in->first) {
		struct event *e = in->first;

		in->first = e->next;
		free(e);
	}
	wait_flush(&in->wait);
	io_state(f->k)->inotify_instances--;
	free(in);
}

void inotify_show_watches(const struct file *f, struct buf *out)
{
	const struct inotify *in = f->priv;

	if (f->ops != &inotify_ops)
		return;
	for (const struct watch_on *w = in->watches; w; w = w->next)
		buf_add_fmt(out, "inotify wd:%x ino:%llx sdev:%llx mask:%x ignored_mask:0\n",
			(unsigned)w->wd, (unsigned long long)w->inode->ino,
			(unsigned long long)(w->inode->sb ? w->inode->sb->dev : 0), w->mask);
}

static void events_walk(struct inotify *in, struct walk *w)
{
	uint32_t n = in->count;
	struct event *e = in->first;

	walk_list(w, "events", &n, INOTIFY_QUEUE_MAX + 1);
	for (; n > 0 && !w->err; n--) {
		uint32_t mask = e ? e->mask : 0, cookie = e ? e->cookie : 0;
		int32_t wd = e ? e->wd : 0;
		char *name = e && e->name_len ? e->name : NULL;

		walk_i32(w, "wd", &wd);
		walk_u32(w, "mask", &mask);
		walk_u32(w, "cookie", &cookie);
		walk_str(w, "name", &name);
		if (w->mode == WALK_LOAD) {
			if (name && strlen(name) > GUEST_NAME_MAX)
				walk_fail(w, -EBADMSG);
			if (!w->err)
				queue_event(in, wd, mask, cookie, name);
			free(name);
		} else {
			e = e->next;
		}
	}
}

/* The oldest first: each new one comes in front. */
static struct watch_on *watch_before(struct inotify *in, const struct watch_on *next)
{
	struct watch_on *x = in->watches;

	while (x && x->next != next)
		x = x->next;
	return x;
}

static void watches_walk(struct file *f, struct walk *w)
{
	struct inotify *in = f->priv;
	struct watch_on *x = NULL;
	uint32_t n = 0;

	for (x = in->watches; x; x = x->next)
		n++;
	walk_list(w, "watches", &n, INOTIFY_WATCHES_MAX);
	for (; n > 0 && !w->err; n--) {
		struct inode *i = NULL;
		uint32_t mask = 0;
		int32_t wd = 0;

		if (w->mode == WALK_SAVE) {
			x = watch_before(in, x);
			i = x->inode;
			mask = x->mask;
			wd = x->wd;
		}
		walk_need(w, "inode", WALK_INODE, (void **)&i);
		walk_i32(w, "wd", &wd);
		walk_u32(w, "mask", &mask);
		if (wd < 1)
			walk_fail(w, -EBADMSG);
		if (w->mode == WALK_LOAD && !w->err) {
			in->last_wd = wd - 1;
			if (inotify_add(f, i, mask) != wd)
				walk_fail(w, -EBADMSG);
		}
	}
}

static void inotify_walk(struct file *f, struct walk *w)
{
	struct io_state *io = io_state(f->k);
	struct inotify *in = f->priv;

	if (!in) {
		in = io && io->inotify_instances < INOTIFY_INSTANCES_MAX ? calloc(1, sizeof(*in))
									 : NULL;
		if (!in) {
			walk_fail(w, -ENOMEM);
			return;
		}
		f->priv = in;
		in->k = f->k;
		io->inotify_instances++;
	}
	watches_walk(f, w);
	walk_i32(w, "last_wd", &in->last_wd);
	if (in->last_wd < 0)
		walk_fail(w, -EBADMSG);
	events_walk(in, w);
	walk_bool(w, "overflowed", &in->overflowed);
}

void inotify_each(const struct file *f, void (*fn)(void *arg, struct inode *i), void *arg)
{
	const struct inotify *in = f->ops == &inotify_ops ? f->priv : NULL;

	for (struct watch_on *x = in ? in->watches : NULL; x; x = x->next)
		fn(arg, x->inode);
}

const struct file_ops inotify_ops = {
	.name = "inotify",
	.flags = FILE_STREAM | FILE_NO_SPLICE,
	.read = inotify_read,
	.poll = inotify_poll,
	.ioctl = inotify_ioctl,
	.lseek = io_no_seek,
	.release = inotify_release,
	.walk = inotify_walk,
};

struct file *inotify_create(struct kernel *k, unsigned flags, int *ret_err)
{
	struct io_state *io = io_state(k);
	struct inotify *in;
	struct file *f;

	*ret_err = -EMFILE;
	if (!io || io->inotify_instances >= INOTIFY_INSTANCES_MAX)
		return NULL;
	*ret_err = -ENOMEM;
	in = calloc(1, sizeof(*in));
	if (!in)
		return NULL;
	in->k = k;
	f = io_file(k, &inotify_ops, O_RDONLY | (flags & O_NONBLOCK), 0600, in);
	if (!f) {
		free(in);
		return NULL;
	}
	io->inotify_instances++;
	return f;
}
