/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_BACKINGS_H
#define WARD_TIER_KERNEL_WALK_BACKINGS_H

#include "tier/kernel/walk.h"

/*
 * What is behind the mappings of all guests: the host knows it by device and number, we by inode.
 * Numbers them (WALK_BACKING) in the order of memories and addresses.
 */
struct backings;
struct inode;
struct kernel;
struct mm;
struct mm_backing;
struct proc_range;
struct task;

/* Who is in @mm; NULL: nobody is any more. */
struct task *task_of_mm(struct kernel *k, const struct mm *mm);
/* @add is told of each inode. @wanted: those that may have no name. 0, -ENOMEM, or what
 * proc_host_each_used() says. */
int backings_make(struct backings **ret, struct kernel *k, struct walk *w,
	const struct walk_wanted *wanted, void (*add)(void *arg, struct inode *i), void *arg);
void backings_free(struct backings *b);
struct mm_backing *backing_of(struct backings *b, const struct proc_range *r); /* NULL: none */

#endif
