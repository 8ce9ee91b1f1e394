/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/treewalk.c - the process tree, walked: saved, or built again.
 *
 * Owns:  nothing.
 * Rules: every object is numbered before any field that points at one; what is loaded is untrusted,
 * so a reference can only lead to an object of its own kind that the same walk has made. Nothing of
 * it is in the kernel before all of it has been checked.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "tier/kernel/io/timers.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/sys/aio.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/seccomp.h"
#include "tier/kernel/task/treewalk.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/walk.h"

static void drop_session(void *p)
{
	session_unref(p);
}

static void drop_cred(void *p)
{
	cred_unref(p);
}

static void drop_sighand(void *p)
{
	sighand_unref(p);
}

/* What is numbered, in this order. Those with a @drop have a first reference, which is the walk's.
 */
static const struct {
	enum walk_kind kind;
	size_t size;
	void (*drop)(void *p);
} objects[] = {
	{ WALK_SESSION, sizeof(struct session), drop_session },
	{ WALK_PGRP, sizeof(struct pgrp), NULL },
	{ WALK_CRED, sizeof(struct cred), drop_cred },
	{ WALK_SIGHAND, sizeof(struct sighand), drop_sighand },
	{ WALK_PROC, sizeof(struct proc), NULL },
	{ WALK_TASK, sizeof(struct task), NULL },
};

static void collect(struct kernel *k, struct walk *w)
{
	for (struct proc *p = k->procs; p; p = p->next) {
		walk_number(w, WALK_PROC, p);
		walk_number(w, WALK_PGRP, p->pgrp);
		walk_number(w, WALK_SESSION, p->pgrp->session);
		for (struct task *t = p->tasks; t; t = t->next) {
			walk_number(w, WALK_TASK, t);
			walk_number(w, WALK_CRED, t->cred);
			walk_number(w, WALK_SIGHAND, t->sighand);
			if (t->embryo)
				walk_fail(w, -EBUSY); /* half of it is still the guest's to do */
			if (t->trace)
				walk_fail(w, -EOPNOTSUPP); /* its registers are the shim's */
		}
	}
	for (uint32_t i = 0; w->wanted && i < w->wanted->cred_count; i++)
		walk_number(w, WALK_CRED, w->wanted->creds[i]);
}

static void make(struct walk *w, size_t which, uint32_t n)
{
	for (uint32_t i = 0; i < n && !w->err; i++) {
		void *p = calloc(1, objects[which].size);

		if (!p) {
			walk_fail(w, -ENOMEM);
			return;
		}
		if (objects[which].drop) {
			*(unsigned *)p = 1; /* refs comes first in all of them */
			walk_keep(w, p, objects[which].drop);
			if (w->err)
				return;
		}
		if (!walk_number(w, objects[which].kind, p) && !objects[which].drop)
			free(p);
	}
}

static void objects_walk(struct kernel *k, struct walk *w)
{
	if (w->mode == WALK_SAVE)
		collect(k, w);
	for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
		uint32_t n = walk_count_of(w, objects[i].kind);

		walk_list(w, "objects", &n, GUEST_FILES_MAX);
		if (w->mode == WALK_LOAD)
			make(w, i, n);
	}
}

#define EACH(w, type, kind, one)                                                                   \
	for (uint32_t at_ = 1; at_ <= walk_count_of(w, kind); at_++)                               \
		for (type *one = walk_get(w, kind, at_); one; one = NULL)

static void session_walk(struct session *s, struct walk *w)
{
	walk_i32(w, "id", &s->id);
	walk_i32(w, "tty_pgrp", &s->tty_pgrp);
	pid_nums_walk(&s->nums, w);
}

static void pgrp_walk(struct pgrp *g, struct walk *w)
{
	walk_i32(w, "id", &g->id);
	pid_nums_walk(&g->nums, w);
	walk_need(w, "session", WALK_SESSION, (void **)&g->session);
}

static void walk_user(struct cred *c, struct walk *w)
{
	struct ns *n = c->user ? &c->user->ns : NULL;

	ns_ref_walk(w, "user", NS_USER, &n);
	if (w->mode == WALK_LOAD)
		c->user = n ? user_ns_of(n) : NULL;
}

static void cred_walk(struct cred *c, struct walk *w)
{
	uint32_t *ids[] = { &c->uid, &c->euid, &c->suid, &c->fsuid, &c->gid, &c->egid, &c->sgid,
		&c->fsgid, &c->securebits };
	uint64_t *caps[] = { &c->cap_effective, &c->cap_permitted, &c->cap_inheritable,
		&c->cap_bounding, &c->cap_ambient };

	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		walk_u32(w, "id", ids[i]);
	for (size_t i = 0; i < ARRAY_LEN(caps); i++)
		walk_u64(w, "cap", caps[i]);
	walk_user(c, w);
	walk_count(w, "groups", &c->group_count, GUEST_GROUPS_MAX);
	walk_bytes(w, "group", c->groups, c->group_count * sizeof(c->groups[0]));
}

static void sighand_walk(struct sighand *s, struct walk *w)
{
	walk_bytes(w, "act", s->act, sizeof(s->act));
}

static void pending_walk(struct kernel *k, struct sigpending *p, struct walk *w)
{
	struct sigqueued *q = p->first;
	uint32_t n = 0;

	for (; q; q = q->next)
		n++;
	walk_u64(w, "set", &p->set);
	walk_list(w, "queued", &n, GUEST_SIGQUEUE_MAX);
	q = p->first;
	for (uint32_t i = 0; i < n && !w->err; i++) {
		if (w->mode == WALK_LOAD) {
			q = calloc(1, sizeof(*q));
			if (!q) {
				w->err = -ENOMEM;
				return;
			}
			if (!p->last)
				p->last = &p->first;
			*p->last = q;
			p->last = &q->next;
			k->sig_queued++;
		}
		walk_bytes(w, "info", &q->info, sizeof(q->info));
		if (q->info.signo < 1 || q->info.signo > GSIG_MAX)
			w->err = w->err ? w->err : -EBADMSG;
		q = q->next;
	}
}

/*
 * A blocked call is entered again: with what it remembers, or, where that is memory of its own
 * (what it waits for was copied in, a file that is being opened), from its beginning.
 */
static bool begins_again(const struct task *t)
{
	return t->call.first || (t->call.own && !call_copy_keeps(t) && !aio_submit_keeps(t));
}

struct file *call_held(const struct task *t)
{
	return t->call.active && !begins_again(t) ? t->call.held : NULL;
}

/* A call that is entered again is one of the table's, or the one of the shim's that waits: a
 * vfork's. */
static bool may_wait(const struct call *c)
{
	bool known = (c->nr >= 0 && c->nr < SYS_NR_MAX) || c->nr == SHIM_FORKED;
	const struct sys_row *row = known ? sys_row(c->nr) : NULL;
	bool over = c->settling && (c->ret > -ERESTARTSYS || c->ret < -ERESTARTNOHAND);

	return over || (row && row->fn);
}

static void call_walk(struct task *t, struct walk *w)
{
	struct call *c = &t->call;
	bool fresh = begins_again(t);
	struct {
		int64_t deadline;
		uint64_t done, u[ARRAY_LEN(c->u)];
		bool timed_out;
	} v = { 0 };

	walk_bool(w, "active", &c->active);
	if (!c->active || w->err)
		return;
	if (w->mode == WALK_SAVE)
		v.deadline = c->deadline ? c->deadline : c->was_due;
	if (w->mode == WALK_SAVE && !fresh) {
		v.done = c->done;
		v.timed_out = c->timed_out;
		memcpy(v.u, c->u, sizeof(v.u));
	}
	walk_i64(w, "nr", &c->nr);
	walk_u64(w, "ip", &c->ip);
	walk_bytes(w, "args", c->args, sizeof(c->args));
	walk_bool(w, "settling", &c->settling);
	walk_i64(w, "ret", (int64_t *)&c->ret);
	walk_bool(w, "fresh", &fresh);
	walk_time(w, "deadline", &v.deadline);
	walk_bool(w, "timed_out", &v.timed_out);
	walk_u64(w, "done", &v.done);
	walk_bytes(w, "u", v.u, sizeof(v.u));
	call_copy_walk(t, w);
	aio_submit_walk(t, w);
	if (w->mode == WALK_SAVE)
		return;
	if (!may_wait(c))
		walk_fail(w, -EBADMSG);
	c->blocked = true;
	c->first = fresh;
	c->deadline = fresh ? 0 : v.deadline;
	c->was_due = fresh ? v.deadline : 0;
	c->timed_out = v.timed_out;
	c->done = v.done;
	memcpy(c->u, v.u, sizeof(v.u));
}

static void deliver_walk(struct deliver *d, struct walk *w)
{
	walk_i32(w, "sig", &d->sig);
	if (d->sig < 0 || d->sig > GSIG_MAX)
		walk_fail(w, -EBADMSG);
	if (!d->sig || w->err)
		return;
	walk_bytes(w, "info", &d->info, sizeof(d->info));
	walk_bytes(w, "act", &d->act, sizeof(d->act));
	walk_u64(w, "old_mask", &d->old_mask);
	walk_i64(w, "restart", &d->restart);
}

/* The mask of one wait only is not that of a call that begins again. */
static void mask_walk(struct task *t, struct walk *w)
{
	bool fresh = t->call.active && begins_again(t);
	bool has = t->has_saved_mask && !fresh;
	uint64_t mask = t->has_saved_mask && fresh ? t->saved_mask : t->mask;

	walk_u64(w, "mask", &mask);
	walk_bool(w, "has_saved_mask", &has);
	if (has)
		walk_u64(w, "saved_mask", &t->saved_mask);
	if (w->mode == WALK_SAVE)
		return;
	signal_set_mask(t, mask);
	t->has_saved_mask = has;
	t->saved_mask &= ~(GSIG_BIT(SIGKILL) | GSIG_BIT(SIGSTOP));
}

/* Sums of time and of counts are made of these: none is so large that they could overflow. */
static const int64_t used_most = (int64_t)1 << 58;

static void rusage_walk(struct rusage *u, const char *name, struct walk *w)
{
	int64_t words[GUEST_RUSAGE_BYTES / sizeof(int64_t)];
	bool fine = true;

	walk_bytes(w, name, u, GUEST_RUSAGE_BYTES);
	if (w->mode == WALK_SAVE)
		return;
	memcpy(words, u, sizeof(words));
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		fine = fine && words[i] >= 0 && words[i] < used_most;
	if (fine && u->ru_utime.tv_usec < 1000000 && u->ru_stime.tv_usec < 1000000)
		return;
	memset(u, 0, sizeof(*u));
	walk_fail(w, -EBADMSG);
}

static void cpu_walk(int64_t *ns, struct walk *w)
{
	walk_i64(w, "past_cpu_ns", ns);
	if (*ns >= 0 && *ns < used_most)
		return;
	*ns = 0;
	walk_fail(w, -EBADMSG);
}

static void task_walk(struct kernel *k, struct task *t, struct walk *w)
{
	bool asks = w->mode == WALK_SAVE && t->host; /* the host knows better */
	uint32_t state = t->state;
	uint64_t robust = asks ? host_robust_list(t) : t->robust_list;
	int64_t cpu_ns = asks ? usage_task_ns(t) : t->past_cpu_ns;

	walk_need(w, "proc", WALK_PROC, (void **)&t->proc);
	walk_need(w, "cred", WALK_CRED, (void **)&t->cred);
	walk_need(w, "sighand", WALK_SIGHAND, (void **)&t->sighand);
	ns_set_walk(&t->ns, w);
	pid_nums_walk(&t->nums, w);
	walk_i32(w, "tid", &t->tid);
	walk_count(w, "state", &state, TASK_DEAD);
	t->state = (enum task_state)state;
	walk_bytes(w, "comm", t->comm, sizeof(t->comm));
	t->comm[sizeof(t->comm) - 1] = '\0';
	pending_walk(k, &t->pending, w);
	mask_walk(t, w);
	walk_u64(w, "alt_sp", &t->altstack.sp);
	walk_u64(w, "alt_size", &t->altstack.size);
	walk_u32(w, "alt_flags", &t->altstack.flags);
	walk_u64(w, "clear_tid", &t->clear_tid);
	walk_u64(w, "robust_list", &robust);
	cpu_walk(&cpu_ns, w);
	walk_i32(w, "exit_signal", &t->exit_signal);
	walk_i32(w, "wait_child", &t->wait_child);
	walk_u64(w, "child_settid", &t->child_settid);
	walk_past(w, "start_ns", &t->start_ns);
	walk_i32(w, "nice", &t->nice);
	walk_u32(w, "policy", &t->sched.policy);
	walk_u32(w, "prio", &t->sched.prio);
	walk_bool(w, "reset_on_fork", &t->sched.reset_on_fork);
	walk_u64(w, "runtime", &t->sched.runtime);
	walk_u64(w, "deadline", &t->sched.deadline);
	walk_u64(w, "period", &t->sched.period);
	walk_bytes(w, "ioprio", &t->ioprio, sizeof(t->ioprio));
	walk_bytes(w, "cpus", t->cpus, sizeof(t->cpus));
	walk_u64(w, "timer_slack_ns", &t->timer_slack_ns);
	walk_u64(w, "timer_slack_default_ns", &t->timer_slack_default_ns);
	walk_bool(w, "no_new_privs", &t->no_new_privs);
	seccomp_walk(t, w);
	walk_i32(w, "pdeath_signal", &t->pdeath_signal);
	if (w->mode == WALK_LOAD) {
		t->robust_list = robust;
		t->past_cpu_ns = cpu_ns;
	}
	deliver_walk(&t->deliver, w);
	call_walk(t, w);
}

static void proc_walk(struct kernel *k, struct proc *p, struct walk *w)
{
	bool asks = w->mode == WALK_SAVE && p->host;
	int64_t cpu_ns = asks ? usage_ns(p) : p->past_cpu_ns;
	struct rusage used = p->past_usage;
	uint32_t state = p->state;
	void *cmdline = p->cmdline;

	if (asks)
		usage_of(p, &used);

	walk_ref(w, "parent", WALK_PROC, (void **)&p->parent);
	walk_need(w, "pgrp", WALK_PGRP, (void **)&p->pgrp);
	walk_i32(w, "pid", &p->pid);
	walk_i32(w, "maker", &p->maker);
	walk_count(w, "state", &state, PROC_ZOMBIE);
	p->state = (enum proc_state)state;
	pending_walk(k, &p->pending, w);
	walk_i32(w, "wait_status", &p->wait_status);
	walk_i32(w, "stop_signal", &p->stop_signal);
	walk_bool(w, "stop_news", &p->stop_news);
	walk_bool(w, "cont_news", &p->cont_news);
	walk_bool(w, "exiting", &p->exiting);
	walk_bool(w, "execed", &p->execed);
	walk_bool(w, "subreaper", &p->subreaper);
	walk_i32(w, "exit_signal", &p->exit_signal);
	walk_bytes(w, "limits", p->limits, sizeof(p->limits));
	rusage_walk(&p->children_usage, "children_usage", w);
	rusage_walk(&p->own_usage, "own_usage", w);
	walk_bool(w, "vfork_waits", &p->vfork_waits);
	walk_i32(w, "oom_score_adj", &p->oom_score_adj);
	walk_past(w, "start_ns", &p->start_ns);
	walk_u64(w, "personality", &p->personality);
	cpu_walk(&cpu_ns, w);
	rusage_walk(&used, "past_usage", w);
	if (w->mode == WALK_LOAD) {
		p->past_cpu_ns = cpu_ns;
		p->past_usage = used;
	}
	walk_blob(w, "cmdline", &cmdline, &p->cmdline_len, GUEST_ARG_BYTES_MAX);
	p->cmdline = cmdline;
	p->k = k;
	timers_walk(p, w);
}

/* Are all in one tree? A loaded parent may be anybody. */
static bool reaches_init(const struct proc *p, uint32_t hops)
{
	while (p->parent && hops--)
		p = p->parent;
	return !p->parent;
}

/* Loading: is everything as other code takes for granted? Links the tasks to their processes. */
static void check(struct walk *w)
{
	uint32_t procs = walk_count_of(w, WALK_PROC), firsts = 0;

	EACH(w, struct pgrp, WALK_PGRP, g)
	{
		if (g->id < 1 || g->id > GUEST_TASKS_MAX)
			walk_fail(w, -EBADMSG);
	}
	EACH(w, struct task, WALK_TASK, t)
	{
		struct task **last = &t->proc->tasks;

		while (*last)
			last = &(*last)->next;
		*last = t;
		if (t->tid < 1 || t->tid > GUEST_TASKS_MAX)
			walk_fail(w, -EBADMSG);
	}
	EACH(w, struct proc, WALK_PROC, p)
	{
		firsts += !p->parent;
		/* Before they are linked, the walk is where members are counted. */
		p->pgrp->refs++;
		if (!p->tasks || p->tasks->tid != p->pid || !reaches_init(p, procs) ||
			(!p->parent && p->pid != 1))
			walk_fail(w, -EBADMSG);
	}
	EACH(w, struct pgrp, WALK_PGRP, g)
	{
		if (!g->refs)
			walk_fail(w, -EBADMSG);
	}
	if (firsts != 1)
		walk_fail(w, -EBADMSG);
}

/* No two of the same number: into the hash, one by one. */
static bool hash_task(struct kernel *k, struct task *t)
{
	struct task **slot = &k->tid_hash[(unsigned)t->tid % ARRAY_LEN(k->tid_hash)];

	if (task_find(k, t->tid))
		return false;
	t->hash_next = *slot;
	*slot = t;
	k->task_count++;
	return true;
}

static void check_numbers(struct kernel *k, struct walk *w)
{
	EACH(w, struct task, WALK_TASK, t)
	{
		if (!hash_task(k, t))
			walk_fail(w, -EBADMSG);
	}
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_PGRP); i++) {
		struct pgrp *g = walk_get(w, WALK_PGRP, i);

		if (pgrp_find(k, g->id))
			walk_fail(w, -EBADMSG);
		g->next = k->pgrps;
		k->pgrps = g;
	}
	if (!w->err)
		return;
	memset(k->tid_hash, 0, sizeof(k->tid_hash));
	k->task_count = 0;
	k->pgrps = NULL;
}

/* Nothing of it is in the kernel yet. */
static void unbuild(struct kernel *k, struct walk *w)
{
	EACH(w, struct proc, WALK_PROC, p)
	{
		p->k = k;
		timers_done(p);
		sigpending_flush(k, &p->pending);
		free(p->cmdline);
		free(p);
	}
	EACH(w, struct task, WALK_TASK, t)
	{
		sigpending_flush(k, &t->pending);
		seccomp_unref(t->filters);
		ns_set_unref(t->ns);
		pid_nums_unref(t->nums);
		free(t->call.own);
		free(t);
	}
	EACH(w, struct pgrp, WALK_PGRP, g)
	{
		pid_nums_unref(g->nums);
		free(g);
	}
}

/* The lists that other code follows, out of the references. */
static void link_up(struct kernel *k, struct walk *w)
{
	EACH(w, struct pgrp, WALK_PGRP, g)
	g->session->refs++;
	for (uint32_t i = walk_count_of(w, WALK_PROC); i > 0; i--) {
		struct proc *p = walk_get(w, WALK_PROC, i);

		p->next = k->procs;
		k->procs = p;
		if (!k->procs_last)
			k->procs_last = p;
		p->pgrp_next = p->pgrp->members;
		p->pgrp->members = p;
		if (p->parent) {
			p->sibling = p->parent->children;
			p->parent->children = p;
		} else {
			k->init = p;
		}
	}
	EACH(w, struct task, WALK_TASK, t)
	{
		t->k = k;
		t->cred->refs++;
		t->sighand->refs++;
		t->proc->task_count += t->state != TASK_DEAD;
	}
	EACH(w, struct proc, WALK_PROC, p)
	pid_proc_born(p);
}

int tasks_walk(struct kernel *k, struct walk *w)
{
	bool loading = w->mode == WALK_LOAD;

	walk_i32(w, "last_tid", &k->last_tid);
	objects_walk(k, w);
	EACH(w, struct session, WALK_SESSION, s)
	session_walk(s, w);
	EACH(w, struct pgrp, WALK_PGRP, g)
	pgrp_walk(g, w);
	EACH(w, struct cred, WALK_CRED, c)
	cred_walk(c, w);
	EACH(w, struct sighand, WALK_SIGHAND, s)
	sighand_walk(s, w);
	EACH(w, struct proc, WALK_PROC, p)
	proc_walk(k, p, w);
	EACH(w, struct task, WALK_TASK, t)
	task_walk(k, t, w);
	if (loading && (k->last_tid < 0 || k->last_tid > GUEST_TASKS_MAX)) {
		k->last_tid = 0;
		walk_fail(w, -EBADMSG);
	}
	if (loading && !w->err)
		check(w);
	if (loading && !w->err)
		check_numbers(k, w);
	if (loading && w->err)
		unbuild(k, w);
	else if (loading)
		link_up(k, w);
	return w->err;
}
