/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/sched.c - policies, priorities and processors, as the guest sees them.
 *
 * Owns:  task->sched, task->nice, task->ioprio, task->cpus.
 * Rules: remembered and told, with Linux' permissions. Of all this only the processors reach the
 *        host: a guest thread never gets more of the host than the sandbox was given.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <linux/capability.h>

#include "base/ckd.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"

enum {
	POLICY_OTHER = 0,
	POLICY_FIFO = 1,
	POLICY_RR = 2,
	POLICY_BATCH = 3,
	POLICY_IDLE = 5,
	POLICY_DEADLINE = 6,
	RESET_ON_FORK = 0x40000000, /* in a policy */
	FLAG_RESET_ON_FORK = 1,     /* in sched_attr */
	FLAGS_KNOWN = 0x7f,
	FLAG_KEEP_POLICY = 8,
	FLAG_KEEP_PARAMS = 16,
	ATTR_BYTES_FIRST = 48, /* struct sched_attr, as it began */
	ATTR_BYTES = 56,
	PRIO_MAX_RT = 99,
	RR_SLICE_MS = 100,
	OTHER_SLICE_MS = 4,
	DEADLINE_RUNTIME_MIN = 1024,
	NS_PER_MS = 1000000,
};

struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t prio;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};
_Static_assert(sizeof(struct attr) == ATTR_BYTES, "as Linux has it");

static struct task *task_arg(struct task *t, int tid)
{
	return tid ? task_at(t, tid) : t; /* a zombie still has all this */
}

static bool is_policy(int policy)
{
	return policy == POLICY_OTHER || policy == POLICY_FIFO || policy == POLICY_RR ||
	       policy == POLICY_BATCH || policy == POLICY_IDLE || policy == POLICY_DEADLINE;
}

static bool is_realtime(unsigned policy)
{
	return policy == POLICY_FIFO || policy == POLICY_RR;
}

static bool is_owner(const struct task *t, const struct task *of)
{
	return t->cred->euid == of->cred->euid || t->cred->euid == of->cred->uid;
}

static bool may_nice(const struct task *t, const struct task *of, int nice)
{
	return nice >= of->nice || task_capable(t, CAP_SYS_NICE) ||
	       (uint64_t)(20 - nice) <= of->proc->limits[RLIMIT_NICE].rlim_cur;
}

static bool is_deadline_sane(const struct attr *a)
{
	uint64_t period = a->period ? a->period : a->deadline;

	return a->deadline && a->runtime >= DEADLINE_RUNTIME_MIN &&
	       !((a->deadline | period) >> 63) && a->deadline >= a->runtime &&
	       period >= a->deadline;
}

/* What a task without CAP_SYS_NICE may not do. */
static int check_rights(const struct task *t, const struct task *of, const struct attr *a)
{
	uint64_t limit = of->proc->limits[RLIMIT_RTPRIO].rlim_cur;
	bool keeps = a->policy == of->sched.policy;

	if (task_capable(t, CAP_SYS_NICE))
		return 0;
	if (!is_owner(t, of) || a->policy == POLICY_DEADLINE)
		return -EPERM;
	if (is_realtime(a->policy) &&
		((!keeps && !limit) || (a->prio > of->sched.prio && a->prio > limit)))
		return -EPERM;
	if (!is_realtime(a->policy) && a->nice < of->nice && !may_nice(t, of, a->nice))
		return -EPERM;
	if (of->sched.policy == POLICY_IDLE && !keeps && !may_nice(t, of, of->nice - 1))
		return -EPERM;
	return of->sched.reset_on_fork && !(a->flags & FLAG_RESET_ON_FORK) ? -EPERM : 0;
}

static int set_policy(struct task *t, struct task *of, const struct attr *a)
{
	int r;

	if (!is_policy((int)a->policy) || (a->flags & ~(uint64_t)FLAGS_KNOWN))
		return -EINVAL;
	if (a->prio > PRIO_MAX_RT || is_realtime(a->policy) != (a->prio != 0) ||
		(a->policy == POLICY_DEADLINE && !is_deadline_sane(a)))
		return -EINVAL;
	r = check_rights(t, of, a);
	if (r < 0)
		return r;
	of->sched.policy = a->policy;
	of->sched.prio = a->prio;
	of->sched.reset_on_fork = (a->flags & FLAG_RESET_ON_FORK) != 0;
	of->sched.runtime = of->sched.deadline = of->sched.period = 0;
	if (a->policy == POLICY_DEADLINE) {
		of->sched.runtime = a->runtime;
		of->sched.deadline = a->deadline;
		of->sched.period = a->period ? a->period : a->deadline;
	} else if (!is_realtime(a->policy)) {
		of->nice = a->nice < -20 ? -20 : a->nice > 19 ? 19 : a->nice;
	}
	return 0;
}

/* Policies */

SYSCALL1(sched_getscheduler, int, tid)
{
	struct task *t = task_arg(task, tid);

	if (tid < 0)
		return -EINVAL;
	if (!t)
		return -ESRCH;
	return t->sched.policy | (t->sched.reset_on_fork ? (unsigned)RESET_ON_FORK : 0);
}

static long set_scheduler(struct task *task, int tid, int policy, gva_t uparam)
{
	struct attr a = { .flags = 0 };
	struct task *t = task_arg(task, tid);

	if (gva_null(uparam) || tid < 0)
		return -EINVAL;
	if (guest_read_u32(task, uparam, &a.prio) < 0)
		return -EFAULT;
	if (!t)
		return -ESRCH;
	if (policy < 0) {
		a.policy = t->sched.policy;
		a.flags = t->sched.reset_on_fork;
	} else {
		a.policy = (uint32_t)policy & ~(uint32_t)RESET_ON_FORK;
		a.flags = policy & RESET_ON_FORK ? FLAG_RESET_ON_FORK : 0;
	}
	a.nice = t->nice;
	return set_policy(task, t, &a);
}

SYSCALL3(sched_setscheduler, int, tid, int, policy, gva_t, uparam)
{
	return policy < 0 ? -EINVAL : set_scheduler(task, tid, policy, uparam);
}

SYSCALL2(sched_setparam, int, tid, gva_t, uparam)
{
	return set_scheduler(task, tid, -1, uparam);
}

SYSCALL2(sched_getparam, int, tid, gva_t, uparam)
{
	struct task *t = task_arg(task, tid);

	if (tid < 0 || gva_null(uparam))
		return -EINVAL;
	return t ? guest_write_u32(task, uparam, t->sched.prio) : -ESRCH;
}

SYSCALL1(sched_get_priority_max, int, policy)
{
	return !is_policy(policy) ? -EINVAL : is_realtime((unsigned)policy) ? PRIO_MAX_RT : 0;
}

SYSCALL1(sched_get_priority_min, int, policy)
{
	return !is_policy(policy) ? -EINVAL : is_realtime((unsigned)policy) ? 1 : 0;
}

SYSCALL2(sched_rr_get_interval, int, tid, gva_t, uts)
{
	struct task *t = task_arg(task, tid);
	int64_t ms;

	if (tid < 0)
		return -EINVAL;
	if (!t)
		return -ESRCH;
	ms = t->sched.policy == POLICY_RR ? RR_SLICE_MS
	     : t->sched.policy == POLICY_FIFO || t->sched.policy == POLICY_DEADLINE
		     ? 0
		     : OTHER_SLICE_MS;
	return guest_write_timespec(task, uts, ms * NS_PER_MS);
}

SYSCALL4(sched_getattr, int, tid, gva_t, uattr, unsigned, size, unsigned, flags)
{
	struct attr a = { .size = size < ATTR_BYTES ? size : ATTR_BYTES, .util_max = 1024 };
	struct task *t = task_arg(task, tid);

	if (gva_null(uattr) || tid < 0 || size < ATTR_BYTES_FIRST || size > 4096 || flags)
		return -EINVAL;
	if (!t)
		return -ESRCH;
	a.policy = t->sched.policy;
	a.flags = t->sched.reset_on_fork ? FLAG_RESET_ON_FORK : 0;
	a.prio = t->sched.prio;
	a.nice = is_realtime(a.policy) || a.policy == POLICY_DEADLINE ? 0 : t->nice;
	a.runtime = t->sched.runtime;
	a.deadline = t->sched.deadline;
	a.period = t->sched.period;
	return guest_write(task, uattr, &a, a.size);
}

static long read_attr(struct task *t, gva_t uattr, struct attr *a)
{
	uint32_t size;

	memset(a, 0, sizeof(*a));
	if (guest_read_u32(t, uattr, &size) < 0)
		return -EFAULT;
	if (!size)
		size = ATTR_BYTES_FIRST;
	if (size < ATTR_BYTES_FIRST || size > 4096)
		return guest_write_u32(t, uattr, ATTR_BYTES) < 0 ? -EFAULT : -E2BIG;
	for (uint32_t i = ATTR_BYTES; i < size; i++) {
		uint8_t more;

		if (guest_read(t, &more, gva_add(uattr, i), 1) < 0)
			return -EFAULT;
		if (more)
			return guest_write_u32(t, uattr, ATTR_BYTES) < 0 ? -EFAULT : -E2BIG;
	}
	return guest_read(t, a, uattr, size < ATTR_BYTES ? size : ATTR_BYTES);
}

SYSCALL3(sched_setattr, int, tid, gva_t, uattr, unsigned, flags)
{
	struct task *t = task_arg(task, tid);
	struct attr a;
	long r;

	if (gva_null(uattr) || tid < 0 || flags)
		return -EINVAL;
	r = read_attr(task, uattr, &a);
	if (r < 0)
		return r;
	if ((int32_t)a.policy < 0)
		return -EINVAL;
	if (!t)
		return -ESRCH;
	if (a.flags & FLAG_KEEP_POLICY)
		a.policy = t->sched.policy;
	if (a.flags & FLAG_KEEP_PARAMS) {
		a.prio = t->sched.prio;
		a.nice = t->nice;
		a.runtime = t->sched.runtime;
		a.deadline = t->sched.deadline;
		a.period = t->sched.period;
	}
	return set_policy(task, t, &a);
}

void sched_inherit(struct task *child, const struct task *from)
{
	child->nice = from->nice;
	child->ioprio = from->ioprio;
	child->sched = from->sched;
	memcpy(child->cpus, from->cpus, sizeof(child->cpus));
	if (!from->sched.reset_on_fork)
		return;
	memset(&child->sched, 0, sizeof(child->sched));
	if (is_realtime(from->sched.policy) || from->sched.policy == POLICY_DEADLINE ||
		from->nice < 0)
		child->nice = 0;
}

/* Processors: the guest's n-th is the n-th that the kernel process may use. */

static bool has_cpu(const struct task *t, unsigned cpu)
{
	bool any = false;

	for (unsigned i = 0; i < GUEST_CPU_WORDS; i++)
		any |= t->cpus[i] != 0;
	return cpu < t->k->cpus && cpu < GUEST_CPU_WORDS * 64 &&
	       (!any || (t->cpus[cpu / 64] >> (cpu % 64) & 1));
}

SYSCALL3(sched_getaffinity, int, tid, unsigned, len, gva_t, umask)
{
	struct task *t = task_arg(task, tid);
	uint64_t mask[GUEST_CPU_WORDS] = { 0 };
	unsigned n = (task->k->cpus + 63) / 64 * 8;

	if (len < n || len % 8)
		return -EINVAL;
	if (!t)
		return -ESRCH;
	for (unsigned i = 0; i < GUEST_CPU_WORDS * 64; i++)
		if (has_cpu(t, i))
			mask[i / 64] |= 1ULL << (i % 64);
	if (n > sizeof(mask))
		n = sizeof(mask);
	return guest_write(task, umask, mask, n) < 0 ? -EFAULT : (long)n;
}

SYSCALL3(sched_setaffinity, int, tid, unsigned, len, gva_t, umask)
{
	struct task *t = task_arg(task, tid);
	uint64_t mask[GUEST_CPU_WORDS] = { 0 };
	bool any = false;

	if (guest_read(task, mask, umask, len < sizeof(mask) ? len : sizeof(mask)) < 0)
		return -EFAULT;
	if (!t)
		return -ESRCH;
	if (!is_owner(task, t) && !task_capable_in(task, t->cred->user, CAP_SYS_NICE))
		return -EPERM;
	for (unsigned i = 0; i < GUEST_CPU_WORDS * 64; i++) {
		if (i >= task->k->cpus)
			mask[i / 64] &= ~(1ULL << (i % 64));
		any |= (mask[i / 64] >> (i % 64) & 1) != 0;
	}
	if (!any)
		return -EINVAL;
	memcpy(t->cpus, mask, sizeof(t->cpus));
	if (t->host)
		host_set_cpus(t);
	return 0;
}

SYSCALL3(getcpu, gva_t, ucpu, gva_t, unode, gva_t, cache)
{
	uint32_t cpu = 0;

	while (cpu < task->k->cpus && !has_cpu(task, cpu))
		cpu++;
	if (!gva_null(ucpu) && guest_write_u32(task, ucpu, cpu) < 0)
		return -EFAULT;
	if (!gva_null(unode) && guest_write_u32(task, unode, 0) < 0)
		return -EFAULT;
	return 0;
}

/* Nice and I/O priorities: of a thread, a group or a user. */

enum { OF_PROCESS, OF_GROUP, OF_USER };

/* Calls @fn for each task that is meant; -ESRCH when there is none, or what the last one that
 * failed said. */
static long for_each(struct task *task, int kind, int who,
	int (*fn)(struct task *task, struct task *t, long *arg), long *arg)
{
	uint32_t uid = who ? uid_in(task, (uint32_t)who) : task->cred->uid;
	int32_t group = who ? pgrp_in(task, who) : task->proc->pgrp->id;
	long r = -ESRCH;

	if (kind == OF_PROCESS) {
		struct task *t = task_arg(task, who);

		return t ? fn(task, t, arg) : -ESRCH;
	}
	for (struct proc *p = task->k->procs; p; p = p->next) {
		if (kind == OF_GROUP && (!p->pgrp || p->pgrp->id != group))
			continue;
		for (struct task *t = p->tasks; t; t = t->next) {
			int one;

			if (t->state == TASK_DEAD || (kind == OF_USER && t->cred->uid != uid))
				continue;
			one = fn(task, t, arg);
			if (r == -ESRCH || one < 0)
				r = one;
		}
	}
	return r;
}

static int nice_best(struct task *task, struct task *t, long *best)
{
	if (20 - t->nice > *best)
		*best = 20 - t->nice;
	return 0;
}

SYSCALL2(getpriority, int, which, int, who)
{
	long best = -ESRCH, r;

	if (which < 0 || which > 2)
		return -EINVAL;
	r = for_each(task, which, who, nice_best, &best);
	return r < 0 ? r : best;
}

static int nice_set(struct task *task, struct task *t, long *nice)
{
	if (!is_owner(task, t) && task->cred->euid != t->cred->uid &&
		!task_capable_in(task, t->cred->user, CAP_SYS_NICE))
		return -EPERM;
	if (*nice < t->nice && !may_nice(task, t, (int)*nice))
		return -EACCES;
	t->nice = (int32_t)*nice;
	return 0;
}

SYSCALL3(setpriority, int, which, int, who, int, nice)
{
	long v = nice < -20 ? -20 : nice > 19 ? 19 : nice;

	if (which < 0 || which > 2)
		return -EINVAL;
	return for_each(task, which, who, nice_set, &v);
}

enum { IO_NONE, IO_RT, IO_BE, IO_IDLE, IO_LEVELS = 8, IO_CLASS_SHIFT = 13 };

static int io_best(struct task *task, struct task *t, long *best)
{
	if (*best < 0 || (t->ioprio && t->ioprio < *best))
		*best = t->ioprio;
	return 0;
}

SYSCALL2(ioprio_get, int, which, int, who)
{
	long best = -1, r;

	if (which < 1 || which > 3)
		return -EINVAL;
	r = for_each(task, which - 1, who, io_best, &best);
	return r < 0 ? r : best;
}

static int io_set(struct task *task, struct task *t, long *prio)
{
	if (t->cred->uid != task->cred->euid && t->cred->uid != task->cred->uid &&
		!task_capable(task, CAP_SYS_NICE))
		return -EPERM;
	t->ioprio = (uint16_t)*prio;
	return 0;
}

SYSCALL3(ioprio_set, int, which, int, who, int, prio)
{
	int level = prio & ((1 << IO_CLASS_SHIFT) - 1);
	long v = prio;

	switch (prio >> IO_CLASS_SHIFT) {
	case IO_RT:
		if (!task_capable(task, CAP_SYS_ADMIN) && !task_capable(task, CAP_SYS_NICE))
			return -EPERM;
		if (level >= IO_LEVELS)
			return -EINVAL;
		break;
	case IO_BE:
		if (level >= IO_LEVELS)
			return -EINVAL;
		break;
	case IO_IDLE:
		break;
	case IO_NONE:
		if (level)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	if (which < 1 || which > 3)
		return -EINVAL;
	return for_each(task, which - 1, who, io_set, &v);
}
