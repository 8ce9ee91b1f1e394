/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_NS_NET_H
#define WARD_TIER_KERNEL_NS_NET_H

#include "tier/kernel/ns/ns.h"

/* Network namespaces: ports and abstract names of its own, and a loopback that begins down. */
struct net_ns {
	struct ns ns;
	bool up;
	uint32_t mtu; /* of its loopback; 0: as it began */
};

/* Is there a network at all behind @n (NULL: the first)? */
bool net_is_up(const struct kernel *k, const struct ns *n);
/* May @t change its network, or bind what only root may (@cap)? */
bool net_may(const struct task *t, int cap);
/* The loopback of @t's goes up or down; -EPERM: that of the first stays. */
int net_set_up(const struct task *t, bool up);
/* Its largest packet, which is told and nothing is cut by. */
enum { NET_LO_MTU = 65536 };
uint32_t net_mtu(const struct ns *n);
int net_set_mtu(const struct task *t, int32_t mtu); /* -EINVAL; -EPERM: as above */
struct ns *net_create(struct task *t, struct user_ns *owner, int *ret_err);

#endif
