/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail/caps.c - drops capabilities.
 *
 * Owns:  the list of what the sandbox's own root keeps.
 * Rules: no allocation: runs between clone and exec. Never sys_admin, net_admin, sys_ptrace, mknod.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <linux/capability.h>

#include "host/host.h"
#include "jail/caps.h"

#define BIT(cap) (1ULL << (cap))

static const uint64_t kept = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) |
			     BIT(CAP_FSETID) | BIT(CAP_KILL) | BIT(CAP_SETUID) | BIT(CAP_SETGID) |
			     BIT(CAP_SETPCAP) | BIT(CAP_NET_BIND_SERVICE) | BIT(CAP_SYS_CHROOT);

int jail_bound(uint64_t keep, struct err *e)
{
	for (unsigned cap = 0; cap < 64; cap++) {
		int r = keep & BIT(cap) ? 0 : host_prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);

		if (r == -EINVAL && cap > CAP_AUDIT_READ) /* the first that does not exist */
			break;
		if (r < 0)
			return err_set(e, -r, "dropping capability %u", cap);
	}
	return 0;
}

int jail_caps(struct err *e)
{
	int r = jail_bound(kept, e);

	if (r < 0)
		return r;
	r = host_capset(kept, kept, 0);
	if (r < 0)
		return err_set(e, -r, "setting capabilities");
	return 0;
}
