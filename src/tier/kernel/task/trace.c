/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/trace.c - tracees: attached, stopped, told about, resumed.
 *
 * Owns:  struct trace, the list of a tracer's.
 * Rules: see trace.h. A record of one that has ended is kept for its tracer's wait(2); never more
 *        than there can be tasks, of all tracers together.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/ptrace.h>
#include <sys/syscall.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/shim/frame.h"
#include "tier/kernel/shim/shim.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/place.h"

#define TRAP_FLAG 0x100ULL

static void tell(struct trace *tr, int code, int status)
{
	struct proc *to = tr->tracer;
	const struct gsigaction *act = &to->tasks->sighand->act[SIGCHLD - 1];
	union gsiginfo si = { .signo = SIGCHLD, .code = code };

	si.chld.pid = tr->tid;
	si.chld.uid = tr->task ? tr->task->cred->uid : 0;
	si.chld.status = status;
	if (code != CLD_TRAPPED || !(act->flags & SA_NOCLDSTOP))
		signal_send_proc(to, SIGCHLD, &si);
	wait_wake(&to->child_queue, 0);
}

static void unlink_trace(struct trace *tr)
{
	struct trace **pp = &tr->tracer->tracees;

	while (*pp && *pp != tr)
		pp = &(*pp)->next;
	if (*pp)
		*pp = tr->next;
	tr->tracer->k->traces--;
}

static void alert(struct task *t)
{
	if (t->call.blocked)
		wait_rouse(t);
	else
		t->k->engine->kick(t);
}

int trace_attach(struct task *t, struct proc *tracer, bool seized, uint32_t options)
{
	struct trace *tr;

	if (t->trace || t->k->traces >= GUEST_TASKS_MAX)
		return -EPERM;
	tr = calloc(1, sizeof(*tr));
	if (!tr)
		return -ENOMEM;
	tr->task = t;
	tr->tid = t->tid;
	tr->tracer = tracer;
	tr->next = tracer->tracees;
	tracer->tracees = tr;
	t->k->traces++;
	tr->seized = seized;
	tr->options = options;
	tr->orig = -1;
	tr->how = PTRACE_CONT;
	t->trace = tr;
	place_undo(t); /* its calls are to be seen, and its text as it was */
	place_shut(t);
	return 0;
}

static bool frame_get(struct task *t, struct shim_regs *r)
{
	return guest_read(t, r, GVA(t->trace->frame + SHIM_FRAME_REGS), sizeof(*r)) == 0;
}

static void frame_put(struct task *t, const struct shim_regs *r)
{
	guest_write(t, GVA(t->trace->frame + SHIM_FRAME_REGS), r, sizeof(*r));
}

/* The registers are those of the syscall instruction again, which makes call @nr. */
static void rewind_call(struct task *t, int64_t nr)
{
	struct shim_regs r;

	if (!frame_get(t, &r))
		return;
	r.rip -= 2;
	r.rax = (uint64_t)nr;
	frame_put(t, &r);
}

void trace_go(struct task *t, bool handler)
{
	struct trace *tr = t->trace;
	struct shim_regs r;
	bool again;

	if (!tr)
		return;
	if (frame_get(t, &r)) {
		r.eflags &= ~TRAP_FLAG;
		/* A handler begins without it; what it returns to has it. */
		if ((tr->how == PTRACE_SINGLESTEP && !handler) || debug_is_on(tr))
			r.eflags |= TRAP_FLAG;
		frame_put(t, &r);
	}
	debug_look(tr);
	tr->after_call = false;
	if (!tr->restart)
		return;
	again = !handler || tr->restart == -ERESTARTNOINTR ||
		(tr->restart == -ERESTARTSYS && (t->deliver.act.flags & SA_RESTART));
	if (frame_get(t, &r) && r.rax == (uint64_t)tr->restart && tr->orig >= 0) {
		if (again && handler) {
			t->deliver.restart = tr->restart_nr;
		} else if (again) {
			rewind_call(t, tr->restart_nr);
		} else {
			r.rax = (uint64_t)-EINTR;
			frame_put(t, &r);
		}
	}
	tr->restart = 0;
}

/* Is it stopped with a call still to be made? */
static bool is_before_call(const struct trace *tr)
{
	int event = tr->kind == TRACE_EVENT ? tr->code >> 8 : 0;

	return tr->kind == TRACE_ENTER || event == PTRACE_EVENT_EXIT ||
	       event == PTRACE_EVENT_SECCOMP;
}

void trace_detach(struct task *t, int sig)
{
	struct trace *tr = t->trace;
	bool stopped = tr->stopped;

	if (stopped && is_before_call(tr) && tr->orig >= 0)
		rewind_call(t, tr->orig);
	tr->how = PTRACE_CONT;
	t->exec_step |= !stopped && debug_is_on(tr);
	debug_off(tr);
	if (stopped)
		trace_go(t, false);
	unlink_trace(tr);
	t->trace = NULL;
	free(tr);
	if (sig)
		signal_send_task(t, sig, NULL);
	if (stopped)
		wait_rouse(t);
}

void trace_resume(struct trace *tr, int64_t how, int sig)
{
	tr->how = how;
	tr->resumed = true;
	tr->inject = tr->kind == TRACE_SIGNAL || tr->kind == TRACE_ENTER || tr->kind == TRACE_EXIT
			     ? sig
			     : 0;
	tr->stopped = tr->news = tr->listening = false;
	wait_rouse(tr->task);
}

static void stop(struct task *t, enum trace_kind kind, int code, const union gsiginfo *info)
{
	struct trace *tr = t->trace;
	struct shim_regs r;

	tr->stopped = tr->news = true;
	tr->kind = kind;
	tr->code = code;
	memset(&tr->info, 0, sizeof(tr->info));
	tr->info.signo = SIGTRAP;
	tr->info.code = code;
	if (info)
		tr->info = *info;
	if (frame_get(t, &r)) {
		if (tr->restart && r.rax == (uint64_t)-EINTR)
			r.rax = (uint64_t)tr->restart;
		r.eflags &= ~TRAP_FLAG;
		frame_put(t, &r);
	}
	if (!tr->after_call && kind != TRACE_EVENT)
		tr->orig = -1;
	tell(tr, CLD_TRAPPED, code & 0x7f);
}

bool trace_wants(const struct task *t)
{
	const struct trace *tr = t->trace;

	if (!tr || tr->entered)
		return false;
	return tr->stopped || tr->resumed || tr->due || (t->proc->stop_signal && !tr->group_seen) ||
	       (signal_set(t) & ~t->mask);
}

static void stop_event(struct task *t)
{
	struct trace *tr = t->trace;

	tr->due &= ~(unsigned)DUE_EVENT;
	tr->message = tr->event_message;
	stop(t, TRACE_EVENT, SIGTRAP | (int)tr->event << 8, NULL);
}

/* The next stop that is due, other than a signal's. */
static bool stop_next(struct task *t)
{
	struct trace *tr = t->trace;
	int syscall_code = SIGTRAP | (tr->options & PTRACE_O_TRACESYSGOOD ? 0x80 : 0);

	if (tr->due & DUE_ENTER) {
		tr->due &= ~(unsigned)DUE_ENTER;
		tr->message = PTRACE_EVENTMSG_SYSCALL_ENTRY;
		stop(t, TRACE_ENTER, syscall_code, NULL);
	} else if (tr->due & DUE_EVENT) {
		stop_event(t);
	} else if (tr->due & DUE_EXIT) {
		tr->due &= ~(unsigned)DUE_EXIT;
		tr->message = PTRACE_EVENTMSG_SYSCALL_EXIT;
		stop(t, TRACE_EXIT, syscall_code, NULL);
	} else if (t->proc->stop_signal && !tr->group_seen) {
		tr->group_seen = true;
		tr->due &= ~(unsigned)DUE_TRAP;
		stop(t, TRACE_GROUP,
			t->proc->stop_signal | (tr->seized ? PTRACE_EVENT_STOP << 8 : 0), NULL);
	} else if (tr->due & DUE_TRAP) {
		tr->due &= ~(unsigned)DUE_TRAP;
		stop(t, TRACE_TRAP, SIGTRAP | PTRACE_EVENT_STOP << 8, NULL);
	} else {
		return false;
	}
	return true;
}

bool trace_stops(struct task *t, int *ret_sig, union gsiginfo *ret)
{
	struct trace *tr = t->trace;
	bool resumed = tr->resumed;

	*ret_sig = 0;
	if (tr->stopped)
		return true;
	tr->resumed = false;
	if (resumed && is_before_call(tr)) {
		if (tr->orig >= 0) {
			rewind_call(t, tr->orig);
			tr->entered = true;
			return false;
		}
		tr->due |= tr->how == PTRACE_SYSCALL ? DUE_EXIT : 0;
	}
	if (resumed && tr->inject) {
		*ret = tr->info;
		if (tr->inject != tr->info.signo || tr->kind != TRACE_SIGNAL) {
			memset(ret, 0, sizeof(*ret));
			ret->signo = tr->inject;
			ret->code = SI_USER;
			ret->kill.pid = tr->tracer->pid;
			ret->kill.uid = tr->tracer->tasks->cred->uid;
		}
		*ret_sig = tr->inject;
		tr->inject = 0;
		return false;
	}
	return stop_next(t);
}

void trace_signal(struct task *t, int sig, const union gsiginfo *info)
{
	stop(t, TRACE_SIGNAL, sig, info);
}

bool trace_enter(struct task *t)
{
	struct trace *tr = t->trace;
	struct call *c = &t->call;
	bool ends = c->nr == SYS_exit || c->nr == SYS_exit_group;
	bool entered = tr->entered;

	tr->entered = false;
	tr->filter_told &= entered;
	tr->orig = c->nr;
	tr->restart = 0;
	tr->ip = c->ip;
	memcpy(tr->args, c->args, sizeof(tr->args));
	if (!entered && tr->how == PTRACE_SYSCALL) {
		tr->due |= DUE_ENTER;
	} else if (ends && (tr->options & PTRACE_O_TRACEEXIT) && !tr->exit_told) {
		tr->exit_told = true;
		tr->event = PTRACE_EVENT_EXIT;
		tr->event_message = (c->args[0] & 0xff) << 8;
		tr->due |= DUE_EVENT;
	} else {
		tr->in_call = true;
		return false;
	}
	tr->in_call = false;
	return true;
}

bool trace_lets(struct task *t, uint32_t data)
{
	struct trace *tr = t->trace;

	if (!tr || !(tr->options & PTRACE_O_TRACESECCOMP))
		return false;
	if (tr->filter_told) {
		tr->filter_told = false;
		return true;
	}
	tr->filter_told = true;
	tr->event = PTRACE_EVENT_SECCOMP;
	tr->event_message = data;
	tr->due |= DUE_EVENT;
	tr->in_call = false;
	return false;
}

void trace_over(struct task *t)
{
	struct trace *tr = t->trace;

	if (tr->in_call && tr->how == PTRACE_SYSCALL)
		tr->due |= DUE_EXIT;
	tr->in_call = false;
	tr->after_call = true;
	tr->orig = t->call.nr;
}

void trace_give_way(struct task *t)
{
	struct call *c = &t->call;

	if (c->nr >= SHIM_CALL_FIRST && c->nr < SHIM_CALL_END) {
		if (c->nr == SHIM_ASK || c->nr == SHIM_FAULT)
			c->ret = SHIM_STOP_NOW;
		return;
	}
	if (c->ret == -ERESTARTSYS || c->ret == -ERESTARTNOINTR || c->ret == -ERESTARTNOHAND) {
		t->trace->restart = c->ret;
		t->trace->restart_nr = c->nr;
		c->ret = -EINTR;
	}
}

void trace_cloned(struct task *t, struct task *child, uint64_t flags)
{
	struct trace *tr = t->trace;
	uint32_t event = flags & CLONE_VFORK                   ? PTRACE_EVENT_VFORK
			 : flags & CLONE_THREAD                ? PTRACE_EVENT_CLONE
			 : child->proc->exit_signal != SIGCHLD ? PTRACE_EVENT_CLONE
							       : PTRACE_EVENT_FORK;

	if (tr && (tr->how == PTRACE_SINGLESTEP || debug_is_on(tr)))
		child->exec_step = true; /* its registers are a copy, the step is not its own */
	if (!tr || (flags & CLONE_UNTRACED))
		return;
	tr->vfork = flags & CLONE_VFORK;
	if (!(tr->options & 1u << event) ||
		trace_attach(child, tr->tracer, tr->seized, tr->options) < 0)
		return;
	tr->event = event;
	tr->event_message = (uint64_t)task_nr(tr->tracer->tasks, child);
	tr->due |= DUE_EVENT;
	if (tr->seized)
		child->trace->due |= DUE_TRAP;
	else
		signal_send_task(child, SIGSTOP, NULL);
}

void trace_vforked(struct task *t)
{
	struct trace *tr = t->trace;

	if (!tr || !tr->vfork)
		return;
	tr->vfork = false;
	if (!(tr->options & PTRACE_O_TRACEVFORKDONE))
		return;
	tr->event = PTRACE_EVENT_VFORK_DONE;
	tr->due |= DUE_EVENT;
}

void trace_execed(struct task *t, int32_t old_tid)
{
	struct trace *tr = t->trace;

	if (!tr)
		return;
	tr->tid = t->tid;
	tr->restart = 0;
	debug_off(tr);
	tr->orig = SYS_execve;
	if (tr->options & PTRACE_O_TRACEEXEC) {
		tr->event = PTRACE_EVENT_EXEC;
		tr->event_message = (uint64_t)old_tid;
		tr->due |= DUE_EVENT;
	} else if (!tr->seized) {
		signal_send_task(t, SIGTRAP, NULL);
	}
}

void trace_relisten(struct task *t)
{
	t->trace->due |= DUE_TRAP;
	t->trace->stopped = t->trace->listening = false;
	wait_rouse(t);
}

void trace_interrupt(struct task *t)
{
	if (t->trace->listening) {
		trace_relisten(t);
		return;
	}
	t->trace->due |= DUE_TRAP;
	if (!t->trace->stopped)
		alert(t);
}

/* SIGCONT: who listens hears of it. */
void trace_continued(struct proc *p)
{
	for (struct task *t = p->tasks; t; t = t->next) {
		if (!t->trace)
			continue;
		t->trace->group_seen = false;
		if (t->trace->listening)
			trace_relisten(t);
	}
}

/* A tracer that is not its parent, or the tracer of a thread, hears of its end by itself. */
static void record_end(struct task *t, int status)
{
	struct trace *tr = t->trace;

	t->trace = NULL;
	tr->pid = t->proc->pid;
	tr->stopped = false;
	tr->news = true;
	tr->code = status;
	tell(tr, status & 0x7f ? CLD_KILLED : CLD_EXITED,
		status & 0x7f ? status & 0x7f : status >> 8 & 0xff);
	tr->task = NULL;
}

void trace_task_free(struct task *t)
{
	struct trace *tr = t->trace;

	if (!tr)
		return;
	unlink_trace(tr);
	t->trace = NULL;
	free(tr);
}

void trace_task_gone(struct task *t, int status)
{
	if (t->trace && t != t->proc->tasks)
		record_end(t, t->proc->exiting ? t->proc->wait_status : status);
}

void trace_proc_ended(struct proc *p)
{
	struct task *leader = p->tasks;

	if (leader->trace && leader->trace->tracer == p->parent)
		trace_task_free(leader);
	else if (leader->trace)
		record_end(leader, p->wait_status);
	while (p->tracees) {
		struct trace *tr = p->tracees;
		struct task *t = tr->task;
		bool kills = tr->options & PTRACE_O_EXITKILL;

		if (!t) {
			unlink_trace(tr);
			free(tr);
			continue;
		}
		trace_detach(t, 0);
		if (kills)
			proc_exit(t->proc, SIGKILL);
	}
}

void trace_done(struct proc *p)
{
	while (p->tracees) {
		struct trace *tr = p->tracees;

		p->tracees = tr->next;
		p->k->traces--;
		free(tr);
	}
}

void trace_seen(struct trace *tr)
{
	tr->news = false;
	if (tr->task)
		return;
	unlink_trace(tr);
	free(tr);
}

bool trace_is_before(const struct proc *p, int32_t pid)
{
	for (const struct trace *tr = p->tracees; tr; tr = tr->next)
		if (!tr->task && tr->pid == pid && tr->tid != pid)
			return true;
	return false;
}

bool trace_keeps_rights(const struct task *t)
{
	return t->trace && !task_capable_in(t->trace->tracer->tasks, t->cred->user, CAP_SYS_PTRACE);
}
