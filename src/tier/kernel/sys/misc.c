/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/misc.c - the machine and the process: names, limits, use, scheduling, prctl.
 *
 * Owns:  nothing.
 * Rules: see sys/sys.h.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <sys/times.h>

#include "base/str.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/task/proc.h"

SYSCALL1(uname, gva_t, ubuf)
{
	struct {
		char f[6][65];
	} u;

	memset(&u, 0, sizeof(u));
	str_copy(u.f[0], 65, "Linux");
	str_copy(u.f[1], 65, task->k->hostname[0] ? task->k->hostname : "ward");
	str_copy(u.f[2], 65, GUEST_RELEASE);
	str_copy(u.f[3], 65, GUEST_VERSION);
	str_copy(u.f[4], 65, "x86_64");
	str_copy(u.f[5], 65, task->k->domainname[0] ? task->k->domainname : "(none)");
	return guest_write(task, ubuf, &u, sizeof(u));
}

static long set_name(struct task *t, gva_t uname, int len, char *name)
{
	char buf[65] = { 0 };

	if (!task_capable(t, CAP_SYS_ADMIN))
		return -EPERM;
	if (len < 0 || len > 64)
		return -EINVAL;
	if (guest_read(t, buf, uname, (size_t)len) < 0)
		return -EFAULT;
	memcpy(name, buf, sizeof(buf));
	return 0;
}

SYSCALL2(sethostname, gva_t, name, int, len)
{
	return set_name(task, name, len, task->k->hostname);
}

SYSCALL2(setdomainname, gva_t, name, int, len)
{
	return set_name(task, name, len, task->k->domainname);
}

SYSCALL1(sysinfo, gva_t, uinfo)
{
	struct sysinfo host;
	struct {
		int64_t uptime;
		uint64_t loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap;
		uint16_t procs, pad;
		uint64_t totalhigh, freehigh;
		uint32_t unit;
		char f[4];
	} s;

	memset(&s, 0, sizeof(s));
	if (sysinfo(&host) < 0)
		return -errno;
	s.uptime = (kernel_now(task->k) - task->k->boot_ns) / 1000000000;
	s.totalram = (uint64_t)host.totalram * host.mem_unit;
	s.freeram = (uint64_t)host.freeram * host.mem_unit;
	if (task->k->memory_limit && task->k->memory_limit < s.totalram) {
		s.totalram = task->k->memory_limit;
		if (s.freeram > s.totalram)
			s.freeram = s.totalram;
	}
	s.procs = (uint16_t)task->k->task_count;
	s.unit = 1;
	return guest_write(task, uinfo, &s, 112);
}

/* Limits */

static long set_limit(struct task *t, struct proc *p, unsigned what, const struct rlimit *n)
{
	struct rlimit *old = &p->limits[what];

	if (n->rlim_cur > n->rlim_max)
		return -EINVAL;
	if (n->rlim_max > old->rlim_max && !task_capable(t, CAP_SYS_RESOURCE))
		return -EPERM;
	if (what == RLIMIT_NOFILE && n->rlim_max > GUEST_FDS_MAX)
		return -EPERM;
	*old = *n;
	return 0;
}

SYSCALL4(prlimit64, int, pid, unsigned, what, gva_t, unew, gva_t, uold)
{
	struct proc *p = pid ? proc_find(task->k, pid) : task->proc;
	struct rlimit n, old;
	long r;

	if (what >= RLIM_NLIMITS)
		return -EINVAL;
	if (!p)
		return -ESRCH;
	if (p != task->proc && p->tasks->cred->uid != task->cred->uid &&
		!task_capable(task, CAP_SYS_RESOURCE))
		return -EPERM;
	old = p->limits[what];
	if (!gva_null(unew)) {
		if (guest_read(task, &n, unew, sizeof(n)) < 0)
			return -EFAULT;
		r = set_limit(task, p, what, &n);
		if (r < 0)
			return r;
	}
	return gva_null(uold) ? 0 : guest_write(task, uold, &old, sizeof(old));
}

SYSCALL2(getrlimit, unsigned, what, gva_t, ulimit)
{
	if (what >= RLIM_NLIMITS)
		return -EINVAL;
	return guest_write(task, ulimit, &task->proc->limits[what], sizeof(struct rlimit));
}

SYSCALL2(setrlimit, unsigned, what, gva_t, ulimit)
{
	struct rlimit n;

	if (what >= RLIM_NLIMITS)
		return -EINVAL;
	if (guest_read(task, &n, ulimit, sizeof(n)) < 0)
		return -EFAULT;
	return set_limit(task, task->proc, what, &n);
}

/* Use */

SYSCALL2(getrusage, int, who, gva_t, uusage)
{
	struct rusage ru;

	switch (who) {
	case RUSAGE_SELF:
		usage_of(task->proc, &ru);
		break;
	case RUSAGE_CHILDREN:
		ru = task->proc->children_usage;
		break;
	case 1: /* RUSAGE_THREAD */
		usage_of_task(task, &ru);
		break;
	default:
		return -EINVAL;
	}
	return guest_write(task, uusage, &ru, GUEST_RUSAGE_BYTES);
}

static int64_t ticks(const struct timeval *tv)
{
	return (int64_t)tv->tv_sec * 100 + tv->tv_usec / 10000;
}

SYSCALL1(times, gva_t, ubuf)
{
	struct rusage ru;
	int64_t t[4];

	if (!gva_null(ubuf)) {
		usage_of(task->proc, &ru);
		t[0] = ticks(&ru.ru_utime);
		t[1] = ticks(&ru.ru_stime);
		t[2] = ticks(&task->proc->children_usage.ru_utime);
		t[3] = ticks(&task->proc->children_usage.ru_stime);
		if (guest_write(task, ubuf, t, sizeof(t)) < 0)
			return -EFAULT;
	}
	return kernel_now(task->k) / 10000000;
}

/* Scheduling: everybody is an ordinary task. */

static struct task *task_arg(struct task *t, int tid)
{
	return tid ? task_find(t->k, tid) : t;
}

SYSCALL3(sched_getaffinity, int, tid, unsigned, len, gva_t, umask)
{
	uint8_t mask[128] = { 0 };
	unsigned n = (task->k->cpus + 63) / 64 * 8;

	if (!task_arg(task, tid))
		return -ESRCH;
	if (len < n || len % 8)
		return -EINVAL;
	for (unsigned i = 0; i < task->k->cpus && i < sizeof(mask) * 8; i++)
		mask[i / 8] |= (uint8_t)(1u << (i % 8));
	if (n > sizeof(mask))
		n = sizeof(mask);
	return guest_write(task, umask, mask, n) < 0 ? -EFAULT : (long)n;
}

SYSCALL3(sched_setaffinity, int, tid, unsigned, len, gva_t, umask)
{
	uint8_t mask[128] = { 0 };
	bool any = false;

	if (!task_arg(task, tid))
		return -ESRCH;
	if (guest_read(task, mask, umask, len < sizeof(mask) ? len : sizeof(mask)) < 0)
		return -EFAULT;
	for (unsigned i = 0; i < task->k->cpus && i < sizeof(mask) * 8; i++)
		any |= mask[i / 8] >> (i % 8) & 1;
	return any ? 0 : -EINVAL;
}

SYSCALL1(sched_getscheduler, int, tid)
{
	return tid < 0 ? -EINVAL : task_arg(task, tid) ? 0 : -ESRCH;
}

SYSCALL3(sched_setscheduler, int, tid, int, policy, gva_t, uparam)
{
	uint32_t prio;

	if (tid < 0 || guest_read_u32(task, uparam, &prio) < 0)
		return tid < 0 ? -EINVAL : -EFAULT;
	if (!task_arg(task, tid))
		return -ESRCH;
	if (policy == SCHED_FIFO || policy == SCHED_RR)
		return prio < 1 || prio > 99 ? -EINVAL : -EPERM;
	if (policy != 0 && policy != 3 && policy != 5)
		return -EINVAL;
	return prio ? -EINVAL : 0;
}

SYSCALL2(sched_getparam, int, tid, gva_t, uparam)
{
	if (tid < 0)
		return -EINVAL;
	return task_arg(task, tid) ? guest_write_u32(task, uparam, 0) : -ESRCH;
}

SYSCALL2(sched_setparam, int, tid, gva_t, uparam)
{
	uint32_t prio;

	if (tid < 0)
		return -EINVAL;
	if (guest_read_u32(task, uparam, &prio) < 0)
		return -EFAULT;
	return !task_arg(task, tid) ? -ESRCH : prio ? -EINVAL : 0;
}

static bool is_policy(int policy)
{
	return policy == 0 || policy == 1 || policy == 2 || policy == 3 || policy == 5 ||
	       policy == 6;
}

SYSCALL1(sched_get_priority_max, int, policy)
{
	return !is_policy(policy) ? -EINVAL : policy == 1 || policy == 2 ? 99 : 0;
}

SYSCALL1(sched_get_priority_min, int, policy)
{
	return !is_policy(policy) ? -EINVAL : policy == 1 || policy == 2 ? 1 : 0;
}

SYSCALL2(sched_rr_get_interval, int, tid, gva_t, uts)
{
	if (tid < 0)
		return -EINVAL;
	return task_arg(task, tid) ? guest_write_timespec(task, uts, 4000000) : -ESRCH;
}

SYSCALL4(sched_getattr, int, tid, gva_t, uattr, unsigned, size, unsigned, flags)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t prio;
		uint64_t runtime, deadline, period;
	} a = { .size = 48 };
	struct task *t = task_arg(task, tid);

	if (tid < 0 || size < 48 || size > 4096 || flags)
		return -EINVAL;
	if (!t)
		return -ESRCH;
	a.nice = t->nice;
	return guest_write(task, uattr, &a, sizeof(a));
}

SYSCALL3(sched_setattr, int, tid, gva_t, uattr, unsigned, flags)
{
	uint32_t a[2];

	if (guest_read(task, a, uattr, sizeof(a)) < 0)
		return -EFAULT;
	if (tid < 0 || flags || !is_policy((int)a[1]))
		return -EINVAL;
	if (!task_arg(task, tid))
		return -ESRCH;
	return a[1] == 1 || a[1] == 2 || a[1] == 6 ? -EPERM : 0;
}

SYSCALL2(getpriority, int, which, int, who)
{
	struct task *t = who ? task_find(task->k, who) : task;

	if (which < 0 || which > 2)
		return -EINVAL;
	if (which != PRIO_PROCESS)
		return 20 - task->nice;
	return t ? 20 - t->nice : -ESRCH;
}

SYSCALL3(setpriority, int, which, int, who, int, nice)
{
	struct task *t = who ? task_find(task->k, who) : task;

	if (which < 0 || which > 2)
		return -EINVAL;
	if (which != PRIO_PROCESS)
		t = task;
	if (!t)
		return -ESRCH;
	nice = nice < -20 ? -20 : nice > 19 ? 19 : nice;
	if (nice < t->nice && !task_capable(task, CAP_SYS_NICE))
		return -EACCES;
	t->nice = nice;
	return 0;
}

SYSCALL3(ioprio_get, int, which, int, who, int, unused)
{
	return which < 1 || which > 3 ? -EINVAL : 0;
}

SYSCALL3(ioprio_set, int, which, int, who, int, prio)
{
	return which < 1 || which > 3 ? -EINVAL : 0;
}

SYSCALL3(getcpu, gva_t, ucpu, gva_t, unode, gva_t, cache)
{
	if (!gva_null(ucpu) && guest_write_u32(task, ucpu, 0) < 0)
		return -EFAULT;
	if (!gva_null(unode) && guest_write_u32(task, unode, 0) < 0)
		return -EFAULT;
	return 0;
}

/* Odds and ends */

SYSCALL1(set_tid_address, uint64_t, at)
{
	task->clear_tid = at;
	return task->tid;
}

SYSCALL1(personality, uint64_t, persona)
{
	uint64_t old = task->proc->personality;

	if ((uint32_t)persona != 0xffffffff)
		task->proc->personality = (uint32_t)persona;
	return (long)old;
}

SYSCALL3(getrandom, gva_t, ubuf, uint64_t, len, unsigned, flags)
{
	char buf[4096];
	uint64_t done = 0;

	if (flags & ~7u)
		return -EINVAL;
	if (len > GUEST_RW_MAX)
		len = GUEST_RW_MAX;
	while (done < len) {
		size_t n = len - done < sizeof(buf) ? len - done : sizeof(buf);

		if (getrandom(buf, n, 0) != (ssize_t)n)
			return done ? (long)done : -EAGAIN;
		if (guest_write(task, gva_add(ubuf, done), buf, n) < 0)
			return done ? (long)done : -EFAULT;
		done += n;
	}
	return (long)done;
}

SYSCALL2(arch_prctl, int, code, uint64_t, addr)
{
	return -EINVAL; /* the four that programs need never arrive */
}

SYSCALL3(get_robust_list, int, tid, gva_t, uhead, gva_t, ulen)
{
	return -EPERM;
}

SYSCALL2(seccomp, unsigned, op, unsigned, flags)
{
	return -EINVAL;
}

SYSCALL3(syslog, int, type, gva_t, buf, int, len)
{
	return task_capable(task, CAP_SYSLOG) ? 0 : -EPERM;
}

SYSCALL1(unshare, uint64_t, flags)
{
	return flags ? -EPERM : 0;
}

SYSCALL2(setns, int, fd, int, type)
{
	return -EPERM;
}

SYSCALL4(ptrace, int64_t, op, int, pid, uint64_t, addr, uint64_t, data)
{
	return -EPERM;
}

SYSCALL5(kcmp, int, a_pid, int, b_pid, int, type, uint64_t, x, uint64_t, y)
{
	return -EPERM;
}

SYSCALL4(reboot, int, magic, int, magic2, unsigned, cmd, gva_t, arg)
{
	return -EPERM;
}
