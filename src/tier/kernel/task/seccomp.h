/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TASK_SECCOMP_H
#define WARD_TIER_KERNEL_TASK_SECCOMP_H

#include <stdint.h>
#include <linux/filter.h>

/*
 * Filters that a guest puts on itself. We run them for the calls that arrive here: what a guest
 * does natively (trap/filter.c) is memory and its own thread, and no filter inside sees it.
 */
struct listener;
struct task;
struct walk;

struct seccomp_filter {
	unsigned refs;               /* tasks, and filters that came after it */
	struct seccomp_filter *prev; /* all of them run, the newest first */
	struct listener *listener;   /* task/listener.h: reference, or NULL */
	uint32_t len;
	struct sock_filter code[];
};

/* Checks @code as Linux does and puts it on top of @prev, whose reference it takes. -EINVAL,
 * -ENOMEM: nothing changed. */
int seccomp_add(struct seccomp_filter *prev, const struct sock_filter *code, uint32_t len,
	struct seccomp_filter **ret);
struct seccomp_filter *seccomp_ref(struct seccomp_filter *f); /* NULL stays NULL */
void seccomp_unref(struct seccomp_filter *f);
uint32_t seccomp_count(const struct seccomp_filter *f);

enum seccomp_verdict {
	SECCOMP_GO,     /* the call is made */
	SECCOMP_ANSWER, /* it is not: *ret is what it returns */
	SECCOMP_DEAD,   /* neither: the task has ended */
	SECCOMP_WAIT,   /* not yet: somebody is asked */
};
/* May the call in task->call be made? */
enum seccomp_verdict seccomp_check(struct task *t, long *ret);

void seccomp_walk(struct task *t, struct walk *w);

#endif
