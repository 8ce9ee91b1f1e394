/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/pace.c - how fast a device may go, and who wakes it when it has waited.
 *
 * Owns:  a timer, made before the jail: nothing can be made behind it.
 * Rules: while one waits nothing is taken, so what comes first goes first.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "tier/vm/pace.h"

void pace_init(struct pace *p)
{
	*p = (struct pace){ .timer = -1, .watch.fd = -1 };
}

static void on_timer(void *arg, uint32_t events)
{
	struct pace *p = arg;
	uint64_t count;

	(void)events;
	/* A timer that ran for one who has gone since wakes nobody. */
	if (read(p->timer, &count, sizeof(count)) < 0 || !p->waits)
		return;
	p->waits = false;
	p->again(p->arg);
}

int pace_limit(struct pace *p, uint64_t bytes_s, uint64_t ops_s, struct watches *events,
	void (*again)(void *arg), void *arg, struct err *e)
{
	/* A second's worth at once, and then as it comes. */
	struct bucket_limit bytes = { .size = bytes_s, .refill_ms = bytes_s ? 1000 : 0 };
	struct bucket_limit ops = { .size = ops_s, .refill_ms = ops_s ? 1000 : 0 };
	uint64_t now = clock_ns();

	if (!bucket_init(&p->limiter.bytes, &bytes, now) ||
		!bucket_init(&p->limiter.ops, &ops, now))
		return err_say(e, EINVAL, "a device's rate that makes no sense");
	p->events = events;
	p->again = again;
	p->arg = arg;
	p->watch = (struct watch){ .fd = -1, .fn = on_timer, .arg = p };
	p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (p->timer < 0)
		return err_set(e, errno, "a timer for a device's rate");
	return watches_add(events, &p->watch, p->timer, EPOLLIN, e);
}

bool pace_take(struct pace *p, uint64_t bytes)
{
	struct itimerspec once = { .it_value = { .tv_nsec = LIMITER_RETRY_MS * 1000000 } };

	if (p->timer < 0)
		return true;
	if (!p->waits && limiter_take(&p->limiter, bytes, clock_ns()))
		return true;
	if (!p->waits && timerfd_settime(p->timer, 0, &once, NULL) < 0)
		abort(); /* it is ours, and open */
	p->waits = true;
	return false;
}

void pace_clear(struct pace *p)
{
	p->waits = false;
}

void pace_done(struct pace *p)
{
	if (p->timer < 0)
		return;
	watches_remove(p->events, &p->watch);
	close(p->timer);
	p->timer = -1;
}
