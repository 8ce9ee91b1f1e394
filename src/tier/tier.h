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
	bool disk_full;        /* nothing more could be written when it ended */
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
enum { BOX_READY = 'R' };

const struct tier_ops *const *tier_list(unsigned *ret_count);
const struct tier_ops *tier_by_wall(enum wall w); /* NULL when this build has no such tier */
const char *tier_name(const struct tier_ops *t);
const char *tier_what(const struct tier_ops *t);
enum wall tier_wall(const struct tier_ops *t);

/* Can this host build the wall? If not, @e says what is missing and how to get it. */
int tier_probe(const struct tier_ops *t, struct err *e);

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
/* Where the command starts, when the tier knows better than plan->workdir; else NULL. */
const char *box_workdir(const struct box *box);
/* "K=V", NULL-terminated: what the tier adds to the command's environment; NULL: nothing. */
const char *const *box_env(const struct box *box);
/* What the first process has done so far; a checked copy. */
void box_trail(const struct box *box, struct trail *ret_trail);
/* The channel became readable for the first time: 0, or -EAGAIN, or -ENOTCONN when it ended. */
int box_ready(struct box *box, struct err *e);
/* The seccomp listener is of no more use. */
void box_close_notify(struct box *box);
/* Kills everything inside and waits until it is gone. Never fails; idempotent. */
void box_kill(struct box *box);
/* What the sandbox has used, once its command is over; the rest of it may still be ending. */
void box_measure(struct box *box, struct usage *ret_usage);
/* Wait status of the first process, once it is over (pidfd readable); adds what only now is known
 * to what box_measure() told. */
int box_reap(struct box *box, int *ret_status, struct usage *usage);
/* What the caller should be told before the command runs; known after the start. "": nothing. */
const char *box_warning(const struct box *box);
/* The sandbox is over: puts what is worth keeping below boxes/<id> of the state directory. */
int box_keep(struct box *box, struct err *e);
/* It could not be kept after all: stop removes it like any other. */
void box_discard(struct box *box);
/* What must be undone when a kept sandbox is removed, beside its folder. */
const struct undo *box_kept(struct box *box, unsigned *ret_count);
/* Removes all that start made (unless plan->keep: then what `ward diff` needs stays), frees @box.
 * Never fails; safe on a prepared or half-started box and on NULL. */
void box_stop(struct box *box);

#endif
