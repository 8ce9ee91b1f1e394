/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_AIO_H
#define WARD_TIER_KERNEL_SYS_AIO_H

#include <stdbool.h>

struct kernel;
struct mm;
struct task;
struct walk;

/* The memory goes, and its contexts with it. */
void aio_done(struct mm *mm);
/* Its contexts with their events. */
void aio_walk(struct kernel *k, struct mm *mm, struct walk *w);
/* What a blocked io_submit has done already must not be done again: it is walked with its call. */
bool aio_submit_keeps(const struct task *t);
void aio_submit_walk(struct task *t, struct walk *w);

#endif
