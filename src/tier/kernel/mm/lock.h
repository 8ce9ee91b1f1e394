/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_MM_LOCK_H
#define WARD_TIER_KERNEL_MM_LOCK_H

#include "tier/kernel/task/task.h"

enum { MM_LOCKS_MAX = 1024 };

/* mlock(2)'s books. The host swaps a guest's memory or does not: that is not ours to say. */
int mm_lock(struct mm *mm, uint64_t from, uint64_t to); /* 0 or -ENOMEM */
int mm_unlock(struct mm *mm, uint64_t from, uint64_t to);
void mm_unlock_all(struct mm *mm);
/* Bytes of [from, to), all of it mapped, that are locked. */
uint64_t mm_locked(const struct mm *mm, uint64_t from, uint64_t to);

#endif
