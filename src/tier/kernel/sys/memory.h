/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_MEMORY_H
#define WARD_TIER_KERNEL_SYS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/shim/shim.h"

struct kernel;
struct mm;
struct task;

/* The call is answered by the shim, which makes these native calls: the value of the last, or of
 * the first that fails. 0 or -errno; -ENODEV: a fake. */
long memory_run(struct task *t, const struct shim_step *steps, unsigned count);
/* A copy of a host descriptor for a guest's process, read-only unless @writable: mprotect, or a
 * second mapping from the shim, must not make writable what the guest may only read. */
int memory_fd(struct kernel *k, int fd, bool writable);
/* An address at which @len bytes have room now; 0: there is none. */
uint64_t memory_gap(struct task *t, uint64_t len);
/* sys/numa.c: a copy for a child's memory; NULL: none, or no memory for it. */
struct mm_policies *policies_copy(const struct mm *mm);
/* How far the policy that @from has goes, @to at most. */
uint64_t policy_edge(const struct mm *mm, uint64_t from, uint64_t to);

#endif
