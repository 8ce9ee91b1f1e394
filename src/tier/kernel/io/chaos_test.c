/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/chaos_test.c - random calls with random arguments from several tasks: nothing may crash, and
 * at the end everything must be gone. Meant for the sanitizers; deterministic, so that a failure
 * can be run again.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

enum { TASKS = 5, ROUNDS = 6000, SEEDS = 12, WORDS = 64 };

static uint64_t seed;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static const int calls[] = { SYS_poll, SYS_pipe, SYS_pipe2, SYS_select, SYS_shmget, SYS_shmat,
	SYS_shmctl, SYS_shmdt, SYS_getitimer, SYS_setitimer, SYS_socket, SYS_connect, SYS_accept,
	SYS_accept4, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg,
	SYS_shutdown, SYS_bind, SYS_listen, SYS_getsockname, SYS_getpeername, SYS_socketpair,
	SYS_setsockopt, SYS_getsockopt, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl,
	SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_epoll_create1, SYS_epoll_ctl,
	SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_timer_create, SYS_timer_settime,
	SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_clock_gettime,
	SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_mq_open, SYS_mq_unlink,
	SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr, SYS_inotify_init1,
	SYS_inotify_rm_watch, SYS_pselect6, SYS_ppoll, SYS_splice, SYS_tee, SYS_vmsplice,
	SYS_signalfd4, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_eventfd2,
	SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_close, SYS_dup, SYS_dup2, SYS_fcntl,
	SYS_ioctl, SYS_sendfile };

static const uint32_t ioctls[] = { 0x541b, 0x5401, 0x5402, 0x5413, 0x5414, 0x540f, 0x5410, 0x8912,
	0x8913, 0x8927, 0x5411 };

/* Structures that make sense more often than noise would. */
static void fill(struct fake *g, gva_t mem)
{
	uint64_t *w = fake_ptr(g, mem);

	for (int i = 0; i < WORDS; i++) {
		switch (next() % 8) {
		case 0:
			w[i] = next();
			break;
		case 1:
			w[i] = mem.v + next() % (WORDS * 8);
			break;
		case 2:
			w[i] = next() % 24 | (uint64_t)(next() % 64) << 32;
			break;
		case 3:
			w[i] = 0;
			break;
		case 4: /* a loopback address */
			w[i] = 2 | (uint64_t)((next() % 8 + 40000) & 0xff) << 24 | 0x9c0000ULL |
			       0x0100007fULL << 32;
			break;
		case 5: /* SCM_RIGHTS */
			w[i] = (uint64_t)SOL_SOCKET | 1ULL << 32;
			break;
		default:
			w[i] = next() % 32;
		}
	}
}

static uint64_t argument(gva_t mem)
{
	switch (next() % 12) {
	case 0:
		return next();
	case 1:
		return (uint64_t)-1;
	case 2:
		return 1ULL << (next() % 64);
	case 3:
	case 4:
	case 5:
		return mem.v + next() % (WORDS * 8);
	case 6:
		return FAKE_START + FAKE_BYTES - next() % 16;
	case 7:
		return 0;
	default:
		return next() % 24;
	}
}

static void one(struct fake *g, struct task *t, gva_t mem)
{
	uint64_t a[6];
	int nr = calls[next() % ARRAY_LEN(calls)];

	for (int i = 0; i < 6; i++)
		a[i] = argument(mem);
	if (next() % 4) /* mostly a descriptor that exists */
		a[0] = next() % 40;
	if (nr == SYS_socket || nr == SYS_socketpair) {
		a[0] = (uint64_t[]){ AF_UNIX, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK }[next() % 5];
		a[1] = next() % 5 + 1;
		a[2] = 0;
	}
	if (nr == SYS_epoll_ctl)
		a[1] = next() % 4;
	if (nr == SYS_fcntl) /* no locks: there is no file system here */
		a[1] = (uint64_t[]){ F_DUPFD, F_GETFL, F_SETFL, F_SETPIPE_SZ,
			F_GETPIPE_SZ }[next() % 5];
	if (nr == SYS_ioctl && next() % 2)
		a[1] = ioctls[next() % ARRAY_LEN(ioctls)];
	if (nr == SYS_sendto || nr == SYS_recvfrom || nr == SYS_read || nr == SYS_write)
		a[2] = next() % 70000;
	fake_call_(t, nr, a);
}

static void chaos(void **state)
{
	for (unsigned s = 1; s <= SEEDS; s++) {
		struct fake *g = fake_create();
		gva_t mem = fake_alloc(g, WORDS * 8);
		struct task *t[TASKS];
		unsigned made = 0;

		seed = 0x9e3779b97f4a7c15ULL * s;
		fake_alloc(g, 1 << 20);
		for (int i = 0; i < TASKS; i++) {
			t[i] = i % 2 ? fake_thread(g->task) : fake_fork(g->task);
			for (int n = 1; n <= GSIG_MAX; n++) /* nothing kills, some interrupt */
				t[i]->sighand->act[n - 1].handler =
					n != SIGUSR1 && next() % 2 ? GSIG_IGN : 0x1000;
		}
		for (int r = 0; r < ROUNDS; r++) {
			struct task *who = t[next() % TASKS];
			union gsiginfo si;

			if (r % 16 == 0)
				fill(g, mem);
			if (!who->call.active) {
				one(g, who, mem);
				made++;
			} else if (next() % 3 == 0) {
				signal_send_task(who, next() % 2 ? SIGUSR1 : SIGUSR2, NULL);
			}
			kernel_lock(&g->k);
			ktimer_run(&g->k, kernel_now(&g->k));
			kernel_run_ready(&g->k);
			kernel_unlock(&g->k);
			who->deliver.sig = 0; /* the handler has run, and returned */
			signal_set_mask(who, 0);
			while (signal_take(who, ~0ULL, &si) > 0)
				;
		}
		assert_true(made > ROUNDS / 4); /* they do not all sleep */
		fake_destroy(g);                /* the sanitizer counts what is left */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(chaos) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
