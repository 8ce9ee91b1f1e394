/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/process.c - processes and threads: made, executed, ended, waited for.
 *
 * Owns:  nothing.
 * Rules: see sys/sys.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/task/exec.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/vfs/vfs.h"

/* Of clone's flags, what the host's clone gets too: never a namespace, never a host number. */
#define HOST_FLAGS                                                                                 \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |        \
		CLONE_SETTLS | CLONE_CHILD_CLEARTID)
#define CLONE_NEEDS_KNOWN                                                                          \
	(0xffULL | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_VFORK |               \
		CLONE_PARENT | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | \
		CLONE_CHILD_CLEARTID | CLONE_DETACHED | CLONE_UNTRACED | CLONE_CHILD_SETTID |      \
		CLONE_IO | CLONE_PIDFD | CLONE_CLEAR_SIGHAND)

enum { EMBRYO_MS = 20000 };

struct clone_req {
	uint64_t flags, stack, parent_tid, child_tid, tls, pidfd;
	int exit_signal;
};

/* Its parent's host process never made it, or died first. */
static void embryo_late(struct kernel *k, struct ktimer *timer)
{
	struct task *t = (struct task *)((char *)timer - offsetof(struct task, embryo_timer));

	if (t->embryo)
		embryo_end(t);
}

/* Will its children be in its own pid namespace? */
static bool pid_stays(const struct task *t)
{
	return ns_for_children(t, NS_PID) == ns_of(t, NS_PID);
}

static int check_flags(const struct task *t, const struct clone_req *q)
{
	uint64_t f = q->flags;

	if ((f & CLONE_NEWNS) && (f & CLONE_FS))
		return -EINVAL;
	if ((f & CLONE_NEWUSER) && (f & CLONE_FS))
		return -EINVAL;
	if ((f & CLONE_NEWIPC) && (f & CLONE_SYSVSEM))
		return -EINVAL;
	if ((f & CLONE_THREAD) && ((f & (CLONE_NEWUSER | CLONE_NEWPID)) || !pid_stays(t)))
		return -EINVAL;
	if ((f & CLONE_PARENT) && pid_is_init(t->proc))
		return -EINVAL;
	if (f & ~(CLONE_NEEDS_KNOWN | NS_FLAGS))
		return -EINVAL;
	if ((f & CLONE_SIGHAND) && !(f & CLONE_VM))
		return -EINVAL;
	if ((f & CLONE_THREAD) && !(f & CLONE_SIGHAND))
		return -EINVAL;
	if ((f & CLONE_CLEAR_SIGHAND) && (f & CLONE_SIGHAND))
		return -EINVAL;
	if ((f & CLONE_PIDFD) && (f & (CLONE_THREAD | CLONE_DETACHED)))
		return -EINVAL;
	return q->exit_signal < 0 || q->exit_signal > 64 ? -EINVAL : 0;
}

static int give_numbers(struct task *t, struct task *n, const struct clone_req *q)
{
	int r = 0;

	if (q->flags & CLONE_PARENT_SETTID)
		guest_write_u32(t, GVA(q->parent_tid), (uint32_t)task_nr(t, n));
	if (q->flags & CLONE_CHILD_SETTID)
		n->child_settid = q->child_tid;
	if (q->flags & CLONE_PIDFD) {
		r = pidfd_install(t, n->proc, 0);
		if (r >= 0 && guest_write_u32(t, GVA(q->pidfd), (uint32_t)r) < 0) {
			fd_close(t, r);
			r = -EFAULT;
		}
	}
	return r < 0 ? r : 0;
}

static long order_clone(struct task *t, struct task *n, const struct clone_req *q, uint64_t slot)
{
	struct {
		uint32_t order, more;
		struct shim_clone c;
	} o = { .order = ORDER_CLONE };

	o.c.flags = q->flags & HOST_FLAGS;
	if (!(q->flags & CLONE_THREAD))
		o.c.flags |= SIGCHLD;
	o.c.stack = q->stack;
	o.c.tls = q->tls;
	o.c.ctid = q->child_tid;
	o.c.slot = slot;
	o.c.token = n->token;
	o.c.tid = task_nr(t, n);
	o.c.wait = (q->flags & CLONE_VFORK) != 0;
	o.c.log = place_has_log(t) || t->mm->carry;
	if (!order_write(t, &o, sizeof(o)))
		return -EFAULT;
	t->call.ordered = true;
	return 0;
}

static int give_token(struct task *n)
{
	uint32_t secret;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return -EAGAIN;
	n->token = (uint64_t)secret << 32 | (uint32_t)n->tid;
	return 0;
}

static long clone_task(struct task *t, const struct clone_req *q)
{
	uint64_t slot = 0;
	uint32_t limit;
	struct task *n;
	long r = check_flags(t, q);
	int err;

	if (r < 0)
		return r;
	if (!t->host)
		return -ENOSYS;
	if (t->proc->limits[RLIMIT_NPROC].rlim_cur < t->k->task_count && !task_capable(t, 21))
		return -EAGAIN;
	limit = t->k->report->pids_limit;
	if (limit && t->k->task_count >= limit) {
		t->k->report->pids_refused++;
		return -EAGAIN;
	}
	if (!(q->flags & CLONE_THREAD) && !host_has_room(engine_of(t->k)))
		return -EAGAIN;
	place_signals_sync(t);
	place_signals_end(t);
	if ((q->flags & (CLONE_VM | CLONE_VFORK)) == CLONE_VM)
		place_many(t);
	if (q->flags & CLONE_FILES)
		place_fds_gone(t, -1);
	n = task_clone(t, q->flags, &err);
	if (!n)
		return err;
	n->embryo = true;
	if (!(q->flags & CLONE_THREAD))
		n->proc->exit_signal = q->exit_signal;
	n->exit_signal = q->exit_signal;
	if (q->flags & CLONE_CLEAR_SIGHAND)
		for (int i = 0; i < GSIG_MAX; i++)
			if (n->sighand->act[i].handler != GSIG_IGN)
				memset(&n->sighand->act[i], 0, sizeof(n->sighand->act[i]));
	if (q->flags & CLONE_CLEAR_SIGHAND)
		answers_signals(t->k); /* not as in the memory that it may share */
	n->proc->vfork_waits |= (q->flags & (CLONE_VFORK | CLONE_THREAD)) == CLONE_VFORK;
	r = give_token(n);
	if (r == 0 && (q->flags & CLONE_VM))
		r = shim_slot_alloc(t, &slot);
	if (r == 0)
		r = give_numbers(t, n, q);
	if (r == 0)
		r = order_clone(t, n, q, slot);
	if (r < 0) {
		if (slot)
			shim_slot_free(t->mm, slot);
		task_abandon(n);
		return r;
	}
	if (!(q->flags & CLONE_THREAD))
		blank_wanted(t);
	if (q->flags & NS_FLAGS)
		answers_all(t->k); /* it has its parent's memory, and sees other things */
	t->wait_child = n->tid;
	trace_cloned(t, n, q->flags);
	n->embryo_timer.fn = embryo_late;
	ktimer_set(t->k, &n->embryo_timer, kernel_now(t->k) + EMBRYO_MS * 1000000LL);
	return task_nr(t, n); /* the shim puts it there again, once the child exists */
}

SYSCALL0(fork)
{
	return clone_task(task, &(struct clone_req){ .exit_signal = SIGCHLD });
}

SYSCALL0(vfork)
{
	return clone_task(task,
		&(struct clone_req){ .flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD });
}

SYSCALL5(clone, uint64_t, flags, uint64_t, stack, uint64_t, ptid, uint64_t, ctid, uint64_t, tls)
{
	struct clone_req q = { .flags = flags & 0xffffff00,
		.stack = stack,
		.parent_tid = ptid,
		.child_tid = ctid,
		.tls = tls,
		.pidfd = ptid,
		.exit_signal = (int)(flags & 0xff) };

	if ((flags & CLONE_PIDFD) && (flags & CLONE_PARENT_SETTID))
		return -EINVAL;
	return clone_task(task, &q);
}

SYSCALL2(clone3, gva_t, uargs, uint64_t, size)
{
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
		uint64_t set_tid, set_tid_size, cgroup;
	} a = { 0 };
	struct clone_req q;
	int r;

	if (size < 64)
		return -EINVAL;
	if (size > 4096)
		return -E2BIG;
	for (uint64_t i = sizeof(a); i < size; i += 8) {
		uint64_t v = 0;

		if (guest_read(task, &v, gva_add(uargs, i), size - i < 8 ? size - i : 8) < 0)
			return -EFAULT;
		if (v)
			return -E2BIG;
	}
	r = guest_read(task, &a, uargs, size < sizeof(a) ? size : sizeof(a));
	if (r < 0)
		return r;
	if (a.set_tid_size || a.set_tid)
		return -EPERM;
	if ((a.flags & (CLONE_THREAD | CLONE_PARENT)) && a.exit_signal)
		return -EINVAL;
	if ((a.flags & (CLONE_DETACHED | (0xff & ~NS_TIME_FLAG))) ||
		(!a.stack) != (!a.stack_size) || a.exit_signal > 64)
		return -EINVAL;
	q = (struct clone_req){ .flags = a.flags,
		.stack = a.stack + a.stack_size,
		.parent_tid = a.parent_tid,
		.child_tid = a.child_tid,
		.tls = a.tls,
		.pidfd = a.pidfd,
		.exit_signal = (int)a.exit_signal };
	return clone_task(task, &q);
}

/* execve */

static long do_exec(struct task *t, int dirfd, gva_t upath, gva_t argv, gva_t envp, unsigned flags)
{
	struct exec *x = t->call.own;
	struct kernel *k = t->k;
	char path[GUEST_PATH_MAX];
	long r;

	if (!engine_of(k))
		return -ENOSYS; /* built from a walk, or a fake's: there is nothing to run it in */
	if (!x) {
		r = guest_copy_path(t, upath, path, sizeof(path));
		if (r < 0)
			return r;
		if (r == 0 && !(flags & AT_EMPTY_PATH))
			return -ENOENT;
		x = exec_create(k);
		if (!x)
			return -ENOMEM;
		t->call.own = x;
		t->call.own_free = exec_done;
		/* A name that is not there costs no words: shells and compilers try many. */
		r = vfs_open_exec(t, dirfd, path, flags, &x->file);
		if (r == 0)
			r = exec_words(t, argv, envp, x);
		if (r == 0)
			r = exec_look(t, x, dirfd, path);
		if (r == SYS_BLOCK) { /* somebody is asked: from the beginning then */
			t->call.own = NULL;
			exec_done(x);
		}
		if (r < 0)
			return r;
	}
	if (!engine_has_blank(k)) {
		struct engine *e = engine_of(k);

		if (e->fail) {
			r = e->fail;
			e->fail = 0;
			return r == -EAGAIN ? r : -ENOMEM;
		}
		if (!e->blank_asked)
			blank_ask(e);
		wait_on(t, &e->blank_queue, 0);
		return SYS_BLOCK;
	}
	return exec_go(t, x);
}

SYSCALL3(execve, gva_t, path, gva_t, argv, gva_t, envp)
{
	return do_exec(task, AT_FDCWD, path, argv, envp, 0);
}

SYSCALL5(execveat, int, dirfd, gva_t, path, gva_t, argv, gva_t, envp, unsigned, flags)
{
	if (flags & ~(unsigned)(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
		return -EINVAL;
	return do_exec(task, dirfd, path, argv, envp, flags);
}

/* The end */

SYSCALL1(exit, int, code)
{
	if (task->proc->task_count == 1) {
		proc_exit(task->proc, (code & 0xff) << 8);
		return 0;
	}
	task->k->engine->leave(task);
	task_exit(task, (code & 0xff) << 8);
	return 0;
}

SYSCALL1(exit_group, int, code)
{
	proc_exit(task->proc, (code & 0xff) << 8);
	return 0;
}

/* wait */

enum { BY_ANY, BY_PID, BY_PGRP };

struct wait_req {
	int kind;
	int32_t id;
	int options;
	int32_t maker; /* with __WNOTHREAD: its own children only */
};

static bool wanted(const struct wait_req *q, const struct proc *c)
{
	bool clone_child = c->exit_signal != SIGCHLD;

	if (!(q->options & __WALL) && clone_child != ((q->options & __WCLONE) != 0))
		return false;
	if ((q->options & __WNOTHREAD) && c->maker != q->maker)
		return false;
	return q->kind == BY_ANY || (q->kind == BY_PID && c->pid == q->id) ||
	       (q->kind == BY_PGRP && c->pgrp && c->pgrp->id == q->id);
}

/* One piece of news, of a child or of somebody whom the caller traces. */
struct news {
	int32_t id;
	int status;
	uint32_t uid;
	struct proc *child;
	struct trace *tracee;
};

static bool child_news(struct proc *p, const struct wait_req *q, struct news *n, bool *ret_any)
{
	for (struct proc *c = p->children; c; c = c->sibling) {
		bool ours = c->tasks->trace && c->tasks->trace->tracer == p;

		if (!wanted(q, c) || (c->state == PROC_ZOMBIE && !(q->options & WEXITED)))
			continue; /* who is dead has no other news */
		*ret_any = true;
		*n = (struct news){ .id = c->pid, .uid = c->tasks->cred->uid, .child = c };
		if (c->state == PROC_ZOMBIE && (q->options & WEXITED) &&
			!trace_is_before(p, c->pid)) {
			n->status = c->wait_status;
			return true;
		}
		if (c->stop_news && (q->options & WUNTRACED) && !ours) {
			n->status = c->stop_signal << 8 | 0x7f;
			return true;
		}
		if (c->cont_news && (q->options & WCONTINUED)) {
			n->status = 0xffff;
			return true;
		}
	}
	return false;
}

static bool tracee_news(struct proc *p, const struct wait_req *q, struct news *n, bool *ret_any)
{
	for (struct trace *tr = p->tracees; tr; tr = tr->next) {
		struct pgrp *g = tr->task ? tr->task->proc->pgrp : NULL;

		if (!(q->kind == BY_ANY || (q->kind == BY_PID && tr->tid == q->id) ||
			    (q->kind == BY_PGRP && g && g->id == q->id)))
			continue;
		*ret_any = true;
		if (!tr->news || (!tr->task && !(q->options & WEXITED)))
			continue;
		*n = (struct news){ .id = tr->tid,
			.uid = tr->task ? tr->task->cred->uid : 0,
			.status = tr->task ? tr->code << 8 | 0x7f : tr->code,
			.tracee = tr };
		return true;
	}
	return false;
}

static void seen(struct task *t, const struct news *n, const struct wait_req *q)
{
	struct proc *c = n->child;

	if (q->options & WNOWAIT)
		return;
	if (n->tracee) {
		trace_seen(n->tracee);
	} else if (c->state == PROC_ZOMBIE) {
		usage_add(&t->proc->children_usage, &c->own_usage);
		usage_add(&t->proc->children_usage, &c->children_usage);
		proc_reap(c);
	} else if (c->stop_news && (q->options & WUNTRACED)) {
		c->stop_news = false;
	} else {
		c->cont_news = false;
	}
}

/* 1: there are some; else what the call returns. */
static long find_news(struct task *t, const struct wait_req *q, struct news *n)
{
	bool any = false;

	if (tracee_news(t->proc, q, n, &any) || child_news(t->proc, q, n, &any))
		return 1;
	if (!any)
		return -ECHILD;
	if (q->options & WNOHANG)
		return 0;
	wait_on(t, &t->proc->child_queue, 0);
	return wait_block(t);
}

static struct rusage usage_told(const struct news *n)
{
	return n->child ? n->child->own_usage : (struct rusage){ .ru_maxrss = 0 };
}

SYSCALL4(wait4, int, pid, gva_t, ustatus, int, options, gva_t, urusage)
{
	struct wait_req q = { .kind = BY_PID, .options = options | WEXITED, .maker = task->tid };
	struct news n;
	struct rusage ru;
	long r, shown;

	if (options & ~(WNOHANG | WUNTRACED | WCONTINUED | (int)(__WALL | __WCLONE | __WNOTHREAD)))
		return -EINVAL;
	if (pid == INT32_MIN)
		return -ESRCH;
	if (pid == -1)
		q.kind = BY_ANY;
	else if (pid <= 0) {
		q.kind = BY_PGRP;
		q.id = pid ? pgrp_in(task, -pid) : task->proc->pgrp->id;
	} else {
		q.id = pid_in(task, pid);
	}
	r = find_news(task, &q, &n);
	if (r != 1)
		return r;
	ru = usage_told(&n);
	shown = pid_out(task, n.id);
	if (!gva_null(ustatus) && guest_write_u32(task, ustatus, (uint32_t)n.status) < 0)
		return -EFAULT;
	if (!gva_null(urusage) && guest_write(task, urusage, &ru, GUEST_RUSAGE_BYTES) < 0)
		return -EFAULT;
	seen(task, &n, &q);
	return shown;
}

static void fill_info(const struct task *t, union gsiginfo *si, const struct news *n)
{
	int status = n->status;

	memset(si, 0, sizeof(*si));
	si->signo = SIGCHLD;
	si->chld.pid = pid_out(t, n->id);
	si->chld.uid = uid_out(t, n->uid);
	if (status == 0xffff) {
		si->code = CLD_CONTINUED;
		si->chld.status = SIGCONT;
	} else if ((status & 0xff) == 0x7f) {
		si->code = n->tracee ? CLD_TRAPPED : CLD_STOPPED;
		si->chld.status = status >> 8;
	} else if (WIFEXITED(status)) {
		si->code = CLD_EXITED;
		si->chld.status = WEXITSTATUS(status);
	} else {
		si->code = status & 0x80 ? CLD_DUMPED : CLD_KILLED;
		si->chld.status = WTERMSIG(status);
	}
}

SYSCALL5(waitid, int, which, int, id, gva_t, uinfo, int, options, gva_t, urusage)
{
	struct wait_req q = { .id = id, .options = options, .maker = task->tid };
	union gsiginfo si = { 0 };
	struct news n;
	struct rusage ru;
	long r;

	if ((options & ~(WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED |
			       (int)(__WALL | __WCLONE | __WNOTHREAD))) ||
		!(options & (WEXITED | WSTOPPED | WCONTINUED)))
		return -EINVAL;
	switch (which) {
	case P_ALL:
		q.kind = BY_ANY;
		break;
	case P_PID:
		q.kind = BY_PID;
		if (id <= 0)
			return -EINVAL;
		q.id = pid_in(task, id);
		break;
	case P_PGID:
		q.kind = BY_PGRP;
		if (id < 0)
			return -EINVAL;
		q.id = id ? pgrp_in(task, id) : task->proc->pgrp->id;
		break;
	case 3: /* P_PIDFD */
		q.kind = BY_PID;
		q.id = pidfd_pid(task, id);
		if (q.id < 0)
			return q.id;
		if (pidfd_is_nonblocking(task, id))
			q.options |= WNOHANG;
		break;
	default:
		return -EINVAL;
	}
	r = find_news(task, &q, &n);
	if (r < 0)
		return r;
	if (r == 0 && !(options & WNOHANG))
		return -EAGAIN; /* the descriptor's own */
	if (r == 1) {
		fill_info(task, &si, &n);
		ru = usage_told(&n);
		if (!gva_null(urusage) && guest_write(task, urusage, &ru, GUEST_RUSAGE_BYTES) < 0)
			return -EFAULT;
		seen(task, &n, &q);
	}
	if (!gva_null(uinfo) && guest_write(task, uinfo, &si, sizeof(si)) < 0)
		return -EFAULT;
	return 0;
}
