/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_CONTROL_H
#define WARD_FRONT_E2B_CONTROL_H

struct call;

/* The sandbox id in the path, without what old clients append to it. NULL: answered with 400. */
const char *control_id(struct call *c);

#endif
