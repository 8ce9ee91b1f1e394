/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_PID1_H
#define WARD_TIER_KERNEL_PID1_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/kernel.h"

/*
 * The guest's pid 1 is the agent, which is ward's own program. A channel whose first word is a
 * plain "run this, it is the last" needs none of it for that: the command is started here, as the
 * agent would have, and the agent comes when there is something for it, or after a while.
 */
struct proc;
struct trail;

struct pid1 {
	struct kernel *k;
	struct trail *trail;
	int exe;                 /* the agent's program; -1: it runs */
	int channel;             /* borrowed: the guest's file has it */
	bool alone;              /* no command before the agent */
	struct order *order;     /* what to run first; NULL: the agent */
	struct wait_entry blank; /* for the next process */
	struct proc *command;    /* without an agent; NULL: none */
	uint32_t stream;         /* of that */
	struct wait_entry ended; /* its end */
	struct watch asked;      /* ward has more to say */
	struct ktimer later;
};

/* Goes on when there is a process for it; in a section. Keeps @p. */
void pid1_begin(struct pid1 *p);

#endif
