/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_LOOP_LOOP_H
#define WARD_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * One thread's event loop: descriptors, timers, deferred calls, signals, child exits, and a few
 * worker threads for slow work. Everything but the inside of a worker's `work` happens on the
 * thread that calls loop_run().
 *
 * The structs below are embedded in the caller's own (zeroed before the first use) and borrowed by
 * the loop while they are armed. Every add has its remove; removing what is not armed does nothing,
 * so a zeroed struct can always be "removed". Everything may be added, changed and removed inside
 * any callback, the one that is running included, and the struct may be freed right after its
 * remove: an event that was already on its way is dropped.
 */
struct loop;

enum {
	LOOP_WORKERS_MAX = 4,       /* threads of one loop */
	LOOP_WORKER_IDLE_MS = 5000, /* after which one without work ends */
	LOOP_EVENTS_PER_TURN = 256,
};

int loop_create(struct loop **ret, struct err *e);
/*
 * Waits for jobs that workers are in the middle of, and gives every job back (`wanted` false). What
 * is still armed is simply forgotten. NULL is fine.
 */
void loop_destroy(struct loop *l);
/* Serves until loop_stop(); 0, or a negative errno when the kernel refuses to wait. */
int loop_run(struct loop *l, struct err *e);
/* One turn: waits up to @wait_ms (-1: until something happens) and serves what there is. For tests,
 * and for callers with a loop of their own. */
int loop_turn(struct loop *l, int wait_ms, struct err *e);
/* loop_run() returns at the end of this turn. */
void loop_stop(struct loop *l);
/*
 * For the next @us microseconds the loop looks for events without going to sleep: for an answer
 * that comes sooner than a sleeping thread is woken. It sleeps as always once the time is over,
 * when somebody else was given its CPU meanwhile, or with @us 0.
 */
void loop_spin(struct loop *l, unsigned us);
/* CLOCK_MONOTONIC at the start of this turn, in milliseconds. */
uint64_t loop_now_ms(const struct loop *l);

/* Descriptors. @events are EPOLLIN, EPOLLOUT, EPOLLRDHUP; level-triggered. */
struct loop_fd {
	struct loop *loop; /* NULL: not armed */
	int fd;
	uint32_t events;
	void (*work)(void *ctx, uint32_t events); /* events: also EPOLLERR, EPOLLHUP */
	void *ctx;
};

/* Borrows @fd: remove before it is closed. @events may be 0: errors and hang-ups alone. */
int loop_fd_add(struct loop *l, struct loop_fd *w, int fd, uint32_t events,
	void (*work)(void *ctx, uint32_t events), void *ctx, struct err *e);
/* No system call when nothing changes. */
int loop_fd_mod(struct loop_fd *w, uint32_t events);
void loop_fd_remove(struct loop_fd *w);

/* Timers: once, at a moment. */
struct loop_timer {
	struct loop *loop; /* NULL: not armed */
	uint64_t at_ms;
	size_t place; /* in the heap */
	void (*work)(void *ctx);
	void *ctx;
};

/* @work once, @ms from now, up to 1 ms later but never earlier. Sets it anew when it was armed.
 * -ENOMEM. */
int loop_timer_set(
	struct loop *l, struct loop_timer *t, uint64_t ms, void (*work)(void *ctx), void *ctx);
void loop_timer_cancel(struct loop_timer *t);

/* Deferred calls: @work once, at the end of this turn, before the loop waits again. */
struct loop_later {
	struct loop *loop; /* NULL: not armed */
	struct loop_later *prev, *next;
	void (*work)(void *ctx);
	void *ctx;
};

/* Does nothing when it is armed already. What is added by a deferred call itself runs next turn. */
void loop_later_set(struct loop *l, struct loop_later *d, void (*work)(void *ctx), void *ctx);
void loop_later_cancel(struct loop_later *d);

/*
 * Signals. The signal is blocked in this thread until the loop is destroyed, so give children a
 * clean mask before exec. One handler for each signal; a second one replaces it.
 */
int loop_signal_add(
	struct loop *l, int sig, void (*work)(void *ctx, int sig), void *ctx, struct err *e);

/* Exits of processes, by pidfd. */
struct loop_exit {
	bool ours;  /* our own child: reaped, and the two below hold */
	int code;   /* CLD_EXITED, CLD_KILLED or CLD_DUMPED */
	int status; /* exit status, or signal */
};

struct loop_child {
	struct loop_fd fd;
	pid_t pid;
	void (*work)(void *ctx, pid_t pid, const struct loop_exit *how);
	void *ctx;
};

/*
 * @work once, when @pid has ended. A child of ours is reaped by the loop and must not be waited for
 * by anyone else; any other process may be watched too. -ESRCH when there is none.
 */
int loop_child_add(struct loop *l, struct loop_child *c, pid_t pid,
	void (*work)(void *ctx, pid_t pid, const struct loop_exit *how), void *ctx, struct err *e);
/* The same with a pidfd at hand. Takes @pidfd, also when this fails. */
int loop_child_add_pidfd(struct loop *l, struct loop_child *c, int pidfd, pid_t pid,
	void (*work)(void *ctx, pid_t pid, const struct loop_exit *how), void *ctx, struct err *e);
/* Does not reap: a child that ends afterwards is the caller's to wait for. */
void loop_child_remove(struct loop_child *c);

/*
 * Slow work, on one of LOOP_WORKERS_MAX threads that are made when there is work and end when there
 * is none for a while. The job goes there by value: @size bytes at @arg are copied, @work gets the
 * copy on the worker's thread and may touch nothing else that the loop thread owns; then @done gets
 * it on the loop thread, exactly once, and it is freed after that. @wanted is false when nobody
 * waits any more (loop_job_forget(), loop_destroy()): release what the copy holds, do nothing else.
 */
struct loop_job;

int loop_work(struct loop *l, const void *arg, size_t size, void (*work)(void *arg),
	void (*done)(void *arg, bool wanted), struct loop_job **ret_job, struct err *e);
/* Good until @done. A job that no worker has begun is not begun. */
void loop_job_forget(struct loop_job *job);

#endif
