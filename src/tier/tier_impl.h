/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_TIER_IMPL_H
#define WARD_TIER_TIER_IMPL_H

#include "store/undo.h"
#include "tier/tier.h"

enum { BOX_UNDO_MAX = 24 };

/* What every kind of sandbox has in common; a tier embeds it as its first member. */
struct box {
	const struct tier_ops *ops;
	const struct plan *plan; /* borrowed */
	struct box_fds fds;
	int upper;                      /* the directory that took all writes, or -1 */
	struct undo undo[BOX_UNDO_MAX]; /* what start makes; strings belong to the tier's struct */
	unsigned undo_count;
	char warning[200];             /* see box_warning() */
	pid_t pid;                     /* the first process; 0 when there is none (any more) */
	int status;                    /* its wait status, once reaped */
	volatile struct trail *shared; /* the first process writes its trail here; may be NULL */
	size_t shared_bytes;
	bool discarded;      /* see box_discard() */
	bool *left;          /* see box_left() */
	bool bytes_only;     /* the channel passes no descriptors */
	bool files_stay;     /* see box_gives_files() */
	const char *workdir; /* see box_workdir() and box_env(); may be NULL */
	const char *const *env;
};

/*
 * A tier is a const table. "Required" slots must be set; an empty optional slot is a clean
 * "not supported".
 */
struct tier_ops {
	const char *name, *what; /* "container", "namespaces, cgroups and seccomp" */
	enum wall wall;
	bool waits; /* it understands plans with ->waits, and then ->ahead; see tier_waits() */
	/* Required. Can this host build the wall? If not, say what is missing in @e. */
	int (*probe)(struct err *e);
	/* Optional. See tier_calls(). */
	void (*calls)(unsigned *ret_guest, unsigned *ret_own);
	/* Optional. See tier_ready(). */
	int (*ready)(const char *state_dir, struct err *e);
	/* Optional. See tier_prove(). */
	int (*prove)(const char *state_dir, unsigned timeout_ms, struct err *e);
	/* Required. Looks and checks; makes nothing that outlives this process. Lists box->undo. */
	int (*prepare)(
		const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e);
	/* Required. On failure, stop() leaves nothing behind: no process, no mount, no file. */
	int (*start)(struct box *box, struct trail *trail, struct err *e);
	/* Optional. See box_watch(). Costs an idle sandbox next to nothing. */
	unsigned (*watch)(struct box *box, bool *ret_over);
	/* Required. Kills all processes inside; returns when they are gone. Never fails. */
	void (*kill)(struct box *box);
	/* Required. Fills what limits and files tell. Lets go of what would delay the end. */
	void (*measure)(struct box *box, struct usage *usage);
	/* Optional. See box_keep(); a tier without it keeps what its undo items name. */
	int (*keep)(struct box *box, struct err *e);
	/* Optional, all six; see tier.h. A tier without snapshot refuses a plan with ->from.
	 * usage_now finds every number set to "not known". */
	int (*pause)(struct box *box, void (*meanwhile)(void *arg), void *arg, struct err *e);
	int (*resume)(struct box *box, struct err *e);
	int (*snapshot)(struct box *box, const struct snap *into, unsigned flags,
		void (*meanwhile)(void *arg), void *arg, struct err *e);
	int (*set_limits)(struct box *box, const struct plan_limits *limits, struct err *e);
	void (*usage_now)(struct box *box, struct usage_now *usage);
	int (*set_hostname)(struct box *box, const char *name, struct err *e);
	/* Required. Safe on a half-started box; says box_left() when it could not remove all.
	 * Frees @box. */
	void (*stop)(struct box *box);
};

/* Fills the common part of a new box. */
void box_init(struct box *box, const struct tier_ops *ops, const struct plan *plan);
void box_add_undo(struct box *box, enum undo_kind kind, const char *path, const char *path2);
/* Memory that the first process shares with us, for its trail and for @more bytes of the tier's
 * own, which are returned; NULL when there is none to be had. */
void *box_share(struct box *box, size_t more, struct err *e);
/* Sends BOX_READY with @listener and @upper (-1: none) on @channel; for the first process. */
int box_send_ready(int channel, int listener, int upper, struct err *e);
/* The command line and environment of ward are in the first process's memory too, and /proc shows
 * the first: overwrites them there. */
void box_forget_arguments(const struct plan *plan);
/* For stop: something that box->undo names is still there. */
void box_left(struct box *box);
/* Closes and unmaps what box_init() set up. */
void box_done(struct box *box);

#define TIER(id) extern const struct tier_ops tier_##id;
#include "tier/tiers.def"
#undef TIER

#endif
