/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_SUP_H
#define WARD_SUP_SUP_H

#include "base/err.h"
#include "plan/plan.h"
#include "plan/trail.h"
#include "sup/end.h"
#include "tier/tier.h"

/* Called once, when the command is on its way and there is time for what must not delay it. */
typedef void sup_idle_fn(void *arg);

struct sup_hooks {
	sup_idle_fn *idle; /* may be NULL */
	void *arg;
};

/*
 * Starts @box, runs plan->argv in it with ward's own stdin, stdout and stderr, passes signals on,
 * keeps the limits that need a clock or a count, and waits for the end. The box is over when this
 * returns; box_stop() is still the caller's. Fails only when nothing was started; everything else
 * is an end, told in @ret.
 */
int sup_run(struct box *box, const struct plan *plan, const struct sup_hooks *hooks, struct trail *trail,
	struct sighting *ret_seen, struct run_end *ret, struct err *e);

#endif
