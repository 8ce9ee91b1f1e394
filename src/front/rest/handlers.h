/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_REST_HANDLERS_H
#define WARD_FRONT_REST_HANDLERS_H

struct call;

/* Every handler that routes.def names. */
#define ROUTE(plane, method, pattern, handler, auth, body) void handler(struct call *c);
#include "front/rest/routes.def"
#undef ROUTE

#endif
