/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop/timer.c - timers, as a binary heap of pointers to them.
 *
 * Owns:  the heap.
 * Rules: a timer knows its place in the heap, so that setting it anew and cancelling it are cheap
 *        wherever it is. Times count from the moment of the call, not of the turn: a long turn does
 *        not make timers early.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "loop/loop_impl.h"

enum { HEAP_FIRST = 64 };

static void put(struct loop *l, size_t place, struct loop_timer *t)
{
	l->heap[place] = t;
	t->place = place;
}

static void sift_up(struct loop *l, size_t place, struct loop_timer *t)
{
	while (place) {
		size_t up = (place - 1) / 2;

		if (l->heap[up]->at_ms <= t->at_ms)
			break;
		put(l, place, l->heap[up]);
		place = up;
	}
	put(l, place, t);
}

static void sift_down(struct loop *l, size_t place, struct loop_timer *t)
{
	for (;;) {
		size_t down = place * 2 + 1;

		if (down + 1 < l->timers && l->heap[down + 1]->at_ms < l->heap[down]->at_ms)
			down++;
		if (down >= l->timers || l->heap[down]->at_ms >= t->at_ms)
			break;
		put(l, place, l->heap[down]);
		place = down;
	}
	put(l, place, t);
}

static int heap_grow(struct loop *l)
{
	size_t cap = l->heap_cap ? l->heap_cap * 2 : HEAP_FIRST;
	void *heap;

	if (l->timers < l->heap_cap)
		return 0;
	heap = reallocarray(l->heap, cap, sizeof(struct loop_timer *));
	if (!heap)
		return -ENOMEM;
	l->heap = heap;
	l->heap_cap = cap;
	return 0;
}

int loop_timer_set(
	struct loop *l, struct loop_timer *t, uint64_t ms, void (*work)(void *ctx), void *ctx)
{
	/* One more, for the part of a millisecond that has passed already: never early. */
	uint64_t base = clock_ns() / 1000000 + 1;

	if (heap_grow(l) < 0) {
		loop_timer_cancel(t);
		return -ENOMEM;
	}
	loop_timer_cancel(t);
	t->loop = l;
	t->work = work;
	t->ctx = ctx;
	t->at_ms = ms < UINT64_MAX - base ? base + ms : UINT64_MAX;
	sift_up(l, l->timers++, t);
	return 0;
}

void loop_timer_cancel(struct loop_timer *t)
{
	struct loop *l = t->loop;
	struct loop_timer *last;

	if (!l)
		return;
	t->loop = NULL;
	last = l->heap[--l->timers];
	if (last == t)
		return;
	if (last->at_ms < t->at_ms)
		sift_up(l, t->place, last);
	else
		sift_down(l, t->place, last);
}

void loop_timers_run(struct loop *l)
{
	while (l->timers && l->heap[0]->at_ms <= l->now_ms) {
		struct loop_timer *t = l->heap[0];

		loop_timer_cancel(t);
		t->work(t->ctx);
	}
}

int loop_timers_wait_ms(const struct loop *l)
{
	uint64_t now, at;

	if (!l->timers)
		return -1;
	now = clock_ns() / 1000000;
	at = l->heap[0]->at_ms;
	if (at <= now)
		return 0;
	return at - now < INT_MAX ? (int)(at - now) : INT_MAX;
}
