/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_NS_PID_H
#define WARD_TIER_KERNEL_NS_PID_H

#include "tier/kernel/ns/ns.h"
#include "tier/kernel/task/task.h"

/*
 * Pid namespaces. A task's tid, a process's pid and the ids of groups and sessions are those of the
 * first namespace, and everything in the kernel means these; who is in another one has numbers for
 * each level below the first, too. They are given and taken at the border, by the functions below.
 */
struct pid_ns {
	struct ns ns;
	struct pid_ns *parent; /* reference; NULL: the first */
	uint32_t level;        /* the first is 0 */
	int32_t last;          /* number given out */
	struct proc *init;     /* borrowed: the first process, while it lives */
	bool over;             /* it has ended: nobody is born here any more */
};

/* Of a task, or of the group or session that it began; never changed. */
struct pid_nums {
	unsigned refs;
	struct pid_ns *ns; /* reference */
	int32_t nr[];      /* of levels 1, 2, ... */
};

struct pid_nums *pid_nums_ref(struct pid_nums *n); /* NULL stays NULL */
void pid_nums_unref(struct pid_nums *n);
void pid_nums_walk(struct pid_nums **n, struct walk *w);

static inline struct pid_ns *pid_ns_of(const struct task *t)
{
	return t->nums ? t->nums->ns : NULL;
}

struct ns *pid_create(struct task *t, struct user_ns *owner, int *ret_err);
void pid_gone(struct pid_ns *n);
/* Is @n @above or below it? */
bool pid_ns_is_below(const struct pid_ns *n, const struct pid_ns *above);
/* Numbers for @t in the namespace that its set names: instead of those it has. */
int pid_assign(struct task *t);
/* @p has its leader, and may be the first of its namespace; its last thread ends; it is reaped. */
void pid_proc_born(struct proc *p);
void pid_proc_ends(struct proc *p);
void pid_proc_reaped(struct proc *p);
bool pid_is_init(const struct proc *p); /* of a namespace that is not the first */
/* Does a signal that @t (NULL: the kernel) sends come from above @p's namespace? */
bool pid_is_above(const struct task *t, const struct proc *p);
/* Who takes the children of @dead. */
struct proc *pid_reaper(const struct proc *dead);

/* What a number of the first namespace is in @n; 0: not to be seen there. */
int32_t pid_shown(const struct pid_ns *n, int32_t id, const struct pid_nums *nums);
/* For @viewer. pid_out() for one that was written down: whoever it was may be gone. */
int32_t task_nr(const struct task *viewer, const struct task *t);
int32_t proc_nr(const struct task *viewer, const struct proc *p);
int32_t pgrp_nr(const struct task *viewer, const struct pgrp *g);
int32_t session_nr(const struct task *viewer, const struct session *s);
int32_t pid_out(const struct task *viewer, int32_t id);
/* And back. */
struct task *task_in(struct kernel *k, const struct pid_ns *n, int32_t nr);
struct task *task_at(const struct task *viewer, int32_t nr);
struct proc *proc_at(const struct task *viewer, int32_t nr);
struct pgrp *pgrp_at(const struct task *viewer, int32_t nr);
/* The number in the first namespace, or -1: nobody has it, and nobody will. */
int32_t pid_in(const struct task *viewer, int32_t nr);
int32_t pgrp_in(const struct task *viewer, int32_t nr);

#endif
