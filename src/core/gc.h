/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_GC_H
#define WARD_CORE_GC_H

#include "base/err.h"
#include "store/slot.h"

/* Whom a full sweep calls and tells, beyond what a small one does. */
struct gc_hooks {
	struct sweep_hooks sweep;
	/* Removes what no template needs; @idle: no sandbox runs. NULL: none are looked for. */
	int (*templates)(
		const char *state_dir, bool idle, const struct sweep_hooks *tell, struct err *e);
};

/* Fills in what this build has to offer; the caller adds whom to tell. */
void gc_hooks_init(struct gc_hooks *h);

/*
 * Sweeps all dead slots, deletes box directories that no slot and no record speaks for, and empties
 * the trash. Does all it can and returns the first error; hooks->sweep.failed is told of each.
 */
int gc_run(int state_fd, const char *state_dir, const struct gc_hooks *hooks,
	struct sweep_report *ret, struct err *e);

#endif
