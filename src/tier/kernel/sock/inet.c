/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/inet.c - addresses and ports of the loopback inside.
 *
 * Owns:  the port tables of sock_state.
 * Rules: inside, every address is an in6_addr, IPv4 ones mapped (::ffff:127.0.0.1), so that there
 *        is one comparison. Only 127.0.0.0/8 and ::1 exist; there is no way out from here.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/ns/net.h"
#include "tier/kernel/sock/sock.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"

enum { PORT_FIRST = 32768, PORT_LAST = 60999, PORT_PRIVILEGED = 1024, SIN6_LEN_MIN = 24 };

static const struct in6_addr any6;
static const struct in6_addr any4 = { { { [10] = 0xff, [11] = 0xff } } };
static const struct in6_addr lo6 = { { { [15] = 1 } } };
static const struct in6_addr lo4 = { { { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } } };

static bool is_v4(const struct in6_addr *a)
{
	return memcmp(a, &any4, 12) == 0;
}

static bool same(const struct in6_addr *a, const struct in6_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

bool inet_addr_any(const struct in6_addr *a)
{
	return same(a, &any6) || same(a, &any4);
}

bool inet_addr_is_ours(const struct in6_addr *a)
{
	return same(a, &lo6) || (is_v4(a) && a->s6_addr[12] == 127);
}

int inet_addr_in(const struct sock *s, const struct saddr *a, struct in6_addr *ret, uint16_t *port)
{
	if (a->len < sizeof(sa_family_t))
		return -EINVAL;
	if (s->family == AF_INET6 && a->family == AF_INET6) {
		if (a->len < SIN6_LEN_MIN)
			return -EINVAL;
		*ret = a->in6.sin6_addr;
		*port = ntohs(a->in6.sin6_port);
		return 0;
	}
	if (a->len < sizeof(struct sockaddr_in))
		return -EINVAL;
	if (a->family != AF_INET || (s->family == AF_INET6 && (s->type != SOCK_DGRAM || s->v6only)))
		return s->family == AF_INET6 && a->len < SIN6_LEN_MIN ? -EINVAL : -EAFNOSUPPORT;
	*ret = any4;
	memcpy(&ret->s6_addr[12], &a->in.sin_addr, 4);
	*port = ntohs(a->in.sin_port);
	return 0;
}

void inet_addr_out(
	const struct sock *s, const struct in6_addr *addr, uint16_t port, struct saddr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (s->family == AF_INET) {
		ret->len = sizeof(struct sockaddr_in);
		ret->in.sin_family = AF_INET;
		ret->in.sin_port = htons(port);
		if (is_v4(addr))
			memcpy(&ret->in.sin_addr, &addr->s6_addr[12], 4);
		return;
	}
	ret->len = sizeof(struct sockaddr_in6);
	ret->in6.sin6_family = AF_INET6;
	ret->in6.sin6_port = htons(port);
	ret->in6.sin6_addr = *addr;
}

struct in6_addr inet_source(const struct sock *s, const struct in6_addr *to)
{
	const struct in6_addr *own = &s->local.in6.sin6_addr;

	if (!inet_addr_any(own) && !group_is(own))
		return *own;
	return is_v4(to) ? lo4 : lo6; /* the preferred source of lo's routes */
}

static uint16_t port_of(const struct sock *s)
{
	return ntohs(s->local.in6.sin6_port);
}

static bool covers(const struct sock *s, bool v4)
{
	const struct in6_addr *a = &s->local.in6.sin6_addr;

	if (s->family == AF_INET)
		return v4;
	if (is_v4(a))
		return v4;
	if (!same(a, &any6))
		return !v4;
	return !v4 || !s->v6only;
}

static bool overlap(const struct sock *a, const struct sock *b)
{
	const struct in6_addr *x = &a->local.in6.sin6_addr, *y = &b->local.in6.sin6_addr;

	if (inet_addr_any(x) && inet_addr_any(y))
		return (covers(a, true) && covers(b, true)) ||
		       (covers(a, false) && covers(b, false));
	if (inet_addr_any(x))
		return covers(a, is_v4(y));
	if (inet_addr_any(y))
		return covers(b, is_v4(x));
	return same(x, y);
}

static bool may_share(const struct sock *a, const struct sock *b)
{
	if (a->reuseport && b->reuseport && a->bind_uid == b->bind_uid)
		return true;
	if (!a->reuseaddr || !b->reuseaddr)
		return false;
	return a->type == SOCK_DGRAM || (!a->listening && !b->listening);
}

static struct sock **table_of(const struct sock *s)
{
	struct sock_state *st = s->k->sock;

	if (s->type == SOCK_STREAM)
		return st->tcp;
	return s->protocol == IPPROTO_UDPLITE ? st->udplite : st->udp;
}

static bool conflict_in(struct sock *const *table, const struct sock *s, uint16_t port)
{
	for (struct sock *o = table[port % NAME_BUCKETS]; o; o = o->hash_next) {
		if (o != s && o->net == s->net && port_of(o) == port && overlap(o, s) &&
			!may_share(o, s))
			return true;
	}
	return false;
}

static bool port_taken(const struct sock *s, uint16_t port)
{
	return conflict_in(table_of(s), s, port) ||
	       (s->type == SOCK_STREAM && conflict_in(s->k->sock->est, s, port));
}

static void hash_in(struct sock **table, struct sock *s)
{
	struct sock **slot = &table[port_of(s) % NAME_BUCKETS];

	s->hash_next = *slot;
	*slot = s;
	s->hashed = true;
}

static bool unhash_from(struct sock **table, struct sock *s)
{
	struct sock **p = &table[port_of(s) % NAME_BUCKETS];

	while (*p && *p != s)
		p = &(*p)->hash_next;
	if (!*p)
		return false;
	*p = s->hash_next;
	return true;
}

void inet_unhash(struct sock *s)
{
	if (!s->hashed)
		return;
	if (!unhash_from(table_of(s), s))
		unhash_from(s->k->sock->est, s);
	s->hashed = false;
}

bool inet_is_established(const struct sock *s)
{
	const struct sock *o = s->k->sock->est[port_of(s) % NAME_BUCKETS];

	while (o && o != s)
		o = o->hash_next;
	return o != NULL;
}

void inet_rehash(struct sock *s, bool established)
{
	hash_in(established ? s->k->sock->est : table_of(s), s);
}

static bool port_used_at_all(const struct sock *s, uint16_t port)
{
	for (struct sock *o = table_of(s)[port % NAME_BUCKETS]; o; o = o->hash_next) {
		if (o->net == s->net && port_of(o) == port)
			return true;
	}
	return port_taken(s, port);
}

static int pick_port(struct sock *s)
{
	struct sock_state *st = s->k->sock;
	unsigned n = PORT_LAST - PORT_FIRST + 1;

	for (unsigned i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(PORT_FIRST + (st->next_port + i) % n);

		if (!port_used_at_all(s, port)) {
			st->next_port = (st->next_port + i + 1) % n;
			return port;
		}
	}
	return -EADDRINUSE;
}

static int take_port(struct sock *s, struct task *t, uint16_t port)
{
	int p = port;

	s->bind_uid = t->cred->euid;
	if (port == 0)
		p = pick_port(s);
	else if (port_taken(s, port))
		p = -EADDRINUSE;
	if (p < 0)
		return p;
	s->local.in6.sin6_port = htons((uint16_t)p);
	hash_in(table_of(s), s);
	return 0;
}

int inet_bind(struct sock *s, struct task *t, const struct saddr *a)
{
	struct in6_addr addr;
	uint16_t port;
	int r;

	if (s->family == AF_INET && a->len >= sizeof(struct sockaddr_in) &&
		a->family == AF_UNSPEC && a->in.sin_addr.s_addr == 0) { /* an old promise */
		addr = any4;
		port = ntohs(a->in.sin_port);
	} else {
		if (a->len >= sizeof(sa_family_t) && s->family == AF_INET6 && a->family != AF_INET6)
			return a->len < SIN6_LEN_MIN ? -EINVAL : -EAFNOSUPPORT;
		r = inet_addr_in(s, a, &addr, &port);
		if (r < 0)
			return r;
	}
	if (s->family == AF_INET6 && is_v4(&addr) && s->v6only)
		return -EINVAL;
	if (group_is(&addr) && s->family == AF_INET6 && s->type == SOCK_STREAM)
		return -EINVAL;
	if (!inet_addr_any(&addr) && !group_is(&addr) &&
		(!net_is_up(s->k, s->net) || !inet_addr_is_ours(&addr)))
		return -EADDRNOTAVAIL;
	if (port && port < PORT_PRIVILEGED && !net_may(t, CAP_NET_BIND_SERVICE))
		return -EACCES;
	if (s->hashed || s->conn != SOCK_UNCONNECTED)
		return -EINVAL;
	s->local.in6.sin6_addr = addr;
	r = take_port(s, t, port);
	if (r < 0)
		s->local.in6.sin6_addr = any6;
	else
		s->auto_port = false;
	return r;
}

int inet_autobind(struct sock *s, struct task *t)
{
	int r;

	if (s->hashed)
		return 0;
	if (s->family == AF_INET && same(&s->local.in6.sin6_addr, &any6))
		s->local.in6.sin6_addr = any4;
	r = take_port(s, t, 0);
	if (r == 0)
		s->auto_port = true;
	return r == -EADDRINUSE ? -EAGAIN : r;
}

int inet_name(struct sock *s, struct saddr *ret, bool peer)
{
	const struct saddr *a = peer ? &s->remote : &s->local;
	/* Ended in both directions, or reset. */
	bool over =
		s->type == SOCK_STREAM && (s->shut & SHUT_SEND_BIT) && (s->fin_seen || !s->peer);

	if (peer &&
		(s->conn != SOCK_CONNECTED || over || (s->type == SOCK_STREAM && s->conn_failed)))
		return -ENOTCONN;
	if (peer && s->type == SOCK_DGRAM && !a->in6.sin6_port)
		return -ENOTCONN; /* to no port is to nobody */
	inet_addr_out(s, &a->in6.sin6_addr, ntohs(a->in6.sin6_port), ret);
	return 0;
}

static int match(const struct sock *o, const struct in6_addr *addr, uint16_t port,
	const struct in6_addr *from, uint16_t from_port)
{
	const struct in6_addr *own = &o->local.in6.sin6_addr;
	int score = 1;

	if (port_of(o) != port || !covers(o, is_v4(addr)))
		return 0;
	if (!inet_addr_any(own)) {
		if (!same(own, addr))
			return 0;
		score += 4;
	}
	if (o->conn == SOCK_CONNECTED) {
		if (!same(&o->remote.in6.sin6_addr, from) ||
			ntohs(o->remote.in6.sin6_port) != from_port)
			return 0;
		score += 8;
	}
	if ((o->family == AF_INET) == is_v4(addr))
		score += 1;
	return score;
}

struct sock *inet_lookup(const struct sock *asker, const struct in6_addr *addr, uint16_t port,
	const struct in6_addr *from, uint16_t from_port, bool listeners)
{
	struct sock *best = NULL;
	unsigned group = 0;
	int best_score = 0;

	for (struct sock *o = table_of(asker)[port % NAME_BUCKETS]; o; o = o->hash_next) {
		int score = o->net != asker->net || (listeners && !o->listening)
				    ? 0
				    : match(o, addr, port, from, from_port);

		if (score == 0 || score < best_score)
			continue;
		if (score > best_score) {
			best = o;
			best_score = score;
			group = 1;
		} else if (o->reuseport && ((from_port * 2654435761u) >> 8) % ++group == 0) {
			best = o; /* one of those that share the port, the same for one sender */
		}
	}
	return best;
}

struct sock *inet_next(const struct sock *asker, struct sock *after, const struct in6_addr *addr,
	uint16_t port, const struct in6_addr *from, uint16_t from_port)
{
	struct sock *o = after ? after->hash_next : table_of(asker)[port % NAME_BUCKETS];

	while (o && (o->net != asker->net || !match(o, addr, port, from, from_port)))
		o = o->hash_next;
	return o;
}

/* TCP */

static void tcp_forget(struct sock *s)
{
	inet_unhash(s);
	s->auto_port = false;
	s->local.in6.sin6_port = 0;
	s->local.in6.sin6_addr = any6;
}

static struct sock *tcp_embryo(struct sock *l, struct sock *client, const struct in6_addr *to)
{
	int err;
	struct sock *e = sock_create(l->k, l->family, SOCK_STREAM, IPPROTO_TCP, &err);

	if (!e)
		return NULL;
	e->local.in6.sin6_addr = *to;
	e->local.in6.sin6_port = l->local.in6.sin6_port;
	e->remote.in6 = client->local.in6;
	e->auto_port = true; /* nobody has bound this one: it goes with the connection */
	e->reuseaddr = l->reuseaddr;
	e->reuseport = l->reuseport;
	e->bind_uid = l->bind_uid;
	e->v6only = l->v6only;
	e->sndbuf = l->sndbuf;
	e->rcvbuf = l->rcvbuf;
	e->linger_on = l->linger_on;
	e->linger_s = l->linger_s;
	e->rcvtimeo = l->rcvtimeo;
	e->sndtimeo = l->sndtimeo;
	memcpy(e->opts, l->opts, sizeof(e->opts));
	e->opt_count = l->opt_count;
	hash_in(l->k->sock->est, e);
	sock_connect_pair(e, client);
	return e;
}

/* The listener has room: the two are connected. */
static int tcp_establish(struct sock *l, struct sock *client)
{
	struct sock *e = tcp_embryo(l, client, &client->remote.in6.sin6_addr);

	if (!e)
		return -ENOBUFS;
	queue_embryo(l, e);
	wait_wake(&client->wait, POLLOUT | POLLWRNORM);
	return 0;
}

static void tcp_fail(struct sock *s, int err)
{
	s->conn = SOCK_UNCONNECTED;
	s->conn_failed = true;
	s->err = err;
	s->shut = SHUT_BOTH_BITS;
	wait_wake(&s->wait, 0);
}

static int tcp_reset_state(struct sock *s)
{
	sock_disconnect(s, true);
	sock_purge(s);
	if (s->auto_port)
		tcp_forget(s);
	s->conn = SOCK_UNCONNECTED;
	s->conn_new = s->conn_failed = s->fin_seen = false;
	s->shut = 0;
	s->err = 0;
	return 0;
}

/* How an earlier, non-blocking connect went. */
static long tcp_connect_again(struct sock *s)
{
	int e;

	if (s->conn_failed) {
		e = sock_take_error(s);
		tcp_reset_state(s);
		return e ? e : -ECONNABORTED;
	}
	s->conn_new = false;
	return 0;
}

static int tcp_target(struct sock *s, const struct saddr *a, struct in6_addr *addr, uint16_t *port)
{
	int r = inet_addr_in(s, a, addr, port);

	if (r < 0)
		return r;
	if (inet_addr_any(addr))
		*addr = is_v4(addr) || s->family == AF_INET ? lo4 : lo6;
	if (!net_is_up(s->k, s->net) || !inet_addr_is_ours(addr))
		return -ENETUNREACH;
	if (is_v4(addr) && s->family == AF_INET6 && (s->v6only || (s->hashed && !covers(s, true))))
		return -ENETUNREACH;
	return 0;
}

static long tcp_start(struct sock *s, struct task *t, const struct saddr *a)
{
	struct in6_addr addr;
	struct sock *l;
	uint16_t port;
	int r = tcp_target(s, a, &addr, &port);

	if (r < 0)
		return r;
	r = inet_autobind(s, t);
	if (r < 0)
		return r == -EAGAIN ? -EADDRNOTAVAIL : r;
	s->local.in6.sin6_addr = inet_source(s, &addr);
	s->remote.in6.sin6_addr = addr;
	s->remote.in6.sin6_port = htons(port);
	s->shut = 0;
	s->fin_seen = false;
	l = inet_lookup(s, &addr, port, &s->local.in6.sin6_addr, port_of(s), true);
	if (!l || (l->shut & SHUT_RCV_BIT)) {
		tcp_fail(s, ECONNREFUSED);
		return 0;
	}
	if (l->accept_count <= l->backlog) {
		s->conn_new = true;
		return tcp_establish(l, s);
	}
	/* Full: as if the SYN were sent again until there is room. */
	s->conn = SOCK_CONNECTING;
	s->listener = l;
	s->pend_next = NULL;
	struct sock **last = &l->pending;
	while (*last)
		last = &(*last)->pend_next;
	*last = sock_ref(s);
	return 0;
}

static void tcp_unpend(struct sock *s)
{
	struct sock **p = s->listener ? &s->listener->pending : NULL;

	while (p && *p && *p != s)
		p = &(*p)->pend_next;
	if (!p || !*p)
		return;
	*p = s->pend_next;
	s->pend_next = s->listener = NULL;
	sock_unref(s);
}

static long tcp_connect(struct sock *s, struct task *t, const struct saddr *a, bool no_wait)
{
	bool asked = t->call.u[8]; /* this very call began it */
	long r;

	if (a->len < sizeof(sa_family_t))
		return -EINVAL;
	if (a->family == AF_UNSPEC) {
		tcp_unpend(s);
		return tcp_reset_state(s);
	}
	if (s->listening)
		return -EISCONN;
	if (!asked && (s->conn_new || s->conn_failed))
		return tcp_connect_again(s);
	if (s->conn == SOCK_CONNECTED && !asked)
		return -EISCONN;
	if (s->conn == SOCK_UNCONNECTED && !asked) {
		r = tcp_start(s, t, a);
		if (r < 0)
			return r;
		t->call.u[8] = 1;
		if (no_wait)
			return -EINPROGRESS;
		if (s->sndtimeo)
			wait_set_timeout(t, s->sndtimeo);
	} else if (no_wait) {
		return -EALREADY;
	}
	if (s->conn != SOCK_CONNECTING)
		return tcp_connect_again(s);
	r = wait_on(t, &s->wait, 0);
	if (r == 0)
		r = wait_block(t);
	return r == -ETIMEDOUT ? -EINPROGRESS : sock_wait_result(s, r, s->sndtimeo);
}

static int tcp_listen(struct sock *s, struct task *t, int backlog)
{
	int r;

	if (s->conn != SOCK_UNCONNECTED || s->conn_failed)
		return -EINVAL;
	if (!s->hashed) {
		r = inet_autobind(s, t);
		if (r < 0)
			return -EADDRINUSE;
		s->auto_port = false;
	}
	if (backlog < 0 || backlog > SOCK_BACKLOG_MAX)
		backlog = SOCK_BACKLOG_MAX;
	s->backlog = (uint32_t)backlog;
	if (!s->listening) {
		s->listening = true;
		if (port_taken(s, port_of(s))) { /* another listens there by now */
			s->listening = false;
			return -EADDRINUSE;
		}
	}
	s->shut = 0;
	return 0;
}

static int tcp_accept(struct sock *s, struct sock **ret)
{
	int r = queue_accept(s, ret);
	struct sock *c = s->pending;

	if (r == 0 && c && s->accept_count <= s->backlog) {
		s->pending = c->pend_next;
		c->pend_next = c->listener = NULL;
		c->conn = SOCK_UNCONNECTED;
		c->conn_new = true;
		if (tcp_establish(s, c) < 0)
			tcp_fail(c, ENOBUFS);
		sock_unref(c);
	}
	return r;
}

static int tcp_shutdown(struct sock *s, int how)
{
	if (s->listening) {
		if (how == SHUT_WR)
			return 0;
		listener_close(s);
		s->listening = false;
		s->shut |= SHUT_RCV_BIT;
		wait_wake(&s->wait, 0);
		return 0;
	}
	if (s->conn != SOCK_CONNECTED)
		return -ENOTCONN;
	if (how != SHUT_RD)
		tcp_push(s);
	return stream_shutdown(s, how);
}

static void tcp_close(struct sock *s)
{
	bool reset = s->rx != NULL || (s->linger_on && s->linger_s == 0);

	tcp_push(s);
	tcp_unpend(s);
	if (s->listening)
		listener_close(s);
	inet_unhash(s);
	sock_disconnect(s, reset);
}

const struct sock_ops tcp_ops = {
	.bind = inet_bind,
	.connect = tcp_connect,
	.listen = tcp_listen,
	.accept = tcp_accept,
	.send = tcp_send,
	.recv = stream_recv,
	.shutdown = tcp_shutdown,
	.poll = stream_poll,
	.name = inet_name,
	.close = tcp_close,
};
