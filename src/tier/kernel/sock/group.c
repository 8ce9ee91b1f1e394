/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/group.c - groups of receivers: who is in one, and who hears what is sent to it.
 *
 * Owns:  sock.groups.
 * Rules: lo is the only link, and the way to all groups leads over it. A datagram for a group that
 *        nobody in this network has joined is lost; on lo IP_MULTICAST_LOOP changes nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/sock/msg.h"
#include "tier/kernel/sock/sock.h"

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/walk.h"

enum { LINK_LO = 1, SINGLE_BYTES = 4 };
#ifndef IP_MULTICAST_ALL
#define IP_MULTICAST_ALL 49
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

/* What the options' structs come to. */
struct wanted {
	struct in6_addr group;
	int32_t link;           /* 0: not said */
	struct in_addr address; /* of the link */
};

static bool is_v4(const struct in6_addr *a)
{
	return IN6_IS_ADDR_V4MAPPED(a);
}

static struct in6_addr mapped(struct in_addr a)
{
	struct in6_addr r = { { { [10] = 0xff, [11] = 0xff } } };

	memcpy(&r.s6_addr[12], &a, sizeof(a));
	return r;
}

bool group_is(const struct in6_addr *a)
{
	return is_v4(a) ? (a->s6_addr[12] & 0xf0) == 0xe0 : a->s6_addr[0] == 0xff;
}

static int find(const struct sock *s, const struct in6_addr *a)
{
	for (uint32_t i = 0; i < s->group_count; i++)
		if (memcmp(&s->groups[i], a, sizeof(*a)) == 0)
			return (int)i;
	return -1;
}

static int join(struct sock *s, const struct in6_addr *a)
{
	if (find(s, a) >= 0)
		return -EADDRINUSE;
	if (s->group_count >= SOCK_GROUPS_MAX)
		return -ENOBUFS;
	if (!s->groups)
		s->groups = calloc(SOCK_GROUPS_MAX, sizeof(s->groups[0]));
	if (!s->groups)
		return -ENOMEM;
	s->groups[s->group_count++] = *a;
	return 0;
}

static int leave(struct sock *s, const struct in6_addr *a)
{
	int i = find(s, a);

	if (i < 0)
		return -EADDRNOTAVAIL;
	s->groups[i] = s->groups[--s->group_count];
	return 0;
}

static int check_link(const struct wanted *w)
{
	if (w->link != 0 && w->link != LINK_LO)
		return -ENODEV;
	if (!w->link && w->address.s_addr && (ntohl(w->address.s_addr) >> 24) != 127)
		return -ENODEV;
	return 0;
}

/* struct ip_mreq, or with a link's number behind it. */
static long read_mreq(struct task *t, gva_t val, int32_t len, struct wanted *ret)
{
	struct ip_mreqn m = { 0 };

	if (len < (int32_t)sizeof(struct ip_mreq))
		return -EINVAL;
	if (guest_read(t, &m, val, len >= (int32_t)sizeof(m) ? sizeof(m) : sizeof(struct ip_mreq)) <
		0)
		return -EFAULT;
	*ret = (struct wanted){ mapped(m.imr_multiaddr), m.imr_ifindex, m.imr_address };
	return 0;
}

static long read_mreq6(struct task *t, gva_t val, int32_t len, struct wanted *ret)
{
	struct ipv6_mreq m;

	if (len < (int32_t)sizeof(m))
		return -EINVAL;
	if (guest_read(t, &m, val, sizeof(m)) < 0)
		return -EFAULT;
	*ret = (struct wanted){ .group = m.ipv6mr_multiaddr, .link = (int32_t)m.ipv6mr_interface };
	return 0;
}

static long read_group_req(struct task *t, int level, gva_t val, int32_t len, struct wanted *ret)
{
	struct group_req q;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (len < (int32_t)sizeof(q))
		return -EINVAL;
	if (guest_read(t, &q, val, sizeof(q)) < 0)
		return -EFAULT;
	memcpy(&in, &q.gr_group, sizeof(in));
	memcpy(&in6, &q.gr_group, sizeof(in6));
	if (q.gr_group.ss_family != (level == IPPROTO_IP ? AF_INET : AF_INET6))
		return level == IPPROTO_IP ? -EINVAL : -EADDRNOTAVAIL;
	*ret = (struct wanted){
		.group = level == IPPROTO_IP ? mapped(in.sin_addr) : in6.sin6_addr,
		.link = (int32_t)q.gr_interface,
	};
	return 0;
}

static long read_wanted(
	struct task *t, int level, int name, gva_t val, int32_t len, struct wanted *ret)
{
	if (name == MCAST_JOIN_GROUP || name == MCAST_LEAVE_GROUP)
		return read_group_req(t, level, val, len, ret);
	return level == IPPROTO_IP ? read_mreq(t, val, len, ret) : read_mreq6(t, val, len, ret);
}

/* Where what is sent to groups leaves: it is lo, if it is anything. */
static long set_link(struct sock *s, struct task *t, int level, gva_t val, int32_t len)
{
	struct wanted w = { .link = 0 };
	int32_t v;

	if (level == IPPROTO_IP && len >= (int32_t)sizeof(struct ip_mreq)) {
		long r = read_mreq(t, val, len, &w);

		if (r < 0)
			return r;
		v = (int32_t)w.address.s_addr;
	} else {
		if (len < SINGLE_BYTES)
			return -EINVAL;
		if (guest_read(t, &v, val, sizeof(v)) < 0)
			return -EFAULT;
		if (level == IPPROTO_IP)
			w.address.s_addr = (uint32_t)v;
		else
			w.link = v;
	}
	if (check_link(&w) < 0)
		return level == IPPROTO_IP && !w.link ? -EADDRNOTAVAIL : -ENODEV;
	return sock_opt_set(s, level, level == IPPROTO_IP ? IP_MULTICAST_IF : IPV6_MULTICAST_IF, v);
}

bool group_knows(const struct sock *s, int level, int name)
{
	if (s->family != AF_INET && s->family != AF_INET6)
		return false;
	if (name == MCAST_JOIN_GROUP || name == MCAST_LEAVE_GROUP)
		return level == IPPROTO_IP || (level == IPPROTO_IPV6 && s->family == AF_INET6);
	if (level == IPPROTO_IP)
		return name == IP_ADD_MEMBERSHIP || name == IP_DROP_MEMBERSHIP ||
		       name == IP_MULTICAST_IF;
	return level == IPPROTO_IPV6 && s->family == AF_INET6 &&
	       (name == IPV6_JOIN_GROUP || name == IPV6_LEAVE_GROUP || name == IPV6_MULTICAST_IF);
}

long group_setopt(struct sock *s, struct task *t, int level, int name, gva_t val, int32_t len)
{
	bool new_form = name == MCAST_JOIN_GROUP || name == MCAST_LEAVE_GROUP;
	bool in = level == IPPROTO_IP ? name == IP_ADD_MEMBERSHIP : name == IPV6_JOIN_GROUP;
	struct wanted w;
	long r;

	if (name == (level == IPPROTO_IP ? IP_MULTICAST_IF : IPV6_MULTICAST_IF))
		return set_link(s, t, level, val, len);
	if (s->type == SOCK_STREAM && !new_form)
		return -EPROTO;
	r = read_wanted(t, level, name, val, len, &w);
	if (r < 0)
		return r;
	if (new_form)
		in = name == MCAST_JOIN_GROUP;
	if (!group_is(&w.group))
		return in || level == IPPROTO_IPV6 ? -EINVAL : -EADDRNOTAVAIL;
	r = check_link(&w);
	if (r < 0)
		return r;
	return in ? join(s, &w.group) : leave(s, &w.group);
}

/* Every machine is in these. */
static bool of_all(const struct in6_addr *a)
{
	static const uint8_t all4[] = { 224, 0, 0, 1 };
	static const struct in6_addr all6 = { { { 0xff, 0x02, [15] = 1 } } };

	return is_v4(a) ? memcmp(&a->s6_addr[12], all4, sizeof(all4)) == 0
			: memcmp(a, &all6, sizeof(*a)) == 0;
}

bool group_is_joined(const struct sock *s, const struct in6_addr *a)
{
	if (of_all(a))
		return true;
	for (const struct sock *o = s->k->sock->all; o; o = o->all_next)
		if (o->net == s->net && o->group_count && find(o, a) >= 0)
			return true;
	return false;
}

bool group_hears(const struct sock *s, const struct in6_addr *a)
{
	return find(s, a) >= 0 || (is_v4(a) ? sock_opt(s, IPPROTO_IP, IP_MULTICAST_ALL)
					    : sock_opt(s, IPPROTO_IPV6, IPV6_MULTICAST_ALL));
}

void groups_walk(struct sock *s, struct walk *w)
{
	uint32_t n = s->group_count;

	walk_list(w, "groups", &n, SOCK_GROUPS_MAX);
	for (uint32_t i = 0; i < n && !w->err; i++) {
		struct in6_addr a = { 0 };

		if (w->mode == WALK_SAVE)
			a = s->groups[i];
		walk_bytes(w, "group", &a, sizeof(a));
		if (w->mode == WALK_LOAD && !w->err)
			walk_fail(w, group_is(&a) ? join(s, &a) : -EBADMSG);
	}
}
