/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/held.c - what TCP holds back: MSG_MORE and TCP_CORK.
 *
 * Owns:  sock.cork of a TCP socket, and sock.held_timer.
 * Rules: bytes wait with the sender until more come without the word, there are HOLD_BYTES of them,
 *        the word is taken back, the socket is shut or closed, or HOLD_NS have passed.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>

#include "tier/kernel/sock/sock.h"

#include "tier/kernel/kernel.h"

enum { HOLD_BYTES = 16 * 1024 };
#define HOLD_NS 200000000LL

void tcp_push(struct sock *s)
{
	struct skb *b = s->cork;
	struct sock *to = s->peer;
	struct uio io;

	ktimer_clear(s->k, &s->held_timer);
	if (!b)
		return;
	s->cork = NULL;
	uio_kernel(&io, b->data, b->len);
	if (to && !to->closed && stream_put(to, &io, b->len, NULL) > 0)
		wait_wake(&to->wait, POLLIN | POLLRDNORM);
	skb_free(s->k, b);
}

static void on_time(struct kernel *k, struct ktimer *timer)
{
	tcp_push((struct sock *)((char *)timer - offsetof(struct sock, held_timer)));
}

int tcp_hold_on(struct sock *s)
{
	s->held_timer.fn = on_time;
	return ktimer_set(s->k, &s->held_timer, kernel_now(s->k) + HOLD_NS);
}

static ssize_t hold(struct sock *s, struct uio *io)
{
	size_t n = io->left;
	bool first = !s->cork;
	ssize_t r;

	if (first) {
		s->cork = skb_create(HOLD_BYTES);
		if (!s->cork)
			return -ENOBUFS;
		s->cork->len = 0;
	}
	r = uio_in(io, s->cork->data + s->cork->len, n);
	if (r > 0)
		s->cork->len += (uint32_t)r;
	if (first && (r <= 0 || tcp_hold_on(s) < 0))
		tcp_push(s);
	return r;
}

ssize_t tcp_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	bool more = ((m->flags & MSG_MORE) || sock_opt(s, IPPROTO_TCP, TCP_CORK)) &&
		    !(m->flags & MSG_OOB);
	size_t held = s->cork ? s->cork->len : 0;

	if (!more || !io->left || io->left > HOLD_BYTES - held) {
		if (held)
			tcp_push(s);
		held = 0;
	}
	if (!more || !io->left || io->left > HOLD_BYTES - held || !s->peer || s->peer->closed ||
		s->conn != SOCK_CONNECTED || (s->shut & SHUT_SEND_BIT) || s->err)
		return stream_send(s, t, io, m);
	return hold(s, io);
}
