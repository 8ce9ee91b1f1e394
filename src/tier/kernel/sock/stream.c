/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/stream.c - connected sockets: what unix streams, seqpackets and TCP have in common.
 *
 * Rules: bytes lie in the receiver's queue from the moment they are sent. A sender may have as much
 *        there as its send buffer says, and is told to go on when half of that has been read: each
 *        wake-up then moves a lot.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/sock/sock.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"

enum {
	LOW_LIMIT = 16 * 1024, /* per socket, once the sandbox holds SOCK_BYTES_SOFT */
};
#define SOCK_BYTES_SOFT (64ULL << 20)

uint64_t stream_limit(const struct sock *s)
{
	uint64_t n = s->sndbuf;

	if (s->family != AF_UNIX && s->peer)
		n += s->peer->rcvbuf;
	if (s->k->sock->bytes > SOCK_BYTES_SOFT && n > LOW_LIMIT)
		n = LOW_LIMIT;
	return n;
}

bool stream_writable(const struct sock *s)
{
	return !s->peer || s->peer->rx_bytes * 2 <= stream_limit(s);
}

void sock_connect_pair(struct sock *a, struct sock *b)
{
	a->peer = sock_ref(b);
	b->peer = sock_ref(a);
	a->conn = b->conn = SOCK_CONNECTED;
}

/* @s is going: its peer hears the end (or a reset), and the two let go of each other. */
void sock_disconnect(struct sock *s, bool reset)
{
	struct sock *p = s->peer;

	if (!p)
		return;
	s->peer = NULL;
	if (p->peer == s) {
		p->peer = NULL;
		p->shut |= s->family == AF_UNIX || reset ? SHUT_BOTH_BITS : SHUT_RCV_BIT;
		p->fin_seen |= !reset;
		if (reset)
			p->err = ECONNRESET;
		wait_wake(&p->wait, 0);
		sock_unref(s);
	}
	sock_unref(p);
}

static bool same_writer(const struct sock *to, const struct skb *b, const struct scm *scm)
{
	return !b->scm.count && !(scm && scm->count) &&
	       (to->family != AF_UNIX ||
		       (scm && memcmp(&b->scm.cred, &scm->cred, sizeof(scm->cred)) == 0));
}

/* The end of the last buffer, when these bytes may join it. */
static ssize_t join_last(struct sock *to, struct uio *io, size_t n, const struct scm *scm)
{
	struct skb *b = to->rx_last;
	size_t room;
	ssize_t r;

	if (!b || !same_writer(to, b, scm))
		return 0;
	room = b->cap - b->off - b->len;
	if (room == 0 || room < n / 4)
		return 0;
	r = uio_in(io, b->data + b->off + b->len, room < n ? room : n);
	if (r > 0) {
		b->len += (uint32_t)r;
		to->rx_bytes += (uint64_t)r;
		to->k->sock->bytes += (uint64_t)r;
	}
	return r;
}

static ssize_t add_chunk(struct sock *to, struct uio *io, size_t n, struct scm *scm)
{
	struct skb *b;
	ssize_t r;

	if (n > SKB_BIG)
		n = SKB_BIG;
	b = skb_create_chunk(to->k, n);
	if (!b)
		return -ENOBUFS;
	r = uio_in(io, b->data, n);
	if (r <= 0) {
		skb_free(to->k, b);
		return r < 0 ? r : -EFAULT;
	}
	b->len = (uint32_t)r;
	if (scm) {
		b->scm.cred = scm->cred;
		b->scm.has_cred = scm->has_cred;
		if (scm->count) {
			b->scm.files = scm->files;
			b->scm.count = scm->count;
			scm->files = NULL;
			scm->count = 0;
		}
	}
	sock_queue(to, b);
	return r;
}

ssize_t stream_put(struct sock *to, struct uio *io, size_t n, struct scm *scm)
{
	ssize_t done = 0, r = 1;

	while (n > 0 && r > 0) {
		r = join_last(to, io, n, scm);
		if (r == 0)
			r = add_chunk(to, io, n, scm);
		if (r > 0) {
			done += r;
			n -= (size_t)r;
		}
	}
	return done ? done : r;
}

static int send_state(struct sock *s, struct task *t, struct msg_out *m)
{
	int e;

	if ((m->flags & MSG_OOB) && s->family == AF_UNIX)
		return -EOPNOTSUPP;
	if (s->family == AF_UNIX && m->to)
		return s->conn == SOCK_CONNECTED ? -EISCONN : -EOPNOTSUPP;
	if (s->shut & SHUT_SEND_BIT) {
		if (s->family != AF_UNIX)
			s->err = 0; /* EPIPE tells it */
		return sock_broken(t, m->flags);
	}
	e = sock_take_error(s);
	if (e < 0)
		return e == -EPIPE ? sock_broken(t, m->flags) : e;
	if (s->conn == SOCK_CONNECTING)
		return -EAGAIN;
	if (s->conn != SOCK_CONNECTED)
		return s->family == AF_UNIX ? -ENOTCONN : sock_broken(t, m->flags);
	return 0;
}

/* TCP to somebody who has closed: as much as there is room for is taken once, and answered by a
 * reset. The rest is not tried: who has sent something does not hear of it in the same call. */
static ssize_t send_to_nobody(struct sock *s, struct uio *io)
{
	uint64_t room = stream_limit(s), n = io->left < room ? io->left : room;

	s->shut |= SHUT_BOTH_BITS;
	s->err = s->fin_seen ? EPIPE : ECONNRESET;
	wait_wake(&s->wait, 0);
	io->left = 0;
	return (ssize_t)n;
}

ssize_t stream_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	struct sock *to = s->peer;
	ssize_t done = 0, r;
	int e = send_state(s, t, m);

	if (e < 0)
		return e;
	if (!to || (to->closed && s->family != AF_UNIX))
		return s->family == AF_UNIX ? sock_broken(t, m->flags) : send_to_nobody(s, io);
	if (to->shut & SHUT_RCV_BIT && s->family == AF_UNIX)
		return sock_broken(t, m->flags);
	if (io->left == 0)
		return 0;
	if (to->rx_bytes >= stream_limit(s))
		return -EAGAIN;
	if (m->scm && m->scm->count) {
		e = scm_send(s->k, m->scm);
		if (e < 0)
			return e;
	}
	r = 0;
	while (io->left > 0 && r >= 0) {
		uint64_t used = to->rx_bytes, limit = stream_limit(s);
		size_t n = limit > used ? limit - used : 0;

		if (n == 0)
			break;
		if (n > io->left)
			n = io->left;
		r = stream_put(to, io, n, m->scm);
		if (r > 0)
			done += r;
	}
	if (done == 0) {
		if (m->scm && m->scm->count)
			scm_recv(s->k, m->scm); /* stays with the sender */
		return r;
	}
	if ((m->flags & MSG_OOB) && io->left == 0)
		urgent_sent(to, to->rx_last->data[to->rx_last->off + to->rx_last->len - 1]);
	wait_wake(&to->wait, POLLIN | POLLRDNORM);
	return done;
}

static void stream_consumed(struct sock *s, uint64_t before)
{
	struct sock *p = s->peer;
	uint64_t half;

	if (!p)
		return;
	half = stream_limit(p) / 2;
	if (before > half && s->rx_bytes <= half)
		wait_wake(&p->wait, POLLOUT | POLLWRNORM);
}

static ssize_t recv_nothing(struct sock *s)
{
	int e;

	if (s->conn == SOCK_CONNECTING)
		return -EAGAIN;
	if (s->fin_seen && s->family != AF_UNIX)
		return 0;
	e = sock_take_error(s);
	if (e < 0)
		return e;
	if (s->shut & SHUT_RCV_BIT)
		return 0;
	if (s->conn != SOCK_CONNECTED)
		return s->family == AF_UNIX ? -EINVAL : -ENOTCONN;
	return -EAGAIN;
}

/* One buffer's part of a read. Returns bytes, or -EFAULT. */
static ssize_t recv_piece(struct uio *io, const struct skb *b, size_t skip, size_t n, bool discard)
{
	if (discard) {
		io->left -= n;
		return (ssize_t)n;
	}
	return uio_out(io, b->data + b->off + skip, n);
}

static void consume(struct sock *s, size_t n)
{
	struct skb *b = s->rx;

	b->off += (uint32_t)n;
	b->len -= (uint32_t)n;
	s->rx_bytes -= n;
	s->rx_seq += n;
	s->k->sock->bytes -= n;
	if (b->len == 0)
		skb_free(s->k, sock_dequeue(s));
}

static size_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The queue, as far as @io has room and the urgent mark lets it. Bytes, or -EFAULT. */
static ssize_t recv_queue(struct sock *s, struct uio *io, struct msg_in *m, size_t skip)
{
	bool peek = m->flags & MSG_PEEK, discard = (m->flags & MSG_TRUNC) && s->family != AF_UNIX;
	uint64_t room = skip ? UINT64_MAX : urgent_before(s);
	struct skb *b, *prev = NULL;
	struct gucred writer = { 0 };
	ssize_t done = 0, r;
	bool stop = false;

	for (b = s->rx; b && io->left > 0 && room > 0 && !stop; b = peek ? b->next : s->rx) {
		size_t want = least(least(b->len - skip, io->left), room);

		if (prev && s->passcred && memcmp(&writer, &b->scm.cred, sizeof(writer)) != 0)
			break; /* never glue two writers together for one who asks who they are */
		r = recv_piece(io, b, skip, want, discard);
		if (r < 0)
			return done ? done : r;
		skip = 0;
		writer = b->scm.cred;
		prev = b;
		stop = scm_take(s, b, m) > 0 || (size_t)r < want;
		done += r;
		room -= (uint64_t)r;
		if (!peek)
			consume(s, (size_t)r);
	}
	return done;
}

ssize_t stream_recv(struct sock *s, struct task *t, struct uio *io, struct msg_in *m)
{
	bool peek = m->flags & MSG_PEEK, skips;
	uint64_t before = s->rx_bytes;
	ssize_t done;

	if ((m->flags & MSG_OOB) && s->family == AF_UNIX)
		return -EOPNOTSUPP;
	if (s->listening)
		return s->family == AF_UNIX ? -EINVAL : -ENOTCONN;
	if (m->flags & MSG_OOB)
		return urgent_recv(s, io, m);
	skips = s->rx && urgent_skips(s);
	if (skips && !peek) {
		consume(s, 1);
		urgent_passed(s);
		skips = false;
	}
	if (s->rx_bytes == skips)
		return io->left == 0 && s->conn == SOCK_CONNECTED && !s->err ? 0 : recv_nothing(s);
	done = recv_queue(s, io, m, skips);
	if (done > 0 && s->family == AF_UNIX)
		m->from = s->peer ? s->peer->local : s->remote;
	if (!peek) {
		urgent_passed(s);
		stream_consumed(s, before);
	}
	return done;
}

int stream_shutdown(struct sock *s, int how)
{
	uint32_t bits = how == SHUT_RD   ? SHUT_RCV_BIT
			: how == SHUT_WR ? SHUT_SEND_BIT
					 : SHUT_BOTH_BITS;
	struct sock *p = s->peer;

	s->shut |= bits;
	if (p) {
		if (bits & SHUT_SEND_BIT) {
			p->shut |= SHUT_RCV_BIT;
			p->fin_seen = true;
		}
		if ((bits & SHUT_RCV_BIT) && s->family == AF_UNIX)
			p->shut |= SHUT_SEND_BIT;
		wait_wake(&p->wait, 0);
	}
	wait_wake(&s->wait, 0);
	return 0;
}

unsigned stream_poll(struct sock *s, struct poll_reg *reg)
{
	unsigned r = s->err ? POLLERR : 0;

	poll_wait(reg, &s->wait);
	if (s->listening)
		return r | (s->acceptq ? POLLIN | POLLRDNORM : 0);
	if (s->conn == SOCK_CONNECTING)
		return r;
	if ((s->rx && s->rx_bytes > urgent_skips(s)) || (s->shut & SHUT_RCV_BIT))
		r |= POLLIN | POLLRDNORM;
	if (s->urg == URG_HERE)
		r |= POLLPRI;
	if (s->shut & SHUT_RCV_BIT)
		r |= POLLRDHUP;
	if (s->shut == SHUT_BOTH_BITS || s->conn == SOCK_UNCONNECTED)
		r |= POLLHUP;
	if (stream_writable(s) || (s->shut & SHUT_SEND_BIT))
		r |= POLLOUT | POLLWRNORM | POLLWRBAND;
	return r;
}

void queue_embryo(struct sock *l, struct sock *embryo)
{
	embryo->listener = l;
	embryo->accept_next = NULL;
	if (l->acceptq_last)
		l->acceptq_last->accept_next = embryo;
	else
		l->acceptq = embryo;
	l->acceptq_last = embryo;
	l->accept_count++;
	wait_wake(&l->wait, POLLIN | POLLRDNORM);
}

int queue_accept(struct sock *s, struct sock **ret)
{
	struct sock *e = s->acceptq;

	if (!s->listening)
		return -EINVAL;
	if (!e)
		return s->shut & SHUT_RCV_BIT ? -EINVAL : -EAGAIN;
	s->acceptq = e->accept_next;
	if (!s->acceptq)
		s->acceptq_last = NULL;
	s->accept_count--;
	e->accept_next = NULL;
	e->listener = NULL;
	wait_wake(&s->space, 0);
	*ret = e;
	return 0;
}

/* Whoever was waiting to be accepted is reset. */
void listener_close(struct sock *s)
{
	struct sock *e;

	while (s->acceptq) {
		e = s->acceptq;
		s->acceptq = e->accept_next;
		e->accept_next = NULL;
		e->listener = NULL;
		e->closed = true;
		sock_disconnect(e, true);
		if (e->hashed)
			inet_unhash(e);
		sock_purge(e);
		sock_unref(e);
	}
	s->acceptq_last = NULL;
	s->accept_count = 0;
	while (s->pending) {
		e = s->pending;
		s->pending = e->pend_next;
		e->pend_next = NULL;
		e->listener = NULL;
		e->conn = SOCK_UNCONNECTED;
		e->conn_failed = true;
		e->shut = SHUT_BOTH_BITS;
		e->err = ECONNREFUSED;
		wait_wake(&e->wait, 0);
		sock_unref(e);
	}
	wait_wake(&s->space, 0);
}
