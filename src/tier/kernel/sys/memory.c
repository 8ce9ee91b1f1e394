/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/memory.c - what the filter does not let through of the memory calls.
 *
 * Owns:  nothing.
 * Rules: anonymous memory never arrives here. A file's mapping goes on natively with our descriptor
 *        put at the guest's own number: the arguments are registers, so nobody can change them. The
 *        host's open mode is what stops a writable shared mapping.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/fs/mapnames.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/mm/lock.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/memory.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

enum { PAGE = 4096 };

long memory_run(struct task *t, const struct shim_step *steps, unsigned count)
{
	struct slot s;

	if (!t->host)
		return -ENODEV;
	memset(&s, 0, sizeof(s));
	s.order = ORDER_RUN;
	s.step_count = count;
	memcpy(s.steps, steps, count * sizeof(steps[0]));
	if (!order_write(t, &s, sizeof(s)))
		return -EFAULT;
	t->call.ordered = true;
	return 0;
}

/* By an order, when the host must get other arguments than the guest gave. */
static long run_native(struct task *t, int64_t nr, const uint64_t a[6])
{
	return memory_run(t, &(struct shim_step){ nr, { a[0], a[1], a[2], a[3], a[4], a[5] } }, 1);
}

/* Locking: the books are ours, and pages are brought in as Linux would. */

enum {
	ADVICE_POPULATE_READ = 22,
	ADVICE_POPULATE_WRITE = 23,
	MCL_ONFAULT_ = 4,
	MCL_ALL = MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT_,
	LOCK_ON_FAULT = 1,
	MAP_FIXED_NOREPLACE_ = 0x100000,
};

/* Does [from, to) have holes, and can all of it be read? */
struct cover {
	uint64_t from, to;
	bool unreadable, unwritable, hidden;
};

static int cover_one(void *arg, const struct proc_range *r)
{
	struct cover *c = arg;

	if (r->to <= c->from)
		return 0;
	if (r->from > c->from)
		return -ENOMEM;
	c->unreadable |= !r->readable;
	c->unwritable |= !r->writable;
	c->hidden |= !r->readable && !r->writable;
	c->from = r->to;
	return c->from >= c->to;
}

static int range_of(uint64_t addr, uint64_t len, uint64_t *from, uint64_t *to)
{
	*from = addr & ~(uint64_t)(PAGE - 1);
	if (ckd_add(to, addr, len) || ckd_add(to, *to, (uint64_t)PAGE - 1))
		return -EINVAL;
	*to &= ~(uint64_t)(PAGE - 1);
	return *to < *from ? -EINVAL : 0;
}

static int may_lock(struct task *t, uint64_t more)
{
	uint64_t limit = t->proc->limits[RLIMIT_MEMLOCK].rlim_cur;

	if (task_capable(t, CAP_IPC_LOCK))
		return 0;
	if (!limit)
		return -EPERM;
	return proc_host_locked(t) + more > limit ? -ENOMEM : 0;
}

/* What was unmapped is forgotten when the books are full. */
struct pruned {
	const struct mm *old;
	struct mm kept;
};

static int keep_one(void *arg, const struct proc_range *r)
{
	struct pruned *p = arg;
	int e = 0;

	for (unsigned i = 0; i < p->old->lock_count && e == 0; i++) {
		const struct mm_range *l = &p->old->locks[i];
		uint64_t a = l->from > r->from ? l->from : r->from;
		uint64_t b = l->to < r->to ? l->to : r->to;

		if (a < b)
			e = mm_lock(&p->kept, a, b);
	}
	return e;
}

static int lock_book(struct task *t, uint64_t from, uint64_t to)
{
	struct pruned p = { .old = t->mm };

	if (t->mm->lock_count < MM_LOCKS_MAX)
		return mm_lock(t->mm, from, to);
	if (proc_host_each(t, keep_one, &p) < 0) {
		mm_unlock_all(&p.kept);
		return -ENOMEM;
	}
	free(t->mm->locks);
	t->mm->locks = p.kept.locks;
	t->mm->lock_count = p.kept.lock_count;
	return mm_lock(t->mm, from, to);
}

static long lock_range(struct task *t, uint64_t addr, uint64_t len, bool populate)
{
	struct cover c = { 0 };
	uint64_t from, to;
	int r = range_of(addr, len, &from, &to);

	if (r == 0)
		r = may_lock(t, to - from - mm_locked(t->mm, from, to));
	if (r < 0 || from == to)
		return r;
	c.from = from;
	c.to = to;
	if (proc_host_each(t, cover_one, &c) != 1)
		return -ENOMEM;
	r = lock_book(t, from, to);
	if (r < 0 || !populate || !t->host)
		return r;
	if (c.hidden)
		return -ENOMEM;
	if (c.unreadable && c.unwritable)
		return 0; /* some of each: they come in when they are used */
	return run_native(t, SYS_madvise,
		(uint64_t[]){ from, to - from,
			c.unreadable ? ADVICE_POPULATE_WRITE : ADVICE_POPULATE_READ, 0, 0, 0 });
}

/* The highest gap that has room for @len, so that we know the place before the host maps there. */
struct gap {
	uint64_t len, end, at;
};

static int gap_one(void *arg, const struct proc_range *r)
{
	const uint64_t low = 1ULL << 32, margin = 1 << 20;
	struct gap *g = arg;

	if (g->end >= low && !r->stack && r->from > g->end && r->from - g->end > g->len + margin)
		g->at = r->from - g->len;
	g->end = r->to;
	return 0;
}

uint64_t memory_gap(struct task *t, uint64_t len)
{
	struct gap g = { .len = len };

	proc_host_each(t, gap_one, &g);
	return g.at;
}

static long map_locked(struct task *t, uint64_t a[6])
{
	uint64_t from, to;
	int r = range_of(0, a[1], &from, &to);

	if (r == 0)
		r = may_lock(t, to);
	if (r < 0)
		return r == -ENOMEM ? -EAGAIN : r;
	if (!(a[3] & (MAP_FIXED | MAP_FIXED_NOREPLACE_))) {
		a[0] = memory_gap(t, to);
		if (!a[0])
			return -ENOMEM;
		a[3] |= MAP_FIXED_NOREPLACE_;
	}
	r = lock_book(t, a[0], a[0] + to);
	if (r < 0)
		return r;
	a[3] = (a[3] & ~(uint64_t)MAP_LOCKED) | MAP_POPULATE;
	return run_native(t, SYS_mmap, a);
}

/*
 * A copy of our descriptor for the guest's number. Contents are open for writing here; who opened
 * them for reading gets a descriptor that can do no more, or mprotect would make the mapping
 * writable behind our back.
 */
int memory_fd(struct kernel *k, int fd, bool writable)
{
	int flags = writable || k->host_proc < 0 ? O_RDONLY : fcntl(fd, F_GETFL);
	char name[32];

	if (flags < 0)
		return -EBADF;
	if ((flags & O_ACCMODE) == O_RDONLY)
		return copy_fd(fd);
	str_fmt(name, sizeof(name), "self/fd/%d", fd);
	return host_openat(k->host_proc, name, O_RDONLY | O_CLOEXEC, 0);
}

static int check_mode(struct file *f, unsigned prot, unsigned flags)
{
	if (!file_readable(f))
		return -EACCES;
	if ((flags & MAP_TYPE) != MAP_PRIVATE && (prot & PROT_WRITE) && !file_writable(f))
		return -EACCES;
	if ((prot & PROT_EXEC) && S_ISREG(f->inode->mode) && f->path.mnt &&
		(f->path.mnt->flags & MOUNT_NO_EXEC))
		return -EPERM;
	return 0;
}

/* The sizes that an x86 has, as powers of two; 0 asks for the usual one. */
static bool is_huge_size(unsigned power)
{
	return !power || power == 21 || power == 30;
}

SYSCALL6(mmap, uint64_t, addr, uint64_t, len, unsigned, prot, unsigned, flags, int, fd, uint64_t,
	off)
{
	unsigned type = flags & MAP_TYPE;
	struct map_source src;
	struct fd_slot *slot;
	struct file *f;
	int r, mirror;

	if ((flags & MAP_FIXED) && place_is_hit(addr, len) && !task->mm->place_off &&
		place_undo(task) < 0)
		return -ENOMEM;
	if (flags & MAP_ANONYMOUS) {
		if (flags & MAP_HUGETLB) /* there are none */
			return is_huge_size(flags >> 26 & 63) ? -ENOMEM : -EINVAL;
		if (!(flags & MAP_LOCKED)) {
			task->call.go_native = true;
			return 0;
		}
		return len ? map_locked(task, (uint64_t[]){ addr, len, prot, flags, ~0ULL, 0 })
			   : -EINVAL;
	}
	f = fd_get(task, fd);
	if (!f)
		return -EBADF;
	if (!len || (off & 4095) ||
		(type != MAP_SHARED && type != MAP_PRIVATE && type != MAP_SHARED_VALIDATE))
		return -EINVAL;
	r = check_mode(f, prot, flags);
	if (r < 0)
		return r;
	if (!f->ops->mmap)
		return -ENODEV;
	r = f->ops->mmap(f, prot, flags, &src);
	if (r < 0)
		return r;
	if (src.fd < 0) /* /dev/zero: memory like any other */
		return run_native(task, SYS_mmap,
			(uint64_t[]){ addr, len, prot, flags | MAP_ANONYMOUS, ~0ULL, 0 });
	map_name_note(f);
	slot = &task->files->slots[fd];
	mirror = file_writable(f) ? src.fd + 1 : -(src.fd + 1);
	if (slot->mirror != mirror) {
		int copy = memory_fd(task->k, src.fd, file_writable(f));

		if (copy < 0)
			return -ENFILE;
		task->call.map_fd = copy + 1;
		task->call.map_at = fd;
		slot->mirror = mirror;
	}
	if (flags & MAP_LOCKED)
		return map_locked(
			task, (uint64_t[]){ addr, len, prot, flags, (uint64_t)(unsigned)fd, off });
	task->call.go_native = true;
	return 0;
}

/* Only what is to throw pages away arrives: that is not done to locked ones. */
SYSCALL3(msync, uint64_t, addr, uint64_t, len, unsigned, flags)
{
	const unsigned both = MS_SYNC | MS_ASYNC;
	uint64_t end;

	if (!(flags & ~(both | MS_INVALIDATE)) && (flags & both) != both && addr % PAGE == 0 &&
		!ckd_add(&end, addr, len) && mm_locked(task->mm, addr, end))
		return -EBUSY;
	task->call.go_native = true;
	return 0;
}

SYSCALL2(mlock, uint64_t, addr, uint64_t, len)
{
	return lock_range(task, addr, len, true);
}

SYSCALL3(mlock2, uint64_t, addr, uint64_t, len, unsigned, flags)
{
	return flags & ~(unsigned)LOCK_ON_FAULT ? -EINVAL : lock_range(task, addr, len, !flags);
}

SYSCALL2(munlock, uint64_t, addr, uint64_t, len)
{
	struct cover c = { 0 };
	int r = range_of(addr, len, &c.from, &c.to);
	uint64_t from = c.from, to = c.to;

	if (r < 0 || from == to)
		return r;
	if (proc_host_each(task, cover_one, &c) != 1)
		return -ENOMEM;
	return mm_unlock(task->mm, from, to);
}

static int lock_one(void *arg, const struct proc_range *r)
{
	return mm_lock(arg, r->from, r->to);
}

SYSCALL1(mlockall, unsigned, flags)
{
	struct proc_memory m;
	int r;

	if (!flags || (flags & ~(unsigned)MCL_ALL) || flags == MCL_ONFAULT_)
		return -EINVAL;
	proc_host_memory(task, &m);
	r = may_lock(task, flags & MCL_CURRENT ? m.size * PAGE - proc_host_locked(task) : 0);
	if (r < 0)
		return r;
	task->mm->lock_future = (flags & MCL_FUTURE) != 0;
	return flags & MCL_CURRENT ? proc_host_each(task, lock_one, task->mm) : 0;
}

SYSCALL0(munlockall)
{
	mm_unlock_all(task->mm);
	return 0;
}

static long vm_copy(struct task *t, int pid, gva_t local, uint64_t local_count, gva_t remote,
	uint64_t remote_count, bool out)
{
	struct task *to = task_at(t, pid);
	struct uio mine, theirs;
	char buf[4096];
	long done = 0, bad = 0;
	int r;

	if (!to || to->state == TASK_DEAD)
		return -ESRCH;
	if (!task_may_trace(t, to))
		return -EPERM;
	if (to->embryo)
		return task_wait_born(t);
	r = uio_guest_iov(&mine, t, local, local_count);
	if (r < 0)
		return r;
	r = uio_guest_iov(&theirs, t, remote, remote_count);
	if (r < 0) {
		uio_done(&mine);
		return r;
	}
	theirs.task = to;
	while (mine.left && theirs.left) {
		uint64_t want = mine.left < theirs.left ? mine.left : theirs.left;
		ssize_t n;

		if (want > sizeof(buf))
			want = sizeof(buf);
		n = uio_in(out ? &mine : &theirs, buf, want);
		if (n > 0)
			n = uio_out(out ? &theirs : &mine, buf, (size_t)n);
		if (n <= 0) {
			bad = -EFAULT;
			break;
		}
		done += n;
		if ((uint64_t)n < want)
			break;
	}
	uio_done(&mine);
	uio_done(&theirs);
	return done ? done : bad;
}

SYSCALL6(process_vm_readv, int, pid, gva_t, local, uint64_t, lc, gva_t, remote, uint64_t, rc,
	uint64_t, flags)
{
	return flags ? -EINVAL : vm_copy(task, pid, local, lc, remote, rc, false);
}

SYSCALL6(process_vm_writev, int, pid, gva_t, local, uint64_t, lc, gva_t, remote, uint64_t, rc,
	uint64_t, flags)
{
	return flags ? -EINVAL : vm_copy(task, pid, local, lc, remote, rc, true);
}
