/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_LOOP_LOOP_IMPL_H
#define WARD_LOOP_LOOP_IMPL_H

#include <pthread.h>
#include <signal.h>

#include "loop/loop.h"

enum { SIGNALS_MAX = 65 };

struct loop_signal {
	void (*work)(void *ctx, int sig);
	void *ctx;
};

struct loop_job {
	struct loop *loop;
	struct loop_job *next;
	void (*work)(void *arg);
	void (*done)(void *arg, bool wanted);
	bool wanted; /* loop thread only */
	_Alignas(max_align_t) char arg[];
};

struct job_list {
	struct loop_job *head, **tail;
};

struct worker {
	pthread_t thread;
	struct loop *loop;
	bool made;  /* there is a thread to join */
	bool ended; /* it is about to return; under the lock */
};

/* What the workers and the loop thread share; all of it under @lock. */
struct worker_pool {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct job_list todo, over;
	struct worker workers[LOOP_WORKERS_MAX];
	unsigned idle, waiting; /* threads in the wait; jobs in @todo */
	bool stop;
	int event;         /* eventfd: something is in @over */
	struct loop_fd fd; /* the loop's watch on it */
};

struct loop {
	int epoll;
	bool stop;
	uint64_t now_ms;
	uint64_t spin_ns; /* until then it does not sleep; 0: it does */
	/* The events that are being served: a remove takes its own out of the rest. */
	struct epoll_event events[LOOP_EVENTS_PER_TURN];
	int at, count;
	struct loop_timer **heap;
	size_t timers, heap_cap;
	struct loop_later later, running; /* list heads */
	int signal_fd;
	struct loop_fd signal_watch;
	sigset_t mask_before, mask;
	struct loop_signal signals[SIGNALS_MAX];
	struct worker_pool *pool; /* NULL until there was work */
};

/* Serves the timers that are due. */
void loop_timers_run(struct loop *l);
/* Milliseconds until the next one, -1 when there is none. */
int loop_timers_wait_ms(const struct loop *l);
void loop_signals_done(struct loop *l);
void loop_pool_done(struct loop *l);

#endif
