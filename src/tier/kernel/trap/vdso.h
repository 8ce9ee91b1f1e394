/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TRAP_VDSO_H
#define WARD_TIER_KERNEL_TRAP_VDSO_H

#include <stdint.h>

/* Where the vdso at @base, the host's own, has function @name; 0: nowhere. */
uint64_t vdso_find(uint64_t base, const char *name);

#endif
