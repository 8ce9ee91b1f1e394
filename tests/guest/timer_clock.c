/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks by the raw calls, and sleeping. */
#include "io.h"

#include <sys/timex.h>

#include <sys/time.h>

CASE(clocks)
{
	static const int ids[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
		CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
		CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, 11, 12, 99, -1 };
	struct timespec t;

	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		printf("%d: ", ids[i]);
		R(syscall(SYS_clock_gettime, ids[i], &t));
		R(syscall(SYS_clock_getres, ids[i], &t));
	}
	R(syscall(SYS_clock_getres, CLOCK_MONOTONIC, NULL));
	R(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, BADP));
	R(syscall(SYS_clock_getres, CLOCK_MONOTONIC, BADP));
	struct timeval tv;
	R(syscall(SYS_gettimeofday, &tv, NULL));
	struct timespec rt;
	clock_gettime(CLOCK_REALTIME, &rt);
	B(labs(rt.tv_sec - tv.tv_sec) <= 1);
	R(syscall(SYS_gettimeofday, BADP, NULL));
	time_t a = syscall(SYS_time, NULL), b = 0;
	B(labs(a - rt.tv_sec) <= 1);
	B(syscall(SYS_time, &b) == b);
	R(syscall(SYS_time, BADP));
	struct timespec m1, m2;
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &m1);
	clock_gettime(CLOCK_MONOTONIC, &m2);
	B(m2.tv_sec - m1.tv_sec <= 1);
}

CASE(settime_errors)
{
	struct timespec t = { 0, 1000000000 };

	R(clock_settime(CLOCK_MONOTONIC, &t));
	R(syscall(SYS_clock_settime, CLOCK_REALTIME, BADP));
	R(clock_settime(CLOCK_REALTIME, &t));
	R(clock_settime(99, &t));
}

CASE(sleeps)
{
	struct timespec t = { 0, 30000000 }, rem = { 7, 7 };
	long t0 = io_now_ms();

	R(nanosleep(&t, &rem));
	B(io_now_ms() - t0 >= 30);
	B(rem.tv_sec == 7);
	t.tv_nsec = 1000000000;
	R(nanosleep(&t, NULL));
	t.tv_nsec = -1;
	R(nanosleep(&t, NULL));
	t = (struct timespec){ -1, 0 };
	R(nanosleep(&t, NULL));
	R(syscall(SYS_nanosleep, BADP, NULL));
	t = (struct timespec){ 0, 0 };
	R(nanosleep(&t, NULL));
	io_on(SIGUSR1, SA_RESTART);
	pid_t c = io_kick(SIGUSR1, 30);
	t = (struct timespec){ 5, 0 };
	R(nanosleep(&t, &rem));
	B(rem.tv_sec == 4);
	io_reap(c);
	signal(SIGUSR2, SIG_IGN);
	c = io_kick(SIGUSR2, 20);
	t = (struct timespec){ 0, 60000000 };
	t0 = io_now_ms();
	R(nanosleep(&t, &rem));
	B(io_now_ms() - t0 >= 60);
	io_reap(c);
}

CASE(clock_sleeps)
{
	struct timespec t = { 0, 20000000 }, rem = { 7, 7 };

	R(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL));
	R(syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL));
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += 20000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	R(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL));
	struct timespec n;
	clock_gettime(CLOCK_MONOTONIC, &n);
	B(n.tv_sec > t.tv_sec || (n.tv_sec == t.tv_sec && n.tv_nsec >= t.tv_nsec));
	t = (struct timespec){ 0, 1 };
	R(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL));
	R(syscall(SYS_clock_nanosleep, 99, 0, &t, NULL));
	R(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &t, NULL));
	R(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, BADP, NULL));
	t.tv_nsec = 1000000000;
	R(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL));
	io_on(SIGUSR1, 0);
	pid_t c = io_kick(SIGUSR1, 30);
	t = (struct timespec){ 5, 0 };
	R(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, &rem));
	B(rem.tv_sec == 4);
	io_reap(c);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 5;
	rem = (struct timespec){ 7, 7 };
	c = io_kick(SIGUSR1, 30);
	R(syscall(SYS_clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &t, &rem));
	B(rem.tv_sec == 7);
	io_reap(c);
}

CASE(cpu_clocks)
{
	struct timespec a, b;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (volatile int i = 0; i < 20000000; i++)
		;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	B(b.tv_sec > a.tv_sec || b.tv_nsec > a.tv_nsec);
	clockid_t id;
	R(clock_getcpuclockid(getpid(), &id));
	R(clock_gettime(id, &b));
}

/* What is wrong with an adjustment is told before that nobody may make one. */
CASE(adjust_errors)
{
	struct timex t = { .modes = 0x8000 }; /* ADJ_ADJTIME without a single shot */

	R(adjtimex(BADP));
	R(adjtimex(&t));
	t = (struct timex){ .modes = 0 };
	B(adjtimex(&t) >= 0);
}
