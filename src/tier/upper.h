/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_UPPER_H
#define WARD_TIER_UPPER_H

#include <sys/types.h>

#include "base/err.h"
#include "plan/plan.h"

/* What takes a sandbox's writes: a mount, attached to nothing, of the size that the plan allows. */
int upper_mount(const struct plan *plan, int *ret_fd, struct err *e);
/* Its folders: up, work and shm, of @owner (0: nobody's in particular). */
int upper_dirs(int upper, uid_t owner, struct err *e);

#endif
