/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_CGROUP_H
#define WARD_TIER_CGROUP_H

#include <stdbool.h>

#include "base/err.h"
#include "plan/plan.h"
#include "tier/tier.h"

/*
 * The cgroups of one sandbox, on a v2, v1 or hybrid host. A v1 sandbox has one folder per
 * controller that is needed, a v2 one has one.
 */
enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };
enum cgroup_part {
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_CPU,
	CGROUP_CPUACCT,
	CGROUP_FREEZER,
	CGROUP_PARTS
};

struct cgroup {
	enum cgroup_kind kind;
	bool made[CGROUP_PARTS];      /* which folders exist; v2 uses the first only */
	int dir[CGROUP_PARTS];        /* descriptors of the folders, or -1 */
	int tasks[CGROUP_PARTS];      /* v1: "tasks" opened for writing, or -1 */
	char path[CGROUP_PARTS][512]; /* empty: not needed */
	int oom;                      /* v1: readable after an out-of-memory event, or -1 */
	bool memory_limited, pids_limited;
	bool unusable; /* making them failed for want of rights or controllers */
};

/* None, nothing open: safe for cgroup_drop(). */
void cgroup_init(struct cgroup *cg);

/* Has this host nothing but v2? */
bool cgroup_is_v2(void);

/*
 * Finds out where this sandbox's folders will be, without making any: the paths are then recorded
 * by the caller. CGROUP_NONE when nothing is writable here and no limit was asked for by hand;
 * otherwise that is an error that says so.
 */
int cgroup_plan(struct cgroup *cg, const struct plan *plan, struct err *e);

/*
 * Makes the folders and sets the limits. On failure nothing is left behind. Where it turns out only
 * now that this host's cgroups cannot be used (read-only, controllers not handed down), the answer
 * is that of cgroup_plan(): CGROUP_NONE, or an error when a limit was asked for by hand.
 */
int cgroup_make(struct cgroup *cg, const struct plan *plan, struct err *e);

/*
 * Moves the calling process in (v1; a v2 child is born inside). Writing "0" to "tasks" avoids the
 * grace period that "cgroup.procs" waits for: 40 us instead of 10 ms.
 */
int cgroup_enter(const int *tasks, unsigned count, struct err *e);

/*
 * For a process that was born before the cgroups were made (cgroup_pass.c): ward's end of the
 * channel, and the other. settle enters those that came, if any, and makes a namespace of cgroups
 * whose top is there.
 */
int cgroup_send(struct cgroup *cg, int channel, struct err *e);
int cgroup_receive(struct cgroup *cg, int channel, struct err *e);
int cgroup_settle(const struct cgroup *cg, struct err *e);

/* Fills the fields of @usage that cgroups know; with @all also those that explain no end. */
void cgroup_usage(const struct cgroup *cg, bool all, struct usage *usage);

/*
 * Of a live sandbox (cgroup_live.c). freeze returns when every process stands still, or none:
 * -EOPNOTSUPP where there is no freezer. thaw is safe at any time. reclaim gives back what the
 * kernel can take without swap: caches, and files that are on a disk.
 */
int cgroup_freeze(struct cgroup *cg, void (*meanwhile)(void *arg), void *arg, struct err *e);
int cgroup_thaw(struct cgroup *cg, struct err *e);
/* Sends @sig to every process in it, as it finds them; how many, or a negative errno. */
int cgroup_signal(const struct cgroup *cg, int sig);
void cgroup_reclaim(struct cgroup *cg);
int cgroup_set_limits(struct cgroup *cg, const struct plan_limits *limits, struct err *e);
void cgroup_usage_now(const struct cgroup *cg, struct usage_now *usage);

/* Nobody asks them anything any more; the folders stay until cgroup_drop(). */
void cgroup_close(struct cgroup *cg);

/* Removes the folders and closes everything; the processes must be gone. False: one is still there.
 */
bool cgroup_drop(struct cgroup *cg);

/* Can this caller make cgroups with the memory and pids controllers? Says why not in @e. */
int cgroup_probe(enum cgroup_kind *ret_kind, struct err *e);

#endif
