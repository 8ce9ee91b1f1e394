/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_CALLS_H
#define WARD_TIER_KERNEL_TRAP_CALLS_H

#include <stdint.h>

#include "tier/kernel/shim/shim.h"

struct sys_row;

/* The shim's own calls, dispatched like the others: trap/calls.c. */
const struct sys_row *shim_row(int64_t nr);

#endif
