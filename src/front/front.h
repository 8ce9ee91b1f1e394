/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_FRONT_H
#define WARD_FRONT_FRONT_H

#include "base/err.h"

/*
 * Everything that speaks HTTP about sandboxes: the E2B-compatible API (control plane, sandbox plane
 * and ports inside), ward's own API below /ward/v1/ for the command line, /metrics, /health and
 * /ready. Translates requests to the hub's verbs and calls on links; decides nothing.
 *
 *	front_create(hub, &front, &e);
 *	wire_server_create(loop, &(struct wire_config){ .request = front_request, .ctx = front },
 *...); front_watch_server(front, server);
 *	...
 *	wire_server_destroy(server);   // every request has ended after this
 *	front_destroy(front);          // before hub_destroy()
 */
struct front;
struct hub;
struct wire_req;
struct wire_server;

/* Borrows @hub. */
int front_create(struct hub *hub, struct front **ret, struct err *e);
/* No request may be alive. NULL is fine. */
void front_destroy(struct front *f);

/* The `request` callback of a wire server; any number of servers may share one front. */
void front_request(void *front, struct wire_req *q);

/* Its numbers appear in /metrics. Borrows @s; NULL: none any more. */
void front_watch_server(struct front *f, const struct wire_server *s);

#endif
