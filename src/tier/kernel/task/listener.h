/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_LISTENER_H
#define WARD_TIER_KERNEL_TASK_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/kernel/task/seccomp.h"

/*
 * Listeners of filters inside (SECCOMP_FILTER_FLAG_NEW_LISTENER): a call waits until who has the
 * descriptor has answered it. The question is what the call owns (call.own), and goes with it.
 */
struct file;
struct file_ops;
struct kernel;
struct listener;

/* A new one, and its descriptor's file; NULL: no memory. */
struct listener *listener_create(struct kernel *k, struct file **ret);
struct listener *listener_ref(struct listener *l); /* NULL stays NULL */
void listener_unref(struct listener *l);
/* The filter that would ask is gone. */
void listener_unused(struct listener *l);

/* The call of @t is put to @l; NULL or one that nobody has any more: SECCOMP_ANSWER. */
enum seccomp_verdict listener_ask(struct task *t, struct listener *l, long *ret);
/* Does @t's call wait for an answer? Then again: SECCOMP_WAIT, or what came of it. */
bool listener_is_asked(const struct task *t);
enum seccomp_verdict listener_look(struct task *t, long *ret);

extern const struct file_ops listener_ops;

#endif
