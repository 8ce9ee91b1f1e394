/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/timer.c - what happens at a time: a heap of timers.
 *
 * Owns:  kernel.heap and the host timer that the loop thread sleeps on.
 * Rules: under the kernel lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>

#include "tier/kernel/kernel.h"

static void put(struct kernel *k, unsigned i, struct ktimer *t)
{
	k->heap[i] = t;
	t->slot = i + 1;
}

static void sift_up(struct kernel *k, unsigned i)
{
	struct ktimer *t = k->heap[i];

	for (; i > 0 && k->heap[(i - 1) / 2]->when > t->when; i = (i - 1) / 2)
		put(k, i, k->heap[(i - 1) / 2]);
	put(k, i, t);
}

static void sift_down(struct kernel *k, unsigned i)
{
	struct ktimer *t = k->heap[i];
	unsigned c;

	for (; (c = 2 * i + 1) < k->heap_len; i = c) {
		if (c + 1 < k->heap_len && k->heap[c + 1]->when < k->heap[c]->when)
			c++;
		if (k->heap[c]->when >= t->when)
			break;
		put(k, i, k->heap[c]);
	}
	put(k, i, t);
}

/* The loop thread wakes for the first one. A timer that goes away leaves one wake-up too many. */
static void arm(struct kernel *k)
{
	struct itimerspec at = { 0 };
	int64_t when = k->heap_len ? k->heap[0]->when : 0;

	if (k->timer_fd < 0 || !when || (k->timer_armed && k->timer_armed <= when))
		return;
	at.it_value.tv_sec = when / 1000000000;
	at.it_value.tv_nsec = when % 1000000000;
	k->timer_armed = when;
	timerfd_settime(k->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

int ktimer_set(struct kernel *k, struct ktimer *t, int64_t when)
{
	struct ktimer **heap;

	if (t->slot) {
		ktimer_clear(k, t);
	} else if (k->heap_len == k->heap_cap) {
		heap = realloc(k->heap, (k->heap_cap ? k->heap_cap * 2 : 64) * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		k->heap = heap;
		k->heap_cap = k->heap_cap ? k->heap_cap * 2 : 64;
	}
	t->when = when;
	put(k, k->heap_len, t);
	sift_up(k, k->heap_len++);
	arm(k);
	return 0;
}

void ktimer_clear(struct kernel *k, struct ktimer *t)
{
	unsigned i = t->slot - 1;
	struct ktimer *last;

	if (!t->slot)
		return;
	t->slot = 0;
	t->when = 0;
	last = k->heap[--k->heap_len];
	if (last == t)
		return;
	put(k, i, last);
	sift_up(k, i);
	sift_down(k, last->slot - 1);
}

int64_t ktimer_run(struct kernel *k, int64_t now)
{
	while (k->heap_len && k->heap[0]->when <= now) {
		struct ktimer *t = k->heap[0];

		ktimer_clear(k, t);
		t->fn(k, t);
	}
	k->timer_armed = 0;
	arm(k);
	return k->heap_len ? k->heap[0]->when : 0;
}
