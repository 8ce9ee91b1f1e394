/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/pid.c - pid namespaces: numbers by level, the first process and its end.
 *
 * Owns:  struct pid_ns, struct pid_nums.
 * Rules: numbers of the first namespace are the kernel's own and are looked up in its hash; those
 *        of others are looked for one by one. The end of the first process is everybody's.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/walk.h"

enum { LEVEL_MAX = 32, NUMBERS_AGAIN = 300 };

static uint32_t level_of(const struct pid_ns *n)
{
	return n ? n->level : 0;
}

struct pid_nums *pid_nums_ref(struct pid_nums *n)
{
	if (n)
		n->refs++;
	return n;
}

void pid_nums_unref(struct pid_nums *n)
{
	if (!n || --n->refs)
		return;
	ns_unref(&n->ns->ns);
	free(n);
}

bool pid_ns_is_below(const struct pid_ns *n, const struct pid_ns *above)
{
	while (n && n != above)
		n = n->parent;
	return n == above;
}

struct ns *pid_create(struct task *t, struct user_ns *owner, int *ret_err)
{
	struct pid_ns *up = pid_ns_of(t), *n;

	*ret_err = -EINVAL;
	if (ns_for_children(t, NS_PID) != (up ? &up->ns : NULL) ||
		!user_ns_is_below(owner, up ? up->ns.owner : NULL))
		return NULL;
	*ret_err = -ENOSPC;
	if (level_of(up) >= LEVEL_MAX)
		return NULL;
	n = ns_create(t->k, NS_PID, sizeof(*n), owner, ret_err);
	if (!n)
		return NULL;
	n->level = level_of(up) + 1;
	n->parent = up;
	ns_ref(up ? &up->ns : NULL);
	return &n->ns;
}

void pid_gone(struct pid_ns *n)
{
	ns_unref(n->parent ? &n->parent->ns : NULL);
}

/* Numbers, out */

int32_t pid_shown(const struct pid_ns *n, int32_t id, const struct pid_nums *nums)
{
	const struct pid_ns *up;

	if (!n)
		return id;
	if (!nums || nums->ns->level < n->level)
		return 0;
	for (up = nums->ns; up->level > n->level; up = up->parent)
		;
	return up == n ? nums->nr[n->level - 1] : 0;
}

int32_t task_nr(const struct task *viewer, const struct task *t)
{
	return pid_shown(pid_ns_of(viewer), t->tid, t->nums);
}

int32_t proc_nr(const struct task *viewer, const struct proc *p)
{
	return pid_shown(pid_ns_of(viewer), p->pid, p->tasks->nums);
}

int32_t pgrp_nr(const struct task *viewer, const struct pgrp *g)
{
	return pid_shown(pid_ns_of(viewer), g->id, g->nums);
}

int32_t session_nr(const struct task *viewer, const struct session *s)
{
	return pid_shown(pid_ns_of(viewer), s->id, s->nums);
}

int32_t pid_out(const struct task *viewer, int32_t id)
{
	const struct task *t;

	if (!pid_ns_of(viewer) || id <= 0)
		return id;
	t = task_find(viewer->k, id);
	return t ? task_nr(viewer, t) : 0;
}

/* And in */

struct task *task_in(struct kernel *k, const struct pid_ns *n, int32_t nr)
{
	if (!n)
		return task_find(k, nr);
	for (struct proc *p = k->procs; p && nr > 0; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->nums && pid_shown(n, 0, t->nums) == nr)
				return t;
	return NULL;
}

struct task *task_at(const struct task *viewer, int32_t nr)
{
	return task_in(viewer->k, pid_ns_of(viewer), nr);
}

struct proc *proc_at(const struct task *viewer, int32_t nr)
{
	struct task *t = task_at(viewer, nr);

	return t && t == proc_leader(t->proc) ? t->proc : NULL;
}

static struct pgrp *pgrp_of_nr(struct kernel *k, const struct pid_ns *n, int32_t nr)
{
	for (struct pgrp *g = k->pgrps; g && nr > 0; g = g->next)
		if (g->nums && pid_shown(n, 0, g->nums) == nr)
			return g;
	return NULL;
}

struct pgrp *pgrp_at(const struct task *viewer, int32_t nr)
{
	const struct pid_ns *n = pid_ns_of(viewer);

	return n ? pgrp_of_nr(viewer->k, n, nr) : pgrp_find(viewer->k, nr);
}

int32_t pid_in(const struct task *viewer, int32_t nr)
{
	const struct task *t;

	if (!pid_ns_of(viewer))
		return nr;
	t = task_at(viewer, nr);
	return t ? t->tid : -1;
}

int32_t pgrp_in(const struct task *viewer, int32_t nr)
{
	const struct pgrp *g;

	if (!pid_ns_of(viewer))
		return nr;
	g = pgrp_at(viewer, nr);
	return g ? g->id : -1;
}

static bool is_taken(struct kernel *k, const struct pid_ns *n, int32_t nr)
{
	if (task_in(k, n, nr) || pgrp_of_nr(k, n, nr))
		return true;
	for (struct pgrp *g = k->pgrps; g; g = g->next)
		if (g->session->nums && pid_shown(n, 0, g->session->nums) == nr)
			return true;
	return false;
}

static int32_t next_number(struct kernel *k, struct pid_ns *n)
{
	if (!n->init)
		n->last = 0; /* the first is 1, also when one before it never ran */
	for (int i = 0; i < GUEST_TASKS_MAX; i++) {
		n->last = n->last >= GUEST_TASKS_MAX ? NUMBERS_AGAIN : n->last + 1;
		if (!is_taken(k, n, n->last))
			return n->last;
	}
	return -EAGAIN;
}

static struct pid_nums *nums_make(struct pid_ns *ns)
{
	struct pid_nums *n = calloc(1, sizeof(*n) + ns->level * sizeof(n->nr[0]));

	if (n) {
		n->refs = 1;
		n->ns = ns;
		ns_ref(&ns->ns);
	}
	return n;
}

int pid_assign(struct task *t)
{
	struct pid_ns *ns = (struct pid_ns *)ns_for_children(t, NS_PID);
	struct pid_nums *n = NULL;

	if (ns && ns->over)
		return -ENOMEM;
	if (ns) {
		n = nums_make(ns);
		if (!n)
			return -ENOMEM;
	}
	for (struct pid_ns *at = ns; at; at = at->parent) {
		n->nr[at->level - 1] = next_number(t->k, at);
		if (n->nr[at->level - 1] < 0) {
			pid_nums_unref(n);
			return -EAGAIN;
		}
	}
	pid_nums_unref(t->nums);
	t->nums = n;
	return 0;
}

/* The first process */

void pid_proc_born(struct proc *p)
{
	const struct pid_nums *n = p->tasks->nums;

	if (n && n->nr[n->ns->level - 1] == 1 && !n->ns->init && p->state == PROC_LIVE)
		n->ns->init = p;
}

bool pid_is_init(const struct proc *p)
{
	return p->tasks->nums && p->tasks->nums->ns->init == p;
}

bool pid_is_above(const struct task *t, const struct proc *p)
{
	return !t || !pid_ns_is_below(pid_ns_of(t), p->tasks->nums->ns);
}

struct proc *pid_reaper(const struct proc *dead)
{
	const struct pid_nums *n = dead->tasks->nums;

	return n && n->ns->init && n->ns->init != dead ? n->ns->init : dead->k->init;
}

static struct proc *next_inside(struct kernel *k, const struct pid_ns *n, const struct proc *but)
{
	for (struct proc *p = k->procs; p; p = p->next)
		if (p != but && p->state == PROC_LIVE && !p->exiting && p->tasks->nums &&
			pid_ns_is_below(p->tasks->nums->ns, n))
			return p;
	return NULL;
}

void pid_proc_ends(struct proc *p)
{
	struct proc *other, *next;
	struct pid_ns *n;

	if (!pid_is_init(p))
		return;
	n = p->tasks->nums->ns;
	n->over = true;
	while ((other = next_inside(p->k, n, p)))
		proc_exit(other, SIGKILL);
	n->init = NULL;
	for (struct proc *c = p->children; c; c = next) {
		next = c->sibling;
		if (c->state == PROC_ZOMBIE)
			proc_reap(c);
	}
}

void pid_proc_reaped(struct proc *p)
{
	if (pid_is_init(p))
		p->tasks->nums->ns->init = NULL; /* it never ran */
}

void pid_nums_walk(struct pid_nums **n, struct walk *w)
{
	struct ns *ns = *n ? &(*n)->ns->ns : NULL;

	ns_ref_walk(w, "pid_ns", NS_PID, &ns);
	if (!ns || w->err) {
		if (w->mode == WALK_LOAD)
			ns_unref(ns);
		return;
	}
	if (w->mode == WALK_LOAD) {
		*n = nums_make((struct pid_ns *)ns);
		ns_unref(ns); /* the numbers have their own */
		if (!*n) {
			walk_fail(w, -ENOMEM);
			return;
		}
	}
	for (uint32_t i = 0; i < (*n)->ns->level; i++) {
		walk_i32(w, "nr", &(*n)->nr[i]);
		if ((*n)->nr[i] < 1 || (*n)->nr[i] > GUEST_TASKS_MAX)
			walk_fail(w, -EBADMSG);
	}
}
