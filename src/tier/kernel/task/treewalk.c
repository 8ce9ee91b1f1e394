/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/treewalk.c - the process tree, walked: saved, or built again.
 *
 * Owns:  nothing.
 * Rules: every object is numbered before any field that points at one; what is loaded is untrusted,
 * so a reference can only lead to an object of its own kind that the same walk has made.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/task/seccomp.h"
#include "tier/kernel/task/treewalk.h"
#include "tier/kernel/walk.h"

/* What is numbered, in this order. */
struct lists {
	struct session **sessions;
	struct pgrp **pgrps;
	struct cred **creds;
	struct sighand **sighands;
	struct proc **procs;
	struct task **tasks;
	uint32_t n[6];
};

static int list_add(void ***list, uint32_t *n, void *p)
{
	void **grown;

	for (uint32_t i = 0; i < *n; i++)
		if ((*list)[i] == p)
			return 0;
	grown = realloc(*list, (*n + 1) * sizeof(void *));
	if (!grown)
		return -ENOMEM;
	grown[(*n)++] = p;
	*list = grown;
	return 0;
}

static int collect(struct kernel *k, struct lists *l)
{
	int r = 0;

	for (struct proc *p = k->procs; p && r == 0; p = p->next) {
		r = list_add((void ***)&l->procs, &l->n[4], p);
		if (r == 0 && p->pgrp)
			r = list_add((void ***)&l->pgrps, &l->n[1], p->pgrp);
		if (r == 0 && p->pgrp)
			r = list_add((void ***)&l->sessions, &l->n[0], p->pgrp->session);
		for (struct task *t = p->tasks; t && r == 0; t = t->next) {
			r = list_add((void ***)&l->tasks, &l->n[5], t);
			if (r == 0)
				r = list_add((void ***)&l->creds, &l->n[2], t->cred);
			if (r == 0)
				r = list_add((void ***)&l->sighands, &l->n[3], t->sighand);
		}
	}
	return r;
}

static int make(void ***list, uint32_t n, size_t size)
{
	*list = calloc(n ? n : 1, sizeof(void *));
	if (!*list)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		(*list)[i] = calloc(1, size);
		if (!(*list)[i])
			return -ENOMEM;
	}
	return 0;
}

static int build(struct lists *l)
{
	int r = make((void ***)&l->sessions, l->n[0], sizeof(struct session));

	if (r == 0)
		r = make((void ***)&l->pgrps, l->n[1], sizeof(struct pgrp));
	if (r == 0)
		r = make((void ***)&l->creds, l->n[2], sizeof(struct cred));
	if (r == 0)
		r = make((void ***)&l->sighands, l->n[3], sizeof(struct sighand));
	if (r == 0)
		r = make((void ***)&l->procs, l->n[4], sizeof(struct proc));
	if (r == 0)
		r = make((void ***)&l->tasks, l->n[5], sizeof(struct task));
	return r;
}

static void number(struct walk *w, const struct lists *l)
{
	static const enum walk_kind kinds[6] = { WALK_SESSION, WALK_PGRP, WALK_CRED, WALK_SIGHAND,
		WALK_PROC, WALK_TASK };
	void **lists[6] = { (void **)l->sessions, (void **)l->pgrps, (void **)l->creds,
		(void **)l->sighands, (void **)l->procs, (void **)l->tasks };

	for (int k = 0; k < 6; k++)
		for (uint32_t i = 0; i < l->n[k]; i++)
			walk_number(w, kinds[k], lists[k][i]);
}

static void session_walk(struct session *s, struct walk *w)
{
	walk_i32(w, "id", &s->id);
	walk_i32(w, "tty_pgrp", &s->tty_pgrp);
}

static void pgrp_walk(struct pgrp *g, struct walk *w)
{
	walk_i32(w, "id", &g->id);
	walk_ref(w, "session", WALK_SESSION, (void **)&g->session);
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
	walk_count(w, "queued", &n, GUEST_SIGQUEUE_MAX);
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

static void call_walk(struct call *c, struct walk *w)
{
	/* A blocked call is entered again from the top: this is all of it. */
	walk_bool(w, "active", &c->active);
	walk_i64(w, "nr", &c->nr);
	walk_bytes(w, "args", c->args, sizeof(c->args));
	walk_i64(w, "deadline", &c->deadline);
	walk_u64(w, "done", &c->done);
	walk_bytes(w, "u", c->u, sizeof(c->u));
}

static void task_walk(struct kernel *k, struct task *t, struct walk *w)
{
	uint32_t state = t->state;

	walk_ref(w, "proc", WALK_PROC, (void **)&t->proc);
	walk_ref(w, "cred", WALK_CRED, (void **)&t->cred);
	walk_ref(w, "sighand", WALK_SIGHAND, (void **)&t->sighand);
	walk_i32(w, "tid", &t->tid);
	walk_count(w, "state", &state, TASK_DEAD);
	t->state = (enum task_state)state;
	walk_bytes(w, "comm", t->comm, sizeof(t->comm));
	pending_walk(k, &t->pending, w);
	walk_u64(w, "mask", &t->mask);
	walk_u64(w, "saved_mask", &t->saved_mask);
	walk_bool(w, "has_saved_mask", &t->has_saved_mask);
	walk_u64(w, "alt_sp", &t->altstack.sp);
	walk_u64(w, "alt_size", &t->altstack.size);
	walk_u32(w, "alt_flags", &t->altstack.flags);
	walk_u64(w, "clear_tid", &t->clear_tid);
	walk_u64(w, "robust_list", &t->robust_list);
	walk_i64(w, "start_ns", &t->start_ns);
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
	call_walk(&t->call, w);
}

static void proc_walk(struct kernel *k, struct proc *p, struct walk *w)
{
	uint32_t state = p->state;
	void *cmdline = p->cmdline;

	walk_ref(w, "parent", WALK_PROC, (void **)&p->parent);
	walk_ref(w, "pgrp", WALK_PGRP, (void **)&p->pgrp);
	walk_i32(w, "pid", &p->pid);
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
	walk_i64(w, "start_ns", &p->start_ns);
	walk_u64(w, "personality", &p->personality);
	walk_i64(w, "past_cpu_ns", &p->past_cpu_ns);
	walk_bytes(w, "past_usage", &p->past_usage, sizeof(p->past_usage));
	walk_blob(w, "cmdline", &cmdline, &p->cmdline_len, GUEST_ARG_BYTES_MAX);
	p->cmdline = cmdline;
}

/* Loading: is every reference there that other code follows without asking? */
static int check(const struct lists *l)
{
	for (uint32_t i = 0; i < l->n[1]; i++)
		if (!l->pgrps[i]->session)
			return -EBADMSG;
	for (uint32_t i = 0; i < l->n[4]; i++)
		if (l->procs[i]->parent == l->procs[i] || !l->procs[i]->pgrp)
			return -EBADMSG;
	for (uint32_t i = 0; i < l->n[5]; i++) {
		const struct task *t = l->tasks[i];

		if (!t->proc || !t->cred || !t->sighand || t->tid < 1 || t->tid > GUEST_TASKS_MAX)
			return -EBADMSG;
	}
	return 0;
}

static void unmake(void **list, uint32_t n)
{
	for (uint32_t i = 0; list && i < n; i++)
		free(list[i]);
}

/* Nothing of it is in the kernel yet. */
static void unbuild(struct kernel *k, struct lists *l)
{
	for (uint32_t i = 0; l->procs && i < l->n[4]; i++) {
		if (!l->procs[i])
			continue;
		sigpending_flush(k, &l->procs[i]->pending);
		free(l->procs[i]->cmdline);
	}
	for (uint32_t i = 0; l->tasks && i < l->n[5]; i++)
		if (l->tasks[i])
			sigpending_flush(k, &l->tasks[i]->pending);
	unmake((void **)l->sessions, l->n[0]);
	unmake((void **)l->pgrps, l->n[1]);
	unmake((void **)l->creds, l->n[2]);
	unmake((void **)l->sighands, l->n[3]);
	unmake((void **)l->procs, l->n[4]);
	unmake((void **)l->tasks, l->n[5]);
}

/* The lists that other code follows, out of the references. */
static void link_up(struct kernel *k, struct lists *l)
{
	for (uint32_t i = 0; i < l->n[1]; i++) {
		struct pgrp *g = l->pgrps[i];

		g->session->refs++;
		g->next = k->pgrps;
		k->pgrps = g;
	}
	for (uint32_t i = l->n[4]; i-- > 0;) {
		struct proc *p = l->procs[i];

		p->k = k;
		p->next = k->procs;
		k->procs = p;
		if (!k->procs_last)
			k->procs_last = p;
		p->pgrp->refs++;
		p->pgrp_next = p->pgrp->members;
		p->pgrp->members = p;
		if (p->parent) {
			p->sibling = p->parent->children;
			p->parent->children = p;
		} else {
			k->init = p;
		}
	}
	for (uint32_t i = 0; i < l->n[5]; i++) {
		struct task *t = l->tasks[i], **last, **slot;

		t->k = k;
		t->cred->refs++;
		t->sighand->refs++;
		for (last = &t->proc->tasks; *last; last = &(*last)->next)
			;
		*last = t;
		t->proc->task_count += t->state != TASK_DEAD;
		slot = &k->tid_hash[(unsigned)t->tid % ARRAY_LEN(k->tid_hash)];
		t->hash_next = *slot;
		*slot = t;
		k->task_count++;
	}
}

int tasks_walk(struct kernel *k, struct walk *w)
{
	struct lists l = { 0 };

	if (w->mode == WALK_SAVE)
		w->err = w->err ? w->err : collect(k, &l);
	walk_i32(w, "last_tid", &k->last_tid);
	for (int i = 0; i < 6; i++)
		walk_count(w, "objects", &l.n[i], 2 * GUEST_TASKS_MAX);
	if (w->mode == WALK_LOAD && !w->err)
		w->err = build(&l);
	if (!w->err)
		number(w, &l);
	for (uint32_t i = 0; i < l.n[0] && !w->err; i++)
		session_walk(l.sessions[i], w);
	for (uint32_t i = 0; i < l.n[1] && !w->err; i++)
		pgrp_walk(l.pgrps[i], w);
	for (uint32_t i = 0; i < l.n[2] && !w->err; i++)
		cred_walk(l.creds[i], w);
	for (uint32_t i = 0; i < l.n[3] && !w->err; i++)
		sighand_walk(l.sighands[i], w);
	for (uint32_t i = 0; i < l.n[4] && !w->err; i++)
		proc_walk(k, l.procs[i], w);
	for (uint32_t i = 0; i < l.n[5] && !w->err; i++)
		task_walk(k, l.tasks[i], w);
	if (w->mode == WALK_LOAD && !w->err)
		w->err = check(&l);
	if (w->mode == WALK_LOAD && w->err)
		unbuild(k, &l);
	else if (w->mode == WALK_LOAD)
		link_up(k, &l);
	free(l.sessions);
	free(l.pgrps);
	free(l.creds);
	free(l.sighands);
	free(l.procs);
	free(l.tasks);
	return w->err;
}
