/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_FILTER_H
#define WARD_TIER_KERNEL_TRAP_FILTER_H

#include <linux/filter.h>

/* What a guest process may ask of the host's kernel. */
enum { GUEST_FILTER_MAX = 256 };

struct shim_head;

/* Writes the filter; the number of instructions. */
unsigned guest_filter(struct sock_filter *out, const struct shim_head *head);
/* How many calls of the host a guest can reach, with some arguments. */
unsigned guest_filter_calls(void);

#endif
