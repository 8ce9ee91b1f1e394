/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/deliver.c - what a pending signal does: nothing, a stop, the end, or a handler.
 *
 * Owns:  task->deliver.
 * Rules: under the kernel lock; called when a task is about to go back to its program.
 */
#include <signal.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/task/deliver.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/answers.h"

enum what { WHAT_IGNORE, WHAT_STOP, WHAT_DIE };

static enum what by_default(struct task *t, int sig)
{
	switch (sig) {
	case SIGCHLD:
	case SIGURG:
	case SIGWINCH:
	case SIGCONT:
		return WHAT_IGNORE;
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
		/* Nobody could continue it. */
		return pgrp_is_orphaned(t->proc->pgrp) ? WHAT_IGNORE : WHAT_STOP;
	case SIGSTOP:
		return WHAT_STOP;
	default:
		return WHAT_DIE;
	}
}

#define DUMPS_CORE                                                                                 \
	(GSIG_BIT(SIGQUIT) | GSIG_BIT(SIGILL) | GSIG_BIT(SIGTRAP) | GSIG_BIT(SIGABRT) |            \
		GSIG_BIT(SIGFPE) | GSIG_BIT(SIGSEGV) | GSIG_BIT(SIGBUS) | GSIG_BIT(SIGSYS) |       \
		GSIG_BIT(SIGXCPU) | GSIG_BIT(SIGXFSZ))
enum { CORE_BYTES_MIN = 4096, CORE_FLAG = 0x80 };

int death_status(const struct task *t, int sig)
{
	bool core = (GSIG_BIT(sig) & DUMPS_CORE) && t->mm && t->mm->dumpable &&
		    t->proc->limits[RLIMIT_CORE].rlim_cur >= CORE_BYTES_MIN;

	return core ? sig | CORE_FLAG : sig;
}

static void prepare(struct task *t, int sig, struct gsigaction *a, const union gsiginfo *info)
{
	struct deliver *d = &t->deliver;
	gsigset_t mask = t->mask | a->mask;

	d->sig = sig;
	d->info = *info;
	d->act = *a;
	d->restart = -1;
	d->old_mask = t->has_saved_mask ? t->saved_mask : t->mask;
	t->has_saved_mask = false;
	if (!(a->flags & SA_NODEFER))
		mask |= GSIG_BIT(sig);
	signal_set_mask(t, mask);
	if (a->flags & SA_RESETHAND) {
		a->handler = GSIG_DFL;
		answers_signals(t->k);
	}
}

enum delivered deliver_signals(struct task *t)
{
	struct proc *p = t->proc;
	union gsiginfo info;

	for (;;) {
		struct gsigaction *a;
		int sig = 0;

		if (t->state == TASK_DEAD)
			return DELIVER_DEAD;
		if (t->trace ? !t->trace->entered && trace_stops(t, &sig, &info) : p->stop_signal)
			return DELIVER_STOPPED;
		if (t->trace && t->trace->entered)
			return DELIVER_NOTHING; /* a call first */
		if (sig && (t->mask & GSIG_BIT(sig))) {
			signal_send_task(t, sig, &info);
			continue;
		}
		if (!sig) {
			sig = signal_take(t, ~t->mask, &info);
			if (!sig)
				return DELIVER_NOTHING;
			if (t->trace && sig != SIGKILL) {
				trace_signal(t, sig, &info);
				return DELIVER_STOPPED;
			}
		}
		a = &t->sighand->act[sig - 1];
		if (sig == SIGKILL || sig == SIGSTOP || a->handler == GSIG_DFL) {
			switch (by_default(t, sig)) {
			case WHAT_IGNORE:
				continue;
			case WHAT_STOP:
				proc_stop(p, sig);
				continue;
			case WHAT_DIE:
				if (p == t->k->init && sig != SIGKILL && info.code <= 0)
					continue;
				proc_exit(p, death_status(t, sig));
				return DELIVER_DEAD;
			}
		}
		if (a->handler == GSIG_IGN)
			continue;
		prepare(t, sig, a, &info);
		return DELIVER_HANDLER;
	}
}
