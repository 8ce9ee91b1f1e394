/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/udp.c - datagrams over the loopback inside.
 *
 * Rules: a datagram that nobody wants, or for which the receiver has no room, is lost, as on a
 *        network; a connected sender hears of the first kind (ECONNREFUSED), as by ICMP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/ns/net.h"
#include "tier/kernel/sock/msg.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"

enum { UDP_BYTES_MAX = 65507 };

static const struct in6_addr lo6 = { { { [15] = 1 } } };
static const struct in6_addr lo4 = { { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } } };

static bool is_v4(const struct in6_addr *a)
{
	return memcmp(a, &lo4, 12) == 0;
}

static int udp_target(struct sock *s, const struct saddr *a, struct in6_addr *addr, uint16_t *port)
{
	int r = inet_addr_in(s, a, addr, port);

	if (r < 0)
		return r;
	if (*port == 0)
		return -EINVAL;
	if (inet_addr_any(addr))
		*addr = is_v4(addr) || s->family == AF_INET ? lo4 : lo6;
	if (is_v4(addr) && addr->s6_addr[12] == 255 && !s->broadcast)
		return -EACCES;
	if (!net_is_up(s->k, s->net) || (!inet_addr_is_ours(addr) && !group_is(addr)))
		return -ENETUNREACH;
	if (s->family == AF_INET6 && s->v6only && is_v4(addr))
		return -ENETUNREACH;
	return 0;
}

static long udp_connect(struct sock *s, struct task *t, const struct saddr *a, bool no_wait)
{
	struct in6_addr addr;
	uint16_t port;
	int r;

	if (a->len < sizeof(sa_family_t))
		return -EINVAL;
	if (a->family == AF_UNSPEC) {
		s->conn = SOCK_UNCONNECTED;
		s->err = 0;
		memset(&s->remote.in6.sin6_addr, 0, sizeof(struct in6_addr));
		s->remote.in6.sin6_port = 0;
		if (s->auto_port) {
			inet_unhash(s);
			s->auto_port = false;
			s->local.in6.sin6_port = 0;
			memset(&s->local.in6.sin6_addr, 0, sizeof(struct in6_addr));
		}
		return 0;
	}
	r = udp_target(s, a, &addr, &port);
	if (r == -EINVAL && a->len >= sizeof(struct sockaddr_in) && port == 0)
		r = 0; /* connecting to port 0 is let through; sending is not */
	if (r < 0)
		return r;
	r = inet_autobind(s, t);
	if (r < 0)
		return r;
	if (!group_is(&s->local.in6.sin6_addr)) /* that says what it hears */
		s->local.in6.sin6_addr = inet_source(s, &addr);
	s->remote.in6.sin6_addr = addr;
	s->remote.in6.sin6_port = htons(port);
	s->conn = SOCK_CONNECTED;
	s->err = 0;
	return 0;
}

static void deliver(struct sock *s, struct sock *to, struct skb *b, const struct in6_addr *from)
{
	/* One more than fits is taken, so that any can come. */
	if (to->rx_bytes + to->rx_count * (uint64_t)SOCK_OVERHEAD > to->rcvbuf) {
		skb_free(s->k, b); /* no room: lost */
		return;
	}
	if (to->opt_count && ip_ctl_timed(to))
		b->scm.ip.stamp_ns = kernel_realtime(s->k);
	inet_addr_out(to, from, ntohs(s->local.in6.sin6_port), &b->src);
	sock_queue(to, b);
	wait_wake(&to->wait, POLLIN | POLLRDNORM);
}

/* A copy for each that hears the group; lost where there is no memory for one. */
static void to_group(struct sock *s, const struct skb *b, const struct in6_addr *from)
{
	const struct ip_ctl *c = &b->scm.ip;
	uint16_t port = ntohs(b->src.in6.sin6_port), from_port = ntohs(s->local.in6.sin6_port);
	struct sock *to = NULL;

	if (!group_is_joined(s, &c->to))
		return;
	while ((to = inet_next(s, to, &c->to, port, from, from_port))) {
		struct skb *copy = group_hears(to, &c->to) ? skb_create(b->len) : NULL;

		if (!copy)
			continue;
		memcpy(copy->data, b->data, b->len);
		copy->len = b->len;
		copy->scm.ip = *c;
		deliver(s, to, copy, from);
	}
}

/* The datagram is whole: to whom it goes is written in it. */
static void dispatch(struct sock *s, struct skb *b)
{
	const struct ip_ctl *c = &b->scm.ip;
	struct in6_addr from = c->said & IP_SOURCE_SAID ? c->source : inet_source(s, &c->to);
	struct sock *to;

	if (group_is(&c->to)) {
		to_group(s, b, &from);
		skb_free(s->k, b);
		return;
	}
	to = inet_lookup(s, &c->to, ntohs(b->src.in6.sin6_port), &from,
		ntohs(s->local.in6.sin6_port), false);
	if (to) {
		deliver(s, to, b, &from);
		return;
	}
	skb_free(s->k, b);
	if (s->conn == SOCK_CONNECTED) {
		s->err = ECONNREFUSED;
		wait_wake(&s->wait, 0);
	}
}

void udp_push(struct sock *s)
{
	struct skb *b = s->cork;

	s->cork = NULL;
	dispatch(s, b);
}

/* @s's corked datagram, or a new one, with @io's bytes at its end; NULL with *ret_err. */
static struct skb *extend(struct sock *s, struct uio *io, int *ret_err)
{
	struct skb *old = s->cork, *b;
	size_t had = old ? old->len : 0, len = io->left;

	s->cork = NULL; /* what fails takes the whole datagram with it */
	*ret_err = -ENOBUFS;
	b = had + len <= UDP_BYTES_MAX ? skb_create(had + len) : NULL;
	if (had + len > UDP_BYTES_MAX)
		*ret_err = -EMSGSIZE;
	if (b && len && uio_in(io, b->data + had, len) < (ssize_t)len) {
		*ret_err = -EFAULT;
		skb_free(s->k, b);
		b = NULL;
	}
	if (b && old) {
		memcpy(b->data, old->data, had);
		b->src = old->src;
		b->scm.ip = old->scm.ip;
	}
	if (b)
		b->len = (uint32_t)(had + len);
	if (old)
		skb_free(s->k, old);
	return b;
}

static int udp_route(struct sock *s, const struct msg_out *m, struct in6_addr *addr, uint16_t *port)
{
	*addr = s->remote.in6.sin6_addr;
	*port = ntohs(s->remote.in6.sin6_port);
	if (m->to)
		return udp_target(s, m->to, addr, port);
	if (s->conn != SOCK_CONNECTED)
		return -EDESTADDRREQ;
	return *port == 0 ? -EINVAL : 0;
}

static ssize_t udp_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	bool more = (m->flags & MSG_MORE) || sock_opt(s, IPPROTO_UDP, UDP_CORK), first = !s->cork;
	struct in6_addr addr;
	size_t len = io->left;
	uint16_t port;
	struct skb *b;
	int r = 0;

	if (len > UDP_BYTES_MAX)
		return -EMSGSIZE;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (first)
		r = udp_route(s, m, &addr, &port);
	if (r < 0)
		return r;
	if (s->shut & SHUT_SEND_BIT)
		return sock_broken(t, m->flags);
	r = sock_take_error(s);
	if (r == 0)
		r = inet_autobind(s, t);
	if (r < 0)
		return r;
	b = extend(s, io, &r);
	if (!b)
		return r;
	if (first) {
		b->src.in6.sin6_port = htons(port);
		if (m->scm)
			b->scm.ip = m->scm->ip;
		ip_ctl_fill(s, &addr, &b->scm.ip);
	}
	if (more)
		s->cork = b;
	else
		dispatch(s, b);
	return (ssize_t)len;
}

static unsigned udp_poll(struct sock *s, struct poll_reg *reg)
{
	unsigned r = (s->err ? POLLERR : 0) | POLLOUT | POLLWRNORM | POLLWRBAND;

	poll_wait(reg, &s->wait);
	if (s->rx || (s->shut & SHUT_RCV_BIT))
		r |= POLLIN | POLLRDNORM;
	if (s->shut & SHUT_RCV_BIT)
		r |= POLLRDHUP;
	if (s->shut == SHUT_BOTH_BITS)
		r |= POLLHUP;
	return r;
}

static int udp_shutdown(struct sock *s, int how)
{
	/* Linux marks it shut and still says that it was not connected. */
	s->shut |= how == SHUT_RD ? SHUT_RCV_BIT : how == SHUT_WR ? SHUT_SEND_BIT : SHUT_BOTH_BITS;
	wait_wake(&s->wait, 0);
	return s->conn == SOCK_CONNECTED ? 0 : -ENOTCONN;
}

static int udp_listen(struct sock *s, struct task *t, int backlog)
{
	return -EOPNOTSUPP;
}

static int udp_accept(struct sock *s, struct sock **ret)
{
	return -EOPNOTSUPP;
}

static void udp_close(struct sock *s)
{
	inet_unhash(s);
}

const struct sock_ops udp_ops = {
	.bind = inet_bind,
	.connect = udp_connect,
	.listen = udp_listen,
	.accept = udp_accept,
	.send = udp_send,
	.recv = dgram_recv,
	.shutdown = udp_shutdown,
	.poll = udp_poll,
	.name = inet_name,
	.close = udp_close,
};
