/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/pidfd.c - a process as a descriptor.
 *
 * Owns:  struct pidfd.
 * Rules: holds a number and the process's birth, not the process: one that has been reaped is gone.
 *        Until then it is on proc.pidfds, so that it learns how that ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <poll.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/str.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/walk.h"

struct pidfd {
	int32_t pid;
	int64_t born;
	struct pid_nums *nums; /* reference: where it has, or had, which number */
	bool reaped;
	int32_t status;       /* wait(2)'s, once it is reaped */
	struct pidfd *next;   /* of the process */
	struct pidfd **place; /* where it hangs; NULL: nowhere */
};

enum {
	INFO_NR = 11,
	INFO_SIZE_MIN = 64,
	INFO_PID = 1,
	INFO_CREDS = 2,
	INFO_CGROUP = 4,
	INFO_EXIT = 8,
	INFO_COREDUMP = 16,
	CORE_SKIPPED = 2, /* of coredump_mask: it would not be dumped */
	CORE_USER = 4,
};

struct info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid;
	uint32_t ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
	uint32_t core_mask, spare;
};
_Static_assert(sizeof(struct info) == 72, "as Linux has it");

static void hang_on(struct pidfd *d, struct proc *p)
{
	d->next = p->pidfds;
	d->place = &p->pidfds;
	if (d->next)
		d->next->place = &d->next;
	p->pidfds = d;
}

static void take_off(struct pidfd *d)
{
	if (!d->place)
		return;
	*d->place = d->next;
	if (d->next)
		d->next->place = d->place;
	d->place = NULL;
}

void pidfds_reaped(struct proc *p)
{
	while (p->pidfds) {
		struct pidfd *d = p->pidfds;

		d->reaped = true;
		d->status = p->wait_status;
		take_off(d);
	}
}

static struct proc *proc_of(struct file *f)
{
	struct pidfd *d = f->priv;
	struct proc *p = proc_find(f->k, d->pid);

	return p && p->start_ns == d->born ? p : NULL;
}

static unsigned pidfd_poll(struct file *f, struct poll_reg *reg)
{
	struct proc *p = proc_of(f);

	if (!p)
		return POLLIN | POLLHUP;
	poll_wait(reg, &p->exit_queue);
	return p->state == PROC_ZOMBIE ? POLLIN : 0;
}

static void put_live(
	const struct task *viewer, struct proc *p, const struct info *asked, struct info *ret)
{
	const struct task *t = proc_leader(p);
	const struct cred *c = t->cred;

	ret->mask |= INFO_PID | INFO_CREDS | INFO_CGROUP;
	ret->cgroup = 1; /* there is one, the root */
	ret->pid = ret->tgid = (uint32_t)proc_nr(viewer, p);
	ret->ppid = p->parent ? (uint32_t)proc_nr(viewer, p->parent) : 0;
	ret->ruid = uid_out(viewer, c->uid);
	ret->rgid = gid_out(viewer, c->gid);
	ret->euid = uid_out(viewer, c->euid);
	ret->egid = gid_out(viewer, c->egid);
	ret->suid = uid_out(viewer, c->suid);
	ret->sgid = gid_out(viewer, c->sgid);
	ret->fsuid = uid_out(viewer, c->fsuid);
	ret->fsgid = gid_out(viewer, c->fsgid);
	if ((asked->mask & INFO_COREDUMP) && t->mm) {
		ret->mask |= INFO_COREDUMP;
		ret->core_mask = t->mm->dumpable ? CORE_USER : CORE_SKIPPED;
	}
}

/* PIDFD_GET_INFO: as much of it as the caller knows of. */
static long get_info(struct file *f, struct task *t, gva_t uinfo, size_t size)
{
	static const char zeroes[256];
	struct info asked = { 0 }, info = { 0 };
	struct pidfd *d = f->priv;
	struct proc *p = proc_of(f);
	size_t known = size < sizeof(info) ? size : sizeof(info);

	if (gva_null(uinfo))
		return -EINVAL;
	if (!pid_shown(pid_ns_of(t), d->pid, d->nums))
		return -ESRCH; /* nobody where the caller is */
	if (guest_read_u64(t, uinfo, &asked.mask) < 0)
		return -EFAULT;
	if ((asked.mask & INFO_EXIT) && d->reaped) {
		info.mask |= INFO_EXIT;
		info.exit_code = d->status;
	}
	if (p)
		put_live(t, p, &asked, &info);
	else if (!(asked.mask & INFO_EXIT))
		return -ESRCH;
	if (guest_write(t, uinfo, &info, known) < 0)
		return -EFAULT;
	for (size_t at = known; at < size; at += sizeof(zeroes)) {
		size_t n = size - at < sizeof(zeroes) ? size - at : sizeof(zeroes);

		if (guest_write(t, gva_add(uinfo, at), zeroes, n) < 0)
			return -EFAULT;
	}
	return 0;
}

static long pidfd_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	if (_IOC_TYPE(cmd) != 0xff || _IOC_NR(cmd) != INFO_NR ||
		_IOC_DIR(cmd) != (_IOC_READ | _IOC_WRITE) || _IOC_SIZE(cmd) < INFO_SIZE_MIN)
		return -ENOTTY;
	return get_info(f, t, GVA(arg), _IOC_SIZE(cmd));
}

static void pidfd_release(struct file *f)
{
	struct pidfd *d = f->priv;

	take_off(d);
	pid_nums_unref(d->nums);
	free(d);
}

static int pidfd_show(struct file *f, char *buf, size_t cap)
{
	return str_copy(buf, cap, "anon_inode:[pidfd]");
}

void pidfd_show_who(struct file *f, const struct task *viewer, struct buf *out)
{
	const struct proc *p = f->ops == &pidfd_ops ? proc_of(f) : NULL;
	int pid = !p ? -1 : viewer ? proc_nr(viewer, p) : p->pid;

	if (f->ops == &pidfd_ops)
		buf_add_fmt(out, "Pid:\t%d\nNSpid:\t%d\n", pid, pid);
}

static void pidfd_walk(struct file *f, struct walk *w)
{
	struct pidfd *d = f->priv;

	if (!d)
		d = f->priv = calloc(1, sizeof(*d));
	if (!d) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_i32(w, "pid", &d->pid);
	walk_past(w, "born", &d->born);
	walk_bool(w, "reaped", &d->reaped);
	walk_i32(w, "status", &d->status);
	pid_nums_walk(&d->nums, w);
	if (w->mode == WALK_LOAD && !d->place && proc_of(f))
		hang_on(d, proc_of(f));
}

const struct file_ops pidfd_ops = {
	.name = "pidfd",
	.flags = FILE_STREAM,
	.poll = pidfd_poll,
	.ioctl = pidfd_ioctl,
	.release = pidfd_release,
	.show = pidfd_show,
	.walk = pidfd_walk,
};

int pidfd_install(struct task *t, struct proc *p, unsigned flags)
{
	struct pidfd *d = calloc(1, sizeof(*d));
	struct inode *i = inode_anon(t->k, 0600);
	struct file *f = d && i ? file_create(t->k, &pidfd_ops, 2 | flags, i, d) : NULL;
	int fd;

	if (!f) {
		free(d);
		inode_unref(i);
		return -ENOMEM;
	}
	d->pid = p->pid;
	d->born = p->start_ns;
	d->nums = pid_nums_ref(p->tasks->nums);
	hang_on(d, p);
	fd = fd_install(t, f, true, 0);
	if (fd < 0)
		file_unref(f);
	return fd;
}

int32_t pidfd_pid(struct task *t, int fd)
{
	struct file *f = fd_get(t, fd);
	struct proc *p;

	if (!f || f->ops != &pidfd_ops)
		return -EBADF;
	p = proc_of(f);
	return p ? p->pid : -ESRCH;
}

int32_t pidfd_signal_pid(struct task *t, int fd)
{
	struct file *f = fd_get(t, fd);
	int32_t pid = f ? proc_dir_pid(f) : 0;

	return pid ? pid : pidfd_pid(t, fd);
}

bool pidfd_is_nonblocking(struct task *t, int fd)
{
	struct file *f = fd_get(t, fd);

	return f && (f->flags & O_NONBLOCK);
}
