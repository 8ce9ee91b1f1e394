/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_HOSTMEM_H
#define WARD_TIER_KERNEL_WALK_HOSTMEM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct kernel;
struct proc_range;

/* What is in a guest's memory, as the host has it; also what the guest itself may not read. */
struct hostmem {
	int mem, map;
};

int hostmem_open(struct hostmem *h, struct kernel *k, pid_t pid); /* 0 or -errno */
void hostmem_close(struct hostmem *h);
/* Every page of @r that may be other than zero, or other than in its file where that @is_known, in
 * order; the first answer of @fn that is not 0 ends it and is returned. */
int hostmem_each(struct hostmem *h, const struct proc_range *r, bool is_known,
	int (*fn)(void *arg, uint64_t at, uint8_t *page), void *arg);

#endif
