/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/prctl.c - prctl(2).
 *
 * Owns:  nothing.
 * Rules: see sys/sys.h.
 */
#include <errno.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/prctl.h>

#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/proc.h"

enum {
	SECUREBITS_ALL = 0xff,
	SECUREBITS_LOCKS = 0xaa,
	SECBIT_KEEP = 1 << 4,
	SECBIT_KEEP_LOCKED = 1 << 5,
	SECBIT_NO_RAISE = 1 << 6,
};

static long drop_bounding(struct task *t, uint64_t cap)
{
	struct cred *c;

	if (!task_capable_own(t, CAP_SETPCAP))
		return -EPERM;
	if (cap > 40)
		return -EINVAL;
	c = cred_copy(t->cred);
	if (!c)
		return -ENOMEM;
	c->cap_bounding &= ~(1ULL << cap);
	cred_unref(t->cred);
	t->cred = c;
	return 0;
}

static long ambient(struct task *t, uint64_t op, uint64_t cap)
{
	struct cred *c;

	if (op == PR_CAP_AMBIENT_IS_SET)
		return cap > 40 ? -EINVAL : (long)(t->cred->cap_ambient >> cap & 1);
	if (op != PR_CAP_AMBIENT_CLEAR_ALL && cap > 40)
		return -EINVAL;
	if (op == PR_CAP_AMBIENT_RAISE &&
		(!(t->cred->cap_permitted & t->cred->cap_inheritable & (1ULL << cap)) ||
			(t->cred->securebits & SECBIT_NO_RAISE)))
		return -EPERM;
	c = cred_copy(t->cred);
	if (!c)
		return -ENOMEM;
	if (op == PR_CAP_AMBIENT_RAISE)
		c->cap_ambient |= 1ULL << cap;
	else if (op == PR_CAP_AMBIENT_LOWER)
		c->cap_ambient &= ~(1ULL << cap);
	else
		c->cap_ambient = 0;
	cred_unref(t->cred);
	t->cred = c;
	return 0;
}

static long securebits(struct task *t, uint64_t bits)
{
	uint64_t old = t->cred->securebits;
	struct cred *c;

	if (!task_capable_own(t, CAP_SETPCAP))
		return -EPERM;
	/* Even bits say what holds, odd ones lock the bit before them for good. */
	if ((bits & ~(uint64_t)SECUREBITS_ALL) || (old & SECUREBITS_LOCKS & ~bits) ||
		((old & SECUREBITS_LOCKS) >> 1 & (old ^ bits)))
		return -EPERM;
	c = cred_copy(t->cred);
	if (!c)
		return -ENOMEM;
	c->securebits = (uint32_t)bits;
	cred_unref(t->cred);
	t->cred = c;
	return 0;
}

static long set_name(struct task *t, uint64_t at)
{
	char name[16] = { 0 };
	ssize_t n = guest_copy_string(t, GVA(at), name, 15);

	if (n < 0 && n != -ENAMETOOLONG)
		return n;
	name[15] = '\0';
	if (n >= 0)
		memset(name + n, 0, sizeof(name) - (size_t)n);
	memcpy(t->comm, name, sizeof(name));
	return 0;
}

static long keep_caps(struct task *t, uint64_t on)
{
	struct cred *c;

	if (on > 1)
		return -EINVAL;
	if (t->cred->securebits & SECBIT_KEEP_LOCKED)
		return -EPERM;
	c = cred_copy(t->cred);
	if (!c)
		return -ENOMEM;
	c->securebits = on ? c->securebits | SECBIT_KEEP : c->securebits & ~(uint32_t)SECBIT_KEEP;
	cred_unref(t->cred);
	t->cred = c;
	return 0;
}

SYSCALL5(prctl, int, op, uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d)
{
	switch (op) {
	case PR_SET_PDEATHSIG:
		if (a > GSIG_MAX)
			return -EINVAL;
		task->pdeath_signal = (int32_t)a;
		return 0;
	case PR_GET_PDEATHSIG:
		return guest_write_u32(task, GVA(a), (uint32_t)task->pdeath_signal);
	case PR_SET_NAME:
		return set_name(task, a);
	case PR_GET_NAME:
		return guest_write(task, GVA(a), task->comm, sizeof(task->comm));
	case PR_GET_DUMPABLE:
		return task->mm->dumpable;
	case PR_SET_DUMPABLE:
		if (a > 1)
			return -EINVAL;
		task->mm->dumpable = a != 0; /* ours only: the host's stays */
		return 0;
	case PR_SET_KEEPCAPS:
		return keep_caps(task, a);
	case PR_GET_KEEPCAPS:
		return task->cred->securebits >> 4 & 1;
	case PR_SET_CHILD_SUBREAPER:
		task->proc->subreaper = a != 0;
		return 0;
	case PR_GET_CHILD_SUBREAPER:
		return guest_write_u32(task, GVA(a), task->proc->subreaper);
	case PR_SET_NO_NEW_PRIVS:
		if (a != 1 || b || c || d)
			return -EINVAL;
		task->no_new_privs = true;
		return 0;
	case PR_GET_NO_NEW_PRIVS:
		return a || b || c || d ? -EINVAL : task->no_new_privs;
	case PR_CAPBSET_READ:
		return a > 40 ? -EINVAL : (long)(task->cred->cap_bounding >> a & 1);
	case PR_CAPBSET_DROP:
		return drop_bounding(task, a);
	case PR_CAP_AMBIENT:
		if (a < 1 || a > 4 || c || d || (a == PR_CAP_AMBIENT_CLEAR_ALL && b))
			return -EINVAL;
		return ambient(task, a, b);
	case PR_GET_SECUREBITS:
		return task->cred->securebits;
	case PR_SET_SECUREBITS:
		return securebits(task, a);
	case PR_GET_SECCOMP: /* strict never gets here */
		return task->filters ? 2 : 0;
	case PR_SET_SECCOMP:
		if (a == 1)
			return seccomp_set_strict(task);
		return a == 2 ? seccomp_set_filter(task, 0, GVA(b)) : -EINVAL;
	case PR_SET_TIMERSLACK:
		task->timer_slack_ns = (int64_t)a > 0 ? a : task->timer_slack_default_ns;
		return 0;
	case PR_GET_TIMERSLACK:
		return (long)task->timer_slack_ns;
	case PR_GET_TSC:
		return guest_write_u32(task, GVA(a), PR_TSC_ENABLE);
	case PR_GET_TIMING:
		return 0;
	case PR_SET_TIMING:
		return a ? -EINVAL : 0;
	case PR_GET_TID_ADDRESS:
		return guest_write_u64(task, GVA(a), task->clear_tid);
	case PR_GET_SPECULATION_CTRL:
		return b || c || d ? -EINVAL : a > 2 ? -ENODEV : 0;
	case PR_SET_SPECULATION_CTRL:
		return c || d ? -EINVAL : a > 2 ? -ENODEV : -ENXIO;
	case PR_SET_THP_DISABLE:
		if (b || c || d)
			return -EINVAL;
		task->mm->thp_disable = a != 0;
		return 0;
	case PR_SET_VMA:
	case PR_SET_PTRACER:
	case PR_MCE_KILL:
		return 0;
	case PR_GET_THP_DISABLE:
		return a || b || c || d ? -EINVAL : task->mm->thp_disable;
	default:
		return -EINVAL;
	}
}
