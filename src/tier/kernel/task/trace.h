/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_TRACE_H
#define WARD_TIER_KERNEL_TASK_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/task/signal.h"

/*
 * ptrace(2): who is traced by whom, and its stops. All under the kernel lock.
 *
 * A tracee stops in one place only: in SHIM_STOP, a call that the shim's handler makes when it is
 * told to, with the address of the frame that holds the registers. So what is to stop a task that
 * is in a call ends that call first, with a kick; a stop at the entry of a call answers it with
 * -ENOSYS, and on the way out the frame is set back to the syscall instruction, which makes it
 * again. The frame is guest memory: whoever writes over it harms itself.
 */
struct kernel;
struct task;
struct proc;

enum { DUE_TRAP = 1, DUE_ENTER = 2, DUE_EVENT = 4, DUE_EXIT = 8 };
enum trace_kind { TRACE_SIGNAL, TRACE_GROUP, TRACE_TRAP, TRACE_ENTER, TRACE_EVENT, TRACE_EXIT };

struct trace {
	struct task *task; /* NULL: it has ended, and its tracer has not seen that */
	int32_t tid, pid;
	struct proc *tracer;
	struct trace *next; /* of the tracer's */
	uint32_t options;
	bool seized;
	unsigned due; /* DUE_*: stops to come */
	uint32_t event;
	uint64_t message, event_message; /* what GETEVENTMSG says; the next event's */

	/* the stop that it is in */
	bool stopped, news, listening;
	enum trace_kind kind;
	int32_t code; /* signal, with the event above it; a dead one's: wait(2)'s status */
	union gsiginfo info;
	uint64_t frame, fs, gs; /* where its registers are */
	uint64_t debug[8];      /* debug.c: the registers; what was where it watches */
	uint64_t watched[4];

	/* how it goes on */
	int64_t how; /* PTRACE_CONT, SYSCALL or SINGLESTEP */
	int inject;
	bool resumed;    /* the stop is over, what comes of it is still to do */
	bool group_seen; /* job control's stop has been told */

	/* the call that it is in, or was */
	int64_t orig; /* -1: none */
	uint64_t args[6], ip;
	bool in_call, after_call, entered, exit_told, vfork;
	bool filter_told; /* a filter has asked about it */
	int64_t restart_nr;
	long restart; /* what that call was to be told, -ERESTART*; 0: nothing */
};

/* From now on @t is @tracer's; -EPERM, -ENOMEM. */
int trace_attach(struct task *t, struct proc *tracer, bool seized, uint32_t options);
/* It is nobody's, and goes on with @sig (0: none). */
void trace_detach(struct task *t, int sig);
void trace_resume(struct trace *tr, int64_t how, int sig);

/* For dispatch.c. Is the call not to be made yet? */
bool trace_enter(struct task *t);
/* A filter inside leaves the call to the tracer, with a word for it. false: it is not made now. */
bool trace_lets(struct task *t, uint32_t data);
/* A call is over, its value in call.ret. */
void trace_over(struct task *t);
/* Something is to be told: @signals for what is pending and not blocked. */
bool trace_wants(const struct task *t);
/* A call that is not SHIM_STOP gives way to it. */
void trace_give_way(struct task *t);
/* The handler that is about to run, or none: the registers are made ready for it. */
void trace_go(struct task *t, bool handler);

/* For deliver.c, in SHIM_STOP: is it stopped? Else what it was resumed with, in *ret_sig. */
bool trace_stops(struct task *t, int *ret_sig, union gsiginfo *ret);
void trace_signal(struct task *t, int sig, const union gsiginfo *info);

/* debug.c: breakpoints in registers. debug_look() before it goes on, debug_hit() after a step. */
long debug_poke(struct trace *tr, unsigned i, uint64_t v); /* register @i of 8; -EINVAL, -EIO */
bool debug_is_on(const struct trace *tr);
void debug_look(struct trace *tr);
bool debug_hit(struct trace *tr, uint64_t ip);
void debug_off(struct trace *tr);

/* What happens to tasks. */
void trace_cloned(struct task *t, struct task *child, uint64_t flags);
void trace_vforked(struct task *t);
void trace_execed(struct task *t, int32_t old_tid);
void trace_continued(struct proc *p);
void trace_task_gone(struct task *t, int status);
void trace_task_free(struct task *t);
void trace_proc_ended(struct proc *p); /* as tracee, and as tracer */
void trace_done(struct proc *p);       /* the records of those that have ended */
/* Would exec give rights that its tracer has not got? */
bool trace_keeps_rights(const struct task *t);
void trace_interrupt(struct task *t);
void trace_relisten(struct task *t); /* one that listens is told of a change */
void trace_seen(struct trace *tr);   /* wait(2) has told */
/* Are there threads of process @pid whose end @p has not seen? That comes before the process's. */
bool trace_is_before(const struct proc *p, int32_t pid);

#endif
