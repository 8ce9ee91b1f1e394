/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_FRONT_IMPL_H
#define WARD_FRONT_FRONT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "front/front.h"

struct hub;
struct loop;
struct watcher;
struct interp;

struct front {
	struct hub *hub;
	struct loop *loop;
	const struct wire_server *server; /* NULL: its numbers are not shown */
	struct watcher *watchers;         /* e2b/watchers.c */
	size_t watched;                   /* bytes of events that these keep, all together */
	struct interp *interps;           /* e2b/interp.c */
	size_t lines;                     /* bytes that readers of drivers keep, all together */
	unsigned live;                    /* requests */
	uint64_t requests[4], failures;   /* by plane, and how many were refused */
};

/* The front's own part of /metrics. */
struct buf;
void front_numbers(void *front, struct buf *out);

#endif
