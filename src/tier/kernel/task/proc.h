/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_PROC_H
#define WARD_TIER_KERNEL_TASK_PROC_H

#include <linux/sched.h>

#include "tier/kernel/kernel.h"

/* Birth and death of tasks and processes. All under the kernel lock. */

/* Pid 1, with empty tables. Takes @mm (one reference). NULL: no memory. */
struct task *proc_first(struct kernel *k, struct mm *mm);
/*
 * The books of clone(2): a thread (CLONE_THREAD) or a process, sharing what CLONE_VM, FS, FILES and
 * SIGHAND say. Without CLONE_VM the new task has an mm of its own, copied in words only: the engine
 * says which host memory it is. NULL: *@ret_err says why.
 */
struct task *task_clone(struct task *t, uint64_t flags, int *ret_err);
/* robust.c: the locks that a task holds are nobody's; before its memory goes. */
void robust_release(struct task *t);
/* sys/futex.c: who waits for a lock that @t holds looks again; it ends, or its memory goes. */
void pi_owner_gone(struct task *t);
/* sys/sched.c: policy, priorities and processors of a new task. */
void sched_inherit(struct task *child, const struct task *from);
/* Undo of task_clone() before the task ever ran. */
void task_abandon(struct task *t);
/* Its parent knows of it, and it never came up. */
void embryo_end(struct task *t);
/* One thread ends; the last one ends the process with @status (a wait(2) status). */
void task_exit(struct task *t, int status);
/* execve: all other threads are gone, @t becomes the leader, caught signals are reset. */
void proc_execed(struct task *t);
/* A zombie has been seen: its number is free. */
void proc_reap(struct proc *p);
/* Frees everything that is left, at the end of the sandbox. */
void procs_done(struct kernel *k);

/* Process groups and sessions: task/group.c. A new session belongs to its first group, a new group
 * to its first member; NULL: no memory. */
struct session *session_create(int32_t id);
struct pgrp *pgrp_create(struct kernel *k, int32_t id, struct session *s);
void pgrp_join(struct proc *p, struct pgrp *g);
void pgrp_leave(struct proc *p);
void session_unref(struct session *s);
void sighand_unref(struct sighand *s);
int proc_set_pgrp(struct proc *p, int32_t id); /* in its own session; 0 or -errno */
/* What is asked about is between its parent's call and its own first word: blocks @t, which looks
 * again. A call that waits for something else then clears its deadline first. */
long task_wait_born(struct task *t);
int proc_set_sid(struct proc *p); /* the new id, or -EPERM */

/* Stops or continues all threads (job control). */
void proc_stop(struct proc *p, int sig);
void proc_continue(struct proc *p);

#endif
