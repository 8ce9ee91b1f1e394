/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_JAIL_CAPS_H
#define WARD_JAIL_CAPS_H

#include <stdint.h>

#include "base/err.h"

/*
 * Leaves this process, and whatever it may become, with what file and process work inside its own
 * user namespace needs and nothing else. An ordinary user inside has none of them, by the kernel's
 * rules, once the id changes.
 */
int jail_caps(struct err *e);
/* The bounding set, which is what root gets back at every exec: of it these alone stay. */
int jail_bound(uint64_t keep, struct err *e);

#endif
