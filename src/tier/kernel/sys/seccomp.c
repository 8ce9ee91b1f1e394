/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/seccomp.c - seccomp(2), and prctl's way to it.
 *
 * Owns:  nothing.
 * Rules: see task/seccomp.h for what a filter inside sees.
 */
#include <errno.h>
#include <stdlib.h>
#include <linux/capability.h>
#include <linux/seccomp.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/listener.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/seccomp.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

enum {
	FLAG_WAIT_KILLABLE = 1 << 5, /* newer than some headers */
	FLAGS_OK = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG |
		   SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_NEW_LISTENER |
		   SECCOMP_FILTER_FLAG_TSYNC_ESRCH | FLAG_WAIT_KILLABLE
};

/* Do these go together? A value cannot be a thread and a descriptor. */
static bool flags_fit(unsigned flags)
{
	const unsigned both = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_NEW_LISTENER;

	if (flags & ~(unsigned)FLAGS_OK)
		return false;
	if ((flags & both) == both && !(flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH))
		return false;
	return !(flags & FLAG_WAIT_KILLABLE) || (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

static bool has_listener(const struct seccomp_filter *f)
{
	while (f && !f->listener)
		f = f->prev;
	return f;
}

/* For the newest filter, which is @task's own yet: its descriptor. */
static long add_listener(struct task *task)
{
	struct file *f;
	struct listener *l = listener_create(task->k, &f);
	long fd;

	if (!l)
		return -ENOMEM;
	fd = fd_install(task, f, true, 0);
	if (fd < 0)
		file_unref(f);
	else
		task->filters->listener = listener_ref(l);
	return fd;
}

/* Takes the newest filter off again. */
static void undo(struct task *task)
{
	struct seccomp_filter *f = task->filters;

	task->filters = seccomp_ref(f->prev);
	seccomp_unref(f);
}

static bool is_ancestor(const struct seccomp_filter *old, const struct seccomp_filter *f)
{
	while (f && f != old)
		f = f->prev;
	return f == old;
}

/* The thread that has filters of its own, or 0. */
static int32_t stranger(const struct task *task)
{
	for (struct task *t = task->proc->tasks; t; t = t->next)
		if (t != task && t->state != TASK_DEAD &&
			(t->seccomp_strict || !is_ancestor(t->filters, task->filters)))
			return task_nr(task, t);
	return 0;
}

static void sync_threads(struct task *task)
{
	for (struct task *t = task->proc->tasks; t; t = t->next) {
		if (t == task || t->state == TASK_DEAD)
			continue;
		seccomp_unref(t->filters);
		t->filters = seccomp_ref(task->filters);
		t->no_new_privs |= task->no_new_privs;
	}
}

long seccomp_set_strict(struct task *task)
{
	if (task->filters)
		return -EINVAL;
	task->seccomp_strict = true;
	place_shut(task);
	return 0;
}

long seccomp_set_filter(struct task *task, unsigned flags, gva_t uprog)
{
	struct {
		uint16_t len, pad[3];
		uint64_t code;
	} prog;
	struct sock_filter *code;
	int32_t other;
	long r;

	if (task->seccomp_strict || !flags_fit(flags))
		return -EINVAL;
	if (guest_read(task, &prog, uprog, sizeof(prog)) < 0)
		return -EFAULT;
	if (!prog.len || prog.len > GUEST_BPF_MAX)
		return -EINVAL;
	if (!task->no_new_privs && !task_capable_own(task, CAP_SYS_ADMIN))
		return -EACCES;
	if ((flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) && has_listener(task->filters))
		return -EBUSY;
	other = flags & SECCOMP_FILTER_FLAG_TSYNC ? stranger(task) : 0;
	if (other)
		return flags & SECCOMP_FILTER_FLAG_TSYNC_ESRCH ? -ESRCH : other;
	code = calloc(prog.len, sizeof(*code));
	if (!code)
		return -ENOMEM;
	r = guest_read(task, code, GVA(prog.code), prog.len * sizeof(*code));
	if (r == 0)
		r = seccomp_add(task->filters, code, prog.len, &task->filters);
	free(code);
	if (r < 0)
		return r;
	if (flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) {
		r = add_listener(task);
		if (r < 0) {
			undo(task);
			return r;
		}
	}
	place_shut(task);
	if (flags & SECCOMP_FILTER_FLAG_TSYNC)
		sync_threads(task);
	return r;
}

static long action_known(struct task *task, gva_t uaction)
{
	uint32_t action;

	if (guest_read_u32(task, uaction, &action) < 0)
		return -EFAULT;
	switch (action) {
	case SECCOMP_RET_KILL_PROCESS:
	case SECCOMP_RET_KILL_THREAD:
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_USER_NOTIF:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_ALLOW:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

/* Of a question, of an answer, of what a filter sees. */
static long notif_sizes(struct task *task, gva_t at)
{
	const uint16_t sizes[] = { 80, 24, 64 };

	return guest_write(task, at, sizes, sizeof(sizes));
}

SYSCALL3(seccomp, unsigned, op, unsigned, flags, gva_t, args)
{
	switch (op) {
	case SECCOMP_SET_MODE_STRICT:
		return flags || !gva_null(args) ? -EINVAL : seccomp_set_strict(task);
	case SECCOMP_SET_MODE_FILTER:
		return seccomp_set_filter(task, flags, args);
	case SECCOMP_GET_NOTIF_SIZES:
		return flags ? -EINVAL : notif_sizes(task, args);
	case SECCOMP_GET_ACTION_AVAIL:
		return flags ? -EINVAL : action_known(task, args);
	default:
		return -EINVAL;
	}
}
