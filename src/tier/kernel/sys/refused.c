/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/refused.c - calls about files that a guest is told it may not make.
 *
 * Owns:  nothing.
 * Rules: the answer is the one that Linux gives to a process without the capability, so that
 *        programs take the way they have for that.
 */
#include "tier/kernel/sys/sys.h"

#define REFUSED(name, err)                                                                         \
	SYSCALL0(name)                                                                             \
	{                                                                                          \
		return -(err);                                                                     \
	}

REFUSED(swapon, EPERM)
REFUSED(swapoff, EPERM)
REFUSED(acct, EPERM)
REFUSED(quotactl, EPERM)
REFUSED(quotactl_fd, EPERM)
REFUSED(lookup_dcookie, EPERM)
