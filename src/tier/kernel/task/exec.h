/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_EXEC_H
#define WARD_TIER_KERNEL_TASK_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tier/kernel/mm/copy.h"

struct task;
struct kernel;
struct file;

/* Words of an execve: NUL-separated strings, in order. */
struct words {
	char *bytes;
	size_t len, cap;
	unsigned count;
};
int words_add(struct words *w, const char *s, size_t len); /* -E2BIG, -ENOMEM */
void words_done(struct words *w);

/* One execve in flight; hangs on task->call.own while it waits for a blank. */
struct exec {
	struct file *file, *interp; /* references */
	struct kernel *k;
	char *path; /* as AT_EXECFN says */
	char comm[16];
	struct words argv, envp;
};
struct exec *exec_create(struct kernel *k); /* NULL: no memory */
/* What it is called: to the program, and in lists of tasks (the last part of @file). 0 or -ENOMEM.
 */
int exec_name(struct exec *x, const char *path, const char *file);

/* The strings of two lists of pointers, each with a NULL at its end; no list is an empty one. */
int exec_words(struct task *t, gva_t argv, gva_t envp, struct exec *x);

/* What an execve needs for a moment, and is too large to be asked for each time: a large piece of
 * memory is a host call to get, one to give back, and a fault for each page. Under the kernel lock,
 * by one at a time; nothing in it survives a wait. */
struct exec_desk *exec_desk(struct kernel *k); /* NULL: no memory */
void exec_desk_done(struct kernel *k);
/* Looks at x->file, which is open, follows #! lines, opens the ELF interpreter: 0 or -errno. */
int exec_look(struct task *t, struct exec *x, int dirfd, const char *path);
/* The point of no return: needs a blank (engine_has_blank). */
int exec_go(struct task *t, struct exec *x);
void exec_done(void *x);

#endif
