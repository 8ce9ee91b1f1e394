/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sys/poll.c - poll, ppoll, select, pselect6.
 *
 * Owns:  the private copy of the descriptors asked about, in task->call.own: the guest's array is
 *        read once, in the first entry.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/io/polling.h"

#include "base/ckd.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

enum { NS_PER_MS = 1000000, NS_PER_S = 1000000000, SIGSET_BYTES = 8 };

long wait_mask_from(struct task *task, gva_t mask, uint64_t size)
{
	uint64_t set;

	if (gva_null(mask))
		return 0;
	if (size != SIGSET_BYTES)
		return -EINVAL;
	if (guest_read_u64(task, mask, &set) < 0)
		return -EFAULT;
	signal_wait_mask(task, set);
	return 0;
}

/* The state of @f; registers @task when @wait. */
static unsigned ask(struct task *task, struct file *f, unsigned events, bool wait)
{
	struct poll_reg reg;

	if (!f->ops->poll)
		return POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
	if (!wait)
		return io_poll_state(f, task);
	poll_reg_task(&reg, task, events | POLLERR | POLLHUP);
	return f->ops->poll(f, &reg);
}

/* Not ready: wait, or say how it ended. 0 stands for "the time is over". */
static long wait_more(struct task *task, bool no_wait)
{
	long r;

	if (no_wait)
		return wait_interrupted(task) && task->has_saved_mask ? -ERESTARTNOHAND : 0;
	r = wait_block(task);
	if (r == -ETIMEDOUT)
		return 0;
	return r == -ERESTARTSYS ? -ERESTARTNOHAND : r;
}

static int ask_all(struct task *task, struct pollfd *p, unsigned n, bool no_wait)
{
	int ready = 0;

	for (unsigned i = 0; i < n; i++) {
		struct file *f;

		p[i].revents = 0;
		if (p[i].fd < 0)
			continue;
		f = fd_get(task, p[i].fd);
		if (!f) {
			p[i].revents = POLLNVAL;
		} else {
			unsigned want = (unsigned short)p[i].events | POLLERR | POLLHUP;

			p[i].revents = (short)(ask(task, f, want, !ready && !no_wait) & want);
		}
		ready += p[i].revents != 0;
	}
	return ready;
}

static long poll_give(struct task *task, gva_t fds, const struct pollfd *p, unsigned n)
{
	/* Only revents is written: the rest of the array belongs to the guest. */
	if (n <= 4) {
		for (unsigned i = 0; i < n; i++) {
			if (guest_write(task,
				    gva_add(fds, i * sizeof(*p) + offsetof(struct pollfd, revents)),
				    &p[i].revents, sizeof(p[i].revents)) < 0)
				return -EFAULT;
		}
		return 0;
	}
	return guest_write(task, fds, p, n * sizeof(*p));
}

/* The common part; the deadline is set. @no_wait: the time-out was 0. */
static long poll_common(struct task *task, gva_t fds, uint32_t n, bool no_wait)
{
	struct call *c = &task->call;
	struct pollfd *p;
	long r;
	int ready;

	if (c->first) {
		if (n > task->proc->limits[RLIMIT_NOFILE].rlim_cur || n > GUEST_POLL_MAX)
			return -EINVAL;
		c->own = calloc(n ? n : 1, sizeof(*p));
		if (!c->own)
			return -ENOMEM;
		if (n && guest_read(task, c->own, fds, n * sizeof(*p)) < 0)
			return -EFAULT;
	}
	p = c->own;
	ready = ask_all(task, p, n, no_wait);
	if (ready == 0) {
		r = wait_more(task, no_wait);
		if (r != 0)
			return r;
	}
	r = poll_give(task, fds, p, n);
	return r < 0 ? r : ready;
}

SYSCALL3(poll, gva_t, fds, uint32_t, n, int32_t, timeout)
{
	if (task->call.first && timeout > 0)
		wait_set_timeout(task, (int64_t)timeout * NS_PER_MS);
	return poll_common(task, fds, n, timeout == 0);
}

/* What is left of the time goes back to the guest; then the call cannot be restarted. */
static long give_left(struct task *task, gva_t at, unsigned unit, long r)
{
	const uint64_t sticky_timeouts = 0x4000000;

	if (task->proc->personality & sticky_timeouts)
		return r;
	int64_t left = 0, v[2];

	if (gva_null(at) || r == SYS_BLOCK)
		return r;
	if (task->call.deadline) {
		left = task->call.deadline - kernel_now(task->k);
		left = left < 0 ? 0 : left;
	} else if (!task->call.u[0]) {
		return r; /* waits for ever: nothing to write */
	}
	v[0] = left / NS_PER_S;
	v[1] = left % NS_PER_S / unit;
	if (guest_write(task, at, v, sizeof(v)) < 0)
		return r;
	return r == -ERESTARTNOHAND ? -EINTR : r;
}

/* Reads a time-out in the first entry; u[0] remembers that it was 0. */
static long timeout_in(struct task *task, gva_t at)
{
	int64_t ns;
	int r;

	if (!task->call.first || gva_null(at))
		return 0;
	r = guest_read_timespec(task, at, &ns);
	if (r < 0)
		return r;
	if (ns == 0)
		task->call.u[0] = 1;
	else
		wait_set_timeout(task, ns);
	return 0;
}

SYSCALL5(ppoll, gva_t, fds, uint32_t, n, gva_t, timeout, gva_t, mask, uint64_t, size)
{
	long r = timeout_in(task, timeout);

	if (r < 0)
		return r;
	if (task->call.first) {
		r = wait_mask_from(task, mask, size);
		if (r < 0)
			return r;
	}
	r = poll_common(task, fds, n, task->call.u[0]);
	return give_left(task, timeout, 1, r);
}

/* select: three sets in, three out, each of @words words. */
struct sets {
	unsigned n, words;
	uint64_t bits[]; /* in: read, write, except; then the answers in the same order */
};

static long sets_in(struct task *task, int n, const gva_t at[3])
{
	unsigned cap = task->files->cap < 64 ? 64 : (task->files->cap + 63) / 64 * 64;
	struct sets *s;

	if (n < 0)
		return -EINVAL;
	if ((unsigned)n > cap)
		n = (int)cap;
	s = calloc(1, sizeof(*s) + (size_t)6 * ((unsigned)n / 64 + 1) * sizeof(uint64_t));
	if (!s)
		return -ENOMEM;
	task->call.own = s;
	s->n = (unsigned)n;
	s->words = ((unsigned)n + 63) / 64;
	for (int i = 0; i < 3; i++) {
		if (!gva_null(at[i]) && s->words &&
			guest_read(task, s->bits + (size_t)i * s->words, at[i], s->words * 8) < 0)
			return -EFAULT;
	}
	return 0;
}

static const unsigned set_events[3] = {
	POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR,
	POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR,
	POLLPRI,
};

static long select_ask(struct task *task, struct sets *s, bool no_wait)
{
	long ready = 0;

	for (unsigned fd = 0; fd < s->n; fd++) {
		uint64_t bit = 1ULL << (fd % 64);
		unsigned want = 0, state;
		struct file *f;

		if (fd % 64 == 0 && !(s->bits[fd / 64] | s->bits[s->words + fd / 64] |
					    s->bits[2 * s->words + fd / 64])) {
			fd += 63; /* a whole word of nothing */
			continue;
		}
		for (unsigned i = 0; i < 3; i++) {
			if (s->bits[i * s->words + fd / 64] & bit)
				want |= set_events[i];
		}
		if (!want)
			continue;
		f = fd_get(task, (int)fd);
		if (!f)
			return -EBADF;
		state = ask(task, f, want, !ready && !no_wait);
		for (unsigned i = 0; i < 3; i++) {
			uint64_t *out = &s->bits[(3 + i) * s->words + fd / 64];

			if ((s->bits[i * s->words + fd / 64] & bit) && (state & set_events[i])) {
				*out |= bit;
				ready++;
			}
		}
	}
	return ready;
}

static long select_common(struct task *task, int n, const gva_t at[3], bool no_wait)
{
	struct sets *s;
	long r, ready;

	if (task->call.first) {
		r = sets_in(task, n, at);
		if (r < 0)
			return r;
	}
	s = task->call.own;
	memset(s->bits + (size_t)3 * s->words, 0, (size_t)3 * s->words * 8);
	ready = select_ask(task, s, no_wait);
	if (ready < 0)
		return ready;
	if (ready == 0) {
		r = wait_more(task, no_wait);
		if (r != 0)
			return r;
	}
	for (int i = 0; i < 3; i++) {
		if (!gva_null(at[i]) && s->words &&
			guest_write(task, at[i], s->bits + (size_t)(3 + i) * s->words,
				s->words * 8) < 0)
			return -EFAULT;
	}
	return ready;
}

SYSCALL5(select, int32_t, n, gva_t, in, gva_t, out, gva_t, ex, gva_t, timeout)
{
	const gva_t at[3] = { in, out, ex };
	int64_t tv[2], ns;
	long r;

	if (task->call.first && !gva_null(timeout)) {
		if (guest_read(task, tv, timeout, sizeof(tv)) < 0)
			return -EFAULT;
		if (tv[0] < 0 || tv[1] < 0)
			return -EINVAL;
		if (ckd_add(&tv[0], tv[0], tv[1] / 1000000) ||
			ckd_mul(&ns, tv[0], (int64_t)NS_PER_S))
			ns = INT64_MAX;
		else if (ckd_add(&ns, ns, tv[1] % 1000000 * 1000))
			ns = INT64_MAX;
		if (ns == 0)
			task->call.u[0] = 1;
		else
			wait_set_timeout(task, ns);
	}
	r = select_common(task, n, at, task->call.u[0]);
	return give_left(task, timeout, 1000, r);
}

SYSCALL6(pselect6, int32_t, n, gva_t, in, gva_t, out, gva_t, ex, gva_t, timeout, gva_t, packed)
{
	const gva_t at[3] = { in, out, ex };
	uint64_t arg[2] = { 0, 0 };
	long r;

	if (task->call.first) {
		if (!gva_null(packed) && guest_read(task, arg, packed, sizeof(arg)) < 0)
			return -EFAULT;
		r = timeout_in(task, timeout);
		if (r < 0)
			return r;
		r = wait_mask_from(task, GVA(arg[0]), arg[1]);
		if (r < 0)
			return r;
	}
	r = select_common(task, n, at, task->call.u[0]);
	return give_left(task, timeout, 1, r);
}
