/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_AUTH_H
#define WARD_FRONT_AUTH_H

#include <stdbool.h>

struct call;

/*
 * May this request be made? Fills call->who (and on the sandbox plane call->user), by what the
 * route asks for. False: answered.
 */
bool auth_check(struct call *c);

/* The sandbox of a signed address that names none: the one whose token signed it. False: answered.
 */
bool auth_find_signed(struct call *c);

#endif
