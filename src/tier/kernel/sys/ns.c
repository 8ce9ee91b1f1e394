/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/ns.c - unshare and setns.
 *
 * Owns:  nothing.
 * Rules: see sys/sys.h. Errors in the order in which Linux finds them.
 */
#include <sched.h>

#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/ns/ns.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/vfs/vfs.h"

/* Is a number in use that a table of its own would not have? Tables grow by whole words. */
static bool is_crowded(const struct task *t)
{
	uint64_t most = knob_value(t->k, "sys/fs/nr_open");

	for (uint64_t fd = (most + 63) / 64 * 64; fd < t->files->cap; fd++)
		if (t->files->slots[fd].file)
			return true;
	return false;
}

static long unshare_tables(struct task *t, uint64_t flags)
{
	struct files *files = NULL;
	struct fs_ctx *fs = NULL;

	if ((flags & CLONE_FILES) && t->files->refs > 1) {
		if (is_crowded(t))
			return -EMFILE;
		files = files_copy(t->files);
		if (!files)
			return -ENOMEM;
	}
	if ((flags & CLONE_FS) && t->fs && t->fs->refs > 1) {
		fs = fs_ctx_copy(t->fs);
		if (!fs) {
			files_unref(NULL, files);
			return -ENOMEM;
		}
		fs_ctx_unref(t->fs);
		t->fs = fs;
	}
	if (files) {
		files_unref(t, t->files);
		t->files = files;
	}
	return 0;
}

SYSCALL1(unshare, uint64_t, flags)
{
	const uint64_t own = CLONE_FILES | CLONE_FS | CLONE_SYSVSEM;
	const uint64_t alone = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
	long r;

	if (flags & ~(NS_FLAGS | own | alone))
		return -EINVAL;
	if (flags & CLONE_NEWUSER)
		flags |= CLONE_THREAD | CLONE_FS;
	if (flags & CLONE_NEWNS)
		flags |= CLONE_FS;
	if ((flags & alone) && task->proc->task_count > 1)
		return -EINVAL;
	r = unshare_tables(task, flags);
	if (r == 0 && (flags & NS_FLAGS))
		r = ns_unshare(task, flags);
	if (r == 0 && (flags & (CLONE_NEWIPC | CLONE_SYSVSEM)) && task->k->ipc)
		sem_proc_gone(task->proc);
	return r;
}

static long enter_pidfd(struct task *t, int fd, uint64_t flags)
{
	int32_t pid = pidfd_pid(t, fd);
	struct proc *p;

	if (pid == -EBADF)
		return -EINVAL; /* a descriptor, but neither kind */
	if (!flags || (flags & ~NS_FLAGS))
		return -EINVAL;
	p = pid > 0 ? proc_find(t->k, pid) : NULL;
	if (!p || p->state != PROC_LIVE)
		return -ESRCH;
	if (!task_may_trace(t, proc_leader(p)))
		return -EPERM;
	return ns_enter_all(t, proc_leader(p), flags);
}

SYSCALL2(setns, int, fd, int, type)
{
	struct file *f = fd_get(task, fd);
	enum ns_kind kind;
	struct ns *n;

	if (!f)
		return -EBADF;
	if (!nsfs_file(f, &kind, &n))
		return enter_pidfd(task, fd, (uint32_t)type);
	if (type && ns_flag(kind) != (uint32_t)type)
		return -EINVAL;
	return ns_enter(task, kind, n);
}
