/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/watches.c - waits for descriptors, and calls whoever watches them.
 *
 * Owns:  an epoll descriptor.
 * Rules: waiting and serving are apart, so that the caller can hold its lock for the second only. A
 *        watch that ends while a batch is being served is not called any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tier/vm/watches.h"

int watches_init(struct watches *ev, struct err *e)
{
	ev->count = 0;
	ev->poll = epoll_create1(EPOLL_CLOEXEC);
	return ev->poll < 0 ? err_set(e, errno, "events for a machine") : 0;
}

void watches_done(struct watches *ev)
{
	if (ev->poll >= 0)
		close(ev->poll);
	ev->poll = -1;
}

static int control(struct watches *ev, struct watch *w, int op, uint32_t mask)
{
	struct epoll_event event = { .events = mask, .data.ptr = w };

	return epoll_ctl(ev->poll, op, w->fd, &event) < 0 ? -errno : 0;
}

int watches_add(struct watches *ev, struct watch *w, int fd, uint32_t mask, struct err *e)
{
	int r;

	w->fd = fd;
	/* Also with no mask: that it can be watched at all shows here. */
	r = control(ev, w, EPOLL_CTL_ADD, mask);
	if (r < 0) {
		w->fd = -1;
		return err_set(e, -r, "watching descriptor %d", fd);
	}
	w->armed = true;
	w->mask = mask;
	watches_change(ev, w, mask);
	return 0;
}

/* Not called any more in the batch that is being served. */
static void forget(struct watches *ev, const struct watch *w)
{
	for (unsigned i = 0; i < ev->count; i++)
		if (ev->batch[i].data.ptr == w)
			ev->batch[i].data.ptr = NULL;
}

void watches_change(struct watches *ev, struct watch *w, uint32_t mask)
{
	int r = 0;

	if (w->fd < 0 || (!mask && !w->armed) || (mask && w->armed && mask == w->mask))
		return;
	/* A hang-up is told whatever the mask says, again and again: so nothing means removed. */
	if (!mask)
		r = control(ev, w, EPOLL_CTL_DEL, 0);
	else
		r = control(ev, w, w->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, mask);
	if (r < 0 && r != -ENOMEM && r != -ENOSPC)
		abort(); /* it is ours, and open */
	if (r == 0) {
		w->armed = mask != 0;
		w->mask = mask;
	}
	if (!mask)
		forget(ev, w);
}

void watches_remove(struct watches *ev, struct watch *w)
{
	watches_change(ev, w, 0);
	forget(ev, w);
	w->fd = -1;
}

int watches_wait(struct watches *ev, int timeout_ms, struct err *e)
{
	int n = epoll_wait(ev->poll, ev->batch, EVENTS_AT_ONCE, timeout_ms);

	ev->count = n > 0 ? (unsigned)n : 0;
	if (n < 0 && errno != EINTR)
		return err_set(e, errno, "waiting for a machine's devices");
	return 0;
}

void watches_serve(struct watches *ev)
{
	for (unsigned i = 0; i < ev->count; i++) {
		struct watch *w = ev->batch[i].data.ptr;

		/* It may have ended between the waiting and the lock. */
		if (w && w->armed)
			w->fn(w->arg, ev->batch[i].events);
	}
	ev->count = 0;
}
