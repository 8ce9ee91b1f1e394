/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_PACE_H
#define WARD_TIER_VM_PACE_H

#include "tier/vm/limiter.h"
#include "tier/vm/watches.h"

/* A limiter with a timer of its own: who finds no tokens is called again when there may be some. */
struct pace {
	struct limiter limiter;
	bool waits; /* for tokens: the timer runs */
	int timer;  /* -1: there is no limit. Ours. */
	struct watch watch;
	struct watches *events;
	void (*again)(void *arg);
	void *arg;
};

/* Without a limit. */
void pace_init(struct pace *p);
/* From now on so many bytes and requests a second; 0: as many as it likes. Before the first run. */
int pace_limit(struct pace *p, uint64_t bytes_s, uint64_t ops_s, struct watches *events,
	void (*again)(void *arg), void *arg, struct err *e);
/* One request of @bytes. False: not now; @again comes. */
bool pace_take(struct pace *p, uint64_t bytes);
/* Who waited has gone. */
void pace_clear(struct pace *p);
void pace_done(struct pace *p); /* also if it has no limit */

#endif
