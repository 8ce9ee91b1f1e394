/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_POLLING_H
#define WARD_TIER_KERNEL_IO_POLLING_H

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/mm/copy.h"

/* The signal mask of a wait (ppoll, pselect6, epoll_pwait): first entry only. 0 or -errno. */
long wait_mask_from(struct task *task, gva_t mask, uint64_t size);

#endif
