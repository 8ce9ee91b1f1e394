/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/signal.c - signals: sent, queued, masked, taken.
 *
 * Owns:  struct sigpending.
 * Rules: under the kernel lock. What happens to a taken signal (handler, death, stop) is
 *        task/deliver.c's.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>

#include "tier/kernel/io/timers.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/landlock.h"

#define STOPS (GSIG_BIT(SIGSTOP) | GSIG_BIT(SIGTSTP) | GSIG_BIT(SIGTTIN) | GSIG_BIT(SIGTTOU))
#define IGNORED_BY_DEFAULT                                                                         \
	(GSIG_BIT(SIGCHLD) | GSIG_BIT(SIGURG) | GSIG_BIT(SIGWINCH) | GSIG_BIT(SIGCONT))
#define UNBLOCKABLE (GSIG_BIT(SIGKILL) | GSIG_BIT(SIGSTOP))

void sigpending_flush(struct kernel *k, struct sigpending *p)
{
	while (p->first) {
		struct sigqueued *q = p->first;

		p->first = q->next;
		k->sig_queued--;
		free(q);
	}
	p->last = NULL;
	p->set = 0;
}

/* Takes out all entries of @set. */
static void discard(struct kernel *k, struct sigpending *p, gsigset_t set)
{
	struct sigqueued **pp = &p->first;

	p->set &= ~set;
	while (*pp) {
		struct sigqueued *q = *pp;

		if (!(GSIG_BIT(q->info.signo) & set)) {
			pp = &q->next;
			continue;
		}
		*pp = q->next;
		k->sig_queued--;
		free(q);
	}
	p->last = p->first ? pp : NULL;
}

static bool is_init_safe(struct proc *p, int sig, const struct gsigaction *a)
{
	if (a->handler != GSIG_DFL)
		return false;
	/* Pid 1 gets only what it has a handler for; that of a namespace also its end from above.
	 */
	return p == p->k->init || (pid_is_init(p) && !((sig == SIGKILL || sig == SIGSTOP) &&
							     pid_is_above(p->k->acting, p)));
}

static bool is_ignored(struct proc *p, struct task *t, int sig)
{
	const struct gsigaction *a = &t->sighand->act[sig - 1];

	if (is_init_safe(p, sig, a))
		return true;
	if (sig == SIGKILL || sig == SIGSTOP || t->trace)
		return false; /* a tracer hears of all */
	return a->handler == GSIG_IGN ||
	       (a->handler == GSIG_DFL && (IGNORED_BY_DEFAULT & GSIG_BIT(sig)));
}

/* Who sent it, as @to knows them. */
static void localize(const struct task *to, union gsiginfo *i)
{
	if (i->signo == SIGCHLD && i->code > 0 && i->code != SI_KERNEL) {
		i->chld.uid = uid_out(to, i->chld.uid);
		i->chld.pid = pid_out(to, i->chld.pid);
	} else if (i->code == SI_USER || i->code == SI_QUEUE || i->code == SI_TKILL ||
		   i->code == SI_MESGQ) {
		i->kill.uid = uid_out(to, i->kill.uid);
		i->kill.pid = pid_out(to, i->kill.pid);
	}
}

static int enqueue(struct proc *to, struct sigpending *p, int sig, const union gsiginfo *info)
{
	uint64_t most = to->limits[RLIMIT_SIGPENDING].rlim_cur;
	struct kernel *k = to->k;
	struct sigqueued *q;

	if (sig < GSIG_RT_MIN && (p->set & GSIG_BIT(sig)))
		return 0; /* once is enough */
	q = k->sig_queued < GUEST_SIGQUEUE_MAX && (k->sig_queued < most || !info || info->code >= 0)
		    ? calloc(1, sizeof(*q))
		    : NULL;
	if (!q) {
		if (sig >= GSIG_RT_MIN && info && info->code < 0)
			return -EAGAIN;
		p->set |= GSIG_BIT(sig); /* without its words */
		return 0;
	}
	k->sig_queued++;
	if (info)
		q->info = *info;
	else
		q->info.code = SI_KERNEL;
	q->info.signo = sig;
	if (to->tasks->cred->user || to->tasks->nums)
		localize(to->tasks, &q->info);
	if (!p->last)
		p->last = &p->first;
	*p->last = q;
	p->last = &q->next;
	p->set |= GSIG_BIT(sig);
	return 0;
}

/* A thread that may take it now: one that is awake for it. */
static void alert(struct task *t)
{
	if (t->state == TASK_DEAD)
		return;
	if (t->call.blocked)
		wait_rouse(t);
	else
		t->k->engine->kick(t);
}

static void before(struct proc *p, int sig)
{
	struct kernel *k = p->k;

	/* Stop and continue undo each other, also when ignored or blocked. */
	if (GSIG_BIT(sig) & STOPS) {
		discard(k, &p->pending, GSIG_BIT(SIGCONT));
		for (struct task *t = p->tasks; t; t = t->next)
			discard(k, &t->pending, GSIG_BIT(SIGCONT));
	} else if (sig == SIGCONT) {
		discard(k, &p->pending, STOPS);
		for (struct task *t = p->tasks; t; t = t->next)
			discard(k, &t->pending, STOPS);
		proc_continue(p);
	}
}

int signal_send_task(struct task *t, int sig, const union gsiginfo *info)
{
	struct proc *p = t->proc;
	int r;

	if (!sig || t->state == TASK_DEAD || p->exiting)
		return 0;
	before(p, sig);
	if (sig == SIGKILL && !is_init_safe(p, sig, &t->sighand->act[SIGKILL - 1])) {
		proc_exit(p, SIGKILL);
		return 0;
	}
	if (is_ignored(p, t, sig) && !(t->mask & GSIG_BIT(sig)))
		return 0;
	r = enqueue(p, &t->pending, sig, info);
	if (r < 0)
		return r;
	wait_wake(&p->signal_queue, POLLIN);
	if (signal_pending(t))
		alert(t);
	return 0;
}

int signal_send_proc(struct proc *p, int sig, const union gsiginfo *info)
{
	struct task *t, *wants = NULL;
	int r;

	if (!sig || p->state != PROC_LIVE || p->exiting)
		return 0;
	before(p, sig);
	if (sig == SIGKILL && !is_init_safe(p, sig, &p->tasks->sighand->act[SIGKILL - 1])) {
		proc_exit(p, SIGKILL);
		return 0;
	}
	for (t = p->tasks; t; t = t->next) {
		if (t->state != TASK_DEAD && !(t->mask & GSIG_BIT(sig))) {
			wants = t;
			break;
		}
	}
	if (wants && is_ignored(p, wants, sig))
		return 0;
	r = enqueue(p, &p->pending, sig, info);
	if (r < 0)
		return r;
	wait_wake(&p->signal_queue, POLLIN);
	if (wants && signal_pending(wants))
		alert(wants);
	return 0;
}

int signal_send_pgrp(struct pgrp *g, int sig, const union gsiginfo *info)
{
	struct proc *next;
	int n = 0;

	g->refs++; /* members may go while we look */
	for (struct proc *p = g->members; p; p = next) {
		next = p->pgrp_next;
		if (p->state == PROC_LIVE) {
			n++;
			signal_send_proc(p, sig, info);
		}
	}
	g->refs--;
	return n;
}

void signal_force(struct task *t, int sig, const union gsiginfo *info)
{
	struct gsigaction *a = &t->sighand->act[sig - 1];

	if (a->handler == GSIG_IGN || (t->mask & GSIG_BIT(sig))) {
		a->handler = GSIG_DFL;
		answers_signals(t->k);
	}
	t->mask &= ~GSIG_BIT(sig);
	if ((t->proc == t->k->init || pid_is_init(t->proc)) && a->handler == GSIG_DFL) {
		proc_exit(t->proc, sig); /* a fault of pid 1 ends it, and the sandbox */
		return;
	}
	signal_send_task(t, sig, info);
}

int signal_may(struct task *t, struct proc *p, int sig)
{
	const struct cred *me = t->cred, *it = p->tasks->cred;

	if (t->proc == p)
		return 0;
	if (landlock_scoped(me->landlock, it->landlock, LANDLOCK_SIGNAL))
		return -EPERM;
	if (task_capable_in(t, it->user, CAP_KILL))
		return 0;
	if (me->euid == it->suid || me->euid == it->uid || me->uid == it->suid ||
		me->uid == it->uid)
		return 0;
	return sig == SIGCONT && t->proc->pgrp->session == p->pgrp->session ? 0 : -EPERM;
}

void signal_info_user(struct task *t, int sig, union gsiginfo *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->signo = sig;
	ret->code = SI_USER;
	ret->kill.pid = t->proc->pid;
	ret->kill.uid = t->cred->uid;
}

gsigset_t signal_set(const struct task *t)
{
	return t->pending.set | t->proc->pending.set;
}

bool signal_pending(const struct task *t)
{
	const struct trace *tr = t->trace;

	if (tr)
		return tr->due || (t->proc->stop_signal && !tr->group_seen) ||
		       (signal_set(t) & ~t->mask);
	return t->proc->stop_signal || (signal_set(t) & ~t->mask);
}

static int take_from(struct kernel *k, struct sigpending *p, gsigset_t set, union gsiginfo *ret)
{
	gsigset_t have = p->set & set;
	int sig = have ? __builtin_ctzll(have) + 1 : 0;
	struct sigqueued **pp, *found = NULL;
	bool more = false;

	if (!sig)
		return 0;
	memset(ret, 0, sizeof(*ret));
	ret->signo = sig;
	for (pp = &p->first; *pp;) {
		struct sigqueued *q = *pp;

		if (q->info.signo != sig) {
			pp = &q->next;
		} else if (!found) {
			found = q;
			*pp = q->next;
		} else {
			more = true;
			pp = &q->next;
		}
	}
	p->last = p->first ? pp : NULL;
	if (found) {
		*ret = found->info;
		k->sig_queued--;
		free(found);
	}
	if (!more)
		p->set &= ~GSIG_BIT(sig);
	return sig;
}

int signal_take(struct task *t, gsigset_t set, union gsiginfo *ret)
{
	int sig = take_from(t->k, &t->pending, set, ret);

	if (!sig)
		sig = take_from(t->k, &t->proc->pending, set, ret);
	if (sig && ret->code == SI_TIMER)
		timers_deliver(t->proc, ret);
	return sig;
}

struct wait_queue *signal_queue(struct task *t)
{
	return &t->proc->signal_queue;
}

void signal_set_mask(struct task *t, gsigset_t mask)
{
	t->mask = mask & ~UNBLOCKABLE;
}

void signal_wait_mask(struct task *t, gsigset_t mask)
{
	if (!t->has_saved_mask) {
		t->saved_mask = t->mask;
		t->has_saved_mask = true;
	}
	signal_set_mask(t, mask);
}

void sigpending_drop(struct proc *p, gsigset_t set)
{
	discard(p->k, &p->pending, set);
	for (struct task *t = p->tasks; t; t = t->next)
		discard(p->k, &t->pending, set);
}
