/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/opts.c - setsockopt and getsockopt.
 *
 * Rules: an option that only tunes what we do not have (TTL, keep-alive times, congestion control)
 *        is a row of a table: kept, checked against its range, and given back. What acts has code.
 */
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "tier/kernel/ns/net.h"
#include "tier/kernel/sock/sock.h"

#include "base/ckd.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"

#define NS_PER_S 1000000000LL

/* clang-format off */
#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif
#ifndef SO_BUSY_POLL_BUDGET
#define SO_BUSY_POLL_BUDGET 70
#endif
#ifndef SO_RESERVE_MEM
#define SO_RESERVE_MEM 73
#endif
/* Kept and given back. Types: a SOL_SOCKET option fits all; family 0: any. */
static const struct opt_row {
	int level, name, family, type;
	int first, min, max;
	bool flag; /* any value, kept as 0 or 1 */
} rows[] = {
	{ SOL_SOCKET, SO_DEBUG, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_DONTROUTE, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_KEEPALIVE, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_OOBINLINE, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_TIMESTAMP, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_TIMESTAMPNS, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_NO_CHECK, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_RXQ_OVFL, 0, 0, 0, 0, 0, true },
	{ SOL_SOCKET, SO_PRIORITY, 0, 0, 0, 0, 6, false },
	{ SOL_SOCKET, SO_RCVLOWAT, 0, 0, 1, 0, INT32_MAX, false },
	{ SOL_SOCKET, SO_INCOMING_CPU, 0, 0, -1, -1, 65535, false },
	{ SOL_SOCKET, SO_BUSY_POLL, 0, 0, 0, 0, INT32_MAX, false },
	{ SOL_SOCKET, SO_ZEROCOPY, 0, 0, 0, 0, 0, false },
	{ IPPROTO_TCP, TCP_NODELAY, 0, SOCK_STREAM, 0, 0, 0, true },
	{ IPPROTO_TCP, TCP_CORK, 0, SOCK_STREAM, 0, 0, 0, true },
	{ IPPROTO_TCP, TCP_QUICKACK, 0, SOCK_STREAM, 1, 0, 0, true },
	{ IPPROTO_TCP, TCP_KEEPIDLE, 0, SOCK_STREAM, 7200, 1, 32767, false },
	{ IPPROTO_TCP, TCP_KEEPINTVL, 0, SOCK_STREAM, 75, 1, 32767, false },
	{ IPPROTO_TCP, TCP_KEEPCNT, 0, SOCK_STREAM, 9, 1, 127, false },
	{ IPPROTO_TCP, TCP_SYNCNT, 0, SOCK_STREAM, 6, 1, 127, false },
	{ IPPROTO_TCP, TCP_LINGER2, 0, SOCK_STREAM, 60, INT32_MIN, INT32_MAX, false },
	{ IPPROTO_TCP, TCP_DEFER_ACCEPT, 0, SOCK_STREAM, 0, 0, INT32_MAX, false },
	{ IPPROTO_TCP, TCP_WINDOW_CLAMP, 0, SOCK_STREAM, 0, 0, INT32_MAX, false },
	{ IPPROTO_TCP, TCP_USER_TIMEOUT, 0, SOCK_STREAM, 0, 0, INT32_MAX, false },
	{ IPPROTO_TCP, TCP_FASTOPEN, 0, SOCK_STREAM, 0, 0, INT32_MAX, false },
	{ IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0, SOCK_STREAM, 0, 0, 1, false },
	{ IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0, SOCK_STREAM, -1, INT32_MIN, INT32_MAX, false },
	{ IPPROTO_TCP, TCP_MAXSEG, 0, SOCK_STREAM, 536, 88, 32767, false },
	{ IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 0, SOCK_STREAM, 0, 0, 1, false },
	{ IPPROTO_UDP, UDP_CORK, 0, SOCK_DGRAM, 0, 0, 0, true },
	{ IPPROTO_UDP, 104 /* UDP_GRO */, 0, SOCK_DGRAM, 0, 0, 0, true },
	{ IPPROTO_UDPLITE, 10 /* UDPLITE_SEND_CSCOV */, 0, SOCK_DGRAM, 0, 0, 65535, false },
	{ IPPROTO_UDPLITE, 11 /* UDPLITE_RECV_CSCOV */, 0, SOCK_DGRAM, 0, 0, 65535, false },
	{ IPPROTO_IP, IP_TOS, AF_INET, 0, 0, 0, 255, false },
	{ IPPROTO_IP, IP_TTL, AF_INET, 0, 64, 1, 255, false },
	{ IPPROTO_IP, IP_RECVERR, AF_INET, 0, 0, 0, 0, true },
	{ IPPROTO_IP, IP_RECVTTL, AF_INET, 0, 0, 0, 0, true },
	{ IPPROTO_IP, IP_RECVTOS, AF_INET, 0, 0, 0, 0, true },
	{ IPPROTO_IP, IP_PKTINFO, AF_INET, 0, 0, 0, 0, true },
	{ IPPROTO_IP, IP_MTU_DISCOVER, AF_INET, 0, 1, 0, 5, false },
	{ IPPROTO_IP, IP_MULTICAST_TTL, AF_INET, 0, 1, 0, 255, false },
	{ IPPROTO_IP, IP_MULTICAST_LOOP, AF_INET, 0, 1, 0, 0, true },
	{ IPPROTO_IP, IP_MULTICAST_IF, AF_INET, 0, 0, INT32_MIN, INT32_MAX, false },
	{ IPPROTO_IP, 49 /* IP_MULTICAST_ALL */, AF_INET, 0, 1, 0, 1, false },
	{ IPPROTO_IP, IP_FREEBIND, AF_INET, 0, 0, 0, 0, true },
	{ IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, AF_INET, 0, 0, 0, 0, true },
	{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, AF_INET6, 0, 64, -1, 255, false },
	{ IPPROTO_IPV6, IPV6_MULTICAST_HOPS, AF_INET6, 0, 1, -1, 255, false },
	{ IPPROTO_IPV6, IPV6_MULTICAST_LOOP, AF_INET6, 0, 1, 0, 1, false },
	{ IPPROTO_IPV6, IPV6_MULTICAST_IF, AF_INET6, 0, 0, 0, INT32_MAX, false },
	{ IPPROTO_IPV6, 29 /* IPV6_MULTICAST_ALL */, AF_INET6, 0, 1, 0, 1, false },
	{ IPPROTO_IPV6, IPV6_TCLASS, AF_INET6, 0, 0, -1, 255, false },
	{ IPPROTO_IPV6, IPV6_RECVPKTINFO, AF_INET6, 0, 0, 0, 0, true },
	{ IPPROTO_IPV6, IPV6_RECVERR, AF_INET6, 0, 0, 0, 0, true },
	{ IPPROTO_IPV6, IPV6_RECVTCLASS, AF_INET6, 0, 0, 0, 0, true },
	{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT, AF_INET6, 0, 0, 0, 0, true },
	{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, AF_INET6, 0, 1, 0, 5, false },
};
/* clang-format on */

/* A level that nobody answers for is another error than an option. */
static bool no_such_level(const struct sock *s, int level)
{
	if (level == SOL_SOCKET)
		return false;
	if (s->family == AF_UNIX)
		return true;
	return s->family == AF_INET && level != IPPROTO_IP &&
	       !(level == IPPROTO_TCP && s->type == SOCK_STREAM) &&
	       !((level == IPPROTO_UDP || level == s->protocol) && s->type == SOCK_DGRAM);
}

static const struct opt_row *row_of(const struct sock *s, int level, int name)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct opt_row *r = &rows[i];

		if (r->level != level || r->name != name)
			continue;
		/* IPv6 sockets answer the IPv4 options, too; unix ones none but their own. */
		if (level != SOL_SOCKET && s->family != AF_INET && s->family != AF_INET6)
			return NULL;
		if (r->family == AF_INET6 && s->family != AF_INET6)
			return NULL;
		if (r->type && r->type != s->type)
			return NULL;
		if (level == IPPROTO_UDPLITE && s->protocol != level)
			return NULL;
		return r;
	}
	return NULL;
}

static int opt_get(const struct sock *s, const struct opt_row *r)
{
	for (uint32_t i = 0; i < s->opt_count; i++) {
		if (s->opts[i].level == r->level && s->opts[i].name == r->name)
			return s->opts[i].value;
	}
	return r->first;
}

int sock_opt(const struct sock *s, int level, int name)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].level == level && rows[i].name == name)
			return opt_get(s, &rows[i]);
	}
	return 0;
}

static int opt_put(struct sock *s, const struct opt_row *r, int value)
{
	uint32_t i = 0;

	if (r->flag)
		value = value != 0;
	else if (value < r->min || value > r->max)
		return r->level == SOL_SOCKET && r->name == SO_PRIORITY ? -EPERM : -EINVAL;
	while (i < s->opt_count && (s->opts[i].level != r->level || s->opts[i].name != r->name))
		i++;
	if (i == SOCK_OPTS_MAX)
		return -ENOBUFS;
	s->opts[i] = (struct sock_opt){ (uint16_t)r->level, (uint16_t)r->name, value };
	if (i == s->opt_count)
		s->opt_count++;
	return 0;
}

int sock_opt_set(struct sock *s, int level, int name, int value)
{
	const struct opt_row *r = row_of(s, level, name);

	return r ? opt_put(s, r, value) : -ENOPROTOOPT;
}

static uint32_t buf_size(int v, uint32_t min, uint32_t max)
{
	uint32_t n = v < 0 || (uint32_t)v > max ? max : (uint32_t)v;

	n *= 2; /* Linux counts its own overhead so, and programs expect to read twice the value */
	return n < min ? min : n;
}

static long set_timeout(struct task *t, gva_t val, int32_t len, int64_t *ret)
{
	int64_t tv[2], ns;

	if (len < (int32_t)sizeof(tv))
		return -EINVAL;
	if (guest_read(t, tv, val, sizeof(tv)) < 0)
		return -EFAULT;
	if (tv[1] < 0 || tv[1] >= 1000000)
		return -EDOM;
	if (tv[0] < 0) {
		*ret = 1; /* "at once", as Linux has it */
		return 0;
	}
	if (ckd_mul(&ns, tv[0], NS_PER_S) || ckd_add(&ns, ns, tv[1] * 1000))
		ns = 0;
	*ret = ns;
	return 0;
}

static long set_linger(struct sock *s, struct task *t, gva_t val, int32_t len)
{
	struct linger l;

	if (len < (int32_t)sizeof(l))
		return -EINVAL;
	if (guest_read(t, &l, val, sizeof(l)) < 0)
		return -EFAULT;
	s->linger_on = l.l_onoff != 0;
	if (s->linger_on)
		s->linger_s = l.l_linger;
	return 0;
}

/* SOL_SOCKET with an int that acts: 1 when it was one of these. */
static long set_acting(struct sock *s, struct task *t, int name, int v)
{
	uint32_t most = SOCK_BUF_DEFAULT;

	switch (name) {
	case SO_REUSEADDR:
		s->reuseaddr = v != 0;
		return 1;
	case SO_REUSEPORT:
		if (s->family != AF_INET && s->family != AF_INET6)
			return -EOPNOTSUPP;
		s->reuseport = v != 0;
		return 1;
	case SO_BROADCAST:
		s->broadcast = v != 0;
		return 1;
	case SO_PASSCRED:
		if (s->family != AF_UNIX && s->family != AF_NETLINK)
			return -EOPNOTSUPP;
		s->passcred = v != 0;
		return 1;
	case SO_SNDBUFFORCE:
	case SO_RCVBUFFORCE:
		if (!net_may(t, CAP_NET_ADMIN))
			return -EPERM;
		v = v < 0 ? 0 : v;
		most = SOCK_BUF_FORCED;
		__attribute__((fallthrough));
	case SO_SNDBUF:
	case SO_RCVBUF:
		if (name == SO_SNDBUF || name == SO_SNDBUFFORCE)
			s->sndbuf = buf_size(v, SOCK_BUF_MIN, most);
		else
			s->rcvbuf = buf_size(v, SOCK_BUF_RCV_MIN, most);
		return 1;
	case SO_MARK:
		return net_may(t, CAP_NET_ADMIN) ? 1 : -EPERM;
	case SO_TYPE:
	case SO_PROTOCOL:
	case SO_DOMAIN:
	case SO_ERROR:
	case SO_ACCEPTCONN:
	case SO_PEERCRED:
	case SO_SNDLOWAT:
		return -ENOPROTOOPT;
	default:
		return 0;
	}
}

static long set_text(struct sock *s, struct task *t, int level, int name, gva_t val, int32_t len)
{
	char text[16] = "";
	size_t n = len < (int32_t)sizeof(text) - 1 ? (size_t)(len < 0 ? 0 : len) : sizeof(text) - 1;

	if (n && guest_read(t, text, val, n) < 0)
		return -EFAULT;
	if (level == SOL_SOCKET && name == SO_BINDTODEVICE)
		return text[0] == '\0' || strcmp(text, "lo") == 0 ? 0 : -ENODEV;
	if (len < 1)
		return -EINVAL;
	if (name == TCP_ULP)
		return -ENOENT; /* nothing goes on top of TCP, not even TLS */
	/* TCP_CONGESTION */
	return strcmp(text, "cubic") == 0 || strcmp(text, "reno") == 0 ? 0 : -ENOENT;
}

/* IPV6_ADDRFORM: a connection between IPv4 addresses becomes a socket of that family. */
static long set_form(struct sock *s, int v)
{
	if (v != AF_INET)
		return -EINVAL;
	if (s->protocol != IPPROTO_TCP && s->protocol != IPPROTO_UDP)
		return -ENOPROTOOPT;
	if (s->conn != SOCK_CONNECTED)
		return -ENOTCONN;
	if (s->v6only || !IN6_IS_ADDR_V4MAPPED(&s->remote.in6.sin6_addr))
		return -EADDRNOTAVAIL;
	s->family = AF_INET;
	return 0;
}

static long set_v6only(struct sock *s, int v)
{
	if (s->family != AF_INET6)
		return -ENOPROTOOPT;
	if (s->hashed)
		return -EINVAL;
	s->v6only = v != 0;
	return 0;
}

long sock_setopt(struct sock *s, struct task *t, int level, int name, gva_t val, int32_t len)
{
	const struct opt_row *row;
	int32_t v = 0;
	long r;

	if ((level == SOL_SOCKET && name == SO_BINDTODEVICE) ||
		(level == IPPROTO_TCP && (name == TCP_CONGESTION || name == TCP_ULP) &&
			s->type == SOCK_STREAM && s->family != AF_UNIX))
		return set_text(s, t, level, name, val, len);
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
		return set_timeout(t, val, len, name == SO_RCVTIMEO ? &s->rcvtimeo : &s->sndtimeo);
	if (level == SOL_SOCKET && name == SO_LINGER)
		return set_linger(s, t, val, len);
	if (group_knows(s, level, name))
		return group_setopt(s, t, level, name, val, len);
	if (len < (int32_t)sizeof(v)) {
		uint8_t byte;

		/* IP options take a byte, too. */
		if (level != IPPROTO_IP || len < 1)
			return -EINVAL;
		if (guest_read(t, &byte, val, 1) < 0)
			return -EFAULT;
		v = byte;
	} else if (guest_read(t, &v, val, sizeof(v)) < 0) {
		return -EFAULT;
	}
	if (level == SOL_SOCKET) {
		r = set_acting(s, t, name, v);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		return set_v6only(s, v);
	if (level == IPPROTO_IPV6 && name == IPV6_ADDRFORM && s->family == AF_INET6)
		return set_form(s, v);
	if (level == 270 /* SOL_NETLINK */ && s->family == AF_NETLINK)
		return 0; /* extended acks and the like: promises to accept more */
	row = row_of(s, level, name);
	if (!row)
		return s->family == AF_UNIX && level != SOL_SOCKET ? -EOPNOTSUPP : -ENOPROTOOPT;
	r = opt_put(s, row, v);
	/* Two forms of one thing: the last one said counts. */
	if (r == 0 && level == SOL_SOCKET && (name == SO_TIMESTAMP || name == SO_TIMESTAMPNS))
		r = opt_put(s,
			row_of(s, level, name == SO_TIMESTAMP ? SO_TIMESTAMPNS : SO_TIMESTAMP), 0);
	if (r == 0 && level == IPPROTO_UDP && name == UDP_CORK && v == 0 && s->cork)
		udp_push(s);
	if (r == 0 && level == IPPROTO_TCP &&
		((name == TCP_CORK && v == 0) || (name == TCP_NODELAY && v != 0)))
		tcp_push(s);
	return r;
}

/* Writes a value of @n bytes, cut to what the guest has room for. */
static long give(struct task *t, gva_t val, gva_t lenp, uint32_t room, const void *p, size_t n)
{
	if (room < n)
		n = room;
	if (n && guest_write(t, val, p, n) < 0)
		return -EFAULT;
	return guest_write_u32(t, lenp, (uint32_t)n);
}

static int get_acting(struct sock *s, int name, int32_t *ret)
{
	switch (name) {
	case SO_TYPE:
		*ret = s->type;
		return 1;
	case SO_PROTOCOL:
		*ret = s->protocol;
		return 1;
	case SO_DOMAIN:
		*ret = s->family;
		return 1;
	case SO_ERROR:
		*ret = -sock_take_error(s);
		return 1;
	case SO_ACCEPTCONN:
		*ret = s->listening;
		return 1;
	case SO_REUSEADDR:
		*ret = s->reuseaddr;
		return 1;
	case SO_REUSEPORT:
		*ret = s->reuseport;
		return 1;
	case SO_BROADCAST:
		*ret = s->broadcast;
		return 1;
	case SO_PASSCRED:
		*ret = s->passcred;
		return s->family == AF_UNIX || s->family == AF_NETLINK ? 1 : -EOPNOTSUPP;
	case SO_SNDBUF:
		*ret = (int32_t)s->sndbuf;
		return 1;
	case SO_RCVBUF:
		*ret = (int32_t)s->rcvbuf;
		return 1;
	case SO_SNDLOWAT:
		*ret = 1;
		return 1;
	case SO_MARK:
		*ret = 0;
		return 1;
	default:
		return 0;
	}
}

static long get_tcp_info(struct sock *s, struct task *t, gva_t val, gva_t lenp, uint32_t room)
{
	struct tcp_info i;

	memset(&i, 0, sizeof(i));
	i.tcpi_state = (uint8_t)sock_tcp_state(s);
	i.tcpi_snd_mss = i.tcpi_rcv_mss = i.tcpi_advmss = 65483;
	i.tcpi_pmtu = 65535;
	i.tcpi_snd_cwnd = 10;
	i.tcpi_rtt = 20;
	i.tcpi_rto = 204000;
	if (s->listening) {
		i.tcpi_unacked = s->accept_count;
		i.tcpi_sacked = s->backlog;
	}
	return give(t, val, lenp, room, &i, sizeof(i));
}

/* Options that are not one int: 1 when @name was none of these. */
static long get_other(
	struct sock *s, struct task *t, int level, int name, gva_t val, gva_t lenp, uint32_t room)
{
	if (level == SOL_SOCKET && name == SO_LINGER) {
		struct linger l = { s->linger_on, s->linger_s };

		return give(t, val, lenp, room, &l, sizeof(l));
	}
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
		int64_t ns = name == SO_RCVTIMEO ? s->rcvtimeo : s->sndtimeo;
		int64_t tv[2] = { ns / NS_PER_S, ns % NS_PER_S / 1000 };

		return give(t, val, lenp, room, tv, sizeof(tv));
	}
	if (level == SOL_SOCKET && name == SO_PEERCRED) {
		struct gucred c = s->has_peercred ? gucred_out(t, &s->peercred)
						  : (struct gucred){ 0, UINT32_MAX, UINT32_MAX };

		return give(t, val, lenp, room, &c, sizeof(c));
	}
	if (level == SOL_SOCKET && name == SO_PEERNAME) {
		struct saddr a;
		int r = s->ops->name(s, &a, true);

		if (r < 0)
			return r;
		return room < a.len ? -EINVAL : give(t, val, lenp, room, a.raw, a.len);
	}
	if (level == SOL_SOCKET && name == SO_BINDTODEVICE)
		return give(t, val, lenp, 0, "", 0);
	if (level == IPPROTO_TCP && s->protocol == IPPROTO_TCP) {
		if (name == TCP_INFO)
			return get_tcp_info(s, t, val, lenp, room);
		if (name == TCP_CONGESTION)
			return give(t, val, lenp, room, "cubic\0\0\0\0\0\0\0\0\0\0", 16);
	}
	return 1;
}

long sock_getopt(struct sock *s, struct task *t, int level, int name, gva_t val, gva_t lenp)
{
	const struct opt_row *row;
	int32_t v = 0, room;
	long r = 0;

	if (guest_read_u32(t, lenp, (uint32_t *)&room) < 0)
		return -EFAULT;
	if (room < 0)
		return -EINVAL;
	r = get_other(s, t, level, name, val, lenp, (uint32_t)room);
	if (r <= 0)
		return r;
	r = level == SOL_SOCKET ? get_acting(s, name, &v) : 0;
	if (r < 0)
		return r;
	if (r == 0 && level == IPPROTO_IPV6 && name == IPV6_V6ONLY && s->family == AF_INET6) {
		v = s->v6only;
	} else if (r == 0) {
		row = row_of(s, level, name);
		if (!row)
			return no_such_level(s, level) ? -EOPNOTSUPP : -ENOPROTOOPT;
		v = opt_get(s, row);
		if (level == IPPROTO_TCP && name == TCP_MAXSEG && s->conn == SOCK_CONNECTED)
			v = 65483;
	}
	return give(t, val, lenp, (uint32_t)room, &v, sizeof(v));
}
