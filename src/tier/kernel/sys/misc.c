/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/misc.c - the machine and the process: names, limits, use, scheduling, prctl.
 *
 * Owns:  nothing.
 * Rules: see sys/sys.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/times.h>

#include "base/str.h"
#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/io/timers.h"
#include "tier/kernel/ns/ns.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/vfs.h"

enum { ARCH_GET_CPUID = 0x1011, ARCH_SET_CPUID = 0x1012, ROBUST_HEAD_BYTES = 24 };

SYSCALL1(uname, gva_t, ubuf)
{
	struct {
		char f[6][65];
	} u;
	const char *name;

	memset(&u, 0, sizeof(u));
	str_copy(u.f[0], 65, "Linux");
	name = uts_hostname(task);
	str_copy(u.f[1], 65, name[0] ? name : "ward");
	str_copy(u.f[2], 65, GUEST_RELEASE);
	str_copy(u.f[3], 65, GUEST_VERSION);
	str_copy(u.f[4], 65, "x86_64");
	name = uts_domainname(task);
	str_copy(u.f[5], 65, name[0] ? name : "(none)");
	return guest_write(task, ubuf, &u, sizeof(u));
}

static long set_name(struct task *t, gva_t uname, int len, char *name)
{
	char buf[65] = { 0 };

	if (!uts_may_change(t))
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
	return set_name(task, name, len, uts_hostname(task));
}

SYSCALL2(setdomainname, gva_t, name, int, len)
{
	return set_name(task, name, len, uts_domainname(task));
}

SYSCALL1(sysinfo, gva_t, uinfo)
{
	struct proc_ram ram = proc_ram(task->k);
	struct {
		int64_t uptime;
		uint64_t loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap;
		uint16_t procs, pad;
		uint64_t totalhigh, freehigh;
		uint32_t unit;
		char f[4];
	} s;

	memset(&s, 0, sizeof(s));
	s.uptime = (kernel_now(task->k) - task->k->boot_ns) / 1000000000;
	s.totalram = ram.total;
	s.freeram = ram.free;
	s.procs = (uint16_t)task->k->task_count;
	s.unit = 1;
	return guest_write(task, uinfo, &s, 112);
}

/* Limits */

static int stack_of(void *arg, const struct proc_range *r)
{
	if (r->stack)
		*(uint64_t *)arg = r->to - r->from;
	return r->stack;
}

static void limit_memory(struct proc *p, unsigned what)
{
	struct task *t = p->tasks;
	uint64_t stack = 0;

	while (t && t->state == TASK_DEAD)
		t = t->next;
	if (!t || !t->mm)
		return;
	proc_host_each(t, stack_of, &stack);
	host_set_limit(p, (int)what, stack);
}

static long set_limit(struct task *t, struct proc *p, unsigned what, const struct rlimit *n)
{
	struct rlimit *old = &p->limits[what];

	if (n->rlim_cur > n->rlim_max)
		return -EINVAL;
	if (n->rlim_max > old->rlim_max && !task_capable(t, CAP_SYS_RESOURCE))
		return -EPERM;
	if (what == RLIMIT_NOFILE &&
		(n->rlim_max > GUEST_FDS_MAX || n->rlim_max > knob_value(t->k, "sys/fs/nr_open")))
		return -EPERM;
	*old = *n;
	if (what == RLIMIT_AS || what == RLIMIT_DATA)
		limit_memory(p, what);
	return what == RLIMIT_CPU ? timers_cpu_limit(p) : 0;
}

SYSCALL4(prlimit64, int, pid, unsigned, what, gva_t, unew, gva_t, uold)
{
	struct proc *p = pid ? proc_at(task, pid) : task->proc;
	struct rlimit n, old;
	long r;

	if (what >= RLIM_NLIMITS)
		return -EINVAL;
	if (!p)
		return -ESRCH;
	if (p != task->proc && p->tasks->cred->uid != task->cred->uid &&
		!task_capable_in(task, p->tasks->cred->user, CAP_SYS_RESOURCE))
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

/* Odds and ends */

SYSCALL1(set_tid_address, uint64_t, at)
{
	task->clear_tid = at;
	return task_nr(task, task);
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
	if (len > GUEST_RANDOM_MAX)
		len = GUEST_RANDOM_MAX;
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
	switch (code) { /* the four that programs need never arrive */
	case ARCH_GET_CPUID:
		return 1;
	case ARCH_SET_CPUID:
		return -ENODEV; /* the host has no faulting cpuid for us */
	default:
		return -EINVAL;
	}
}

SYSCALL3(get_robust_list, int, tid, gva_t, uhead, gva_t, ulen)
{
	struct task *t = tid ? task_at(task, tid) : task;

	if (!t || t->state == TASK_DEAD)
		return -ESRCH;
	if (!task_may_trace(task, t))
		return -EPERM;
	if (guest_write_u64(task, ulen, ROBUST_HEAD_BYTES) < 0)
		return -EFAULT;
	return guest_write_u64(task, uhead, host_robust_list(t));
}

/* The log of this kernel is empty. */
SYSCALL3(syslog, int, type, gva_t, buf, int, len)
{
	enum { READ = 2, READ_ALL = 3, READ_CLEAR = 4, CONSOLE_LEVEL = 8, LAST = 10 };

	if (!task_capable(task, CAP_SYSLOG))
		return -EPERM;
	if (type < 0 || type > LAST)
		return -EINVAL;
	if (type >= READ && type <= READ_CLEAR && (gva_null(buf) || len < 0))
		return -EINVAL;
	return type == CONSOLE_LEVEL && (len < 1 || len > 8) ? -EINVAL : 0;
}

/* Which of two things comes first is stable while the sandbox lives, and says nothing of where. */
static long compare(struct kernel *k, const void *a, const void *b)
{
	uint64_t mix[2], x, y;

	memcpy(mix, k->boot_id, sizeof(mix));
	x = ((uint64_t)a ^ mix[0]) * (mix[1] | 1);
	y = ((uint64_t)b ^ mix[0]) * (mix[1] | 1);
	return a == b ? 0 : x < y ? 1 : 2;
}

SYSCALL5(kcmp, int, a_pid, int, b_pid, int, type, uint64_t, x, uint64_t, y)
{
	enum { OF_FILE, OF_VM, OF_FILES, OF_FS, OF_SIGHAND, OF_IO, OF_SEM, OF_EPOLL };
	struct task *a = task_at(task, a_pid), *b = task_at(task, b_pid);
	struct file *f, *g;

	if (!a || !b || a->state == TASK_DEAD || b->state == TASK_DEAD)
		return -ESRCH;
	if (!task_may_trace(task, a) || !task_may_trace(task, b))
		return -EPERM;
	switch (type) {
	case OF_FILE:
		f = x <= INT32_MAX ? fd_get_path(a, (int)x) : NULL;
		g = y <= INT32_MAX ? fd_get_path(b, (int)y) : NULL;
		return f && g ? compare(task->k, f, g) : -EBADF;
	case OF_VM:
		return compare(task->k, a->mm, b->mm);
	case OF_FILES:
		return compare(task->k, a->files, b->files);
	case OF_FS:
		return compare(task->k, a->fs, b->fs);
	case OF_SIGHAND:
		return compare(task->k, a->sighand, b->sighand);
	case OF_IO: /* nobody has any */
	case OF_SEM:
		return 0;
	default:
		return -EINVAL;
	}
}

SYSCALL4(reboot, unsigned, magic, unsigned, magic2, unsigned, cmd, gva_t, arg)
{
	enum { CAD_OFF = 0 };

	if (!task_capable(task, CAP_SYS_BOOT))
		return -EPERM;
	if (magic != 0xfee1dead || (magic2 != 672274793 && magic2 != 85072278 &&
					   magic2 != 369367448 && magic2 != 537993216))
		return -EINVAL;
	switch (cmd) {
	case CAD_OFF:
	case 0x89abcdef: /* no keyboard, so either is kept */
		return 0;
	case 0x01234567: /* restart, halt, power off, suspend, kexec: the agent's, not a guest's */
	case 0xcdef0123:
	case 0x4321fedc:
	case 0xa1b2c3d4:
	case 0xd000fce2:
	case 0x45584543:
		return -EPERM;
	default:
		return -EINVAL;
	}
}
