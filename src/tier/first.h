/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_FIRST_H
#define WARD_TIER_FIRST_H

#include <stdint.h>

#include "tier/cgroup.h"
#include "tier/tier_impl.h"

/* A sandbox's first process, from ward's side: what every tier does alike. */

/* Does this host give the namespaces that a first process is born in? Tried by a child. */
int first_probe(struct err *e);

/* Lists the sandbox's cgroups as what start makes. The last is undone first, and that must be the
 * freezer: a frozen process does not die. */
void first_list_cgroups(struct box *box, const struct cgroup *cg);

/*
 * Clones it with CLONE_NEW... @flags, born in @cg where that is v2, and runs @body in it, which
 * gets its end of the agent's channel and never returns. @box gets the trail that both share, the
 * channel, the pidfd and the pid. @what is done, for the message. A kernel without time namespaces
 * gives none.
 */
int first_clone(struct box *box, const struct cgroup *cg, uint64_t flags,
	void (*body)(struct box *box, int channel), const char *what, struct err *e);

/* A descriptor of its user namespace. */
int first_user_ns(const struct box *box, struct err *e);

/* Kills it, which takes its whole pid namespace along; @frozen: in @cg, which is thawed (else
 * NULL). Waits until it is gone. Idempotent. */
void first_kill(struct box *box, struct cgroup *frozen);

/* The cgroups of a run were asked for the last time: what is open of them is closed while the
 * kernel takes the sandbox down, not after. Those of a live one may be asked again. */
void first_measured(struct box *box, struct cgroup *cg);

/* It is over and waited for: the end of every stop. */
void first_reap(struct box *box);

#endif
