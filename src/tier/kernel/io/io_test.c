/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/io_test.c - pipes, eventfds, timers and epoll through their system calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/io/epoll.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

static struct fake *g;
static struct task *me;
static gva_t mem; /* 1 MB to play with */

static int begin(void **state)
{
	g = fake_create();
	me = g->task;
	mem = fake_alloc(g, 1 << 20);
	return 0;
}

static int end(void **state)
{
	fake_destroy(g);
	return 0;
}

/* read and write as the file system's own calls do them */
static long rw(struct task *t, int fd, size_t len, bool write)
{
	struct file *f = fd_get(t, fd);
	struct uio io;
	int64_t pos = 0;
	long r;

	if (!f)
		return -EBADF;
	if (uio_guest(&io, t, mem, len) < 0)
		return -EFAULT;
	r = write ? f->ops->write(f, &io, &pos) : f->ops->read(f, &io, &pos);
	uio_done(&io);
	kernel_run_ready(t->k);
	return r;
}

static void make_pipe(unsigned flags, int fds[2])
{
	assert_int_equal(fake_call(me, SYS_pipe2, mem.v, flags), 0);
	memcpy(fds, fake_ptr(g, mem), 8);
}

static void pipe_moves_bytes(void **state)
{
	int p[2];
	char *m = fake_ptr(g, mem);

	make_pipe(0, p);
	for (unsigned i = 0; i < 200000; i++)
		m[i] = (char)(i * 7);
	assert_int_equal(rw(me, p[0], 10, false), -EAGAIN);
	assert_int_equal(rw(me, p[1], 200000, true), 65536);
	assert_int_equal(rw(me, p[1], 1, true), -EAGAIN);
	memset(m, 0, 200000);
	assert_int_equal(rw(me, p[0], 5000, false), 5000);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(m[i], (char)(i * 7));
	assert_int_equal(rw(me, p[0], 200000, false), 60536);
	for (unsigned i = 0; i < 60536; i++)
		assert_int_equal(m[i], (char)((i + 5000) * 7));
}

static void pipe_wraps(void **state)
{
	unsigned char *m = fake_ptr(g, mem);
	unsigned in = 0, out = 0, left = 0;
	int p[2];

	make_pipe(0, p);
	for (unsigned round = 0; round < 2000; round++) {
		unsigned n = round * 7919 % 9000 + 1;
		long r;

		for (unsigned i = 0; i < n; i++)
			m[i] = (unsigned char)((in + i) * 31);
		r = rw(me, p[1], n, true);
		if (r > 0)
			in += (unsigned)r, left += (unsigned)r;
		else
			assert_int_equal(r, -EAGAIN);
		n = round * 104729 % 9500 + 1;
		r = rw(me, p[0], n, false);
		if (r == -EAGAIN) {
			assert_int_equal(left, 0);
			continue;
		}
		assert_true(r > 0);
		for (long i = 0; i < r; i++)
			assert_int_equal(m[i], (unsigned char)((out + (unsigned)i) * 31));
		out += (unsigned)r;
		left -= (unsigned)r;
	}
}

static void poll_waits_for_a_pipe(void **state)
{
	struct task *other = fake_thread(me);
	struct pollfd pfd;
	int p[2];
	gva_t at = fake_alloc(g, sizeof(pfd));
	long r;

	make_pipe(0, p);
	pfd = (struct pollfd){ .fd = p[0], .events = POLLIN };
	memcpy(fake_ptr(g, at), &pfd, sizeof(pfd));
	assert_int_equal(fake_call(me, SYS_poll, at.v, 1, 0), 0);
	assert_int_equal(fake_call(other, SYS_poll, at.v, 1, (uint64_t)-1), SYS_BLOCK);
	assert_false(fake_over(other, &r));
	assert_int_equal(rw(me, p[1], 3, true), 3);
	assert_true(fake_over(other, &r));
	assert_int_equal(r, 1);
	memcpy(&pfd, fake_ptr(g, at), sizeof(pfd));
	assert_int_equal(pfd.revents, POLLIN);
	rw(me, p[0], 3, false);
	assert_int_equal(fake_call(other, SYS_poll, at.v, 1, 5), SYS_BLOCK);
	fake_sleep(g, 100);
	assert_true(fake_over(other, &r));
	assert_int_equal(r, 0);
}

static long ctl(int ep, int op, int fd, unsigned events)
{
	struct gepoll_event ev = { .events = events, .data = (uint64_t)fd };
	gva_t at = fake_put(g, &ev, sizeof(ev));

	return fake_call(me, SYS_epoll_ctl, ep, op, fd, at.v);
}

static void epoll_levels_and_edges(void **state)
{
	static const struct {
		const char *name;
		unsigned events;
		long want[4]; /* written once: wait, wait, write again, wait, MOD, wait */
	} cases[] = {
		{ "level", EPOLLIN, { 1, 1, 1, 1 } },
		{ "edge", EPOLLIN | (unsigned)EPOLLET, { 1, 0, 1, 1 } },
		{ "one-shot", EPOLLIN | EPOLLONESHOT, { 1, 0, 0, 1 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int p[2], ep = (int)fake_call(me, SYS_epoll_create1, 0);
		gva_t out = fake_alloc(g, 12 * 8);

		make_pipe(0, p);
		assert_int_equal(ctl(ep, EPOLL_CTL_ADD, p[0], cases[i].events), 0);
		assert_int_equal(ctl(ep, EPOLL_CTL_ADD, p[0], cases[i].events), -EEXIST);
		assert_int_equal(fake_call(me, SYS_epoll_wait, ep, out.v, 8, 0), 0);
		rw(me, p[1], 1, true);
		assert_int_equal(fake_call(me, SYS_epoll_wait, ep, out.v, 8, 0), cases[i].want[0]);
		assert_int_equal(fake_call(me, SYS_epoll_wait, ep, out.v, 8, 0), cases[i].want[1]);
		rw(me, p[1], 1, true);
		assert_int_equal(fake_call(me, SYS_epoll_wait, ep, out.v, 8, 0), cases[i].want[2]);
		assert_int_equal(ctl(ep, EPOLL_CTL_MOD, p[0], cases[i].events), 0);
		assert_int_equal(fake_call(me, SYS_epoll_wait, ep, out.v, 8, 0), cases[i].want[3]);
		/* A closed file is forgotten, whichever end of the watch goes first. */
		fd_close(me, p[0]);
		assert_int_equal(fake_call(me, SYS_epoll_wait, ep, out.v, 8, 0), 0);
		assert_int_equal(ctl(ep, EPOLL_CTL_ADD, p[1], EPOLLOUT), 0);
		fd_close(me, ep);
		fd_close(me, p[1]);
	}
}

static void epoll_nests_without_rings(void **state)
{
	int ep[8];

	for (int i = 0; i < 8; i++)
		ep[i] = (int)fake_call(me, SYS_epoll_create1, 0);
	assert_int_equal(ctl(ep[0], EPOLL_CTL_ADD, ep[0], EPOLLIN), -EINVAL);
	for (int i = 1; i < 5; i++)
		assert_int_equal(ctl(ep[i], EPOLL_CTL_ADD, ep[i - 1], EPOLLIN), 0);
	assert_int_equal(ctl(ep[5], EPOLL_CTL_ADD, ep[4], EPOLLIN), -ELOOP);
	assert_int_equal(ctl(ep[0], EPOLL_CTL_ADD, ep[4], EPOLLIN), -ELOOP);
	assert_int_equal(ctl(ep[0], EPOLL_CTL_ADD, ep[1], EPOLLIN), -ELOOP);
	/* What happens innermost is seen outermost. */
	int e = (int)fake_call(me, SYS_eventfd2, 1, 0);
	gva_t out = fake_alloc(g, 12);
	assert_int_equal(ctl(ep[0], EPOLL_CTL_ADD, e, EPOLLIN), 0);
	assert_int_equal(fake_call(me, SYS_epoll_wait, ep[4], out.v, 1, 0), 1);
	for (int i = 0; i < 8; i += 2)
		fd_close(me, ep[i]);
	for (int i = 1; i < 8; i += 2)
		fd_close(me, ep[i]);
}

static void epoll_wakes_one(void **state)
{
	struct task *a = fake_thread(me), *b = fake_thread(me);
	int ep = (int)fake_call(me, SYS_epoll_create1, 0),
	    e = (int)fake_call(me, SYS_eventfd2, 0, 0);
	gva_t out = fake_alloc(g, 12);
	uint64_t one = 1;
	long r;

	assert_int_equal(ctl(ep, EPOLL_CTL_ADD, e, EPOLLIN | (unsigned)EPOLLET), 0);
	assert_int_equal(fake_call(a, SYS_epoll_wait, ep, out.v, 1, (uint64_t)-1), SYS_BLOCK);
	assert_int_equal(fake_call(b, SYS_epoll_wait, ep, out.v, 1, (uint64_t)-1), SYS_BLOCK);
	memcpy(fake_ptr(g, mem), &one, 8);
	assert_int_equal(rw(me, e, 8, true), 8);
	assert_true(fake_over(a, &r) != fake_over(b, &r));
	/* Closed under the other one: it has the epoll still. */
	fd_close(me, ep);
	kernel_run_ready(&g->k);
	assert_true(fake_over(a, &r) != fake_over(b, &r));
	assert_int_equal(rw(me, e, 8, true), 8);
	assert_true(fake_over(a, &r) && fake_over(b, &r));
	assert_int_equal(r, 1);
}

static void timers_tick(void **state)
{
	int64_t spec[4] = { 0, 2000000, 0, 2000000 };
	gva_t at = fake_put(g, spec, sizeof(spec)), big = fake_alloc(g, 8);
	int fd = (int)fake_call(me, SYS_timerfd_create, 1, 0);
	uint64_t n;

	assert_int_equal(fake_call(me, SYS_timerfd_settime, fd, 0, at.v, 0), 0);
	assert_int_equal(rw(me, fd, 8, false), -EAGAIN);
	for (int i = 0; i < 5; i++) {
		struct timespec ts = { 0, 3000000 };
		nanosleep(&ts, NULL);
	}
	fake_sleep(g, 1);
	assert_int_equal(rw(me, fd, 8, false), 8);
	memcpy(&n, fake_ptr(g, mem), 8);
	assert_true(n >= 7);
	spec[1] = 1; /* a period of a nanosecond costs nothing */
	memcpy(fake_ptr(g, at), spec, sizeof(spec));
	assert_int_equal(fake_call(me, SYS_timerfd_settime, fd, 0, at.v, 0), 0);
	fake_sleep(g, 10);
	fake_sleep(g, 1);
	assert_int_equal(rw(me, fd, 8, false), 8);
	(void)big;
}

static void sleep_is_interrupted(void **state)
{
	struct task *t = fake_fork(me);
	int64_t ts[2] = { 100, 0 };
	gva_t at = fake_put(g, ts, sizeof(ts)), left = fake_alloc(g, 16);
	long r;

	t->sighand->act[SIGUSR1 - 1].handler = 0x1000;
	assert_int_equal(fake_call(t, SYS_nanosleep, at.v, left.v), SYS_BLOCK);
	signal_send_proc(t->proc, SIGUSR1, NULL);
	kernel_run_ready(&g->k);
	assert_true(fake_over(t, &r));
	assert_int_equal(r, -EINTR);
	memcpy(ts, fake_ptr(g, left), sizeof(ts));
	assert_int_equal(ts[0], 99);
}

static void posix_timer_counts_overruns(void **state)
{
	int64_t spec[4] = { 0, 1000000, 0, 1000000 };
	gva_t at = fake_put(g, spec, sizeof(spec)), id = fake_alloc(g, 4);
	union gsiginfo si;

	me->sighand->act[SIGALRM - 1].handler = 0x1000;
	signal_set_mask(me, GSIG_BIT(SIGALRM));
	assert_int_equal(fake_call(me, SYS_timer_create, 1, 0, id.v), 0);
	assert_int_equal(fake_call(me, SYS_timer_settime, 0, 0, at.v, 0), 0);
	for (int i = 0; i < 5; i++) {
		struct timespec ts = { 0, 2000000 };
		nanosleep(&ts, NULL);
		fake_sleep(g, 1);
	}
	assert_int_equal(signal_take(me, GSIG_BIT(SIGALRM), &si), SIGALRM);
	assert_true(si.timer.overrun >= 5);
	assert_int_equal(fake_call(me, SYS_timer_getoverrun, 0), si.timer.overrun);
	assert_int_equal(fake_call(me, SYS_timer_delete, 0), 0);
	assert_int_equal(fake_call(me, SYS_timer_delete, 0), -EINVAL);
}

/* Of several epolls that want to be woken alone, one is; and all when it is over. */
static void epoll_exclusive_wakes_one(void **state)
{
	struct gepoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE | (uint32_t)EPOLLET };
	struct task *who[3];
	int32_t *fds = fake_ptr(g, mem);
	unsigned over = 0;
	int rd, wr;
	long r;

	assert_int_equal(fake_call(me, SYS_pipe2, mem.v, O_NONBLOCK), 0);
	rd = fds[0];
	wr = fds[1];
	for (unsigned i = 0; i < ARRAY_LEN(who); i++) {
		long ep = fake_call(me, SYS_epoll_create1, 0);

		memcpy(fake_ptr(g, mem), &ev, sizeof(ev));
		assert_int_equal(fake_call(me, SYS_epoll_ctl, (uint64_t)ep, EPOLL_CTL_ADD,
					 (uint64_t)rd, mem.v),
			0);
		who[i] = fake_thread(me);
		assert_int_equal(fake_call(who[i], SYS_epoll_wait, (uint64_t)ep, mem.v + 256, 1,
					 (uint64_t)-1),
			SYS_BLOCK);
	}
	for (unsigned round = 1; round < ARRAY_LEN(who); round++) {
		assert_int_equal(rw(me, wr, 1, true), 1);
		over = 0;
		for (unsigned i = 0; i < ARRAY_LEN(who); i++)
			over += fake_over(who[i], &r);
		assert_int_equal(over, round);
	}
	/* Its counts are no bytes: nothing is spliced into an event. */
	assert_int_equal(fake_call(me, SYS_splice, (uint64_t)rd, 0,
				 (uint64_t)fake_call(me, SYS_eventfd2, 0, 0), 0, 1, 0),
		-EINVAL);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(pipe_moves_bytes),
		T(pipe_wraps),
		T(poll_waits_for_a_pipe),
		T(epoll_levels_and_edges),
		T(epoll_nests_without_rings),
		T(epoll_wakes_one),
		T(epoll_exclusive_wakes_one),
		T(timers_tick),
		T(sleep_is_interrupted),
		T(posix_timer_counts_overruns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
