/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/proc.c - tasks and processes: born, found, ended.
 *
 * Owns:  the process tree, the numbers.
 * Rules: under the kernel lock. A proc lives until it is reaped; its leader task as long as it.
 *        The host side (processes, threads) hears of an end through engine->kill only.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/io/timers.h"
#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/jail.h"
#include "tier/kernel/keys/key.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/mm/image.h"
#include "tier/kernel/mm/lock.h"
#include "tier/kernel/ns/ns.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/seccomp.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/sys/aio.h"
#include "tier/kernel/sys/memory.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/carry.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place.h"

enum { SPARES_MAX = 8 };

/* A process and its task come and go together: without this the allocator asks the host for their
 * page and gives it back each time. */
static void *spare_take(struct spare *s, size_t size)
{
	void *p = s->first;

	if (!p)
		return calloc(1, size);
	memcpy(&s->first, p, sizeof(s->first));
	s->count--;
	return memset(p, 0, size);
}

/* A sanitizer shall see that it is gone. */
static void spare_give(struct spare *s, void *p)
{
	if (SANITIZED || s->count == SPARES_MAX) {
		free(p);
		return;
	}
	memcpy(p, &s->first, sizeof(s->first));
	s->first = p;
	s->count++;
}

static void spare_done(struct spare *s)
{
	while (s->first) {
		void *p = s->first;

		memcpy(&s->first, p, sizeof(s->first));
		free(p);
	}
	s->count = 0;
}

static struct task **hash_slot(struct kernel *k, int32_t tid)
{
	return &k->tid_hash[(unsigned)tid % ARRAY_LEN(k->tid_hash)];
}

struct task *task_find(struct kernel *k, int32_t tid)
{
	struct task *t = *hash_slot(k, tid);

	while (t && t->tid != tid)
		t = t->hash_next;
	return t;
}

struct proc *proc_find(struct kernel *k, int32_t pid)
{
	struct task *t = task_find(k, pid);

	return t && t->proc->pid == pid ? t->proc : NULL;
}

static bool number_taken(struct kernel *k, int32_t n)
{
	if (task_find(k, n) || pgrp_find(k, n))
		return true;
	for (struct pgrp *g = k->pgrps; g; g = g->next)
		if (g->session->id == n)
			return true;
	return false;
}

int32_t tid_alloc(struct kernel *k)
{
	for (int32_t i = 0; i < GUEST_TASKS_MAX; i++) {
		/* Low numbers belong to those that were there first, as on Linux. */
		k->last_tid = k->last_tid >= GUEST_TASKS_MAX ? 300 : k->last_tid + 1;
		if (!number_taken(k, k->last_tid))
			return k->last_tid;
	}
	return -EAGAIN;
}

static void hash_add(struct task *t)
{
	struct task **slot = hash_slot(t->k, t->tid);

	t->hash_next = *slot;
	*slot = t;
	t->k->task_count++;
	if (t->k->report && t->k->task_count > t->k->report->tasks_peak)
		t->k->report->tasks_peak = t->k->task_count;
}

static void hash_remove(struct task *t)
{
	struct task **p = hash_slot(t->k, t->tid);

	while (*p && *p != t)
		p = &(*p)->hash_next;
	if (*p) {
		*p = t->hash_next;
		t->k->task_count--;
	}
}

struct mm *mm_ref(struct mm *mm)
{
	mm->refs++;
	return mm;
}

void mm_unref(struct mm *mm)
{
	if (!mm || --mm->refs)
		return;
	file_unref(mm->exe);
	free(mm->exe_path);
	free(mm->fake_base);
	mm_image_free(mm->image);
	free(mm->slots);
	mm_unlock_all(mm);
	aio_done(mm);
	free(mm->policies);
	place_free(mm->place);
	carry_drop(mm);
	free(mm);
}

enum { BORN_LOOK_NS = 2000000 };

long task_wait_born(struct task *t)
{
	t->call.deadline = kernel_now(t->k) + BORN_LOOK_NS;
	t->call.timed_out = false;
	return wait_block(t);
}

static struct mm *mm_copy(const struct mm *from)
{
	struct mm *mm = malloc(sizeof(*mm));

	if (!mm)
		return NULL;
	*mm = *from;
	mm->refs = 1;
	mm->host_pid = 0;
	mm->slots = NULL;
	mm->image = NULL;
	mm->slot_next = 0;
	mm->locks = NULL; /* a child's memory is not locked */
	mm->lock_count = 0;
	mm->lock_future = false;
	mm->aio = NULL;
	mm->policies = policies_copy(from);
	mm->place = place_copy(from->place);
	mm->carry = NULL; /* that is one process's */
	mm->carried = NULL;
	/* Without its books nobody could tell which of its sites are in use. */
	mm->place_off |= from->place && !mm->place;
	mm->exe_path = from->exe_path ? strdup(from->exe_path) : NULL;
	if (mm->exe)
		file_ref(mm->exe);
	return mm;
}

static struct sighand *sighand_copy(const struct sighand *from)
{
	struct sighand *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (from)
		*s = *from;
	s->refs = 1;
	return s;
}

void sighand_unref(struct sighand *s)
{
	if (s && --s->refs == 0)
		free(s);
}

/* Its callers may still stand on it: kernel_bury() frees it. */
static void task_free(struct task *t)
{
	ktimer_clear(t->k, &t->embryo_timer);
	later_end(t);
	t->state = TASK_DEAD;
	t->hash_next = t->k->grave;
	t->k->grave = t;
}

static void task_bury(struct task *t)
{
	t->k->engine->release(t);
	call_drop(t);
	sigpending_flush(t->k, &t->pending);
	files_unref(NULL, t->files);
	fs_ctx_unref(t->fs);
	sighand_unref(t->sighand);
	cred_unref(t->cred);
	ns_set_unref(t->ns);
	pid_nums_unref(t->nums);
	mm_unref(t->mm);
	seccomp_unref(t->filters);
	keys_task_gone(t);
	trace_task_free(t);
	spare_give(&t->k->spare_tasks, t);
}

/* Birth */

static void link_task(struct proc *p, struct task *t)
{
	struct task **last = &p->tasks;

	while (*last)
		last = &(*last)->next;
	*last = t;
	t->proc = p;
	p->task_count++;
}

static struct task *task_blank(struct kernel *k)
{
	struct task *t = spare_take(&k->spare_tasks, sizeof(*t));
	int32_t tid;

	if (!t)
		return NULL;
	tid = tid_alloc(k);
	if (tid < 0) {
		spare_give(&k->spare_tasks, t);
		return NULL;
	}
	t->k = k;
	t->tid = tid;
	t->start_ns = kernel_now(k);
	t->timer_slack_ns = t->timer_slack_default_ns = 50000;
	return t;
}

static struct proc *proc_blank(struct kernel *k, struct task *leader)
{
	struct proc *p = spare_take(&k->spare_procs, sizeof(*p));

	if (!p)
		return NULL;
	p->k = k;
	p->pid = leader->tid;
	p->start_ns = leader->start_ns;
	p->exit_signal = SIGCHLD;
	if (k->procs_last)
		k->procs_last->next = p;
	else
		k->procs = p;
	k->procs_last = p;
	link_task(p, leader);
	return p;
}

static void first_limits(struct proc *p)
{
	for (int i = 0; i < RLIM_NLIMITS; i++)
		p->limits[i] = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
	p->limits[RLIMIT_NOFILE] = (struct rlimit){ 1024, GUEST_FDS_MAX };
	p->limits[RLIMIT_STACK].rlim_cur = 8 << 20;
	p->limits[RLIMIT_CORE].rlim_cur = 0;
	p->limits[RLIMIT_NPROC] = (struct rlimit){ GUEST_TASKS_MAX, GUEST_TASKS_MAX };
	p->limits[RLIMIT_SIGPENDING] = (struct rlimit){ GUEST_SIGQUEUE_MAX, GUEST_SIGQUEUE_MAX };
	p->limits[RLIMIT_MEMLOCK] = (struct rlimit){ 8 << 20, 8 << 20 };
	p->limits[RLIMIT_MSGQUEUE] = (struct rlimit){ 819200, 819200 };
	p->limits[RLIMIT_NICE] = p->limits[RLIMIT_RTPRIO] = (struct rlimit){ 0, 0 };
}

struct task *proc_first(struct kernel *k, struct mm *mm)
{
	struct task *t = task_blank(k);
	struct session *s;
	struct pgrp *g;

	if (!t)
		return NULL;
	t->mm = mm;
	t->files = files_create();
	t->sighand = sighand_copy(NULL);
	t->cred = calloc(1, sizeof(*t->cred));
	s = session_create(t->tid);
	g = s ? pgrp_create(k, t->tid, s) : NULL;
	if (!t->files || !t->sighand || !t->cred || !g || !proc_blank(k, t)) {
		task_free(t);
		return NULL;
	}
	t->cred->refs = 1;
	t->cred->cap_effective = t->cred->cap_permitted = t->cred->cap_bounding = CAPS_ALL;
	first_limits(t->proc);
	pgrp_join(t->proc, g);
	hash_add(t);
	k->init = t->proc;
	return t;
}

static bool share(struct task *n, struct task *t, uint64_t flags)
{
	n->mm = flags & CLONE_VM ? mm_ref(t->mm) : mm_copy(t->mm);
	n->files = flags & CLONE_FILES ? files_ref(t->files) : files_copy(t->files);
	if (t->fs)
		n->fs = flags & CLONE_FS ? fs_ctx_ref(t->fs) : fs_ctx_copy(t->fs);
	if (flags & CLONE_SIGHAND) {
		n->sighand = t->sighand;
		n->sighand->refs++;
	} else {
		n->sighand = sighand_copy(t->sighand);
	}
	n->cred = cred_ref(t->cred);
	return n->mm && n->files && n->sighand && (n->fs || !t->fs);
}

static void inherit_proc(struct proc *p, const struct proc *from)
{
	memcpy(p->limits, from->limits, sizeof(p->limits));
	p->personality = from->personality;
	p->oom_score_adj = from->oom_score_adj;
	p->cmdline = from->cmdline_len ? malloc(from->cmdline_len) : NULL;
	if (p->cmdline) {
		memcpy(p->cmdline, from->cmdline, from->cmdline_len);
		p->cmdline_len = from->cmdline_len;
	}
}

struct task *task_clone(struct task *t, uint64_t flags, int *ret_err)
{
	struct kernel *k = t->k;
	struct task *n;
	struct proc *p;

	*ret_err = -EAGAIN;
	if (k->task_count >= GUEST_TASKS_MAX)
		return NULL;
	n = task_blank(k);
	if (!n)
		return NULL;
	memcpy(n->comm, t->comm, sizeof(n->comm));
	n->mask = t->mask;
	sched_inherit(n, t);
	n->timer_slack_ns = n->timer_slack_default_ns = t->timer_slack_ns;
	n->no_new_privs = t->no_new_privs;
	n->policy = t->policy;
	n->seccomp_strict = t->seccomp_strict;
	n->filters = seccomp_ref(t->filters);
	if (!(flags & CLONE_VM) || (flags & CLONE_VFORK))
		n->altstack = t->altstack;
	if (!share(n, t, flags)) {
		task_free(n);
		return NULL;
	}
	*ret_err = ns_inherit(n, t, flags);
	if (*ret_err < 0) {
		task_free(n);
		return NULL;
	}
	*ret_err = -EAGAIN;
	if (flags & CLONE_THREAD) {
		link_task(t->proc, n);
	} else {
		p = proc_blank(k, n);
		if (!p) {
			task_free(n);
			return NULL;
		}
		inherit_proc(p, t->proc);
		timers_cpu_limit(p);
		ipc_proc_forked(t->proc, p);
		p->parent = flags & CLONE_PARENT ? t->proc->parent : t->proc;
		if (!p->parent)
			p->parent = k->init;
		p->maker = flags & CLONE_PARENT ? t->proc->maker : t->tid;
		p->sibling = p->parent->children;
		p->parent->children = p;
		pgrp_join(p, t->proc->pgrp);
		pid_proc_born(p);
	}
	keys_task_born(n, t);
	hash_add(n);
	return n;
}

/* Death */

static void unlink_child(struct proc *p)
{
	struct proc **pp;

	if (!p->parent)
		return;
	for (pp = &p->parent->children; *pp && *pp != p; pp = &(*pp)->sibling)
		;
	if (*pp)
		*pp = p->sibling;
	p->parent = NULL;
}

static void unlink_proc(struct proc *p)
{
	struct proc **pp, *before = NULL;

	for (pp = &p->k->procs; *pp && *pp != p; pp = &(*pp)->next)
		before = *pp;
	if (!*pp)
		return;
	*pp = p->next;
	if (p->k->procs_last == p)
		p->k->procs_last = before;
}

void proc_reap(struct proc *p)
{
	pid_proc_reaped(p);
	timers_done(p);
	ipc_proc_gone(p);
	pidfds_reaped(p);
	keys_proc_gone(p);
	wait_flush(&p->signal_queue);
	wait_flush(&p->child_queue);
	wait_flush(&p->exit_queue);
	unlink_child(p);
	unlink_proc(p);
	pgrp_leave(p);
	sigpending_flush(p->k, &p->pending);
	while (p->tasks) {
		struct task *t = p->tasks;

		p->tasks = t->next;
		hash_remove(t);
		task_free(t);
	}
	p->next = p->k->proc_grave;
	p->k->proc_grave = p;
}

void kernel_bury(struct kernel *k)
{
	while (k->grave) {
		struct task *t = k->grave;

		k->grave = t->hash_next;
		task_bury(t);
	}
	while (k->proc_grave) {
		struct proc *p = k->proc_grave;

		k->proc_grave = p->next;
		trace_done(p);
		free(p->cmdline);
		spare_give(&k->spare_procs, p);
	}
}

static struct proc *new_parent(struct proc *dead)
{
	for (struct proc *p = dead->parent; p; p = p->parent)
		if (p->subreaper && p->state == PROC_LIVE && !p->exiting &&
			pid_ns_of(p->tasks) == pid_ns_of(dead->tasks))
			return p;
	return pid_reaper(dead);
}

static void tell_parent(struct proc *p);

static int32_t live_thread(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->state == TASK_DEAD)
		t = t->next;
	return t ? t->tid : p->pid;
}

static void tell_orphan(struct proc *c)
{
	int sig = c->tasks->pdeath_signal;

	if (sig && c->state == PROC_LIVE)
		signal_send_proc(c, sig, NULL);
}

/* A thread ends, and not the last one: its children are another thread's. */
static void pass_children_on(const struct proc *p, int32_t from)
{
	int32_t to = live_thread(p);

	for (struct proc *c = p->children, *next; c; c = next) {
		next = c->sibling;
		if (c->maker != from)
			continue;
		c->maker = to;
		tell_orphan(c);
	}
}

static void reparent(struct proc *dead)
{
	struct proc *to = new_parent(dead), *c;

	while ((c = dead->children)) {
		struct pgrp *g = c->pgrp;

		dead->children = c->sibling;
		c->parent = to;
		c->sibling = to->children;
		to->children = c;
		c->maker = live_thread(to);
		c->exit_signal = SIGCHLD;
		tell_orphan(c);
		if (c->state == PROC_ZOMBIE)
			tell_parent(c);
		else if (c->stop_signal && pgrp_is_orphaned(g)) {
			signal_send_proc(c, SIGHUP, NULL);
			signal_send_proc(c, SIGCONT, NULL);
		}
	}
}

static void chld_info(struct proc *p, union gsiginfo *si)
{
	int st = p->wait_status;

	memset(si, 0, sizeof(*si));
	si->signo = SIGCHLD;
	si->code = WIFEXITED(st) ? CLD_EXITED : st & 0x80 ? CLD_DUMPED : CLD_KILLED;
	si->chld.pid = p->pid;
	si->chld.uid = p->tasks->cred->uid;
	si->chld.status = WIFEXITED(st) ? WEXITSTATUS(st) : WTERMSIG(st);
}

/* A zombie's parent hears of it; one that does not care never sees it. */
static void tell_parent(struct proc *p)
{
	struct proc *parent = p->parent;
	struct gsigaction *act;
	union gsiginfo si;

	if (!parent)
		return;
	act = &parent->tasks->sighand->act[SIGCHLD - 1];
	if (p->exit_signal == SIGCHLD &&
		(act->handler == GSIG_IGN || (act->flags & SA_NOCLDWAIT))) {
		wait_wake(&parent->child_queue, 0);
		if (act->handler != GSIG_IGN) {
			chld_info(p, &si);
			signal_send_proc(parent, SIGCHLD, &si);
		}
		proc_reap(p);
		return;
	}
	chld_info(p, &si);
	si.signo = p->exit_signal;
	if (p->exit_signal)
		signal_send_proc(parent, p->exit_signal, &si);
	wait_wake(&parent->child_queue, 0);
}

static void drop_shares(struct task *t)
{
	later_end(t);
	files_unref(t, t->files);
	t->files = NULL;
	fs_ctx_unref(t->fs);
	t->fs = NULL;
	ns_set_unref(t->ns);
	t->ns = NULL;
	keys_task_gone(t);
}

static void proc_ended(struct proc *p)
{
	struct kernel *k = p->k;

	pid_proc_ends(p);
	timers_done(p);
	ipc_proc_gone(p);
	keys_proc_gone(p);
	tty_leader_gone(p);
	p->state = PROC_ZOMBIE;
	sigpending_flush(k, &p->pending);
	k->engine->kill(p);
	if (p->vfork_waits)
		answers_signals(p->k); /* the memory that was lent has its owner's again */
	p->vfork_waits = false;
	wait_wake(&p->exit_queue, 0);
	trace_proc_ended(p);
	if (p == k->init) {
		k->over = true;
		k->over_status = p->wait_status;
		return;
	}
	reparent(p);
	tell_parent(p);
}

/* What is left of a task that is not its process's leader is nothing. */
static void task_gone(struct task *t)
{
	struct task **pp = &t->proc->tasks->next;

	if (t == t->proc->tasks)
		return;
	while (*pp != t)
		pp = &(*pp)->next;
	*pp = t->next;
	hash_remove(t);
	task_free(t);
}

static void k_release(struct task *t)
{
	ktimer_clear(t->k, &t->embryo_timer);
	t->k->engine->release(t);
}

static void unready(struct task *t)
{
	struct kernel *k = t->k;
	struct task **pp = &k->ready, *last = NULL;

	if (!t->call.ready)
		return;
	while (*pp && *pp != t) {
		last = *pp;
		pp = &(*pp)->call.ready_next;
	}
	if (!*pp)
		return;
	*pp = t->call.ready_next;
	if (k->ready_last == t)
		k->ready_last = last;
	if (!k->ready)
		k->ready_last = NULL;
	t->call.ready = false;
}

void task_exit(struct task *t, int status)
{
	struct proc *p = t->proc;

	if (t->state == TASK_DEAD)
		return;
	robust_release(t);
	unready(t);
	call_drop(t);
	t->state = TASK_DEAD;
	k_release(t);
	drop_shares(t);
	trace_task_gone(t, status);
	p->task_count--;
	if (p->task_count == 0) {
		p->wait_status = p->exiting ? p->wait_status : status;
		p->exiting = true;
		task_gone(t);
		proc_ended(p);
	} else {
		if (!p->exiting)
			pass_children_on(p, t->tid);
		task_gone(t);
	}
}

void task_abandon(struct task *t)
{
	struct proc *p = t->proc;

	t->state = TASK_DEAD;
	p->task_count--;
	if (p->task_count == 0)
		proc_reap(p);
	else
		task_gone(t);
}

void embryo_end(struct task *t)
{
	if (t->proc->task_count == 1)
		proc_exit(t->proc, SIGKILL);
	else
		task_exit(t, SIGKILL);
}

void proc_exit(struct proc *p, int status)
{
	struct task *next;

	if (p->state == PROC_ZOMBIE || p->exiting)
		return;
	p->exiting = true;
	p->wait_status = status;
	answers_who(p->k); /* its children get another parent */
	for (struct task *t = p->tasks; t; t = next) {
		next = t->next;
		if (p->task_count == 1 && t->state != TASK_DEAD) {
			task_exit(t, status); /* @p may be gone after this */
			return;
		}
		task_exit(t, status);
	}
}

void proc_execed(struct task *t)
{
	struct proc *p = t->proc;
	struct task *old = p->tasks, *next;

	for (struct task *o = p->tasks; o; o = next) {
		next = o->next;
		if (o == t || o->state == TASK_DEAD)
			continue;
		robust_release(o);
		unready(o);
		call_drop(o);
		o->state = TASK_DEAD;
		k_release(o);
		drop_shares(o);
		trace_task_free(o);
		p->task_count--;
		if (o != old)
			task_gone(o);
	}
	if (old != t) { /* the leader's number goes to whoever called execve */
		struct task **pp = &old->next;

		while (*pp != t)
			pp = &(*pp)->next;
		*pp = t->next;
		t->next = old->next;
		p->tasks = t;
		hash_remove(old);
		hash_remove(t);
		t->tid = old->tid;
		pid_nums_unref(t->nums);
		t->nums = pid_nums_ref(old->nums);
		hash_add(t);
		task_free(old);
	}
	for (struct proc *c = p->children; c; c = c->sibling)
		c->maker = t->tid;
	if (t->sighand->refs > 1) {
		struct sighand *own = sighand_copy(t->sighand);

		if (own) {
			sighand_unref(t->sighand);
			t->sighand = own;
		}
	}
	for (int i = 0; i < GSIG_MAX; i++) {
		struct gsigaction *a = &t->sighand->act[i];

		*a = (struct gsigaction){ .handler = a->handler == GSIG_IGN ? GSIG_IGN : GSIG_DFL };
	}
	memset(&t->altstack, 0, sizeof(t->altstack));
	t->clear_tid = t->robust_list = 0;
	timers_execed(p);
	keys_execed(t);
	if (p->k->ipc)
		shm_proc_gone(p);
	p->execed = true;
	if (p->vfork_waits)
		answers_signals(p->k); /* the memory that was lent has its owner's again */
	p->vfork_waits = false;
	wait_wake(&p->exit_queue, 0);
}

void procs_done(struct kernel *k)
{
	k->ready = NULL;
	k->ready_last = NULL;
	while (k->procs) {
		struct proc *p = k->procs;

		p->parent = NULL;
		for (struct task *t = p->tasks; t; t = t->next)
			call_drop(t);
		proc_reap(p);
	}
	kernel_bury(k);
	spare_done(&k->spare_tasks);
	spare_done(&k->spare_procs);
}

void proc_stop(struct proc *p, int sig)
{
	union gsiginfo si = { .signo = SIGCHLD, .code = CLD_STOPPED };
	struct gsigaction *act;

	if (p->stop_signal || p->state != PROC_LIVE)
		return;
	p->stop_signal = sig;
	p->stop_news = true;
	p->cont_news = false;
	for (struct task *t = p->tasks; t; t = t->next)
		if (t->state != TASK_DEAD)
			p->k->engine->kick(t);
	if (!p->parent)
		return;
	act = &p->parent->tasks->sighand->act[SIGCHLD - 1];
	si.chld.pid = p->pid;
	si.chld.uid = p->tasks->cred->uid;
	si.chld.status = sig;
	if (!(act->flags & SA_NOCLDSTOP))
		signal_send_proc(p->parent, SIGCHLD, &si);
	wait_wake(&p->parent->child_queue, 0);
}

void proc_continue(struct proc *p)
{
	union gsiginfo si = { .signo = SIGCHLD, .code = CLD_CONTINUED };
	struct gsigaction *act;

	if (!p->stop_signal)
		return;
	p->stop_signal = 0;
	p->stop_news = false;
	p->cont_news = true;
	trace_continued(p);
	wait_wake(&p->stop_queue, 0);
	if (!p->parent)
		return;
	act = &p->parent->tasks->sighand->act[SIGCHLD - 1];
	si.chld.pid = p->pid;
	si.chld.uid = p->tasks->cred->uid;
	si.chld.status = SIGCONT;
	if (!(act->flags & SA_NOCLDSTOP))
		signal_send_proc(p->parent, SIGCHLD, &si);
	wait_wake(&p->parent->child_queue, 0);
}
