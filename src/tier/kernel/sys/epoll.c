/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/epoll.c - the epoll calls, eventfd, signalfd, pipe: descriptors that stand for events.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "tier/kernel/io/epoll.h"

#include "base/own.h"
#include "tier/kernel/io/event.h"
#include "tier/kernel/io/pipe.h"
#include "tier/kernel/io/polling.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

enum { NS_PER_MS = 1000000, EVENTS_MAX = INT32_MAX / (int)sizeof(struct gepoll_event), BATCH = 64 };

SYSCALL1(epoll_create1, uint32_t, flags)
{
	if (flags & ~(uint32_t)O_CLOEXEC)
		return -EINVAL;
	return io_install(task, epoll_create_file(task->k), flags & O_CLOEXEC);
}

SYSCALL1(epoll_create, int32_t, size)
{
	if (size <= 0)
		return -EINVAL;
	return io_install(task, epoll_create_file(task->k), false);
}

SYSCALL4(epoll_ctl, int32_t, epfd, int32_t, op, int32_t, fd, gva_t, event)
{
	struct gepoll_event ev = { 0 };
	struct file *ep, *target;

	if (op != EPOLL_CTL_DEL && guest_read(task, &ev, event, sizeof(ev)) < 0)
		return -EFAULT;
	ep = fd_get(task, epfd);
	target = fd_get(task, fd);
	if (!ep || !target)
		return -EBADF;
	return epoll_control(task, ep, op, fd, target, &ev);
}

static long epoll_take(struct task *task, struct file *ep, gva_t out, int max)
{
	struct gepoll_event few[BATCH], *ev = few;
	own_mem struct gepoll_event *many = NULL;
	int n;

	if (max > epoll_count(ep))
		max = epoll_count(ep);
	if (max > BATCH) {
		ev = many = malloc((size_t)max * sizeof(*many));
		if (!many)
			return -ENOMEM;
	}
	n = max ? epoll_collect(task, ep, ev, max) : 0;
	if (n && guest_write(task, out, ev, (size_t)n * sizeof(*ev)) < 0) {
		epoll_uncollect(task, ep);
		return -EFAULT;
	}
	return n;
}

static long epoll_wait_common(struct task *task, int epfd, gva_t out, int max, bool no_wait)
{
	struct file *ep;
	long r;

	if (max <= 0 || max > EVENTS_MAX)
		return -EINVAL;
	ep = fd_get(task, epfd);
	if (!ep)
		return -EBADF;
	if (!file_is_epoll(ep))
		return -EINVAL;
	r = epoll_take(task, ep, out, max);
	if (r != 0)
		return r;
	if (no_wait)
		return wait_interrupted(task) && task->has_saved_mask ? -EINTR : 0;
	r = epoll_block(task, ep);
	if (r == -ETIMEDOUT)
		return 0;
	return r == -ERESTARTSYS ? -EINTR : r;
}

SYSCALL4(epoll_wait, int32_t, epfd, gva_t, out, int32_t, max, int32_t, timeout)
{
	if (task->call.first && timeout > 0)
		wait_set_timeout(task, (int64_t)timeout * NS_PER_MS);
	return epoll_wait_common(task, epfd, out, max, timeout == 0);
}

SYSCALL6(epoll_pwait, int32_t, epfd, gva_t, out, int32_t, max, int32_t, timeout, gva_t, mask,
	uint64_t, size)
{
	if (task->call.first) {
		long r = wait_mask_from(task, mask, size);

		if (r < 0)
			return r;
		if (timeout > 0)
			wait_set_timeout(task, (int64_t)timeout * NS_PER_MS);
	}
	return epoll_wait_common(task, epfd, out, max, timeout == 0);
}

SYSCALL6(epoll_pwait2, int32_t, epfd, gva_t, out, int32_t, max, gva_t, timeout, gva_t, mask,
	uint64_t, size)
{
	int64_t ns = -1;
	long r;

	if (task->call.first) {
		if (!gva_null(timeout)) {
			r = guest_read_timespec(task, timeout, &ns);
			if (r < 0)
				return r;
			task->call.u[0] = ns == 0;
			if (ns > 0)
				wait_set_timeout(task, ns);
		}
		r = wait_mask_from(task, mask, size);
		if (r < 0)
			return r;
	}
	return epoll_wait_common(task, epfd, out, max, task->call.u[0]);
}

SYSCALL2(eventfd2, uint32_t, count, uint32_t, flags)
{
	if (flags & ~(uint32_t)(EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK))
		return -EINVAL;
	return io_install(task, eventfd_create(task->k, count, flags), flags & O_CLOEXEC);
}

SYSCALL1(eventfd, uint32_t, count)
{
	return io_install(task, eventfd_create(task->k, count, 0), false);
}

static long signalfd_common(struct task *task, int fd, gva_t mask, uint64_t size, uint32_t flags)
{
	struct file *f;
	uint64_t set;
	int r;

	if (size != sizeof(set))
		return -EINVAL;
	if (guest_read_u64(task, mask, &set) < 0)
		return -EFAULT;
	if (flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	if (fd == -1)
		return io_install(task, signalfd_create(task->k, set, flags), flags & O_CLOEXEC);
	f = fd_get(task, fd);
	if (!f)
		return -EBADF;
	r = signalfd_set(f, set);
	if (r < 0)
		return r;
	/* A wider mask may make it readable at once. */
	wait_wake(signal_queue(task), POLLIN);
	return fd;
}

SYSCALL4(signalfd4, int32_t, fd, gva_t, mask, uint64_t, size, uint32_t, flags)
{
	return signalfd_common(task, fd, mask, size, flags);
}

SYSCALL3(signalfd, int32_t, fd, gva_t, mask, uint64_t, size)
{
	return signalfd_common(task, fd, mask, size, 0);
}

static long pipe_common(struct task *task, gva_t out, uint32_t flags)
{
	struct file *rd, *wr;
	int32_t fds[2];
	int r;

	if (flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK | O_DIRECT))
		return -EINVAL;
	r = pipe_create(task->k, flags, &rd, &wr);
	if (r < 0)
		return r;
	fds[0] = (int32_t)io_install(task, rd, flags & O_CLOEXEC);
	if (fds[0] < 0) {
		file_unref(wr);
		return fds[0];
	}
	fds[1] = (int32_t)io_install(task, wr, flags & O_CLOEXEC);
	if (fds[1] < 0) {
		fd_close(task, fds[0]);
		return fds[1];
	}
	if (guest_write(task, out, fds, sizeof(fds)) < 0) {
		fd_close(task, fds[0]);
		fd_close(task, fds[1]);
		return -EFAULT;
	}
	return 0;
}

SYSCALL2(pipe2, gva_t, out, uint32_t, flags)
{
	return pipe_common(task, out, flags);
}

SYSCALL1(pipe, gva_t, out)
{
	return pipe_common(task, out, 0);
}
