/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/ifreq.c - the SIOCGIF questions. There is one interface: lo.
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stddef.h>
#include <string.h>

#include "tier/kernel/ns/net.h"
#include "tier/kernel/sock/sock.h"

#include "tier/kernel/kernel.h"

enum { LO_INDEX = 1, IFREQ_BYTES = 40 };
_Static_assert(sizeof(struct ifreq) == IFREQ_BYTES, "as the guest has it");

static void fill_in(struct ifreq *r, uint32_t addr)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(addr) };

	memcpy(&r->ifr_addr, &in, sizeof(in));
}

static long list_interfaces(struct task *t, gva_t at)
{
	struct {
		int32_t len, pad;
		uint64_t buf;
	} c;
	struct ifreq r;

	if (guest_read(t, &c, at, sizeof(c)) < 0)
		return -EFAULT;
	memset(&r, 0, sizeof(r));
	memcpy(r.ifr_name, "lo", 3);
	fill_in(&r, INADDR_LOOPBACK);
	if (c.buf == 0) { /* how much would it be? */
		c.len = IFREQ_BYTES;
	} else if (c.len >= IFREQ_BYTES) {
		if (guest_write(t, GVA(c.buf), &r, sizeof(r)) < 0)
			return -EFAULT;
		c.len = IFREQ_BYTES;
	} else {
		c.len = 0;
	}
	return guest_write(t, at, &c.len, sizeof(c.len));
}

/* That of the first is, whether or not there is anything behind it. */
static bool is_up(const struct task *t)
{
	const struct ns *n = ns_of(t, NS_NET);

	return !n || net_is_up(t->k, n);
}

static int answer(const struct task *t, unsigned cmd, struct ifreq *r)
{
	switch (cmd) {
	case SIOCGIFFLAGS:
		r->ifr_flags = IFF_LOOPBACK;
		if (is_up(t))
			r->ifr_flags |= IFF_UP | IFF_RUNNING;
		return 0;
	case SIOCGIFADDR:
		if (!is_up(t))
			return -EADDRNOTAVAIL;
		fill_in(r, INADDR_LOOPBACK);
		return 0;
	case SIOCGIFNETMASK:
		fill_in(r, 0xff000000);
		return 0;
	case SIOCGIFBRDADDR:
	case SIOCGIFDSTADDR:
		fill_in(r, cmd == SIOCGIFDSTADDR ? INADDR_LOOPBACK : 0);
		return 0;
	case SIOCGIFMTU:
		r->ifr_mtu = (int)net_mtu(ns_of(t, NS_NET));
		return 0;
	case SIOCGIFMETRIC:
		r->ifr_metric = 0;
		return 0;
	case SIOCGIFINDEX:
		r->ifr_ifindex = LO_INDEX;
		return 0;
	case SIOCGIFTXQLEN:
		r->ifr_qlen = 1000;
		return 0;
	case SIOCGIFHWADDR:
		memset(&r->ifr_hwaddr, 0, sizeof(r->ifr_hwaddr));
		r->ifr_hwaddr.sa_family = ARPHRD_LOOPBACK;
		return 0;
	default:
		return -EINVAL;
	}
}

static bool is_change(unsigned cmd)
{
	return cmd == SIOCSIFFLAGS || cmd == SIOCSIFADDR || cmd == SIOCSIFNETMASK ||
	       cmd == SIOCSIFMTU || cmd == SIOCSIFBRDADDR || cmd == SIOCSIFHWADDR ||
	       cmd == SIOCSIFNAME || cmd == SIOCADDRT || cmd == SIOCDELRT || cmd == SIOCSIFTXQLEN ||
	       cmd == SIOCSIFDSTADDR;
}

/* The first namespace's interface is up, and stays as it is: asking for that is no change. */
static long change(struct task *t, unsigned cmd, struct ifreq *r)
{
	if (!net_may(t, CAP_NET_ADMIN))
		return -EPERM;
	r->ifr_name[sizeof(r->ifr_name) - 1] = '\0';
	if (strcmp(r->ifr_name, "lo") != 0)
		return -ENODEV;
	if (cmd == SIOCSIFMTU)
		return net_set_mtu(t, r->ifr_mtu);
	return cmd == SIOCSIFFLAGS ? net_set_up(t, r->ifr_flags & IFF_UP) : -EPERM;
}

long sock_ioctl_if(struct sock *s, struct task *t, unsigned cmd, uint64_t arg)
{
	struct ifreq r;
	int e;

	if (cmd == SIOCGIFCONF)
		return list_interfaces(t, GVA(arg));
	if (cmd == SIOCADDRT || cmd == SIOCDELRT)
		return -EPERM;
	if (is_change(cmd))
		return guest_read(t, &r, GVA(arg), sizeof(r)) < 0 ? -EFAULT : change(t, cmd, &r);
	if (cmd != SIOCGIFNAME && (cmd < SIOCGIFNAME || cmd > SIOCSIFTXQLEN))
		return -ENOTTY;
	if (guest_read(t, &r, GVA(arg), sizeof(r)) < 0)
		return -EFAULT;
	if (cmd == SIOCGIFNAME) {
		if (r.ifr_ifindex != LO_INDEX)
			return -ENODEV;
		memset(r.ifr_name, 0, sizeof(r.ifr_name));
		memcpy(r.ifr_name, "lo", 3);
		return guest_write(t, GVA(arg), &r, sizeof(r));
	}
	r.ifr_name[sizeof(r.ifr_name) - 1] = '\0';
	if (strcmp(r.ifr_name, "lo") != 0)
		return -ENODEV;
	e = answer(t, cmd, &r);
	return e < 0 ? e : guest_write(t, GVA(arg), &r, sizeof(r));
}
