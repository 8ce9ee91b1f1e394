/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/events.c - waits for descriptors, and calls whoever watches them.
 *
 * Owns:  an epoll descriptor.
 * Rules: waiting and serving are apart, so that the caller can hold its lock for the second only. A
 *        watch that ends while a batch is being served is not called any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tier/vm/events.h"

int events_init(struct events *ev, struct err *e)
{
	ev->count = 0;
	ev->poll = epoll_create1(EPOLL_CLOEXEC);
	return ev->poll < 0 ? err_set(e, errno, "events for a machine") : 0;
}

void events_done(struct events *ev)
{
	if (ev->poll >= 0)
		close(ev->poll);
	ev->poll = -1;
}

int events_add(struct events *ev, struct watch *w, int fd, uint32_t mask, struct err *e)
{
	struct epoll_event event = { .events = mask, .data.ptr = w };

	if (epoll_ctl(ev->poll, EPOLL_CTL_ADD, fd, &event) < 0)
		return err_set(e, errno, "watching descriptor %d", fd);
	w->fd = fd;
	return 0;
}

void events_change(struct events *ev, struct watch *w, uint32_t mask)
{
	struct epoll_event event = { .events = mask, .data.ptr = w };

	if (w->fd >= 0 && epoll_ctl(ev->poll, EPOLL_CTL_MOD, w->fd, &event) < 0)
		abort(); /* it is ours, and watched */
}

void events_remove(struct events *ev, struct watch *w)
{
	if (w->fd >= 0 && epoll_ctl(ev->poll, EPOLL_CTL_DEL, w->fd, NULL) < 0)
		abort();
	w->fd = -1;
	for (unsigned i = 0; i < ev->count; i++)
		if (ev->batch[i].data.ptr == w)
			ev->batch[i].data.ptr = NULL;
}

int events_wait(struct events *ev, int timeout_ms, struct err *e)
{
	int n = epoll_wait(ev->poll, ev->batch, EVENTS_AT_ONCE, timeout_ms);

	ev->count = n > 0 ? (unsigned)n : 0;
	if (n < 0 && errno != EINTR)
		return err_set(e, errno, "waiting for a machine's devices");
	return 0;
}

void events_serve(struct events *ev)
{
	for (unsigned i = 0; i < ev->count; i++) {
		struct watch *w = ev->batch[i].data.ptr;

		if (w)
			w->fn(w->arg, ev->batch[i].events);
	}
	ev->count = 0;
}
