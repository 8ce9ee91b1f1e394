/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/group.c - process groups and sessions.
 *
 * Owns:  struct pgrp, struct session.
 * Rules: a group lives as long as it has members, a session as long as it has groups.
 */
#include <errno.h>
#include <stdlib.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/task/proc.h"

struct pgrp *pgrp_find(struct kernel *k, int32_t id)
{
	struct pgrp *g = k->pgrps;

	while (g && g->id != id)
		g = g->next;
	return g;
}

void pgrp_join(struct proc *p, struct pgrp *g)
{
	g->refs++;
	p->pgrp = g;
	p->pgrp_next = g->members;
	g->members = p;
}

void session_unref(struct session *s)
{
	if (--s->refs)
		return;
	pid_nums_unref(s->nums);
	free(s);
}

void pgrp_leave(struct proc *p)
{
	struct pgrp *g = p->pgrp, **pg;
	struct proc **pp;

	if (!g)
		return;
	for (pp = &g->members; *pp && *pp != p; pp = &(*pp)->pgrp_next)
		;
	if (*pp)
		*pp = p->pgrp_next;
	p->pgrp = NULL;
	if (--g->refs)
		return;
	for (pg = &p->k->pgrps; *pg != g; pg = &(*pg)->next)
		;
	*pg = g->next;
	session_unref(g->session);
	pid_nums_unref(g->nums);
	free(g);
}

struct pgrp *pgrp_create(struct kernel *k, int32_t id, struct session *s)
{
	struct pgrp *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->id = id;
	g->session = s;
	s->refs++;
	g->next = k->pgrps;
	k->pgrps = g;
	return g;
}

struct session *session_create(int32_t id)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s) {
		s->refs = 0;
		s->id = id;
	}
	return s;
}

int proc_set_sid(struct proc *p)
{
	struct session *s;
	struct pgrp *g;

	if (p->pgrp && p->pgrp->id == p->pid)
		return -EPERM;
	if (pgrp_find(p->k, p->pid))
		return -EPERM;
	s = session_create(p->pid);
	g = s ? pgrp_create(p->k, p->pid, s) : NULL;
	if (!g) {
		free(s);
		return -ENOMEM;
	}
	s->nums = pid_nums_ref(p->tasks->nums);
	g->nums = pid_nums_ref(p->tasks->nums);
	pgrp_leave(p);
	pgrp_join(p, g);
	return p->pid;
}

int proc_set_pgrp(struct proc *p, int32_t id)
{
	struct pgrp *g = pgrp_find(p->k, id);

	if (p->pgrp->session->id == p->pid)
		return -EPERM; /* a session's leader stays */
	if (p->pgrp->id == id)
		return 0;
	if (g && g->session != p->pgrp->session)
		return -EPERM;
	if (!g && id != p->pid)
		return -EPERM;
	if (!g) {
		g = pgrp_create(p->k, id, p->pgrp->session);
		if (!g)
			return -ENOMEM;
		g->nums = pid_nums_ref(p->tasks->nums);
	}
	pgrp_leave(p);
	pgrp_join(p, g);
	return 0;
}

bool pgrp_is_orphaned(const struct pgrp *g)
{
	for (struct proc *p = g->members; p; p = p->pgrp_next) {
		struct pgrp *up = p->parent ? p->parent->pgrp : NULL;

		if (p->state == PROC_LIVE && up && up != g && up->session == g->session)
			return false;
	}
	return true;
}
