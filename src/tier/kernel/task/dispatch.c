/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/dispatch.c - from a number to its function, and again after a wait.
 *
 * Owns:  the life of task->call.
 * Rules: under the kernel lock.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "tier/kernel/io/disk.h"
#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/deliver.h"
#include "tier/kernel/task/listener.h"
#include "tier/kernel/task/seccomp.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/calls.h"
#include "tier/kernel/vfs/file.h"

#define PROTO_FULL(name) syscall_fn sys_##name;
#define PROTO_STUB(name) syscall_fn sys_##name;
#define PROTO_NATIVE(name)
#define PROTO_NONE(name)
#define S(nr, name, state, note) PROTO_##state(name)
#include "tier/kernel/sys/table.def"
#undef S

#define FN_FULL(name) sys_##name
#define FN_STUB(name) sys_##name
#define FN_NATIVE(name) NULL
#define FN_NONE(name) NULL
static const struct sys_row rows[SYS_NR_MAX] = {
#define S(nr, name, state, note) [nr] = { #name, FN_##state(name), SYS_##state, note },
#include "tier/kernel/sys/table.def"
#undef S
};

const struct sys_row *sys_row(int64_t nr)
{
	if (nr >= SHIM_CALL_FIRST && nr < SHIM_CALL_END)
		return shim_row(nr);
	if (nr < 0 || nr >= SYS_NR_MAX || !rows[nr].name)
		return NULL;
	return &rows[nr];
}

static void count_unknown(struct kernel *k, int64_t nr)
{
	struct kernel_report *r = k->report;

	for (unsigned i = 0; i < r->unknown_count; i++) {
		if (r->unknown[i].nr == nr) {
			r->unknown[i].count++;
			return;
		}
	}
	if (r->unknown_count < ARRAY_LEN(r->unknown))
		r->unknown[r->unknown_count++] =
			(struct unknown_call){ .nr = (int32_t)nr, .count = 1 };
}

static void drop_waits(struct task *t)
{
	struct call *c = &t->call;

	while (c->waits) {
		struct wait_entry *e = c->waits;

		c->waits = e->task_next;
		wait_remove(e);
		if (e < c->inline_waits || e >= c->inline_waits + ARRAY_LEN(c->inline_waits))
			free(e);
	}
	c->inline_used = 0;
}

static void call_over(struct task *t)
{
	struct call *c = &t->call;

	drop_waits(t);
	ktimer_clear(t->k, &c->timer);
	if (c->own)
		(c->own_free ? c->own_free : free)(c->own);
	c->own = NULL;
	c->own_free = NULL;
	disk_drop(c->disk);
	c->disk = NULL;
	fan_asks_drop(c->asks);
	c->asks = NULL;
	file_let_go(t);
	c->active = c->blocked = false;
}

static void on_deadline(struct kernel *k, struct ktimer *timer)
{
	struct task *t = (struct task *)((char *)timer - offsetof(struct task, call.timer));

	t->call.timed_out = true;
	wait_rouse(t);
}

static bool is_restart(long r)
{
	return r == -ERESTARTSYS || r == -ERESTARTNOINTR || r == -ERESTARTNOHAND;
}

/* A handler is going to run: is the call made again after it? */
static void decide_restart(struct task *t)
{
	struct call *c = &t->call;
	bool again = c->ret == -ERESTARTNOINTR ||
		     (c->ret == -ERESTARTSYS && (t->deliver.act.flags & SA_RESTART));

	if (!is_restart(c->ret))
		return;
	c->ret = -EINTR;
	if (again)
		t->deliver.restart = c->nr;
}

static bool enter(struct task *t);
static bool asked(struct task *t, enum seccomp_verdict verdict);

static bool is_shims(int64_t nr)
{
	return nr >= SHIM_CALL_FIRST && nr < SHIM_CALL_END;
}

/*
 * The function is done; what is pending for the task is looked at before it goes back. false: it is
 * stopped, blocked again, or dead.
 */
static bool settle(struct task *t)
{
	struct call *c = &t->call;

	c->settling = false;
	/* A call that got what it waited for leaves the signals of its wait's mask alone. */
	if (t->has_saved_mask && !is_restart(c->ret) && c->ret != -EINTR && !is_shims(c->nr)) {
		t->mask = t->saved_mask;
		t->has_saved_mask = false;
	}
	if (!signal_pending(t) && !is_restart(c->ret) && c->nr != SHIM_STOP)
		goto over;
	/* An order lies where a handler's would: it is carried out, and then signals are asked for.
	 */
	if (c->ordered)
		goto over;
	if (c->nr != SHIM_STOP && trace_wants(t)) { /* the mask stays: signals are still to come */
		trace_give_way(t);
		goto leave;
	}
	switch (deliver_signals(t)) {
	case DELIVER_DEAD:
		return false;
	case DELIVER_STOPPED:
		drop_waits(t);
		c->settling = c->blocked = true;
		wait_on(t, &t->proc->stop_queue, 0);
		return false;
	case DELIVER_HANDLER:
		decide_restart(t);
		if (c->nr == SHIM_STOP)
			trace_go(t, true);
		break;
	case DELIVER_NOTHING:
		if (is_restart(c->ret)) {
			drop_waits(t);
			file_let_go(t); /* made anew: its number is looked up as at first */
			return listener_is_asked(t) ? asked(t, listener_look(t, &c->ret))
						    : enter(t);
		}
		if (c->nr == SHIM_STOP)
			trace_go(t, false);
		break;
	}
over:
	if (t->has_saved_mask) {
		t->mask = t->saved_mask;
		t->has_saved_mask = false;
	}
leave:
	if (t->trace && !is_shims(c->nr))
		trace_over(t);
	call_over(t);
	return true;
}

static bool enter(struct task *t)
{
	struct call *c = &t->call;
	const struct sys_row *row = sys_row(c->nr);
	enum answers_effect effect = answers_effect(c->nr);
	struct cred *before = effect == EFFECT_CRED ? cred_ref(t->cred) : NULL;
	struct task *outer = t->k->acting;
	long r;

	t->k->acting = t;
	r = row && row->fn ? row->fn(t, c->args) : -ENOSYS;
	t->k->acting = outer;
	c->first = false;
	answers_called(t, effect, before);
	cred_unref(before);
	if (r == -ENOSPC)
		t->k->report->disk_full = true;
	if (t->state == TASK_DEAD)
		return false;
	if (r == SYS_BLOCK) {
		if (c->deadline && c->timer.when != c->deadline) {
			c->timer.fn = on_deadline;
			if (ktimer_set(t->k, &c->timer, c->deadline) < 0)
				r = -ENOMEM;
		}
		if (r == SYS_BLOCK) {
			c->blocked = true;
			return false;
		}
	}
	c->ret = r;
	return settle(t);
}

static bool make_call(struct task *t)
{
	struct call *c = &t->call;
	const struct sys_row *row = sys_row(c->nr);

	if (row && row->fn)
		return enter(t);
	if (!row || row->state == SYS_NONE)
		count_unknown(t->k, c->nr);
	c->ret = -ENOSYS;
	return settle(t);
}

/* A filter has been run, or somebody asked on its behalf. */
static bool asked(struct task *t, enum seccomp_verdict verdict)
{
	switch (verdict) {
	case SECCOMP_GO:
		return make_call(t);
	case SECCOMP_ANSWER:
		return settle(t);
	case SECCOMP_WAIT:
		t->call.blocked = true;
		break;
	case SECCOMP_DEAD:
		break;
	}
	return false;
}

bool call_begin(struct task *t, int64_t nr, const uint64_t args[6])
{
	struct call *c = &t->call;

	c->nr = nr;
	memcpy(c->args, args, sizeof(c->args));
	c->deadline = c->was_due = 0;
	c->done = 0;
	memset(c->u, 0, sizeof(c->u));
	c->timed_out = c->blocked = c->settling = c->go_native = c->ordered = false;
	c->fetched = false;
	c->map_fd = c->spare = 0;
	c->unsteady = c->restless = c->fixed = false;
	c->data_len = 0;
	c->path[0] = '\0';
	c->active = c->first = true;
	if (t->trace && !is_shims(nr) && trace_enter(t)) {
		c->ret = -ENOSYS; /* as a tracer finds it there; the call is made again */
		return settle(t);
	}
	if ((t->filters || t->seccomp_strict) && !is_shims(nr))
		return asked(t, seccomp_check(t, &c->ret));
	return make_call(t);
}

bool call_again(struct task *t)
{
	drop_waits(t);
	t->call.blocked = false;
	if (t->call.settling)
		return settle(t);
	return listener_is_asked(t) ? asked(t, listener_look(t, &t->call.ret)) : enter(t);
}

void call_drop(struct task *t)
{
	if (t->call.active)
		call_over(t);
}

static void run_ready(struct task *t)
{
	const struct engine_ops *e = t->k->engine;

	if (e->again)
		e->again(t);
	if (call_again(t))
		e->finish(t);
	if (e->entered)
		e->entered(t);
}

void kernel_run_ready(struct kernel *k)
{
	while (k->ready) {
		struct task *t = k->ready;

		k->ready = t->call.ready_next;
		if (!k->ready)
			k->ready_last = NULL;
		t->call.ready = false;
		if (t->call.blocked)
			run_ready(t);
	}
}
