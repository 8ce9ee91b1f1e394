/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/skb.c - messages in queues, and the files that travel in them.
 *
 * Owns:  struct skb; the count of descriptors on the way.
 * Rules: dropping a message may close the last reference of a socket, whose queue holds messages,
 *        and so on. Files are therefore put on a list and closed by the outermost call, so that a
 *        chain of any length needs no stack.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/sock/sock.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"

enum { SPARE_BIGS = 4, SPARE_SMALLS = 32 };

struct skb *skb_create(size_t cap)
{
	struct skb *b = malloc(sizeof(*b) + cap);

	if (!b)
		return NULL;
	memset(b, 0, sizeof(*b));
	b->cap = (uint32_t)cap;
	return b;
}

/* Streams use two sizes, and use them all the time: a few wait here for the next. */
struct skb *skb_create_chunk(struct kernel *k, size_t want)
{
	bool big = want > SKB_SMALL;
	struct skb **list = big ? &k->sock->spare_big : &k->sock->spare_small, *b = *list;
	uint32_t *count = big ? &k->sock->spare_bigs : &k->sock->spare_smalls;

	if (!b)
		return skb_create(big ? SKB_BIG : SKB_SMALL);
	*list = b->next;
	--*count;
	memset(b, 0, sizeof(*b));
	b->cap = big ? SKB_BIG : SKB_SMALL;
	return b;
}

static void skb_release(struct kernel *k, struct skb *b)
{
	struct sock_state *st = k->sock;

	if (b->cap == SKB_BIG && st->spare_bigs < SPARE_BIGS) {
		b->next = st->spare_big;
		st->spare_big = b;
		st->spare_bigs++;
	} else if (b->cap == SKB_SMALL && st->spare_smalls < SPARE_SMALLS) {
		b->next = st->spare_small;
		st->spare_small = b;
		st->spare_smalls++;
	} else {
		free(b);
	}
}

static void free_list(struct skb *b)
{
	while (b) {
		struct skb *next = b->next;

		free(b);
		b = next;
	}
}

void skb_cache_done(struct sock_state *st)
{
	free_list(st->spare_big);
	free_list(st->spare_small);
}

static void count_file(struct sock_state *st, struct file *f, int by)
{
	struct sock *s = sock_of(f);

	st->inflight += (uint32_t)by;
	if (!s)
		return;
	if (by > 0 && s->inflight == 0)
		st->inflight_socks++;
	s->inflight += (uint32_t)by;
	if (by < 0 && s->inflight == 0)
		st->inflight_socks--;
}

int scm_send(struct kernel *k, struct scm *scm)
{
	struct sock_state *st = sock_state(k);

	if (st->inflight + scm->count > SCM_INFLIGHT_MAX)
		return -ETOOMANYREFS;
	for (unsigned i = 0; i < scm->count; i++)
		count_file(st, scm->files[i], 1);
	return 0;
}

void scm_recv(struct kernel *k, struct scm *scm)
{
	for (unsigned i = 0; i < scm->count; i++)
		count_file(sock_state(k), scm->files[i], -1);
}

static void reap(struct sock_state *st)
{
	if (st->reaping)
		return;
	st->reaping = true;
	while (st->dying_count > 0)
		file_unref(st->dying[--st->dying_count]);
	st->reaping = false;
	free(st->dying);
	st->dying = NULL;
	st->dying_cap = 0;
}

/* Closes the files later, from the bottom of the stack. Without memory for the list, now. */
static void bury(struct sock_state *st, struct file *f)
{
	if (st->dying_count == st->dying_cap) {
		uint32_t cap = st->dying_cap ? st->dying_cap * 2 : 16;
		struct file **p = realloc(st->dying, cap * sizeof(struct file *));

		if (!p) {
			file_unref(f);
			return;
		}
		st->dying = p;
		st->dying_cap = cap;
	}
	st->dying[st->dying_count++] = f;
}

void scm_drop(struct kernel *k, struct scm *scm)
{
	struct sock_state *st = sock_state(k);

	for (unsigned i = 0; i < scm->count; i++)
		bury(st, scm->files[i]);
	free(scm->files);
	scm->files = NULL;
	scm->count = 0;
	if (st->dying_count)
		reap(st);
}

void skb_free(struct kernel *k, struct skb *b)
{
	if (b->owner) {
		struct sock *o = b->owner;

		o->wmem -= b->cap + SOCK_OVERHEAD;
		wait_wake(&o->wait, POLLOUT | POLLWRNORM);
		sock_unref(o);
	}
	if (b->scm.count) {
		scm_recv(k, &b->scm);
		scm_drop(k, &b->scm);
	}
	skb_release(k, b);
}

void sock_queue(struct sock *to, struct skb *b)
{
	b->next = NULL;
	if (to->rx_last)
		to->rx_last->next = b;
	else
		to->rx = b;
	to->rx_last = b;
	to->rx_count++;
	to->rx_bytes += b->len;
	to->k->sock->bytes += b->len;
}

struct skb *sock_dequeue(struct sock *s)
{
	struct skb *b = s->rx;

	if (!b)
		return NULL;
	s->rx = b->next;
	if (!s->rx)
		s->rx_last = NULL;
	s->rx_count--;
	s->rx_bytes -= b->len;
	s->k->sock->bytes -= b->len;
	return b;
}

void sock_purge(struct sock *s)
{
	struct skb *b;

	while ((b = sock_dequeue(s)))
		skb_free(s->k, b);
	wait_wake(&s->space, 0);
}

int scm_take(struct sock *s, struct skb *b, struct msg_in *m)
{
	m->scm.cred = b->scm.cred;
	m->scm.has_cred = b->scm.has_cred;
	m->scm.ip = b->scm.ip;
	if (b->scm.count == 0)
		return 0;
	if (!(m->flags & MSG_PEEK)) {
		scm_recv(s->k, &b->scm);
		m->scm.files = b->scm.files;
		m->scm.count = b->scm.count;
		b->scm.files = NULL;
		b->scm.count = 0;
		return 1;
	}
	m->scm.files = calloc(b->scm.count, sizeof(m->scm.files[0]));
	if (!m->scm.files)
		return -ENOMEM;
	for (; m->scm.count < b->scm.count; m->scm.count++)
		m->scm.files[m->scm.count] = file_ref(b->scm.files[m->scm.count]);
	return 1;
}

/* An end is told to who waits for something; where there are connections, to everybody. */
static ssize_t recv_none(const struct sock *s, const struct msg_in *m)
{
	bool waits = !(m->flags & MSG_DONTWAIT) && !(s->file && (s->file->flags & O_NONBLOCK));

	return (s->shut & SHUT_RCV_BIT) && (waits || s->type == SOCK_SEQPACKET) ? 0 : -EAGAIN;
}

ssize_t dgram_recv(struct sock *s, struct task *t, struct uio *io, struct msg_in *m)
{
	struct skb *b = s->rx;
	size_t n;
	ssize_t r = sock_take_error(s), full;

	if (r < 0)
		return r;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (!b)
		return recv_none(s, m);
	n = b->len < io->left ? b->len : io->left;
	if (n) {
		r = uio_out(io, b->data + b->off, n);
		if (r < (ssize_t)n)
			return -EFAULT;
	}
	if (scm_take(s, b, m) < 0)
		return -ENOMEM;
	m->from = b->src;
	if (n < b->len)
		m->out_flags |= MSG_TRUNC;
	full = b->len;
	if (!(m->flags & MSG_PEEK)) {
		skb_free(s->k, sock_dequeue(s));
		wait_wake(&s->space, 0);
		if (s->peer)
			wait_wake(&s->peer->wait, POLLOUT | POLLWRNORM);
	}
	return m->flags & MSG_TRUNC ? full : r;
}
