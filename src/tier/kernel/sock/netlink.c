/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/netlink.c - the questions of getaddrinfo, if_nameindex and iproute: what links, addresses
 * and routes there are. There is one of each: lo.
 *
 * Rules: an answer is put into the asker's own queue while the question is being sent. Changes are
 *        refused with EPERM, other questions with EOPNOTSUPP, both in an NLMSG_ERROR.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/ns/net.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sock/sock.h"

#include "base/buf.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"

enum { LO_INDEX = 1, REQUEST_MAX = 65536, ANSWER_MAX = 16384 };

static struct sockaddr_nl *nl_of(struct saddr *a)
{
	return (struct sockaddr_nl *)a->raw;
}

static void add_attr(struct buf *b, uint16_t type, const void *data, size_t len)
{
	struct rtattr a = { .rta_len = (uint16_t)(sizeof(a) + len), .rta_type = type };
	static const char zeros[4];

	buf_add(b, &a, sizeof(a));
	buf_add(b, data, len);
	buf_add(b, zeros, (4 - len % 4) % 4);
}

static void add_attr_u32(struct buf *b, uint16_t type, uint32_t v)
{
	add_attr(b, type, &v, sizeof(v));
}

static void add_attr_u8(struct buf *b, uint16_t type, uint8_t v)
{
	add_attr(b, type, &v, sizeof(v));
}

/* A message with an empty length; end_message() fills it in. */
static size_t begin_message(struct buf *b, const struct nlmsghdr *q, uint16_t type, uint16_t flags,
	const void *body, size_t len)
{
	struct nlmsghdr h = { .nlmsg_type = type,
		.nlmsg_flags = flags,
		.nlmsg_seq = q->nlmsg_seq,
		.nlmsg_pid = q->nlmsg_pid };
	size_t at = b->len;

	buf_add(b, &h, sizeof(h));
	buf_add(b, body, len);
	return at;
}

static void end_message(struct buf *b, size_t at)
{
	uint32_t len = (uint32_t)(b->len - at);

	if (!b->bad)
		memcpy(b->data + at, &len, sizeof(len));
}

/* That of the first is, whether or not there is anything behind it. */
static bool is_up(const struct task *t)
{
	const struct ns *n = ns_of(t, NS_NET);

	return !n || net_is_up(t->k, n);
}

static void add_link(const struct task *t, struct buf *b, const struct nlmsghdr *q, uint16_t flags)
{
	struct ifinfomsg i = { .ifi_type = ARPHRD_LOOPBACK,
		.ifi_index = LO_INDEX,
		.ifi_flags = IFF_LOOPBACK | (is_up(t) ? IFF_UP | IFF_RUNNING | IFF_LOWER_UP : 0) };
	static const uint8_t mac[6];
	struct rtnl_link_stats64 stats64;
	struct rtnl_link_stats stats;
	size_t at = begin_message(b, q, RTM_NEWLINK, flags, &i, sizeof(i));

	add_attr(b, IFLA_IFNAME, "lo", 3);
	add_attr_u32(b, IFLA_TXQLEN, 1000);
	add_attr_u8(b, IFLA_OPERSTATE, 0);
	add_attr_u8(b, IFLA_LINKMODE, 0);
	add_attr_u32(b, IFLA_MTU, net_mtu(ns_of(t, NS_NET)));
	add_attr_u32(b, IFLA_GROUP, 0);
	add_attr_u32(b, IFLA_NUM_TX_QUEUES, 1);
	add_attr_u32(b, IFLA_NUM_RX_QUEUES, 1);
	add_attr_u8(b, IFLA_CARRIER, 1);
	add_attr(b, IFLA_QDISC, "noqueue", 8);
	add_attr(b, IFLA_ADDRESS, mac, sizeof(mac));
	add_attr(b, IFLA_BROADCAST, mac, sizeof(mac));
	memset(&stats64, 0, sizeof(stats64));
	memset(&stats, 0, sizeof(stats));
	add_attr(b, IFLA_STATS64, &stats64, sizeof(stats64));
	add_attr(b, IFLA_STATS, &stats, sizeof(stats));
	end_message(b, at);
}

static void add_address(struct buf *b, const struct nlmsghdr *q, uint8_t family)
{
	static const uint8_t v4[4] = { 127, 0, 0, 1 }, v6[16] = { [15] = 1 };
	struct ifaddrmsg a = { .ifa_family = family,
		.ifa_prefixlen = family == AF_INET ? 8 : 128,
		.ifa_flags = IFA_F_PERMANENT,
		.ifa_scope = RT_SCOPE_HOST,
		.ifa_index = LO_INDEX };
	struct ifa_cacheinfo forever = { .ifa_prefered = UINT32_MAX, .ifa_valid = UINT32_MAX };
	size_t at = begin_message(b, q, RTM_NEWADDR, NLM_F_MULTI, &a, sizeof(a));

	if (family == AF_INET) {
		add_attr(b, IFA_ADDRESS, v4, sizeof(v4));
		add_attr(b, IFA_LOCAL, v4, sizeof(v4));
		add_attr(b, IFA_LABEL, "lo", 3);
	} else {
		add_attr(b, IFA_ADDRESS, v6, sizeof(v6));
	}
	add_attr(b, IFA_CACHEINFO, &forever, sizeof(forever));
	add_attr_u32(b, IFA_FLAGS, IFA_F_PERMANENT);
	end_message(b, at);
}

static void add_route(struct buf *b, const struct nlmsghdr *q, uint8_t family, uint16_t flags)
{
	static const uint8_t v4[4] = { 127, 0, 0, 0 }, v6[16] = { [15] = 1 },
			     src[4] = { 127, 0, 0, 1 };
	struct rtmsg r = { .rtm_family = family,
		.rtm_dst_len = family == AF_INET ? 8 : 128,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_KERNEL,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_LOCAL };
	size_t at = begin_message(b, q, RTM_NEWROUTE, flags, &r, sizeof(r));

	add_attr_u32(b, RTA_TABLE, RT_TABLE_LOCAL);
	if (family == AF_INET) {
		add_attr(b, RTA_DST, v4, sizeof(v4));
		add_attr(b, RTA_PREFSRC, src, sizeof(src));
	} else {
		add_attr(b, RTA_DST, v6, sizeof(v6));
	}
	add_attr_u32(b, RTA_OIF, LO_INDEX);
	end_message(b, at);
}

static void add_done(struct buf *b, const struct nlmsghdr *q)
{
	int32_t zero = 0;

	end_message(b, begin_message(b, q, NLMSG_DONE, NLM_F_MULTI, &zero, sizeof(zero)));
}

static void add_error(struct buf *b, const struct nlmsghdr *q, int err)
{
	struct nlmsgerr e = { .error = -err, .msg = *q };

	end_message(b, begin_message(b, q, NLMSG_ERROR, 0, &e, sizeof(e)));
}

static int answer_dump(
	const struct task *t, struct buf *b, const struct nlmsghdr *q, uint8_t family)
{
	switch (q->nlmsg_type) {
	case RTM_GETLINK:
		add_link(t, b, q, NLM_F_MULTI);
		break;
	case RTM_GETADDR:
		if (family != AF_INET6)
			add_address(b, q, AF_INET);
		if (family != AF_INET)
			add_address(b, q, AF_INET6);
		break;
	case RTM_GETROUTE:
		if (family != AF_INET6)
			add_route(b, q, AF_INET, NLM_F_MULTI);
		if (family != AF_INET)
			add_route(b, q, AF_INET6, NLM_F_MULTI);
		break;
	case RTM_GETNEIGH:
	case RTM_GETRULE:
	case RTM_GETQDISC:
		break; /* there are none */
	default:
		return -EOPNOTSUPP;
	}
	add_done(b, q);
	return 0;
}

/* Is it about lo, by number or by name? */
static bool asks_for_lo(const struct nlmsghdr *q, const uint8_t *body, size_t len)
{
	struct ifinfomsg i;
	size_t at = sizeof(i);

	if (len < sizeof(i))
		return false;
	memcpy(&i, body, sizeof(i));
	if (i.ifi_index)
		return i.ifi_index == LO_INDEX;
	while (at + sizeof(struct rtattr) <= len) {
		struct rtattr a;

		memcpy(&a, body + at, sizeof(a));
		if (a.rta_len < sizeof(a) || a.rta_len > len - at)
			return false;
		if (a.rta_type == IFLA_IFNAME)
			return a.rta_len >= sizeof(a) + 2 &&
			       memcmp(body + at + sizeof(a), "lo", 2) == 0 &&
			       (a.rta_len == sizeof(a) + 2 || body[at + sizeof(a) + 2] == '\0');
		at += (a.rta_len + 3u) & ~3u;
	}
	return false;
}

/* lo goes up or down, by who may say so: 0, or 1 when something else is asked for. */
static int set_link(const struct task *t, const struct nlmsghdr *q, const uint8_t *body, size_t len)
{
	struct ifinfomsg i;

	if (q->nlmsg_type != RTM_NEWLINK || !asks_for_lo(q, body, len))
		return 1;
	memcpy(&i, body, sizeof(i));
	if (!net_may(t, CAP_NET_ADMIN) || !i.ifi_index || len != sizeof(i) ||
		(i.ifi_change & ~(unsigned)IFF_UP))
		return 1;
	return net_set_up(t, i.ifi_flags & IFF_UP);
}

/* The address that a new lo will have when it is up is given to it: nothing changes. */
static bool gives_own_address(
	const struct task *t, const struct nlmsghdr *q, const uint8_t *body, size_t len)
{
	struct ifaddrmsg a;

	if (q->nlmsg_type != RTM_NEWADDR || !ns_of(t, NS_NET) || len < sizeof(a))
		return false;
	memcpy(&a, body, sizeof(a));
	return net_may(t, CAP_NET_ADMIN) && a.ifa_family == AF_INET && a.ifa_index == LO_INDEX &&
	       a.ifa_prefixlen == 8;
}

static int answer_one(const struct task *t, struct buf *b, const struct nlmsghdr *q,
	const uint8_t *body, size_t len)
{
	uint8_t family = len ? body[0] : 0;

	if (q->nlmsg_type == RTM_GETLINK) {
		if (!asks_for_lo(q, body, len))
			return -ENODEV;
		add_link(t, b, q, 0);
		return 0;
	}
	if (q->nlmsg_type == RTM_GETROUTE) {
		if (family != AF_INET && family != AF_INET6)
			return -EOPNOTSUPP;
		add_route(b, q, family, 0);
		return 0;
	}
	return -EOPNOTSUPP;
}

/* Either bit asks for all; in a request that changes something they mean something else. */
static bool is_dump(const struct nlmsghdr *q)
{
	return (q->nlmsg_type & 3) == 2 && (q->nlmsg_flags & NLM_F_DUMP);
}

static int answer(
	struct task *t, struct buf *b, const struct nlmsghdr *q, const uint8_t *body, size_t len)
{
	int r = set_link(t, q, body, len);

	if (r <= 0)
		return r;
	if (gives_own_address(t, q, body, len))
		return 0;
	/* Kinds come in fours: new, delete, get, set. Only get is a question. */
	if (q->nlmsg_type >= RTM_BASE && (q->nlmsg_type & 3) != 2)
		return -EPERM;
	if (is_dump(q))
		return answer_dump(t, b, q, len ? body[0] : 0);
	return answer_one(t, b, q, body, len);
}

static int put_answer(struct sock *s, const struct buf *b)
{
	struct skb *k;

	if (b->bad)
		return -ENOBUFS;
	if (b->len == 0)
		return 0;
	if (s->rx_bytes + b->len > s->rcvbuf)
		return -ENOBUFS;
	k = skb_create(b->len);
	if (!k)
		return -ENOBUFS;
	memcpy(k->data, b->data, b->len);
	k->len = (uint32_t)b->len;
	k->src.len = sizeof(struct sockaddr_nl);
	nl_of(&k->src)->nl_family = AF_NETLINK;
	sock_queue(s, k);
	wait_wake(&s->wait, POLLIN | POLLRDNORM);
	return 0;
}

static void netlink_autobind(struct sock *s, struct task *t)
{
	if (nl_of(&s->local)->nl_family == AF_NETLINK)
		return;
	memset(s->local.raw, 0, sizeof(s->local.raw));
	nl_of(&s->local)->nl_family = AF_NETLINK;
	nl_of(&s->local)->nl_pid = (uint32_t)proc_nr(t, t->proc);
	s->local.len = sizeof(struct sockaddr_nl);
}

static ssize_t netlink_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m)
{
	size_t len = io->left, at = 0;
	uint8_t *data;
	int r = 0;

	if (m->flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (len > REQUEST_MAX)
		return -EMSGSIZE;
	data = malloc(len ? len : 1);
	if (!data)
		return -ENOBUFS;
	if (len && uio_in(io, data, len) < (ssize_t)len) {
		free(data);
		return -EFAULT;
	}
	netlink_autobind(s, t);
	while (r == 0 && at + sizeof(struct nlmsghdr) <= len) {
		own_buf struct buf b = { 0 };
		struct nlmsghdr q;
		int e;

		memcpy(&q, data + at, sizeof(q));
		if (q.nlmsg_len < sizeof(q) || q.nlmsg_len > len - at)
			break;
		q.nlmsg_pid = nl_of(&s->local)->nl_pid;
		buf_init(&b, ANSWER_MAX);
		if (q.nlmsg_flags & NLM_F_REQUEST && q.nlmsg_type >= NLMSG_MIN_TYPE) {
			e = answer(t, &b, &q, data + at + sizeof(q), q.nlmsg_len - sizeof(q));
			if (e < 0 || ((q.nlmsg_flags & NLM_F_ACK) && !is_dump(&q)))
				add_error(&b, &q, -e);
			r = put_answer(s, &b);
		}
		at += (q.nlmsg_len + 3u) & ~3u;
	}
	free(data);
	return r < 0 ? r : (ssize_t)len;
}

static int netlink_bind(struct sock *s, struct task *t, const struct saddr *a)
{
	struct sockaddr_nl nl;

	if (a->len < sizeof(nl))
		return -EINVAL;
	memcpy(&nl, a->raw, sizeof(nl));
	if (nl.nl_family != AF_NETLINK)
		return -EINVAL;
	netlink_autobind(s, t);
	if (nl.nl_pid)
		nl_of(&s->local)->nl_pid = nl.nl_pid;
	nl_of(&s->local)->nl_groups = nl.nl_groups; /* nothing ever changes: no news */
	return 0;
}

static long netlink_connect(struct sock *s, struct task *t, const struct saddr *a, bool no_wait)
{
	if (a->len < sizeof(sa_family_t))
		return -EINVAL;
	if (a->family != AF_NETLINK && a->family != AF_UNSPEC)
		return -EINVAL;
	netlink_autobind(s, t);
	return 0;
}

static int netlink_name(struct sock *s, struct saddr *ret, bool peer)
{
	memset(ret, 0, sizeof(*ret));
	if (!peer)
		*ret = s->local;
	ret->len = sizeof(struct sockaddr_nl);
	nl_of(ret)->nl_family = AF_NETLINK;
	if (!peer && nl_of(&s->local)->nl_family != AF_NETLINK)
		memset(ret->raw + sizeof(sa_family_t), 0, sizeof(ret->raw) - sizeof(sa_family_t));
	return 0;
}

static unsigned netlink_poll(struct sock *s, struct poll_reg *reg)
{
	poll_wait(reg, &s->wait);
	return (s->rx ? POLLIN | POLLRDNORM : 0) | POLLOUT | POLLWRNORM | POLLWRBAND |
	       (s->err ? POLLERR : 0);
}

static int netlink_none(struct sock *s, int how)
{
	return -EOPNOTSUPP;
}

static int netlink_listen(struct sock *s, struct task *t, int backlog)
{
	return -EOPNOTSUPP;
}

static int netlink_accept(struct sock *s, struct sock **ret)
{
	return -EOPNOTSUPP;
}

const struct sock_ops netlink_ops = {
	.bind = netlink_bind,
	.connect = netlink_connect,
	.listen = netlink_listen,
	.accept = netlink_accept,
	.send = netlink_send,
	.recv = dgram_recv,
	.shutdown = netlink_none,
	.poll = netlink_poll,
	.name = netlink_name,
};

int netlink_is(const struct file *f)
{
	struct sock *s = sock_of(f);

	return !s ? -ENOTSOCK : s->family == AF_NETLINK ? 0 : -EINVAL;
}

void netlink_tell(struct file *f, const void *data, size_t len)
{
	struct sock *s = sock_of(f);
	struct buf b;

	if (!s)
		return;
	buf_init(&b, len);
	buf_add(&b, data, len);
	put_answer(s, &b); /* a full queue loses it, as on Linux */
	buf_done(&b);
}
