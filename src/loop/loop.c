/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop/loop.c - the turn: descriptors, then timers, then deferred calls.
 *
 * Owns:  the epoll descriptor and the two lists of deferred calls.
 * Rules: one thread. Structs that are armed belong to their callers; the loop keeps pointers to
 * them in three places (epoll, the heap, the lists) and a remove clears its own there, so that
 *        nothing that was removed is ever called.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "loop/loop_impl.h"

/* An empty look takes a microsecond: one that took this long was one with somebody else's turn in
 * it. */
enum { SPIN_GAP_NS = 50 * 1000 };

static uint64_t now_ms(void)
{
	return clock_ns() / 1000000;
}

static void list_init(struct loop_later *head)
{
	head->prev = head->next = head;
}

int loop_create(struct loop **ret, struct err *e)
{
	own_mem struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return err_set(e, ENOMEM, "making an event loop");
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0)
		return err_set(e, errno, "making an event loop");
	list_init(&l->later);
	list_init(&l->running);
	l->signal_fd = -1;
	l->now_ms = now_ms();
	*ret = take_ptr(&l);
	return 0;
}

static void list_forget(struct loop_later *head)
{
	while (head->next != head)
		loop_later_cancel(head->next);
}

void loop_destroy(struct loop *l)
{
	if (!l)
		return;
	loop_pool_done(l);
	loop_signals_done(l);
	list_forget(&l->later);
	list_forget(&l->running);
	while (l->timers)
		loop_timer_cancel(l->heap[0]);
	free(l->heap);
	close(l->epoll);
	free(l);
}

int loop_fd_add(struct loop *l, struct loop_fd *w, int fd, uint32_t events,
	void (*work)(void *ctx, uint32_t events), void *ctx, struct err *e)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_set(e, errno, "watching descriptor %d", fd);
	*w = (struct loop_fd){ .loop = l, .fd = fd, .events = events, .work = work, .ctx = ctx };
	return 0;
}

int loop_fd_mod(struct loop_fd *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (!w->loop)
		return -EBADF;
	if (w->events == events)
		return 0;
	if (epoll_ctl(w->loop->epoll, EPOLL_CTL_MOD, w->fd, &ev) < 0)
		return -errno;
	w->events = events;
	return 0;
}

void loop_fd_remove(struct loop_fd *w)
{
	struct loop *l = w->loop;

	if (!l)
		return;
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	for (int i = l->at; i < l->count; i++)
		if (l->events[i].data.ptr == w)
			l->events[i].data.ptr = NULL;
	w->loop = NULL;
}

void loop_later_set(struct loop *l, struct loop_later *d, void (*work)(void *ctx), void *ctx)
{
	if (d->loop)
		return;
	d->loop = l;
	d->work = work;
	d->ctx = ctx;
	d->prev = l->later.prev;
	d->next = &l->later;
	d->prev->next = d->next->prev = d;
}

void loop_later_cancel(struct loop_later *d)
{
	if (!d->loop)
		return;
	d->prev->next = d->next;
	d->next->prev = d->prev;
	d->loop = NULL;
}

/* Those that are there now; what they add themselves waits for the next turn. */
static void run_later(struct loop *l)
{
	if (l->later.next == &l->later)
		return;
	l->running.next = l->later.next;
	l->running.prev = l->later.prev;
	l->running.next->prev = l->running.prev->next = &l->running;
	list_init(&l->later);
	while (l->running.next != &l->running) {
		struct loop_later *d = l->running.next;

		loop_later_cancel(d);
		d->work(d->ctx);
	}
}

static int wait_ms_of(const struct loop *l, int asked)
{
	int timer = loop_timers_wait_ms(l);

	if (l->later.next != &l->later)
		return 0;
	return timer >= 0 && (asked < 0 || timer < asked) ? timer : asked;
}

void loop_spin(struct loop *l, unsigned us)
{
	l->spin_ns = us ? clock_ns() + us * 1000ull : 0;
}

static int wait_spinning(struct loop *l)
{
	uint64_t now = clock_ns(), last;
	int n;

	do {
		last = now;
		n = epoll_wait(l->epoll, l->events, LOOP_EVENTS_PER_TURN, 0);
		now = clock_ns();
	} while (n == 0 && now < l->spin_ns && now - last < SPIN_GAP_NS);
	if (n == 0)
		l->spin_ns = 0;
	return n;
}

int loop_turn(struct loop *l, int wait_ms, struct err *e)
{
	int wait = wait_ms_of(l, wait_ms);
	int n = wait && l->spin_ns ? wait_spinning(l) : 0;

	if (n == 0)
		n = epoll_wait(l->epoll, l->events, LOOP_EVENTS_PER_TURN, wait);

	if (n < 0 && errno != EINTR)
		return err_set(e, errno, "waiting for events");
	l->now_ms = now_ms();
	l->count = n > 0 ? n : 0;
	for (l->at = 0; l->at < l->count;) {
		/* Counted before the call: a remove inside clears what comes after it. */
		struct epoll_event *ev = &l->events[l->at++];
		struct loop_fd *w = ev->data.ptr;

		if (w)
			w->work(w->ctx, ev->events);
	}
	l->at = l->count = 0;
	loop_timers_run(l);
	run_later(l);
	return 0;
}

int loop_run(struct loop *l, struct err *e)
{
	int r = 0;

	while (!l->stop && r == 0)
		r = loop_turn(l, -1, e);
	l->stop = false;
	return r;
}

void loop_stop(struct loop *l)
{
	l->stop = true;
}

uint64_t loop_now_ms(const struct loop *l)
{
	return l->now_ms;
}
