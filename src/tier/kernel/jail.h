/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_JAIL_H
#define WARD_TIER_KERNEL_JAIL_H

#include "base/err.h"

/* Puts the kernel process behind its own filter, for good. Before its first thread; no_new_privs.
 */
int kernel_jail(struct err *e);
/* How many calls of the host the kernel process can make. */
unsigned kernel_jail_calls(void);

#endif
