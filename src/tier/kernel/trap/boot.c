/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/boot.c - the engine starts; the loop thread.
 *
 * Owns:  struct engine.
 * Rules: the loop thread waits for timers and host descriptors and runs what they mean under the
 *        lock, like any other.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "host/host.h"
#include "tier/kernel/io/disk.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/later.h"

static void on_timer(struct kernel *k, struct watch *w, unsigned events)
{
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	ktimer_run(k, kernel_now(k));
}

int engine_start(struct kernel *k, struct err *e)
{
	struct engine *en = calloc(1, sizeof(*en));
	int r;

	if (!en)
		return err_set(e, ENOMEM, "starting the engine");
	en->k = k;
	k->engine = &engine_ops;
	k->engine_state = en;
	en->stays =
		k->cpus > 1 && syscall(SYS_sched_getaffinity, 0, sizeof(en->cpus), en->cpus) > 0;
	r = zygote_start(en, e); /* before the first thread */
	if (r < 0)
		return r;
	k->epoll = r = host_epoll();
	if (r >= 0)
		k->timer_fd = r = host_timerfd();
	if (r < 0)
		return err_set(e, -r, "making the loop's descriptors");
	k->timer_watch = (struct watch){ .fd = k->timer_fd, .events = EPOLLIN, .fn = on_timer };
	r = watch_add(k, &k->timer_watch);
	if (r == 0)
		r = disk_init(k, NULL);
	if (r == 0)
		r = watch_add(k, &en->zygote_watch);
	return r < 0 ? err_set(e, -r, "making the loop") : 0;
}

/*
 * Our end is theirs, but the host looks for them only when all that was ours is gone. So that they
 * go beside us, not after us.
 */
static void end_zygote(struct kernel *k)
{
	struct engine *e = engine_of(k);

	kernel_lock(k); /* for good */
	for (struct host_proc *hp = e->blanks; hp; hp = hp->next)
		syscall(SYS_tgkill, hp->pid, hp->pid, SIGKILL);
	syscall(SYS_tgkill, e->zygote_pid, e->zygote_pid, SIGKILL);
}

void engine_over(struct kernel *k)
{
	int status = k->over_status;

	end_zygote(k);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void engine_loop(struct kernel *k)
{
	struct epoll_event ev[16];

	for (;;) {
		int n = epoll_pwait(k->epoll, ev, 16, -1, NULL);

		if (n < 0)
			continue;
		kernel_lock(k);
		later_run(k, NULL);
		for (int i = 0; i < n; i++) {
			/* Another thread, or the event before this one, may have ended it. */
			struct watch *w = watch_of(k, ev[i].data.u64);

			if (w)
				w->fn(k, w, ev[i].events);
		}
		engine_end(k);
	}
}
