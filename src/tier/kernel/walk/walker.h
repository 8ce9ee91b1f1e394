/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_WALKER_H
#define WARD_TIER_KERNEL_WALK_WALKER_H

#include "base/err.h"

/*
 * A kernel process that walks its own sandbox, for a test: tests/kernel/walker.c has these, and
 * only the program that it is linked into. ward itself has neither: there is no order that it would
 * obey.
 */
struct kbox;
struct kernel;
struct walker;

/* While names of the host are in sight. *ret stays NULL when nobody wants it. */
int walker_open(struct walker **ret, struct err *e) __attribute__((weak));
/* Once there is a loop, before the views of @b are given away. */
int walker_start(struct walker *w, struct kernel *k, const struct kbox *b, struct err *e)
	__attribute__((weak));

#endif
