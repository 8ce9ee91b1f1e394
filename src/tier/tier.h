/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_TIER_H
#define WARD_TIER_TIER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "plan/plan.h"
#include "plan/trail.h"

/* What callers see of a tier. Implementers include tier_impl.h. */
struct box;
struct tier_ops;
struct undo;

/* What a sandbox used, as far as its tier can tell; a field that is not known is UINT64_MAX. */
struct usage {
	uint64_t cpu_us, memory_peak_bytes, written_bytes, pids_peak;
	uint64_t oom_kills;    /* processes that the kernel killed for want of memory */
	uint64_t pids_refused; /* forks refused by the process limit */
	bool disk_full;        /* nothing more could be written when somebody looked */
	/* Calls that the tier's own kernel does not know, by name; and how often they were made. */
	struct unknown_use {
		char name[32];
		uint32_t count;
	} unknown[UNKNOWN_CALLS_MAX];
	unsigned unknown_count;
};

/* What a live sandbox uses at this moment, as far as its tier can tell; UINT64_MAX: not known. */
struct usage_now {
	uint64_t cpu_us;
	uint64_t mem_used, mem_cache, mem_limit, mem_peak;
	uint64_t disk_used, disk_total;
	uint64_t pids, pids_limit;
	uint64_t net_in, net_out;
	uint64_t oom_kills, pids_refused; /* so far */
};

/* The descriptors that whoever waits for a sandbox polls; -1 where there is none. */
struct box_fds {
	int pidfd;   /* readable when the sandbox is over */
	int channel; /* the agent's channel: docs/PROTOCOL.md */
	int notify;  /* seccomp listener: denied calls arrive here */
	int oom; /* readable when memory ran out inside (only where the kernel kills one process) */
};

/* The first message on the channel, before any frame: this byte, with the seccomp listener and,
 * where the tier has one, a descriptor of the upper directory. box_ready() reads it. */
enum { BOX_READY = 'R', BOX_WAITS = 'W' };

const struct tier_ops *const *tier_list(unsigned *ret_count);
const struct tier_ops *tier_by_wall(enum wall w); /* NULL when this build has no such tier */
const char *tier_name(const struct tier_ops *t);
const char *tier_what(const struct tier_ops *t);
enum wall tier_wall(const struct tier_ops *t);

/* How many calls of the host's kernel code inside can reach, with some arguments; and the process
 * that stands between, where there is one (else 0). False: the tier does not filter. */
bool tier_calls(const struct tier_ops *t, unsigned *ret_guest, unsigned *ret_own);

/*
 * Can as much of a sandbox as no request changes be made before there is one? Then a box is
 * prepared and started with a plan that has ->waits, and nothing else but id, state directory and
 * what goes with them; when box_waits() says so, it stands in its cgroup behind its wall, with
 * nothing inside. A plan with ->ahead is prepared from it, in the same process, and takes it in
 * every case.
 */
bool tier_waits(const struct tier_ops *t);

/* Can this host build the wall? If not, @e says what is missing and how to get it. */
int tier_probe(const struct tier_ops *t, struct err *e);

/* Can it be chosen at all, as far as a glance tells: what somebody must have set up first is there.
 * No process is made; the run path asks this. */
int tier_ready(const struct tier_ops *t, const char *state_dir, struct err *e);

/* Does what was set up really work on this host? Starts the least that shows it, for at most
 * @timeout_ms; for a tier that needs nothing set up 0 without more. */
int tier_prove(const struct tier_ops *t, const char *state_dir, unsigned timeout_ms, struct err *e);

/*
 * A sandbox lives in four calls. prepare checks and looks, and may start a first process that makes
 * its own namespaces and waits; nothing of it outlives this process. box_undo() then tells what
 * start is going to make, so that the caller can write it down first; that happens beside the first
 * process, which has the slowest step of all to do. After start the first process is on its way and
 * its agent will read the channel; a step that fails in that process shows as its end, and
 * box_trail() then says which step. stop undoes and frees everything, from any state.
 */
int box_prepare(const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e);
const struct undo *box_undo(const struct box *box, unsigned *ret_count);
int box_start(struct box *box, struct trail *trail, struct err *e);
const struct box_fds *box_fds(const struct box *box);
/* Can descriptors go over the channel? Else the command's stdio goes as frames. */
bool box_passes_fds(const struct box *box);
/* May the host write to a file that was opened inside? Else what it gets goes as frames. */
bool box_gives_files(const struct box *box);
/* Where the command starts, when the tier knows better than plan->workdir; else NULL. */
const char *box_workdir(const struct box *box);
/* "K=V", NULL-terminated: what the tier adds to the command's environment; NULL: nothing. */
const char *const *box_env(const struct box *box);
/* What the first process has done so far; a checked copy. */
void box_trail(const struct box *box, struct trail *ret_trail);
/* The channel became readable for the first time: 0, or -EAGAIN, or -ENOTCONN when it ended. */
int box_ready(struct box *box, struct err *e);
/* The same for a box that is made ahead: nothing is to be done for it but to give it a plan. */
int box_waits(struct box *box, struct err *e);
/* The seccomp listener is of no more use. */
void box_close_notify(struct box *box);
/*
 * Looks after what no event tells: how full the disk is. To be called again as long as the command
 * runs, after as many milliseconds as it says; 0: never again. @ret_over: more than the limit is in
 * use, and only an end will change that.
 */
unsigned box_watch(struct box *box, bool *ret_over);
/* Kills everything inside and waits until it is gone. Never fails; idempotent. */
void box_kill(struct box *box);
/* What the sandbox has used, once its command is over; the rest of it may still be ending. */
void box_measure(struct box *box, struct usage *ret_usage);
/* Wait status of the first process, once it is over (pidfd readable); adds what only now is known
 * to what box_measure() told. */
int box_reap(struct box *box, int *ret_status, struct usage *usage);
/*
 * Of a plan that is live, while it runs; -EOPNOTSUPP, with a line that says why, where a tier or
 * host cannot.
 *
 * pause: every process inside stands still when it returns, and memory was given back as far as it
 * goes. On failure all of them run. resume lets them go on. kill works on a paused one. While it
 * waits, @meanwhile is called: a process whose denied call nobody answers does not come to rest.
 */
int box_pause(struct box *box, void (*meanwhile)(void *arg), void *arg, struct err *e);
int box_resume(struct box *box, struct err *e);
/*
 * Writes the sandbox down as it is into the three files of @into, which are empty, or, with
 * SNAP_DIFF, hold what the last one of this box wrote and get only what changed since. Nothing
 * inside runs while it is written; it runs on after, unless SNAP_STAY: then it is paused. On
 * failure it is as it was, and the files are worth nothing. A plan with ->from starts from the
 * files, any number of times; each such sandbox has an identity of its own before anything inside
 * runs. @meanwhile is called while it waits and between parts; it may kill the box, which is then a
 * failure like any other.
 */
enum { SNAP_DIFF = 1, SNAP_STAY = 2 };
int box_snapshot(struct box *box, const struct snap *into, unsigned flags,
	void (*meanwhile)(void *arg), void *arg, struct err *e);
/* Other limits from now on; 0 in a field: leave it. -EBUSY: more is in use than that. Not for disk.
 * What was set before a failure stays set: the caller is told, and asks again. */
int box_set_limits(struct box *box, const struct plan_limits *limits, struct err *e);
void box_usage_now(struct box *box, struct usage_now *ret);
int box_set_hostname(struct box *box, const char *name, struct err *e);
/* The first process, as the host numbers it; 0 when there is none. */
pid_t box_pid(const struct box *box);
/* What the caller should be told before the command runs; known after the start. "": nothing. */
const char *box_warning(const struct box *box);
/* The sandbox is over: puts what is worth keeping below boxes/<id> of the state directory. */
int box_keep(struct box *box, struct err *e);
/* It could not be kept after all: stop removes it like any other. */
void box_discard(struct box *box);
/* What must be undone when a kept sandbox is removed, beside its folder. */
const struct undo *box_kept(struct box *box, unsigned *ret_count);
/* Removes all that start made (unless plan->keep: then what `ward diff` needs stays), frees @box.
 * Safe on a prepared or half-started box and on NULL. False: some of what box_undo() told is still
 * there, and whoever wrote it down must not forget it. */
bool box_stop(struct box *box);

#endif
