/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/timerfd.c - a timer behind a descriptor.
 *
 * Owns:  struct timerfd.
 * Rules: a periodic timer that fired is not armed again until somebody looks: what was missed is
 *        then counted by a division, so that a period of one nanosecond costs nothing.
 *        Times on CLOCK_REALTIME are turned into CLOCK_MONOTONIC when they are set.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "tier/kernel/io/event.h"

#include "base/ckd.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

struct timerfd {
	struct ktimer timer;
	int32_t clock;
	int64_t when, interval; /* 0: not armed */
	uint64_t ticks;
	bool fired; /* @when has passed and was counted */
	struct wait_queue wait;
};

static void timerfd_fire(struct timerfd *t)
{
	t->fired = true;
	t->ticks++;
	wait_wake(&t->wait, POLLIN);
}

static void on_timer(struct kernel *k, struct ktimer *timer)
{
	struct timerfd *t = (struct timerfd *)((char *)timer - offsetof(struct timerfd, timer));

	if (t->when && !t->fired)
		timerfd_fire(t);
}

/* Counts what has passed, and arms a periodic timer for its next time. */
static void timerfd_forward(struct kernel *k, struct timerfd *t)
{
	int64_t now = kernel_now(k), late;

	if (t->when && !t->fired && now >= t->when) {
		ktimer_clear(k, &t->timer);
		timerfd_fire(t);
	}
	if (!t->fired || t->interval == 0)
		return;
	late = (now - t->when) / t->interval;
	t->ticks += (uint64_t)late;
	if (ckd_mul(&late, late + 1, t->interval) || ckd_add(&t->when, t->when, late))
		t->when = INT64_MAX;
	t->fired = false;
	if (ktimer_set(k, &t->timer, t->when) < 0)
		t->when = 0; /* no memory: the timer stands still */
}

static ssize_t timerfd_read(struct file *f, struct uio *io, int64_t *pos)
{
	struct timerfd *t = f->priv;
	uint64_t v;

	if (io->left < sizeof(v))
		return -EINVAL;
	timerfd_forward(f->k, t);
	if (t->ticks == 0)
		return -EAGAIN;
	v = t->ticks;
	t->ticks = 0;
	return uio_out(io, &v, sizeof(v)) < (ssize_t)sizeof(v) ? -EFAULT : (ssize_t)sizeof(v);
}

static unsigned timerfd_poll(struct file *f, struct poll_reg *reg)
{
	struct timerfd *t = f->priv;

	poll_wait(reg, &t->wait);
	return t->ticks || (t->when && !t->fired && kernel_now(f->k) >= t->when) ? POLLIN : 0;
}

static void timerfd_release(struct file *f)
{
	struct timerfd *t = f->priv;

	ktimer_clear(f->k, &t->timer);
	wait_flush(&t->wait);
	free(t);
}

static void timerfd_walk(struct file *f, struct walk *w)
{
	struct timerfd *t = f->priv;

	if (!t)
		t = f->priv = calloc(1, sizeof(*t));
	if (!t) {
		w->err = -ENOMEM;
		return;
	}
	walk_i32(w, "clock", &t->clock);
	walk_time(w, "when", &t->when);
	walk_i64(w, "interval", &t->interval);
	walk_u64(w, "ticks", &t->ticks);
	walk_bool(w, "fired", &t->fired);
	if (w->mode == WALK_LOAD && !w->err) {
		t->timer.fn = on_timer;
		if (t->interval < 0)
			walk_fail(w, -EBADMSG);
		else if (t->when && !t->fired && ktimer_set(f->k, &t->timer, t->when) < 0)
			w->err = -ENOMEM;
	}
}

const struct file_ops timerfd_ops = {
	.name = "[timerfd]",
	.flags = FILE_STREAM | FILE_NO_SPLICE,
	.read = timerfd_read,
	.poll = timerfd_poll,
	.lseek = io_no_seek,
	.release = timerfd_release,
	.walk = timerfd_walk,
};

struct file *timerfd_file(struct kernel *k, int clock, unsigned flags)
{
	struct timerfd *t = calloc(1, sizeof(*t));
	struct file *f;

	if (!t)
		return NULL;
	t->clock = clock;
	t->timer.fn = on_timer;
	f = io_file(k, &timerfd_ops, O_RDWR | (flags & O_NONBLOCK), 0600, t);
	if (!f)
		free(t);
	return f;
}

int timerfd_get(struct file *f, struct timerfd_value *ret)
{
	struct timerfd *t = f->priv;

	if (f->ops != &timerfd_ops)
		return -EINVAL;
	timerfd_forward(f->k, t);
	ret->interval = t->interval;
	ret->value = 0;
	if (t->when && !t->fired) {
		int64_t left = t->when - kernel_now(f->k);

		ret->value = left > 0 ? left : 1; /* 0 would say "not armed" */
	}
	return 0;
}

int timerfd_set(struct file *f, bool absolute, const struct timerfd_value *value,
	struct timerfd_value *ret_old)
{
	struct timerfd *t = f->priv;
	int64_t now = kernel_now(f->k), when = value->value;

	if (timerfd_get(f, ret_old) < 0)
		return -EINVAL;
	ktimer_clear(f->k, &t->timer);
	t->ticks = 0;
	t->fired = false;
	t->interval = value->interval;
	t->when = 0;
	if (when == 0)
		return 0;
	if (absolute && (t->clock == CLOCK_REALTIME || t->clock == CLOCK_REALTIME_ALARM))
		when -= kernel_realtime(f->k) - now;
	else if (!absolute && ckd_add(&when, when, now))
		when = INT64_MAX;
	t->when = when > 0 ? when : 1;
	if (t->when <= now) {
		timerfd_fire(t);
		return 0;
	}
	return ktimer_set(f->k, &t->timer, t->when);
}
