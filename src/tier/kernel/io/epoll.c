/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/epoll.c - epoll: a set of watched files, and the list of those that may be ready.
 *
 * Owns:  struct epoll and its items.
 * Rules: an item is on the ready list when its file said something since it was last looked at; it
 *        is asked again before it is reported, so being on the list too often is harmless, being
 *        off it is a lost wake-up. A level-triggered item goes back to the end of the list after it
 *        was reported. Waiting costs as much as there are ready items, however many are watched.
 *        Epolls may watch epolls: never in a ring, EPOLL_DEPTH_MAX deep, with EPOLL_PARENTS_MAX
 *        outer ones, so that one wake-up has a bounded price.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "tier/kernel/io/epoll.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

enum {
	EPOLL_PARENTS_MAX = 16,
	EPOLL_LOOK_MAX = 4096, /* nested epolls looked at while one is added */
	HASH_MIN = 16,
	PRIVATE_BITS = (int)(EPOLLWAKEUP | EPOLLONESHOT | (unsigned)EPOLLET | EPOLLEXCLUSIVE),
};

struct item_wait {
	struct wait_entry entry;
	struct epoll_item *item;
	struct item_wait *next; /* beyond the first, on the heap */
};

struct epoll_item {
	struct epoll *ep;
	struct file *file; /* no reference: epoll_forget() */
	int32_t fd;
	uint32_t events;
	uint64_t data;
	struct item_wait wait;
	bool wait_used;
	struct epoll_item *hash_next;
	struct epoll_item *prev, *next; /* ready list */
	bool ready;
	struct epoll_item *file_next; /* of file->epolls */
	struct epoll_item *kid_next;  /* of ep->kids */
};

struct epoll {
	struct kernel *k;
	struct file *file;
	struct epoll_item **hash;
	uint32_t buckets, count;
	struct epoll_item *first, *last; /* ready */
	struct epoll_item *kids;         /* items whose file is an epoll */
	uint32_t parents;
	struct wait_queue wait;  /* epoll_wait */
	struct wait_queue outer; /* poll of this epoll, and epolls around it */
};

bool file_is_epoll(const struct file *f)
{
	return f->ops == &epoll_ops;
}

static void ready_push(struct epoll *ep, struct epoll_item *it)
{
	if (it->ready)
		return;
	it->ready = true;
	it->next = NULL;
	it->prev = ep->last;
	if (ep->last)
		ep->last->next = it;
	else
		ep->first = it;
	ep->last = it;
}

static void ready_remove(struct epoll *ep, struct epoll_item *it)
{
	if (!it->ready)
		return;
	it->ready = false;
	if (it->prev)
		it->prev->next = it->next;
	else
		ep->first = it->next;
	if (it->next)
		it->next->prev = it->prev;
	else
		ep->last = it->prev;
}

static void epoll_news(struct epoll *ep)
{
	wait_wake_one(&ep->wait, POLLIN);
	wait_wake(&ep->outer, POLLIN);
}

static void on_event(struct wait_entry *e, unsigned events)
{
	struct item_wait *w = (struct item_wait *)((char *)e - offsetof(struct item_wait, entry));
	struct epoll_item *it = w->item;

	if ((it->events & ~(uint32_t)PRIVATE_BITS) == 0)
		return; /* a one-shot that was reported */
	if (events && !(events & (it->events | POLLERR | POLLHUP)))
		return;
	e->took = wait_has_idle(&it->ep->wait);
	ready_push(it->ep, it);
	epoll_news(it->ep);
}

struct item_reg {
	struct poll_reg reg;
	struct epoll_item *item;
	int err;
};

static int item_reg_add(struct poll_reg *reg, struct wait_queue *q)
{
	struct item_reg *r = (struct item_reg *)reg;
	struct epoll_item *it = r->item;
	struct item_wait *w = &it->wait;

	if (it->wait_used) {
		w = calloc(1, sizeof(*w));
		if (!w)
			return r->err = -ENOMEM;
		w->next = it->wait.next;
		it->wait.next = w;
	}
	it->wait_used = true;
	w->item = it;
	w->entry.fn = on_event;
	w->entry.exclusive = it->events & EPOLLEXCLUSIVE;
	w->entry.events = 0; /* the mask may change later: on_event() looks */
	wait_add(q, &w->entry);
	return 0;
}

static void item_unwait(struct epoll_item *it)
{
	while (it->wait.next) {
		struct item_wait *w = it->wait.next;

		it->wait.next = w->next;
		wait_remove(&w->entry);
		free(w);
	}
	wait_remove(&it->wait.entry);
	it->wait_used = false;
}

static uint32_t hash_of(const struct epoll *ep, const struct file *f, int fd)
{
	uint64_t h = ((uintptr_t)f >> 4) * 0x9e3779b97f4a7c15ULL + (uint32_t)fd * 0x85ebca6bU;

	return (uint32_t)(h >> 32) & (ep->buckets - 1);
}

static struct epoll_item *item_find(struct epoll *ep, const struct file *f, int fd)
{
	struct epoll_item *it;

	if (!ep->hash)
		return NULL;
	for (it = ep->hash[hash_of(ep, f, fd)]; it; it = it->hash_next) {
		if (it->file == f && it->fd == fd)
			return it;
	}
	return NULL;
}

static int hash_room(struct epoll *ep)
{
	uint32_t old = ep->buckets, n = old ? old * 2 : HASH_MIN;
	struct epoll_item **from = ep->hash, **to;

	if (ep->count < old)
		return 0;
	to = calloc(n, sizeof(*to));
	if (!to)
		return -ENOMEM;
	ep->hash = to;
	ep->buckets = n;
	for (uint32_t i = 0; i < old; i++) {
		while (from[i]) {
			struct epoll_item *it = from[i];
			uint32_t h = hash_of(ep, it->file, it->fd);

			from[i] = it->hash_next;
			it->hash_next = to[h];
			to[h] = it;
		}
	}
	free(from);
	return 0;
}

static void item_link(struct epoll *ep, struct epoll_item *it)
{
	uint32_t h = hash_of(ep, it->file, it->fd);

	it->hash_next = ep->hash[h];
	ep->hash[h] = it;
	ep->count++;
	io_state(ep->k)->epoll_items++;
	it->file_next = it->file->epolls;
	it->file->epolls = it;
	if (file_is_epoll(it->file)) {
		struct epoll *kid = it->file->priv;

		it->kid_next = ep->kids;
		ep->kids = it;
		kid->parents++;
	}
}

static void item_free(struct epoll_item *it)
{
	struct epoll *ep = it->ep;
	struct epoll_item **p;

	item_unwait(it);
	ready_remove(ep, it);
	for (p = &ep->hash[hash_of(ep, it->file, it->fd)]; *p != it; p = &(*p)->hash_next)
		;
	*p = it->hash_next;
	for (p = (struct epoll_item **)&it->file->epolls; *p != it; p = &(*p)->file_next)
		;
	*p = it->file_next;
	if (file_is_epoll(it->file)) {
		struct epoll *kid = it->file->priv;

		for (p = &ep->kids; *p != it; p = &(*p)->kid_next)
			;
		*p = it->kid_next;
		kid->parents--;
	}
	ep->count--;
	io_state(ep->k)->epoll_items--;
	free(it);
}

void epoll_forget(struct file *f)
{
	while (f->epolls)
		item_free(f->epolls);
}

/* Levels of epolls from @ep downwards, itself included; more than allowed when @stop is found. */
static int depth_down(struct epoll *ep, const struct epoll *stop, int level, unsigned *budget)
{
	int deepest = 1;

	if (ep == stop || level > EPOLL_DEPTH_MAX + 1 || (*budget)-- == 0)
		return EPOLL_DEPTH_MAX + 2;
	for (struct epoll_item *it = ep->kids; it; it = it->kid_next) {
		int d = 1 + depth_down(it->file->priv, stop, level + 1, budget);

		if (*budget == 0)
			return EPOLL_DEPTH_MAX + 2;
		if (d > deepest)
			deepest = d;
	}
	return deepest;
}

static int depth_up(struct epoll *ep, int level, unsigned *budget)
{
	int highest = 1;

	if (level > EPOLL_DEPTH_MAX + 1 || *budget == 0)
		return EPOLL_DEPTH_MAX + 2;
	--*budget;
	for (struct epoll_item *it = ep->file->epolls; it; it = it->file_next) {
		int d = 1 + depth_up(it->ep, level + 1, budget);

		if (d > highest)
			highest = d;
	}
	return highest;
}

static int check_nesting(struct epoll *ep, struct epoll *kid)
{
	unsigned down = EPOLL_LOOK_MAX, up = EPOLL_LOOK_MAX;

	if (depth_down(kid, ep, 1, &down) + depth_up(ep, 1, &up) > EPOLL_DEPTH_MAX + 1)
		return -ELOOP;
	return kid->parents >= EPOLL_PARENTS_MAX ? -EINVAL : 0;
}

static int item_register(struct task *t, struct epoll_item *it, unsigned *ret_state)
{
	struct item_reg r = { .reg = { .add = item_reg_add, .task = t, .events = it->events },
		.item = it };

	*ret_state = it->file->ops->poll(it->file, &r.reg);
	return r.err;
}

static void item_check(struct epoll_item *it, unsigned state)
{
	if (!(state & (it->events | POLLERR | POLLHUP)) ||
		(it->events & ~(uint32_t)PRIVATE_BITS) == 0)
		return;
	ready_push(it->ep, it);
	epoll_news(it->ep);
}

static int item_add(struct task *t, struct epoll *ep, int fd, struct file *target,
	const struct gepoll_event *ev)
{
	struct io_state *io = io_state(ep->k);
	struct epoll_item *it;
	unsigned state;
	int r;

	if (file_is_epoll(target)) {
		r = check_nesting(ep, target->priv);
		if (r < 0)
			return r;
	}
	if (!io || io->epoll_items >= EPOLL_ITEMS_MAX)
		return -ENOSPC;
	it = hash_room(ep) < 0 ? NULL : calloc(1, sizeof(*it));
	if (!it)
		return -ENOMEM;
	*it = (struct epoll_item){ .ep = ep,
		.file = target,
		.fd = fd,
		.events = ev->events | EPOLLERR | EPOLLHUP,
		.data = ev->data };
	item_link(ep, it);
	r = item_register(t, it, &state);
	if (r < 0) {
		item_free(it);
		return r;
	}
	item_check(it, state);
	return 0;
}

static int check_exclusive(const struct file *target, int op, uint32_t events)
{
	const uint32_t ok = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP |
			    (uint32_t)EPOLLET | EPOLLEXCLUSIVE;

	if (!(events & EPOLLEXCLUSIVE))
		return 0;
	if (op == EPOLL_CTL_MOD || file_is_epoll(target) || (events & ~ok))
		return -EINVAL;
	return 0;
}

int epoll_control(struct task *t, struct file *epf, int op, int fd, struct file *target,
	const struct gepoll_event *ev)
{
	struct epoll *ep = epf->priv;
	struct epoll_item *it;

	if (!target->ops->poll)
		return -EPERM;
	if (epf == target || !file_is_epoll(epf))
		return -EINVAL;
	if (op != EPOLL_CTL_DEL && check_exclusive(target, op, ev->events) < 0)
		return -EINVAL;
	it = item_find(ep, target, fd);
	switch (op) {
	case EPOLL_CTL_ADD:
		return it ? -EEXIST : item_add(t, ep, fd, target, ev);
	case EPOLL_CTL_DEL:
		if (!it)
			return -ENOENT;
		item_free(it);
		return 0;
	case EPOLL_CTL_MOD:
		if (!it)
			return -ENOENT;
		if (it->events & EPOLLEXCLUSIVE)
			return -EINVAL;
		it->events = ev->events | EPOLLERR | EPOLLHUP;
		it->data = ev->data;
		item_check(it, io_poll_state(target, t));
		return 0;
	default:
		return -EINVAL;
	}
}

static unsigned item_state(struct epoll_item *it, struct task *t)
{
	uint32_t want = it->events & ~(uint32_t)PRIVATE_BITS;

	if (want == 0)
		return 0;
	return io_poll_state(it->file, t) & (want | POLLERR | POLLHUP);
}

int epoll_count(const struct file *epf)
{
	const struct epoll *ep = epf->priv;

	return (int)ep->count;
}

int epoll_collect(struct task *t, struct file *epf, struct gepoll_event *out, int max)
{
	struct epoll *ep = epf->priv;
	struct epoll_item *end = ep->last, *it, *next;
	bool last;
	int n = 0;

	/* From the front to what was last when we began: those put back come behind it. */
	for (it = ep->first, last = false; it && !last && n < max; it = next) {
		unsigned state;

		next = it->next;
		last = it == end;
		ready_remove(ep, it);
		state = item_state(it, t);
		if (!state)
			continue;
		out[n++] = (struct gepoll_event){ .events = state, .data = it->data };
		if (it->events & EPOLLONESHOT)
			it->events &= (uint32_t)PRIVATE_BITS;
		else if (!(it->events & (uint32_t)EPOLLET))
			ready_push(ep, it);
	}
	if (n > 0 && ep->first)
		wait_wake_one(&ep->wait, POLLIN);
	return n;
}

void epoll_uncollect(struct task *t, struct file *epf)
{
	struct epoll *ep = epf->priv;

	/* Rare (a bad address): every item may be ready again; asking decides. */
	for (uint32_t i = 0; i < ep->buckets; i++) {
		for (struct epoll_item *it = ep->hash[i]; it; it = it->hash_next)
			ready_push(ep, it);
	}
}

long epoll_block(struct task *t, struct file *epf)
{
	struct epoll *ep = epf->priv;
	long r = wait_on(t, &ep->wait, POLLIN);

	if (r == 0)
		r = wait_block(t);
	if (r == SYS_BLOCK)
		file_hold(t, epf);
	return r;
}

static unsigned epoll_poll(struct file *f, struct poll_reg *reg)
{
	struct epoll *ep = f->priv;
	struct epoll_item *it, *next;
	struct task *t = reg ? reg->task : NULL;

	poll_wait(reg, &ep->outer);
	for (it = ep->first; it; it = next) {
		next = it->next;
		if (item_state(it, t))
			return POLLIN | POLLRDNORM;
		ready_remove(ep, it);
	}
	return 0;
}

static void epoll_release(struct file *f)
{
	struct epoll *ep = f->priv;

	for (uint32_t i = 0; i < ep->buckets; i++) {
		while (ep->hash[i])
			item_free(ep->hash[i]);
	}
	wait_flush(&ep->wait);
	wait_flush(&ep->outer);
	free(ep->hash);
	free(ep);
}

static struct epoll *epoll_new(struct kernel *k)
{
	struct epoll *ep = calloc(1, sizeof(*ep));

	if (ep)
		ep->k = k;
	return ep;
}

static void item_walk(struct epoll_item *it, struct walk *w)
{
	walk_need(w, "file", WALK_FILE, (void **)&it->file);
	walk_i32(w, "fd", &it->fd);
	walk_u32(w, "events", &it->events);
	walk_u64(w, "data", &it->data);
}

/* Who asks for the signals of a signalfd: somebody who has the epoll open. */
static struct task *holder(const struct file *f)
{
	for (struct proc *p = f->k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			for (unsigned i = 0; t->files && i < t->files->cap; i++)
				if (t->files->slots[i].file == f)
					return t;
	return NULL;
}

static void item_load(struct epoll *ep, struct task *t, struct walk *w)
{
	struct epoll_item it = { 0 };
	int r;

	item_walk(&it, w);
	if (w->err)
		return;
	if (it.file == ep->file || !it.file->ops || !it.file->ops->poll || !it.file->priv ||
		item_find(ep, it.file, it.fd)) {
		walk_fail(w, -EBADMSG);
		return;
	}
	r = item_add(t, ep, it.fd, it.file, &(struct gepoll_event){ it.events, it.data });
	if (r < 0) {
		walk_fail(w, r == -ENOMEM ? r : -EBADMSG);
		return;
	}
	/* A one-shot that was reported stays so. Whether there is news is asked by the first wait.
	 */
	item_find(ep, it.file, it.fd)->events = it.events;
	ready_push(ep, item_find(ep, it.file, it.fd));
}

struct placed {
	uint64_t place; /* number of the file, then descriptor: what does not depend on addresses */
	struct epoll_item *it;
};

static int by_place(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

static void items_save(struct epoll *ep, struct walk *w)
{
	struct placed *all = calloc(ep->count + 1, sizeof(*all));
	uint32_t n = 0;

	if (!all) {
		walk_fail(w, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < ep->buckets; i++)
		for (struct epoll_item *it = ep->hash[i]; it; it = it->hash_next)
			all[n++] = (struct placed){ (uint64_t)walk_number(w, WALK_FILE, it->file)
								    << 32 |
							    (uint32_t)it->fd,
				it };
	qsort(all, n, sizeof(*all), by_place);
	for (uint32_t i = 0; i < n; i++)
		item_walk(all[i].it, w);
	free(all);
}

int epoll_prepare(struct file *f)
{
	struct epoll *ep = epoll_new(f->k);

	if (!ep)
		return -ENOMEM;
	ep->file = f;
	f->ops = &epoll_ops;
	f->priv = ep;
	return 0;
}

/* Loading: after epoll_prepare(), when all files and tables are there. */
static void epoll_walk(struct file *f, struct walk *w)
{
	struct epoll *ep = f->priv;
	struct task *t;
	uint32_t n = ep->count;

	walk_list(w, "items", &n, EPOLL_ITEMS_MAX);
	if (w->mode == WALK_SAVE) {
		items_save(ep, w);
		return;
	}
	t = n ? holder(f) : NULL;
	for (; n > 0 && !w->err; n--)
		item_load(ep, t, w);
}

const struct file_ops epoll_ops = {
	.name = "[eventpoll]",
	.flags = FILE_STREAM,
	.poll = epoll_poll,
	.lseek = io_no_seek,
	.release = epoll_release,
	.walk = epoll_walk,
};

struct file *epoll_create_file(struct kernel *k)
{
	struct epoll *ep = epoll_new(k);
	struct file *f;

	if (!ep)
		return NULL;
	f = io_file(k, &epoll_ops, O_RDWR, 0600, ep);
	if (!f) {
		free(ep);
		return NULL;
	}
	ep->file = f;
	return f;
}
