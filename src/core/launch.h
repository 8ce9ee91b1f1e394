/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_LAUNCH_H
#define WARD_CORE_LAUNCH_H

#include "base/clock.h"
#include "base/limits.h"
#include "core/ahead.h"
#include "core/run.h"
#include "plan/plan.h"
#include "plan/trail.h"
#include "policy/policy.h"
#include "store/slot.h"
#include "sup/end.h"
#include "template/template.h"
#include "tier/tier.h"

/*
 * What `ward run` and a supervisor have in common: one sandbox from its request to its end. Open to
 * both; the fields are filled in the order of the calls below.
 */
enum { LAUNCH_BASE_ENV = 2, LAUNCH_ROOT_ENV = 3 };

struct launch {
	const struct run_request *req;
	const char *name; /* the command, for messages */
	struct trail trail;
	struct decision decision;
	struct template tmpl;
	struct plan plan;
	const char *env[ENV_VARS_MAX + LAUNCH_BASE_ENV + LAUNCH_ROOT_ENV + 2];
	int state_fd;
	struct slot slot;
	struct box *box;
	struct ahead *ahead; /* borrowed; what was made before the request came; NULL: nothing */
	struct sighting seen;
	struct trail child_trail;
	struct run_end end;
	uint64_t start_ns;
	char created[CLOCK_TEXT];
	char term[64];
	bool end_written, kept;
};

/* NULL with @e: no memory. */
struct launch *launch_create(const struct run_request *req, const char *name, struct err *e);
void launch_destroy(struct launch *l);

/* Slot @number and its range of host ids, into @p. */
void launch_ids(struct plan *p, unsigned number);

/* Policy, template, plan, slot: the box is prepared and what it will make is on record. When it
 * fails, the caller still takes down what there is, and says so with launch_end_setup(). */
int launch_prepare(struct launch *l, struct err *e);

/* Hooks of the start, @arg is the launch: the audit line; its end; what dead ones left; the disk.
 */
int launch_commit(void *arg, struct err *e);
void launch_write_end(void *arg, const struct run_end *end);
void launch_sweep(void *arg);
void launch_sync(void *arg);

/* The end of one that never ran. */
void launch_end_setup(struct launch *l, const struct err *e);

#endif
