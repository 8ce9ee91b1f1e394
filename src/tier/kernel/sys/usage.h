/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_USAGE_H
#define WARD_TIER_KERNEL_SYS_USAGE_H

#include <stdint.h>
#include <sys/resource.h>

struct proc;
struct task;

/* What a guest is told that it runs on: programs look at the first two numbers. */
#define GUEST_RELEASE "6.12.0-ward"
#define GUEST_VERSION "#1 SMP PREEMPT_DYNAMIC ward"

/* struct rusage as the guest has it; some libcs add room at the end. */
enum { GUEST_RUSAGE_BYTES = 144 };

/* CPU time of a live process or thread, from its host's clock. */
void usage_of(struct proc *p, struct rusage *ret);
/* The process is about to leave its host process: what it used is remembered. */
void usage_keep(struct proc *p);
void usage_of_task(struct task *t, struct rusage *ret);
void usage_add(struct rusage *to, const struct rusage *from);
/* The same in ns. */
int64_t usage_ns(struct proc *p);
int64_t usage_task_ns(struct task *t);

#endif
