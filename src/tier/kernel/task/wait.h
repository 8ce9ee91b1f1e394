/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_WAIT_H
#define WARD_TIER_KERNEL_TASK_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Blocking. A blocked call is data, not a host stack: the system call function returns SYS_BLOCK
 * after it has registered on wait queues, and is called AGAIN FROM THE TOP, with the same
 * arguments, when a queue is woken, the deadline passes or a signal arrives. What it must remember
 * between two entries lives in task->call (zeroed before the first entry):
 *
 *	call.first        true in the first entry only
 *	call.deadline     CLOCK_MONOTONIC ns of the kernel; 0: none. Set it in the first entry.
 *	call.done         progress (bytes moved so far, ...)
 *	call.u[]          anything else
 *	call.own          heap memory, freed with call.own_free (or free()) when the call ends
 *
 * An example: eventfd's read, written by hand (files normally return -EAGAIN from ops->read and
 * let sys_read do this, see vfs/file.h):
 *
 *	if (ev->count == 0) {
 *		if (file->flags & O_NONBLOCK)
 *			return -EAGAIN;
 *		wait_on(task, &ev->readers, POLLIN);
 *		return wait_block(task);
 *	}
 *
 * and its write does `wait_wake(&ev->readers, POLLIN)`. wait_block() answers
 *	SYS_BLOCK        give the lock back; you will be called again
 *	-ERESTARTSYS     a signal is pending: give up. Partial results first:
 *	                 `return call->done ? (long)call->done : r;`
 *	-ETIMEDOUT       the deadline has passed (turn it into what the call promises: 0,
 *-EAGAIN...) Registrations are dropped before every re-entry. Do not register and then return
 *something other than wait_block()'s answer: harmless, but pointless. Nothing may be left
 *half-changed when SYS_BLOCK is returned, and no pointer into objects may be kept in call.u[]
 *without a reference.
 *
 * Which restart: return wait_block()'s -ERESTARTSYS for "restarted under SA_RESTART";
 * turn it into -EINTR where Linux never restarts (poll, select, epoll_wait, sigtimedwait, ...), or
 * -ERESTARTNOHAND where it restarts only without a handler (pause, sigsuspend, ...).
 * When no handler runs (default ignore, stop and continue), the call is simply entered again with
 * its state kept, so deadlines are not started anew.
 */
enum {
	SYS_BLOCK = -600,
	/* Linux' own codes between a call and the signal code; a guest never sees them. */
	ERESTARTSYS = 512,
	ERESTARTNOINTR = 513, /* always again */
	ERESTARTNOHAND = 514, /* again unless a handler runs */
};

struct task;
struct kernel;
struct wait_entry;

/* A place where things wait. Zero is empty. */
struct wait_queue {
	struct wait_entry *first, *last;
};

/* One registration. @fn runs under the kernel lock and must not sleep, call wait_wake() on the same
 * queue or free entries of it other than its own. */
struct wait_entry {
	struct wait_queue *q; /* NULL: not registered */
	struct wait_entry *next, *prev;
	void (*fn)(struct wait_entry *e, unsigned events);
	unsigned events;   /* POLL*: wake only when one of these (or POLLERR, POLLHUP); 0: always */
	bool exclusive;    /* one such entry is enough, once it has taken the news */
	bool took;         /* said by @fn of one: somebody was waiting for it */
	struct task *task; /* for task entries */
	struct wait_entry *task_next;
};

void wait_add(struct wait_queue *q, struct wait_entry *e);
void wait_remove(struct wait_entry *e); /* also when it is not registered */

/* Registers @t until its next entry. -ENOMEM goes to the guest. */
int wait_on(struct task *t, struct wait_queue *q, unsigned events);
long wait_block(struct task *t);
/* Is a signal waiting that the task would act on? wait_block() asks this. */
bool wait_interrupted(struct task *t);
/* Has call.deadline passed? */
bool wait_timed_out(struct task *t);
/* Sets call.deadline @ns from now (first entry only; @ns < 0: none). */
void wait_set_timeout(struct task *t, int64_t ns);
/* Wakes everything on @q that cares for @events (0: everybody); of exclusive entries those up to
 * the first that takes it, unless it is an end or an error. */
void wait_wake(struct wait_queue *q, unsigned events);
/* Wakes at most one task entry; callbacks all run. For accept, semaphores, locks. */
void wait_wake_one(struct wait_queue *q, unsigned events);
/* Does a task wait here that is not yet on its way? */
bool wait_has_idle(const struct wait_queue *q);
/* Wakes one blocked task whatever it waits for (signals, kills). */
void wait_rouse(struct task *t);

/* What ops->poll registers with: a task's poll/read/write, or an epoll item. */
struct poll_reg {
	int (*add)(struct poll_reg *reg, struct wait_queue *q);
	struct task *task;
	unsigned events;
};
/* For use in ops->poll; @reg may be NULL (only asked for the state). */
static inline int poll_wait(struct poll_reg *reg, struct wait_queue *q)
{
	return reg ? reg->add(reg, q) : 0;
}
void poll_reg_task(struct poll_reg *reg, struct task *t, unsigned events);

/*
 * Timers: @fn runs under the kernel lock at or after @when (kernel_now()). Embedded in its owner.
 */
struct ktimer {
	int64_t when; /* CLOCK_MONOTONIC ns; 0: not set */
	void (*fn)(struct kernel *k, struct ktimer *t);
	unsigned slot; /* place in the heap + 1 */
};
int ktimer_set(struct kernel *k, struct ktimer *t, int64_t when); /* 0 or -ENOMEM; moves it */
void ktimer_clear(struct kernel *k, struct ktimer *t);
/* Runs what is due; ns (CLOCK_MONOTONIC) of the next one, or 0 when there is none. */
int64_t ktimer_run(struct kernel *k, int64_t now);

#endif
