/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_TREEWALK_H
#define WARD_TIER_KERNEL_TASK_TREEWALK_H

struct kernel;
struct walk;

/*
 * All processes with their tasks, credentials, signal state, groups and sessions. Loading needs an
 * empty kernel (no process yet) and leaves tasks without memory, files and a host thread: those are
 * given to them by whoever restores the sandbox. 0 or a negative errno, also in w->err.
 */
int tasks_walk(struct kernel *k, struct walk *w);
/* The file that a blocked call goes on with, where it is not to begin again; NULL: none. */
struct file;
struct task;
struct file *call_held(const struct task *t);

#endif
