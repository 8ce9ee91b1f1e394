/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/calls.c - what the shim asks.
 *
 * Owns:  nothing.
 * Rules: each is harmless from anyone, at any time, twice.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <linux/ptrace.h>

#include "base/ckd.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/deliver.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/calls.h"
#include "tier/kernel/trap/engine.h"

/* Only a process that is not in our books yet has a use for these. */
static long shim_nothing(struct task *t, const uint64_t *a)
{
	return -EINVAL;
}

/* Settling does the work: signals become an order, a stop waits. */
static long shim_ask(struct task *t, const uint64_t *a)
{
	return 0;
}

/* The same, with the registers: here a tracee stops. */
static long shim_stop(struct task *t, const uint64_t *a)
{
	if (t->trace) {
		t->trace->frame = a[0];
		t->trace->fs = a[1];
		t->trace->gs = a[2];
	}
	return 0;
}

/* The stack that the handler was to run on cannot be written. */
static void frame_failed(struct task *t, uint64_t sig, gsigset_t mask)
{
	union gsiginfo info;

	if (sig == SIGSEGV) {
		t->sighand->act[SIGSEGV - 1].handler = GSIG_DFL;
		answers_signals(t->k);
	}
	signal_set_mask(t, mask);
	memset(&info, 0, sizeof(info));
	info.code = SI_KERNEL;
	signal_force(t, SIGSEGV, &info);
}

/* A step of one that has breakpoints in registers: is it at one? */
static bool debug_step(struct task *t)
{
	uint64_t ip;

	return guest_read_u64(t, GVA(t->host->slot + offsetof(struct slot, fault.rip)), &ip) == 0 &&
	       debug_hit(t->trace, ip);
}

static long shim_fault(struct task *t, const uint64_t *a)
{
	union gsiginfo info;
	uint32_t sig;

	if (a[1] == FAULT_SHIM) {
		proc_exit(t->proc, death_status(t, SIGSEGV));
		return 0;
	}
	if (a[1] == FAULT_FRAME) {
		frame_failed(t, a[2], a[3]);
		return 0;
	}
	if (!t->host ||
		guest_read_u32(t, GVA(t->host->slot + offsetof(struct slot, fault.sig)), &sig) <
			0 ||
		guest_read(t, &info, GVA(t->host->slot + offsetof(struct slot, fault.info)),
			sizeof(info)) < 0)
		sig = 0;
	if (sig != SIGSEGV && sig != SIGBUS && sig != SIGFPE && sig != SIGILL && sig != SIGTRAP) {
		memset(&info, 0, sizeof(info));
		sig = SIGSEGV;
	}
	if (sig == SIGTRAP && t->exec_step) { /* the step into a new image: nobody's signal */
		t->exec_step = false;
		return SHIM_STEP_OFF;
	}
	if (sig == SIGTRAP && info.code == TRAP_TRACE && t->trace && debug_is_on(t->trace)) {
		if (debug_step(t))
			info.code = TRAP_HWBKPT;
		else if (t->trace->how != PTRACE_SINGLESTEP)
			return 0;
	}
	info.signo = (int32_t)sig;
	signal_force(t, (int)sig, &info);
	return 0;
}

/* The parent's side: the clone failed, or the child has its memory until it execs or ends. */
static long shim_forked(struct task *t, const uint64_t *a)
{
	struct task *child = task_find(t->k, (int32_t)a[0]);
	int64_t r = (int64_t)a[1];

	if (!child || child->proc->parent != t->proc || t->wait_child != (int32_t)a[0]) {
		/* A thread that could not be made, or a child that is gone already. */
		if (child && child->embryo && child->proc == t->proc && r < 0 &&
			t->wait_child == (int32_t)a[0])
			task_exit(child, 0);
		return 0;
	}
	if (r < 0) {
		if (child->embryo)
			task_abandon(child);
		return 0;
	}
	if (!child->proc->vfork_waits || child->proc->state != PROC_LIVE) {
		trace_vforked(t);
		return 0;
	}
	if (t->trace && (t->trace->due & DUE_EVENT))
		return SHIM_STOP_NOW; /* its tracer hears of the child before it waits for it */
	wait_on(t, &child->proc->exit_queue, 0);
	return SYS_BLOCK; /* only the child's end ends it: a signal waits */
}

static long shim_sigreturn(struct task *t, const uint64_t *a)
{
	signal_set_mask(t, a[0]);
	t->altstack.sp = a[1];
	t->altstack.flags = (uint32_t)a[2] & (1u << 31);
	t->altstack.size = a[2] & 2 ? 0 : a[3];
	return t->host ? (long)t->host->slot : 0;
}

static long shim_exec_failed(struct task *t, const uint64_t *a)
{
	proc_exit(t->proc, SIGKILL);
	return 0;
}

static const struct sys_row rows[] = {
	[SHIM_BLANK - SHIM_CALL_FIRST] = { "shim_blank", shim_nothing, SYS_FULL, "" },
	[SHIM_ASK - SHIM_CALL_FIRST] = { "shim_ask", shim_ask, SYS_FULL, "" },
	[SHIM_FAULT - SHIM_CALL_FIRST] = { "shim_fault", shim_fault, SYS_FULL, "" },
	[SHIM_HELLO - SHIM_CALL_FIRST] = { "shim_hello", shim_nothing, SYS_FULL, "" },
	[SHIM_FORKED - SHIM_CALL_FIRST] = { "shim_forked", shim_forked, SYS_FULL, "" },
	[SHIM_SIGRETURN - SHIM_CALL_FIRST] = { "shim_sigreturn", shim_sigreturn, SYS_FULL, "" },
	[SHIM_STOP - SHIM_CALL_FIRST] = { "shim_stop", shim_stop, SYS_FULL, "" },
	[SHIM_EXEC_FAILED -
		SHIM_CALL_FIRST] = { "shim_exec_failed", shim_exec_failed, SYS_FULL, "" },
};

const struct sys_row *shim_row(int64_t nr)
{
	_Static_assert(ARRAY_LEN(rows) == SHIM_CALL_END - SHIM_CALL_FIRST, "one row each");
	return &rows[nr - SHIM_CALL_FIRST];
}
