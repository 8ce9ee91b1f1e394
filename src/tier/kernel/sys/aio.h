/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_AIO_H
#define WARD_TIER_KERNEL_SYS_AIO_H

struct mm;

/* The memory goes, and its contexts with it. */
void aio_done(struct mm *mm);

#endif
