/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_SUP_H
#define WARD_SUP_SUP_H

#include "base/err.h"
#include "plan/plan.h"
#include "plan/trail.h"
#include "sup/end.h"
#include "tier/tier.h"

/* Each is called at most once; all may be NULL. */
struct sup_hooks {
	/* The wall is being built; after this the command starts. What must be written before it is
	 * written here, beside the building. */
	int (*commit)(void *arg, struct err *e);
	/* For what must not delay the command. */
	void (*idle)(void *arg); /* the command is on its way */
	void (*late)(void *arg); /* it has been running for SUP_LATE_MS */
	/* The command is over and @end says why; what is left of the sandbox is being torn down. */
	void (*ended)(void *arg, const struct run_end *end);
	void *arg;
};

enum { SUP_LATE_MS = 500 };

/*
 * Starts @box, runs plan->argv in it with ward's own stdin, stdout and stderr, passes signals on,
 * keeps the limits that need a clock or a count, and waits for the end. The box is over when this
 * returns; box_stop() is still the caller's. Fails only when nothing was started; everything else
 * is an end, told in @ret.
 */
int sup_run(struct box *box, const struct plan *plan, const struct sup_hooks *hooks,
	struct trail *trail, struct sighting *ret_seen, struct run_end *ret, struct err *e);

#endif
