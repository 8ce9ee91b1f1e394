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
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tier/kernel/sys/sys.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

/* By an order, when the host must get other arguments than the guest gave. */
static long map_by_order(struct task *t, const uint64_t a[6])
{
	struct {
		struct slot s;
	} o;

	if (!t->host)
		return -ENODEV;
	memset(&o, 0, sizeof(o));
	o.s.order = ORDER_RUN;
	o.s.step_count = 1;
	o.s.steps[0] = (struct shim_step){ SYS_mmap, { a[0], a[1], a[2], a[3], a[4], a[5] } };
	if (!order_write(t, &o.s, sizeof(o.s)))
		return -EFAULT;
	t->call.ordered = true;
	return 0;
}

static int check_mode(struct file *f, unsigned prot, unsigned flags)
{
	if (!file_readable(f))
		return -EACCES;
	if ((flags & MAP_TYPE) != MAP_PRIVATE && (prot & PROT_WRITE) && !file_writable(f))
		return -EACCES;
	return 0;
}

SYSCALL6(mmap, uint64_t, addr, uint64_t, len, unsigned, prot, unsigned, flags, int, fd, uint64_t,
	off)
{
	unsigned type = flags & MAP_TYPE;
	struct map_source src;
	struct fd_slot *slot;
	struct file *f;
	int r;

	if ((flags & MAP_FIXED) && place_is_hit(addr, len) && !task->mm->place_off &&
		place_undo(task) < 0)
		return -ENOMEM;
	if (flags & MAP_ANONYMOUS) {
		if (flags & MAP_HUGETLB) /* there are none */
			return -ENOMEM;
		task->call.go_native = true;
		return 0;
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
		return map_by_order(
			task, (uint64_t[]){ addr, len, prot, flags | MAP_ANONYMOUS, ~0ULL, 0 });
	slot = &task->files->slots[fd];
	if (slot->mirror != src.fd + 1) {
		int copy = copy_fd(src.fd);

		if (copy < 0)
			return -ENFILE;
		task->call.map_fd = copy + 1;
		slot->mirror = src.fd + 1;
	}
	task->call.go_native = true;
	return 0;
}

SYSCALL2(mlock, uint64_t, addr, uint64_t, len)
{
	return 0;
}

SYSCALL3(mlock2, uint64_t, addr, uint64_t, len, unsigned, flags)
{
	return flags & ~1u ? -EINVAL : 0;
}

SYSCALL2(munlock, uint64_t, addr, uint64_t, len)
{
	return 0;
}

SYSCALL1(mlockall, unsigned, flags)
{
	return !flags || flags & ~7u ? -EINVAL : 0;
}

SYSCALL0(munlockall)
{
	return 0;
}

SYSCALL5(get_mempolicy, gva_t, mode, gva_t, mask, uint64_t, max, uint64_t, addr, uint64_t, flags)
{
	uint64_t none = 0;

	if (!gva_null(mode) && guest_write_u32(task, mode, 0) < 0)
		return -EFAULT;
	if (!gva_null(mask) && guest_write(task, mask, &none, max < 64 ? (max + 7) / 8 : 8) < 0)
		return -EFAULT;
	return 0;
}

SYSCALL3(set_mempolicy, int, mode, gva_t, mask, uint64_t, max)
{
	return 0;
}

SYSCALL6(mbind, uint64_t, start, uint64_t, len, uint64_t, mode, gva_t, mask, uint64_t, max,
	unsigned, flags)
{
	return 0;
}

static long vm_copy(struct task *t, int pid, gva_t local, uint64_t local_count, gva_t remote,
	uint64_t remote_count, bool out)
{
	struct task *to = task_find(t->k, pid);
	struct uio mine, theirs;
	char buf[4096];
	long done = 0;
	int r;

	if (!to || to->state == TASK_DEAD || to->embryo)
		return -ESRCH;
	if (!task_is_open_to(t, to))
		return -EPERM;
	if (to->proc != t->proc && t->cred->uid != to->cred->uid && !task_capable(t, 19))
		return -EPERM;
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
		if (n <= 0)
			break;
		done += n;
		if ((uint64_t)n < want)
			break;
	}
	uio_done(&mine);
	uio_done(&theirs);
	return done ? done : mine.left && theirs.left ? -EFAULT : 0;
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
