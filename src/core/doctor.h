/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_DOCTOR_H
#define WARD_CORE_DOCTOR_H

#include <stdbool.h>

#include "base/err.h"
#include "host/probe.h"
#include "plan/wall.h"

enum { DOCTOR_CHECKS_MAX = 32 };

struct doctor_check {
	const struct probe *probe;
	struct probe_result result;
};

struct doctor_tier {
	enum wall wall;
	const char *what;                /* how the wall is made */
	bool built;                      /* this build has it */
	bool available;                  /* it would start here */
	unsigned guest_calls, own_calls; /* see tier_calls(); 0: not filtered, or not built */
	bool host_ready;                 /* every check it rests on is a yes, built or not */
	char missing[376];               /* one line; empty when available */
};

struct doctor {
	struct doctor_check checks[DOCTOR_CHECKS_MAX];
	unsigned check_count;
	struct doctor_tier tiers[WALL_COUNT];
	unsigned tier_count;
};

/* Examines the host, and what was set up in @state_dir. Fails only when a child cannot be started,
 * not for what the children find. */
int doctor_examine(struct doctor *d, const char *state_dir, struct err *e);

#endif
