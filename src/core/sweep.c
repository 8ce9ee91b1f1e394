/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/sweep.c - sweeping beside a run.
 *
 * Owns:  nothing.
 * Rules: what cannot be undone now stays recorded, and `ward gc` tells about it; a run is not the
 *        place to report somebody else's leftovers.
 */
#include <stddef.h>

#include "core/sweep.h"
#include "git/git.h"
#include "store/slot.h"

void core_hooks_init(struct sweep_hooks *h)
{
	*h = (struct sweep_hooks){ .worktree_remove = git_worktree_remove };
}

void core_sweep(int state_fd, unsigned max, const struct slot *own)
{
	struct sweep_report report;
	struct sweep_hooks hooks;

	core_hooks_init(&hooks);
	hooks.own = own;
	slot_sweep(state_fd, max, &hooks, &report, NULL);
}
