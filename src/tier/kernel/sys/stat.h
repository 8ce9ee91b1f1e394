/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_STAT_H
#define WARD_TIER_KERNEL_SYS_STAT_H

#include <stdint.h>

struct kstat;

enum { GUEST_STAT_BYTES = 144 };
/* struct stat as a guest sees it. */
void stat_lay(const struct kstat *k, uint8_t ret[GUEST_STAT_BYTES]);

#endif
