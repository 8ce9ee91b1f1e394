/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_JAIL_SECCOMP_H
#define WARD_JAIL_SECCOMP_H

#include "base/err.h"

/* The filter is one for all tiers that run on the host's kernel: src/jail/calls.def. */
enum jail_profile { JAIL_CONTAINER, JAIL_WORKSPACE };

/*
 * Puts this thread and its children behind the filter, for good. With @ret_listener, denied calls
 * are reported on that descriptor and whoever holds its other side answers; without, they fail with
 * EPERM. Needs no_new_privs or CAP_SYS_ADMIN. No allocation.
 */
int jail_seccomp(enum jail_profile profile, int *ret_listener, struct err *e);

/* The name of a call that the filter can deny; NULL for others. */
const char *jail_call_name(int nr);

/* How many calls reach the host's kernel. */
unsigned jail_calls_allowed(void);

#endif
