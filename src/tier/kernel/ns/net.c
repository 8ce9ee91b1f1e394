/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/net.c - network namespaces.
 *
 * Owns:  struct net_ns.
 * Rules: a socket has the namespace that its maker was in, and finds others there only (sock/).
 */
#include <errno.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/net.h"

bool net_is_up(const struct kernel *k, const struct ns *n)
{
	return n ? ((const struct net_ns *)n)->up : !k->no_loopback;
}

bool net_may(const struct task *t, int cap)
{
	const struct ns *n = ns_of(t, NS_NET);

	return task_capable_in(t, n ? n->owner : NULL, cap);
}

int net_set_up(const struct task *t, bool up)
{
	struct net_ns *n = (struct net_ns *)ns_of(t, NS_NET);

	if (!n)
		return up ? 0 : -EPERM;
	n->up = up;
	return 0;
}

uint32_t net_mtu(const struct ns *n)
{
	uint32_t mtu = n ? ((const struct net_ns *)n)->mtu : 0;

	return mtu ? mtu : NET_LO_MTU;
}

int net_set_mtu(const struct task *t, int32_t mtu)
{
	struct net_ns *n = (struct net_ns *)ns_of(t, NS_NET);

	if (mtu <= 0)
		return -EINVAL;
	if (!n)
		return mtu == NET_LO_MTU ? 0 : -EPERM;
	n->mtu = (uint32_t)mtu;
	return 0;
}

struct ns *net_create(struct task *t, struct user_ns *owner, int *ret_err)
{
	return ns_create(t->k, NS_NET, sizeof(struct net_ns), owner, ret_err);
}
