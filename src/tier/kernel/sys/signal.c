/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/signal.c - the signal calls.
 *
 * Owns:  nothing.
 * Rules: see sys/sys.h; the words of a sigset are always eight bytes.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <linux/capability.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/pidfd.h"

#define UNBLOCKABLE (GSIG_BIT(SIGKILL) | GSIG_BIT(SIGSTOP))
#define IGNORABLE (GSIG_BIT(SIGCHLD) | GSIG_BIT(SIGURG) | GSIG_BIT(SIGWINCH) | GSIG_BIT(SIGCONT))

SYSCALL4(rt_sigaction, int, sig, gva_t, unew, gva_t, uold, uint64_t, size)
{
	struct gsigaction act, *slot, old;

	if (size != 8 || sig < 1 || sig > GSIG_MAX)
		return -EINVAL;
	if (!gva_null(unew) && (GSIG_BIT(sig) & UNBLOCKABLE))
		return -EINVAL;
	if (!gva_null(uold))
		place_signals_sync(task);
	slot = &task->sighand->act[sig - 1];
	old = *slot;
	if (!gva_null(unew)) {
		if (guest_read(task, &act, unew, sizeof(act)) < 0)
			return -EFAULT;
		act.mask &= ~UNBLOCKABLE;
		*slot = act;
		place_signal_set(task, sig);
		/* What is ignored from now on was never sent. */
		if (act.handler == GSIG_IGN ||
			(act.handler == GSIG_DFL && (GSIG_BIT(sig) & IGNORABLE)))
			sigpending_drop(task->proc, GSIG_BIT(sig));
	}
	if (!gva_null(uold) && guest_write(task, uold, &old, sizeof(old)) < 0)
		return -EFAULT;
	return 0;
}

SYSCALL4(rt_sigprocmask, int, how, gva_t, unew, gva_t, uold, uint64_t, size)
{
	gsigset_t old = task->mask, set;

	if (size != 8)
		return -EINVAL;
	if (!gva_null(unew)) {
		if (guest_read_u64(task, unew, &set) < 0)
			return -EFAULT;
		switch (how) {
		case SIG_BLOCK:
			set |= old;
			break;
		case SIG_UNBLOCK:
			set = old & ~set;
			break;
		case SIG_SETMASK:
			break;
		default:
			return -EINVAL;
		}
		signal_set_mask(task, set);
	}
	return gva_null(uold) ? 0 : guest_write_u64(task, uold, old);
}

SYSCALL2(rt_sigpending, gva_t, uset, uint64_t, size)
{
	gsigset_t set = signal_set(task) & task->mask;

	if (size > 8)
		return -EINVAL;
	return guest_write(task, uset, &set, size);
}

SYSCALL2(rt_sigsuspend, gva_t, uset, uint64_t, size)
{
	gsigset_t set;
	long r;

	if (size != 8)
		return -EINVAL;
	if (task->call.first) {
		if (guest_read_u64(task, uset, &set) < 0)
			return -EFAULT;
		signal_wait_mask(task, set);
	}
	r = wait_block(task);
	return r == -ERESTARTSYS ? -ERESTARTNOHAND : r;
}

SYSCALL0(pause)
{
	long r = wait_block(task);

	return r == -ERESTARTSYS ? -ERESTARTNOHAND : r;
}

SYSCALL4(rt_sigtimedwait, gva_t, uset, gva_t, uinfo, gva_t, utimeout, uint64_t, size)
{
	gsigset_t set;
	union gsiginfo info;
	int64_t ns;
	int sig;
	long r;

	if (size != 8)
		return -EINVAL;
	if (guest_read_u64(task, uset, &set) < 0)
		return -EFAULT;
	set &= ~UNBLOCKABLE;
	if (task->call.first && !gva_null(utimeout)) {
		r = guest_read_timespec(task, utimeout, &ns);
		if (r < 0)
			return r;
		wait_set_timeout(task, ns);
	}
	sig = signal_take(task, set, &info);
	if (sig) {
		if (!gva_null(uinfo) && guest_write(task, uinfo, &info, sizeof(info)) < 0)
			return -EFAULT;
		return sig;
	}
	wait_on(task, signal_queue(task), 0);
	r = wait_block(task);
	return r == -ETIMEDOUT ? -EAGAIN : r == -ERESTARTSYS ? -EINTR : r;
}

/* Does it run there now? A stack that disarms itself counts as left. */
static bool on_altstack(struct task *t)
{
	uint64_t sp;

	if (!t->altstack.size || (t->altstack.flags & (1u << 31)))
		return false;
	sp = host_sp(t);
	return sp > t->altstack.sp && sp - t->altstack.sp <= t->altstack.size;
}

SYSCALL2(sigaltstack, gva_t, unew, gva_t, uold)
{
	bool on_it = on_altstack(task);
	struct {
		uint64_t sp;
		int32_t flags, pad;
		uint64_t size;
	} s, old = { task->altstack.sp, (int32_t)task->altstack.flags, 0, task->altstack.size };
	int32_t mode;

	if (!old.size)
		old.flags = SS_DISABLE;
	if (on_it)
		old.flags |= SS_ONSTACK;
	if (!gva_null(unew)) {
		if (guest_read(task, &s, unew, sizeof(s)) < 0)
			return -EFAULT;
		if (on_it)
			return -EPERM;
		mode = s.flags & ~(int32_t)(1u << 31);
		if (mode != SS_DISABLE && mode != SS_ONSTACK && mode)
			return -EINVAL;
		if (mode == SS_DISABLE) {
			memset(&task->altstack, 0, sizeof(task->altstack));
		} else {
			if (s.size < 2048)
				return -ENOMEM;
			task->altstack.sp = s.sp;
			task->altstack.size = s.size;
			task->altstack.flags = (uint32_t)s.flags & (1u << 31);
		}
	}
	if (!gva_null(uold) && guest_write(task, uold, &old, sizeof(old)) < 0)
		return -EFAULT;
	return 0;
}

/* Sending */

static int send_checked(struct task *t, struct proc *p, int sig, const union gsiginfo *info)
{
	int r = signal_may(t, p, sig);

	if (r < 0 || !sig || p->state != PROC_LIVE)
		return r;
	return signal_send_proc(p, sig, info);
}

/* Is @p meant? @pgrp: a group, or -1 for all that @t can see but itself and the first. */
static bool is_meant(const struct task *t, const struct proc *p, int32_t pgrp)
{
	if (pgrp < 0)
		return p != t->proc && p != t->k->init && proc_nr(t, p) > (pid_ns_of(t) ? 1 : 0);
	return p->pgrp && p->pgrp->id == pgrp;
}

/* One may end others: who is meant is written down first. */
static long kill_many(struct task *t, int32_t pgrp, int sig, const union gsiginfo *info)
{
	int32_t *pids = calloc(t->k->task_count, sizeof(*pids));
	unsigned n = 0;
	long r = -ESRCH;

	if (!pids)
		return -ENOMEM;
	for (struct proc *p = t->k->procs; p; p = p->next)
		if (is_meant(t, p, pgrp))
			pids[n++] = p->pid;
	for (unsigned i = 0; i < n; i++) {
		struct proc *p = proc_find(t->k, pids[i]);
		int one = p ? send_checked(t, p, sig, info) : 0;

		if (r != 0)
			r = one == 0 || r == -ESRCH ? one : r;
	}
	free(pids);
	return r;
}

/* The number of any of its threads will do. */
static struct proc *proc_of(struct task *task, int32_t pid)
{
	struct task *t = task_at(task, pid);

	return t ? t->proc : NULL;
}

static long kill_group(struct task *t, const struct pgrp *g, int sig, const union gsiginfo *info)
{
	return g ? kill_many(t, g->id, sig, info) : -ESRCH;
}

SYSCALL2(kill, int, pid, int, sig)
{
	union gsiginfo info;
	struct proc *p;

	if (sig < 0 || sig > GSIG_MAX)
		return -EINVAL;
	signal_info_user(task, sig, &info);
	if (pid == -1)
		return kill_many(task, -1, sig, &info);
	if (pid == INT32_MIN)
		return -ESRCH;
	if (pid <= 0)
		return kill_group(task, pid ? pgrp_at(task, -pid) : task->proc->pgrp, sig, &info);
	p = proc_of(task, pid);
	return p ? send_checked(task, p, sig, &info) : -ESRCH;
}

static long kill_thread(
	struct task *t, int32_t pid, int32_t tid, int sig, const union gsiginfo *info)
{
	struct task *to = task_at(t, tid);
	int r;

	if (!to || to->state == TASK_DEAD || (pid && proc_nr(t, to->proc) != pid))
		return -ESRCH;
	r = signal_may(t, to->proc, sig);
	return r < 0 || !sig ? r : signal_send_task(to, sig, info);
}

SYSCALL3(tgkill, int, pid, int, tid, int, sig)
{
	union gsiginfo info;

	if (pid <= 0 || tid <= 0 || sig < 0 || sig > GSIG_MAX)
		return -EINVAL;
	signal_info_user(task, sig, &info);
	info.code = SI_TKILL;
	return kill_thread(task, pid, tid, sig, &info);
}

SYSCALL2(tkill, int, tid, int, sig)
{
	union gsiginfo info;

	if (tid <= 0 || sig < 0 || sig > GSIG_MAX)
		return -EINVAL;
	signal_info_user(task, sig, &info);
	info.code = SI_TKILL;
	return kill_thread(task, 0, tid, sig, &info);
}

static long read_info(struct task *t, struct proc *to, int sig, gva_t uinfo, union gsiginfo *info)
{
	if (sig < 0 || sig > GSIG_MAX)
		return -EINVAL;
	if (guest_read(t, info, uinfo, sizeof(*info)) < 0)
		return -EFAULT;
	info->signo = sig;
	/* Words that only the kernel may use. */
	if ((info->code >= 0 || info->code == SI_TKILL) && to != t->proc)
		return -EPERM;
	if (info->code == SI_QUEUE || info->code == SI_USER || info->code == SI_TKILL) {
		info->kill.uid = uid_in(t, info->kill.uid);
		info->kill.pid = pid_in(t, info->kill.pid);
	}
	return 0;
}

SYSCALL3(rt_sigqueueinfo, int, pid, int, sig, gva_t, uinfo)
{
	struct proc *p = proc_of(task, pid);
	union gsiginfo info;
	long r = read_info(task, p, sig, uinfo, &info);

	if (r < 0)
		return r;
	return p ? send_checked(task, p, sig, &info) : -ESRCH;
}

SYSCALL4(rt_tgsigqueueinfo, int, pid, int, tid, int, sig, gva_t, uinfo)
{
	struct proc *p = proc_at(task, pid);
	union gsiginfo info;
	long r;

	if (pid <= 0 || tid <= 0)
		return -EINVAL;
	r = read_info(task, p, sig, uinfo, &info);
	return r < 0 ? r : kill_thread(task, pid, tid, sig, &info);
}

SYSCALL2(pidfd_open, int, pid, unsigned, flags)
{
	struct task *t;

	if (pid <= 0 || (flags & ~(04000u | 0200u)))
		return -EINVAL;
	t = task_at(task, pid);
	if (!t)
		return -ESRCH;
	if (t != proc_leader(t->proc))
		return flags & 0200 ? pidfd_install(task, t->proc, flags & 04000) : -EINVAL;
	return pidfd_install(task, t->proc, flags & 04000);
}

SYSCALL3(pidfd_getfd, int, pidfd, int, fd, unsigned, flags)
{
	int32_t pid = pidfd_pid(task, pidfd);
	struct task *t = pid > 0 ? task_find(task->k, pid) : NULL;
	struct file *f;
	int r;

	if (flags)
		return -EINVAL;
	if (pid < 0)
		return pid;
	if (!t || !t->files)
		return -ESRCH;
	if (!task_may_trace(task, t))
		return -EPERM;
	place_take_back(t); /* its position is not its own any more */
	f = fd_get_path(t, fd);
	if (!f)
		return -EBADF;
	file_ref(f);
	r = fd_install(task, f, true, 0);
	if (r < 0)
		file_unref(f);
	return r;
}

SYSCALL4(pidfd_send_signal, int, fd, int, sig, gva_t, uinfo, unsigned, flags)
{
	int32_t pid = pidfd_signal_pid(task, fd);
	union gsiginfo info;
	struct proc *p;
	long r;

	if (flags)
		return -EINVAL;
	if (pid < 0)
		return pid;
	p = proc_find(task->k, pid);
	if (sig < 0 || sig > GSIG_MAX)
		return -EINVAL;
	if (gva_null(uinfo)) {
		signal_info_user(task, sig, &info);
	} else {
		uint32_t signo;

		if (guest_read_u32(task, uinfo, &signo) < 0)
			return -EFAULT;
		if (signo != (uint32_t)sig)
			return -EINVAL;
		r = read_info(task, p, sig, uinfo, &info);
		if (r < 0)
			return r;
	}
	return p ? send_checked(task, p, sig, &info) : -ESRCH;
}

/*
 * Frames that we built return through the shim. Who calls this by itself (a runtime with a restorer
 * of its own, a checkpoint that is restored) has a frame at its stack pointer, which only the shim
 * can see.
 */
SYSCALL0(rt_sigreturn)
{
	const struct {
		uint32_t order, more;
	} order = { ORDER_SIGRETURN, 0 };

	if (!task->host || !order_write(task, &order, sizeof(order)))
		return -EFAULT;
	task->call.ordered = true;
	return 0;
}
