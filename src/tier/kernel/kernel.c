/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/kernel.c - the lock, the clocks and the host descriptors that the loop watches.
 *
 * Owns:  struct kernel from init to done.
 * Rules: the lock spins first: a sleeping waiter would be woken on the holder's CPU and drag its
 *        guest along.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "tier/kernel/io/disk.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/keys/key.h"
#include "tier/kernel/task/exec.h"
#include "tier/kernel/trap/later.h"

enum { SPINS = 2000 };

/* 0: free, 1: held, 2: held and somebody sleeps */
void kernel_lock(struct kernel *k)
{
	uint32_t *w = &k->lock.word, seen = 0;

	if (__atomic_compare_exchange_n(w, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	for (unsigned i = 0; i < SPINS; i++) {
		__builtin_ia32_pause();
		seen = 0;
		if (__atomic_load_n(w, __ATOMIC_RELAXED) == 0 &&
			__atomic_compare_exchange_n(
				w, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
	}
	while (__atomic_exchange_n(w, 2, __ATOMIC_ACQUIRE) != 0)
		syscall(SYS_futex, w, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void kernel_unlock(struct kernel *k)
{
	if (__atomic_exchange_n(&k->lock.word, 0, __ATOMIC_RELEASE) == 2)
		syscall(SYS_futex, &k->lock.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t kernel_now(struct kernel *k)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t kernel_realtime(struct kernel *k)
{
	return clock_ns(CLOCK_REALTIME);
}

static uint64_t watch_data(const struct watch *w)
{
	return (uint64_t)w->number << 32 | (uint32_t)w->fd;
}

static int watch_room(struct kernel *k, unsigned fd)
{
	unsigned cap = k->watches_cap ? k->watches_cap : 64;
	struct watch **grown;

	if (fd < k->watches_cap)
		return 0;
	while (cap <= fd)
		cap *= 2;
	grown = realloc(k->watches, cap * sizeof(struct watch *));
	if (!grown)
		return -ENOMEM;
	memset(grown + k->watches_cap, 0, (cap - k->watches_cap) * sizeof(struct watch *));
	k->watches = grown;
	k->watches_cap = cap;
	return 0;
}

int watch_add(struct kernel *k, struct watch *w)
{
	struct epoll_event ev = { .events = w->events };
	int r = w->fd < 0 ? -EBADF : watch_room(k, (unsigned)w->fd);

	if (r < 0)
		return r;
	w->number = ++k->last_watch;
	ev.data.u64 = watch_data(w);
	if (epoll_ctl(k->epoll, EPOLL_CTL_ADD, w->fd, &ev) < 0)
		return -errno;
	k->watches[w->fd] = w;
	return 0;
}

struct watch *watch_of(struct kernel *k, uint64_t data)
{
	uint32_t fd = (uint32_t)data;
	struct watch *w = fd < k->watches_cap ? k->watches[fd] : NULL;

	return w && w->number == data >> 32 ? w : NULL;
}

int watch_change(struct kernel *k, struct watch *w, unsigned events)
{
	struct epoll_event ev = { .events = events, .data.u64 = watch_data(w) };

	if (w->events == events)
		return 0;
	w->events = events;
	return epoll_ctl(k->epoll, EPOLL_CTL_MOD, w->fd, &ev) < 0 ? -errno : 0;
}

void watch_forget(struct kernel *k, struct watch *w)
{
	if ((unsigned)w->fd < k->watches_cap && k->watches[w->fd] == w)
		k->watches[w->fd] = NULL;
}

void watch_remove(struct kernel *k, struct watch *w)
{
	epoll_ctl(k->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	watch_forget(k, w);
}

int kernel_init(struct kernel *k)
{
	k->epoll = k->timer_fd = k->store = k->host_proc = -1;
	k->report = k->report ? k->report : &k->own_report;
	k->boot_ns = kernel_now(k);
	k->last_tid = 0;
	k->cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	return 0;
}

void kernel_done(struct kernel *k)
{
	disk_done(k);
	io_done(k);
	keys_done(k);
	free(k->heap);
	free(k->watches);
	exec_desk_done(k);
	later_done(k);
	if (k->epoll >= 0)
		close(k->epoll);
	if (k->timer_fd >= 0)
		close(k->timer_fd);
}
