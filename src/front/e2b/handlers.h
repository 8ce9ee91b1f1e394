/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_HANDLERS_H
#define WARD_FRONT_E2B_HANDLERS_H

struct call;

/* Every handler that routes.def names. */
#define ROUTE(plane, method, pattern, handler, auth, body) void handler(struct call *c);
#include "front/e2b/routes.def"
#undef ROUTE

/* Any port but those of envd and the interpreter. */
void port_proxy(struct call *c);

#endif
