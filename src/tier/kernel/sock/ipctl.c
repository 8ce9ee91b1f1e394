/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/ipctl.c - what a datagram says of its way: hop limit, class, addresses, time of arrival.
 *
 * Rules: it is set by options or control messages of the sender, and shown to a receiver who asked
 *        for it by an option, in the order in which Linux does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "tier/kernel/sock/msg.h"

#include "tier/kernel/kernel.h"

enum { LOOPBACK_INDEX = 1, HOPS_DEFAULT = 64, BYTE_MAX = 255 };
#define NS_PER_S 1000000000LL

static bool is_v4(const struct in6_addr *a)
{
	return IN6_IS_ADDR_V4MAPPED(a);
}

static int number(const uint8_t *data, size_t len, int min, int *ret)
{
	int32_t v;

	if (len != sizeof(v))
		return -EINVAL;
	memcpy(&v, data, sizeof(v));
	if (v < min || v > BYTE_MAX)
		return -EINVAL;
	*ret = v;
	return 0;
}

static int set_source(struct ip_ctl *c, int32_t index, const struct in6_addr *from)
{
	if (index != 0 && index != LOOPBACK_INDEX)
		return -ENODEV;
	if (inet_addr_any(from))
		return 0;
	if (!inet_addr_is_ours(from))
		return -EINVAL;
	c->source = *from;
	c->said |= IP_SOURCE_SAID;
	return 0;
}

static int parse_v4(int type, const uint8_t *data, size_t len, struct ip_ctl *c)
{
	struct in6_addr from = { { { [10] = 0xff, [11] = 0xff } } };
	struct in_pktinfo info;
	int v, r;

	switch (type) {
	case IP_TTL:
		r = number(data, len, 1, &v);
		if (r == 0) {
			c->ttl = (uint8_t)v;
			c->said |= IP_TTL_SAID;
		}
		return r;
	case IP_TOS:
		v = data[0];
		r = len == 1 ? 0 : number(data, len, 0, &v);
		if (r == 0) {
			c->tos = (uint8_t)v;
			c->said |= IP_TOS_SAID;
		}
		return r;
	case IP_PKTINFO:
		if (len != sizeof(info))
			return -EINVAL;
		memcpy(&info, data, sizeof(info));
		memcpy(&from.s6_addr[12], &info.ipi_spec_dst, 4);
		return set_source(c, info.ipi_ifindex, &from);
	default:
		return -EINVAL;
	}
}

static int parse_v6(int type, const uint8_t *data, size_t len, struct ip_ctl *c)
{
	struct in6_pktinfo info;
	int v, r;

	switch (type) {
	case IPV6_HOPLIMIT:
		r = number(data, len, -1, &v);
		c->ttl = r == 0 && v >= 0 ? (uint8_t)v : c->ttl;
		c->said |= r == 0 && v >= 0 ? IP_TTL_SAID : 0;
		return r;
	case IPV6_TCLASS:
		r = number(data, len, -1, &v);
		c->tos = r == 0 && v >= 0 ? (uint8_t)v : c->tos;
		c->said |= r == 0 && v >= 0 ? IP_TOS_SAID : 0;
		return r;
	case IPV6_PKTINFO:
		if (len < sizeof(info))
			return -EINVAL;
		memcpy(&info, data, sizeof(info));
		return set_source(c, (int32_t)info.ipi6_ifindex, &info.ipi6_addr);
	default:
		return -EINVAL;
	}
}

int ip_ctl_parse(const struct sock *s, int level, int type, const uint8_t *data, size_t len,
	struct ip_ctl *c)
{
	if (s->ops != &udp_ops || len == 0)
		return 0; /* nobody looks */
	if (level == IPPROTO_IP)
		return parse_v4(type, data, len, c);
	if (level == IPPROTO_IPV6 && s->family == AF_INET6)
		return parse_v6(type, data, len, c);
	return level == IPPROTO_UDP ? -EINVAL : 0;
}

void ip_ctl_fill(const struct sock *s, const struct in6_addr *to, struct ip_ctl *c)
{
	bool v4 = is_v4(to);
	int v;

	if (!(c->said & IP_TTL_SAID)) {
		if (v4)
			v = sock_opt(s, IPPROTO_IP, group_is(to) ? IP_MULTICAST_TTL : IP_TTL);
		else
			v = sock_opt(s, IPPROTO_IPV6,
				group_is(to) ? IPV6_MULTICAST_HOPS : IPV6_UNICAST_HOPS);
		c->ttl = v < 0 ? HOPS_DEFAULT : (uint8_t)v;
	}
	if (!(c->said & IP_TOS_SAID)) {
		v = v4 ? sock_opt(s, IPPROTO_IP, IP_TOS) : sock_opt(s, IPPROTO_IPV6, IPV6_TCLASS);
		c->tos = v < 0 ? 0 : (uint8_t)v;
	}
	c->to = *to;
}

/* Where control messages go, as far as there is room. */
struct out {
	struct task *task;
	gva_t at;
	uint64_t room, used;
	unsigned *flags;
};

static long put(struct out *o, int level, int type, const void *data, size_t len)
{
	uint64_t used = 0;
	long r = scm_put(o->task, gva_add(o->at, o->used), o->room - o->used, level, type, data,
		len, &used, o->flags);

	o->used += used;
	return r;
}

static long give_v4(struct out *o, const struct sock *s, const struct ip_ctl *c)
{
	struct in_pktinfo info = { .ipi_ifindex = LOOPBACK_INDEX };
	int32_t ttl = c->ttl;
	long r = 0;

	memcpy(&info.ipi_addr, &c->to.s6_addr[12], 4);
	info.ipi_spec_dst = info.ipi_addr;
	if (sock_opt(s, IPPROTO_IP, IP_PKTINFO))
		r = put(o, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	if (r == 0 && sock_opt(s, IPPROTO_IP, IP_RECVTTL))
		r = put(o, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	if (r == 0 && sock_opt(s, IPPROTO_IP, IP_RECVTOS))
		r = put(o, IPPROTO_IP, IP_TOS, &c->tos, sizeof(c->tos));
	return r;
}

static long give_v6(struct out *o, const struct sock *s, const struct ip_ctl *c)
{
	struct in6_pktinfo info = { .ipi6_addr = c->to, .ipi6_ifindex = LOOPBACK_INDEX };
	int32_t ttl = c->ttl, tos = c->tos;
	long r = 0;

	if (sock_opt(s, IPPROTO_IPV6, IPV6_RECVPKTINFO))
		r = put(o, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	if (is_v4(&c->to))
		return r == 0 ? give_v4(o, s, c) : r;
	if (r == 0 && sock_opt(s, IPPROTO_IPV6, IPV6_RECVHOPLIMIT))
		r = put(o, IPPROTO_IPV6, IPV6_HOPLIMIT, &ttl, sizeof(ttl));
	if (r == 0 && sock_opt(s, IPPROTO_IPV6, IPV6_RECVTCLASS))
		r = put(o, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	return r;
}

static long give_time(struct out *o, const struct sock *s, int64_t stamp)
{
	int64_t when[2];

	if (stamp == 0)
		stamp = kernel_realtime(s->k);
	when[0] = stamp / NS_PER_S;
	when[1] = stamp % NS_PER_S;
	if (sock_opt(s, SOL_SOCKET, SO_TIMESTAMPNS))
		return put(o, SOL_SOCKET, SO_TIMESTAMPNS, when, sizeof(when));
	when[1] /= 1000;
	return put(o, SOL_SOCKET, SO_TIMESTAMP, when, sizeof(when));
}

bool ip_ctl_timed(const struct sock *s)
{
	return sock_opt(s, SOL_SOCKET, SO_TIMESTAMP) || sock_opt(s, SOL_SOCKET, SO_TIMESTAMPNS);
}

long ip_ctl_give(struct task *task, const struct sock *s, const struct ip_ctl *c, gva_t at,
	uint64_t room, uint64_t *ret_used, unsigned *flags)
{
	struct out o = { .task = task, .at = at, .room = room, .flags = flags };
	long r = 0;

	if (s->opt_count == 0)
		return 0;
	if (s->type == SOCK_DGRAM && ip_ctl_timed(s))
		r = give_time(&o, s, c->stamp_ns);
	if (r == 0 && s->ops == &udp_ops)
		r = s->family == AF_INET ? give_v4(&o, s, c) : give_v6(&o, s, c);
	*ret_used = o.used;
	return r;
}
