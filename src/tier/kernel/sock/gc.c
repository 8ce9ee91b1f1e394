/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/gc.c - unix sockets that only messages hold, in queues that nobody can read.
 *
 * A socket can be sent through itself, or two through each other; closing the descriptors then
 * leaves a ring of references. A socket is garbage when every reference of its file is a message,
 * and every one of these messages lies in the queue of garbage.
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

static void reach(struct sock *c)
{
	/* Marked only: the loop in unix_gc() follows, so that a long chain needs no stack. */
	c->gc_reached = true;
}

static bool mark_candidates(struct sock_state *st)
{
	bool any = false;

	for (struct sock *s = st->all; s; s = s->all_next) {
		s->gc_candidate = s->family == AF_UNIX && s->inflight && s->file &&
				  s->file->refs - s->gc_closing == s->inflight;
		s->gc_reached = false;
		s->gc_left = (int32_t)s->inflight;
		any |= s->gc_candidate;
	}
	return any;
}

/* Everything that a reached candidate holds is reached, too, until nothing changes. */
static void spread(struct sock_state *st)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (struct sock *s = st->all; s; s = s->all_next) {
			if (!s->gc_candidate || !s->gc_reached)
				continue;
			s->gc_candidate = false;
			each_file(s, reach);
			changed = true;
		}
	}
}

void unix_gc(struct kernel *k)
{
	struct sock_state *st = k->sock;

	if (!st || st->reaping || st->inflight_socks == 0 || !mark_candidates(st))
		return;
	for (struct sock *s = st->all; s; s = s->all_next) {
		if (s->gc_candidate)
			each_file(s, held_inside);
	}
	for (struct sock *s = st->all; s; s = s->all_next) {
		if (s->gc_candidate && s->gc_left > 0)
			s->gc_reached = true;
	}
	spread(st);
	/* One at a time: dropping its messages changes the list. */
	for (struct sock *s = st->all; s;) {
		if (!s->gc_candidate) {
			s = s->all_next;
			continue;
		}
		s->gc_candidate = false;
		sock_ref(s);
		sock_purge(s);
		sock_unref(s);
		s = st->all;
	}
}
