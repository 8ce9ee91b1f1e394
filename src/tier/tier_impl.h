/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_TIER_IMPL_H
#define WARD_TIER_TIER_IMPL_H

#include "tier/tier.h"

/* What every kind of sandbox has in common; a tier embeds it as its first member. */
struct box {
	const struct tier_ops *ops;
	const struct plan *plan; /* borrowed */
	struct box_fds fds;
	pid_t pid;                     /* the first process; 0 when there is none (any more) */
	int status;                    /* its wait status, once reaped */
	volatile struct trail *shared; /* the first process writes its trail here; may be NULL */
	const char *workdir;           /* see box_workdir() and box_env(); may be NULL */
	const char *const *env;
};

/*
 * A tier is a const table. "Required" slots must be set; an empty optional slot is a clean
 * "not supported".
 */
struct tier_ops {
	const char *name, *what; /* "container", "namespaces, cgroups and seccomp" */
	enum wall wall;
	/* Required. Can this host build the wall? If not, say what is missing in @e. */
	int (*probe)(struct err *e);
	/* Required. On failure nothing is left behind: no process, no mount, no file. */
	int (*start)(const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e);
	/* Required. Kills all processes inside; returns when they are gone. Never fails. */
	void (*kill)(struct box *box);
	/* Required. Fills what is known; the first process is a zombie on entry and gone on return. */
	void (*reap)(struct box *box, struct usage *usage);
	/* Required. Never fails; safe on a half-started box. Frees @box. */
	void (*stop)(struct box *box);
};

#define TIER(id) extern const struct tier_ops tier_##id;
#include "tier/tiers.def"
#undef TIER

#endif
