/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/wait.c - wait queues and what a blocked call does on them.
 *
 * Owns:  registrations; the list of woken tasks (kernel.ready).
 * Rules: under the kernel lock. Nothing here enters a call: kernel_run_ready() does.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "tier/kernel/kernel.h"

void wait_add(struct wait_queue *q, struct wait_entry *e)
{
	e->q = q;
	e->next = NULL;
	e->prev = q->last;
	if (q->last)
		q->last->next = e;
	else
		q->first = e;
	q->last = e;
}

void wait_remove(struct wait_entry *e)
{
	struct wait_queue *q = e->q;

	if (!q)
		return;
	if (e->prev)
		e->prev->next = e->next;
	else
		q->first = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		q->last = e->prev;
	e->q = NULL;
	e->next = e->prev = NULL;
}

void wait_rouse(struct task *t)
{
	struct kernel *k = t->k;

	if (!t->call.blocked || t->call.ready)
		return;
	t->call.ready = true;
	t->call.ready_next = NULL;
	if (k->ready_last)
		k->ready_last->call.ready_next = t;
	else
		k->ready = t;
	k->ready_last = t;
}

static void rouse_entry(struct wait_entry *e, unsigned events)
{
	wait_rouse(e->task);
}

int wait_on(struct task *t, struct wait_queue *q, unsigned events)
{
	struct call *c = &t->call;
	struct wait_entry *e;

	if (c->inline_used < ARRAY_LEN(c->inline_waits))
		e = &c->inline_waits[c->inline_used++];
	else
		e = malloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	*e = (struct wait_entry){
		.fn = rouse_entry, .events = events, .task = t, .task_next = c->waits
	};
	c->waits = e;
	wait_add(q, e);
	return 0;
}

bool wait_interrupted(struct task *t)
{
	return signal_pending(t);
}

bool wait_timed_out(struct task *t)
{
	return t->call.deadline && (t->call.timed_out || kernel_now(t->k) >= t->call.deadline);
}

void wait_set_timeout(struct task *t, int64_t ns)
{
	int64_t when;

	if (ns < 0)
		return;
	if (t->call.was_due) {
		t->call.deadline = t->call.was_due;
		t->call.was_due = 0;
		return;
	}
	if (ckd_add(&when, kernel_now(t->k), ns))
		return; /* 292 years: never */
	t->call.deadline = when ? when : 1;
}

long wait_block(struct task *t)
{
	if (wait_interrupted(t))
		return -ERESTARTSYS;
	return wait_timed_out(t) ? -ETIMEDOUT : SYS_BLOCK;
}

static bool cares(const struct wait_entry *e, unsigned events)
{
	return !e->events || !events || (events & (e->events | POLLERR | POLLHUP));
}

bool wait_has_idle(const struct wait_queue *q)
{
	const struct wait_entry *e = q->first;

	while (e && (!e->task || e->task->call.ready))
		e = e->next;
	return e;
}

void wait_wake(struct wait_queue *q, unsigned events)
{
	bool all = !events || (events & (POLLERR | POLLHUP)), taken = false;
	struct wait_entry *next;

	for (struct wait_entry *e = q->first; e; e = next) {
		bool one = e->exclusive && !all; /* asked before: @fn may free its entry */

		next = e->next;
		if (!cares(e, events) || (one && taken))
			continue;
		e->took = false;
		e->fn(e, events);
		if (one)
			taken |= e->took;
	}
}

void wait_wake_one(struct wait_queue *q, unsigned events)
{
	struct wait_entry *next;
	bool woken = false;

	for (struct wait_entry *e = q->first; e; e = next) {
		next = e->next;
		if (!cares(e, events))
			continue;
		if (e->fn == rouse_entry) {
			/* One that is on its way already does not count: it may give up. */
			if (woken || e->task->call.ready)
				continue;
			woken = true;
		}
		e->fn(e, events);
	}
}

static int add_task(struct poll_reg *reg, struct wait_queue *q)
{
	return wait_on(reg->task, q, reg->events);
}

void poll_reg_task(struct poll_reg *reg, struct task *t, unsigned events)
{
	*reg = (struct poll_reg){ .add = add_task, .task = t, .events = events };
}
