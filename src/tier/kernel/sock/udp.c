/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/udp.c - datagrams over the loopback inside.
 *
 * Rules: a datagram that nobody wants, or for which the receiver has no room, is lost, as on a
 *        network; a connected sender hears of the first kind (ECONNREFUSED), as by ICMP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/sock/sock.h"

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
	if (s->k->no_loopback || !inet_addr_is_ours(addr))
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
	s->local.in6.sin6_addr = inet_source(s, &addr);
	s->remote.in6.sin6_addr = addr;
	s->remote.in6.sin6_port = htons(port);
	s->conn = SOCK_CONNECTED;
	s->err = 0;
	return 0;
}

static void deliver(struct sock *s, struct sock *to, struct skb *b, const struct in6_addr *from)
{
	if (to->rx_bytes + to->rx_count * (uint64_t)SOCK_OVERHEAD + b->len > to->rcvbuf) {
		skb_free(s->k, b); /* no room: lost */
		return;
	}
	inet_addr_out(to, from, ntohs(s->local.in6.sin6_port), &b->src);
	sock_queue(to, b);
	wait_wake(&to->wait, POLLIN | POLLRDNORM);
}

static ssize_t udp_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	struct in6_addr addr = s->remote.in6.sin6_addr, from;
	uint16_t port = ntohs(s->remote.in6.sin6_port);
	size_t len = io->left;
	struct sock *to;
	struct skb *b;
	int r;

	if (len > UDP_BYTES_MAX)
		return -EMSGSIZE;
	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (m->to) {
		r = udp_target(s, m->to, &addr, &port);
		if (r < 0)
			return r;
	} else if (s->conn != SOCK_CONNECTED) {
		return -EDESTADDRREQ;
	} else if (port == 0) {
		return -EINVAL;
	}
	if (s->shut & SHUT_SEND_BIT)
		return sock_broken(t, m->flags);
	r = sock_take_error(s);
	if (r == 0)
		r = inet_autobind(s, t);
	if (r < 0)
		return r;
	b = skb_create(len);
	if (!b)
		return -ENOBUFS;
	if (len && uio_in(io, b->data, len) < (ssize_t)len) {
		skb_free(s->k, b);
		return -EFAULT;
	}
	b->len = (uint32_t)len;
	from = inet_source(s, &addr);
	to = inet_lookup(
		s->k->sock, false, &addr, port, &from, ntohs(s->local.in6.sin6_port), false);
	if (to) {
		deliver(s, to, b, &from);
	} else {
		skb_free(s->k, b);
		if (s->conn == SOCK_CONNECTED) {
			s->err = ECONNREFUSED;
			wait_wake(&s->wait, 0);
		}
	}
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
