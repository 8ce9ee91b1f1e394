/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/gc.c - unix sockets that only messages hold, in queues that nobody can read.
 *
 * A socket can be sent through itself, or two through each other; closing the descriptors then
 * leaves a ring of references. A socket is garbage when every reference of its file is a message,
 * and every one of these messages lies in the queue of garbage.
 *
 * Looking for it takes as long as there are sockets, so one close in a share of them looks, and a
 * timer does for the last.
 */
#include <stdlib.h>

#include "tier/kernel/sock/sock.h"

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"

static void each_file(struct sock *s, void (*fn)(struct sock *child))
{
	for (struct skb *b = s->rx; b; b = b->next) {
		for (unsigned i = 0; i < b->scm.count; i++) {
			struct sock *c = sock_of(b->scm.files[i]);

			if (c && c->gc_candidate)
				fn(c);
		}
	}
	/* Messages to a connection that is not accepted yet belong to the listener. */
	for (struct sock *e = s->acceptq; e; e = e->accept_next)
		each_file(e, fn);
}

static void held_inside(struct sock *c)
{
	c->gc_left--;
}

/* Put on a list only: spread() follows it, so that a long chain needs no stack. */
static void reach(struct sock *c)
{
	struct sock_state *st = c->k->sock;

	c->gc_candidate = false;
	c->gc_next = st->gc_work;
	st->gc_work = c;
}

static bool mark_candidates(struct sock_state *st)
{
	bool any = false;

	for (struct sock *s = st->all; s; s = s->all_next) {
		s->gc_candidate = s->family == AF_UNIX && s->inflight && s->file &&
				  s->file->refs - s->gc_closing == s->inflight;
		s->gc_left = (int32_t)s->inflight;
		any |= s->gc_candidate;
	}
	return any;
}

/* Everything that a reached candidate holds is reached, too. */
static void spread(struct sock_state *st)
{
	struct sock *s;

	while ((s = st->gc_work)) {
		st->gc_work = s->gc_next;
		each_file(s, reach);
	}
}

/* All of it is held before the first is emptied: dropping messages changes the list. */
static void empty_all(struct sock_state *st)
{
	struct sock *garbage = NULL, *s;

	for (s = st->all; s; s = s->all_next) {
		if (!s->gc_candidate)
			continue;
		s->gc_candidate = false;
		s->gc_next = garbage;
		garbage = sock_ref(s);
	}
	while ((s = garbage)) {
		garbage = s->gc_next;
		sock_purge(s);
		sock_unref(s);
	}
}

void unix_gc(struct kernel *k)
{
	struct sock_state *st = k->sock;

	if (!st || st->reaping || st->inflight_socks == 0)
		return;
	st->gc_closes = 0;
	ktimer_clear(k, &st->gc_timer);
	if (!mark_candidates(st))
		return;
	for (struct sock *s = st->all; s; s = s->all_next) {
		if (s->gc_candidate)
			each_file(s, held_inside);
	}
	for (struct sock *s = st->all; s; s = s->all_next) {
		if (s->gc_candidate && s->gc_left > 0)
			reach(s);
	}
	spread(st);
	empty_all(st);
}

static void on_gc_timer(struct kernel *k, struct ktimer *timer)
{
	unix_gc(k);
}

void unix_gc_soon(struct kernel *k)
{
	enum { SHARE = 64, SOON_NS = 10000000 };
	struct sock_state *st = k->sock;

	if (st->inflight_socks == 0)
		return;
	if (++st->gc_closes * SHARE >= st->count) {
		unix_gc(k);
		return;
	}
	st->gc_timer.fn = on_gc_timer;
	if (!st->gc_timer.when && ktimer_set(k, &st->gc_timer, kernel_now(k) + SOON_NS) < 0)
		unix_gc(k);
}
