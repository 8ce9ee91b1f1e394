/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX timers and interval timers, by the raw calls. */
#include "io.h"

#include <sys/time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

CASE(create_errors)
{
	struct sigevent ev;
	int id;

	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_SIGNAL;
	ev.sigev_signo = SIGUSR1;
	R(syscall(SYS_timer_create, 77, &ev, &id));
	R(syscall(SYS_timer_create, CLOCK_MONOTONIC, BADP, &id));
	R(syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, BADP));
	ev.sigev_signo = 65;
	R(syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id));
	ev.sigev_signo = SIGUSR1;
	ev.sigev_notify = 77;
	R(syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id));
	struct itimerspec it = { { 0, 0 }, { 1, 0 } };
	R(syscall(SYS_timer_settime, 1234, 0, &it, NULL));
	R(syscall(SYS_timer_gettime, 1234, &it));
	R(syscall(SYS_timer_getoverrun, 1234));
	R(syscall(SYS_timer_delete, 1234));
	R(syscall(SYS_timer_create, CLOCK_REALTIME, NULL, &id));
	it.it_value.tv_nsec = 1000000000;
	R(syscall(SYS_timer_settime, id, 0, &it, NULL));
	R(syscall(SYS_timer_settime, id, 0, NULL, NULL));
	R(syscall(SYS_timer_settime, id, 0, BADP, NULL));
	R(syscall(SYS_timer_gettime, id, BADP));
	R(syscall(SYS_timer_delete, id));
	R(syscall(SYS_timer_delete, id));
}

static volatile int got_code, got_value;

static void on_info(int sig, siginfo_t *si, void *ctx)
{
	(void)sig, (void)ctx;
	got_code = si->si_code;
	got_value = si->si_value.sival_int;
	io_signals++;
}

CASE(fires)
{
	struct sigaction a;
	struct sigevent ev;
	struct itimerspec it = { { 0, 0 }, { 0, 20000000 } };
	timer_t id;

	memset(&a, 0, sizeof(a));
	a.sa_sigaction = on_info;
	a.sa_flags = SA_SIGINFO;
	sigaction(SIGRTMIN, &a, NULL);
	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_SIGNAL;
	ev.sigev_signo = SIGRTMIN;
	ev.sigev_value.sival_int = 99;
	NEED(timer_create(CLOCK_MONOTONIC, &ev, &id));
	R(timer_settime(id, 0, &it, NULL));
	R(pause());
	printf("signals %d code %d value %d\n", io_signals, got_code, got_value);
	R(timer_gettime(id, &it));
	B(it.it_value.tv_sec == 0 && it.it_value.tv_nsec == 0);
	R(timer_delete(id));
}

CASE(overrun)
{
	struct sigevent ev;
	struct itimerspec it = { { 0, 5000000 }, { 0, 5000000 } };
	sigset_t s;
	timer_t id;
	siginfo_t si;

	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &s, NULL);
	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_SIGNAL;
	ev.sigev_signo = SIGRTMIN;
	NEED(timer_create(CLOCK_MONOTONIC, &ev, &id));
	R(timer_settime(id, 0, &it, NULL));
	io_nap(60);
	B(sigwaitinfo(&s, &si) == SIGRTMIN);
	B(timer_getoverrun(id) >= 5);
	B(si.si_overrun >= 5);
	it = (struct itimerspec){ { 0, 0 }, { 0, 0 } };
	struct itimerspec old;
	R(timer_settime(id, 0, &it, &old));
	B(old.it_interval.tv_nsec == 5000000);
	R(timer_delete(id));
}

CASE(none_notify)
{
	struct sigevent ev;
	struct itimerspec it = { { 0, 0 }, { 100, 0 } };
	timer_t id;

	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_NONE;
	NEED(timer_create(CLOCK_REALTIME, &ev, &id));
	R(timer_settime(id, 0, &it, NULL));
	R(timer_gettime(id, &it));
	B(it.it_value.tv_sec >= 98 && it.it_value.tv_sec <= 100);
	it.it_value = (struct timespec){ 1, 0 };
	R(timer_settime(id, TIMER_ABSTIME, &it, NULL));
	R(timer_gettime(id, &it));
	B(it.it_value.tv_sec == 0);
}

CASE(thread_id)
{
	struct sigevent ev;
	struct itimerspec it = { { 0, 0 }, { 0, 10000000 } };
	timer_t id;

	io_on(SIGUSR1, 0);
	memset(&ev, 0, sizeof(ev));
	ev.sigev_notify = SIGEV_THREAD_ID;
	ev.sigev_signo = SIGUSR1;
	ev.sigev_notify_thread_id = (int)syscall(SYS_gettid);
	int kid;
	R(syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &kid));
	R(syscall(SYS_timer_settime, kid, 0, &it, NULL));
	R(pause());
	printf("signals %d\n", io_signals);
	ev.sigev_notify_thread_id = 1;
	R(syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &kid));
	(void)id;
}

CASE(not_inherited)
{
	struct itimerspec it = { { 0, 0 }, { 100, 0 } };
	int id;

	R(syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, &id));
	R(syscall(SYS_timer_settime, id, 0, &it, NULL));
	alarm(100);
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		R(syscall(SYS_timer_gettime, id, &it));
		R(alarm(0));
		fflush(stdout);
		_exit(0);
	}
	io_reap(c);
	R(alarm(0) > 90);
}

CASE(itimers)
{
	struct itimerval it = { { 0, 0 }, { 0, 20000 } }, old;

	io_on(SIGALRM, 0);
	R(setitimer(ITIMER_REAL, &it, NULL));
	R(getitimer(ITIMER_REAL, &old));
	B(old.it_value.tv_usec > 0 && old.it_value.tv_usec <= 20000);
	R(pause());
	printf("signals %d\n", io_signals);
	it.it_interval.tv_usec = 10000;
	R(setitimer(ITIMER_REAL, &it, NULL));
	R(pause());
	R(pause());
	R(pause());
	it = (struct itimerval){ { 0, 0 }, { 0, 0 } };
	R(setitimer(ITIMER_REAL, &it, &old));
	B(old.it_interval.tv_usec == 10000);
	B(io_signals >= 4);
	R(setitimer(77, &it, NULL));
	R(getitimer(77, &it));
	R(setitimer(ITIMER_REAL, BADP, NULL));
	R(getitimer(ITIMER_REAL, BADP));
	it.it_value.tv_usec = 1000000;
	R(setitimer(ITIMER_REAL, &it, NULL));
	it.it_value.tv_usec = -1;
	R(setitimer(ITIMER_REAL, &it, NULL));
	R(syscall(SYS_setitimer, ITIMER_REAL, NULL, NULL));
	it = (struct itimerval){ { 1, 0 }, { 50, 0 } };
	R(setitimer(ITIMER_VIRTUAL, &it, NULL));
	R(getitimer(ITIMER_VIRTUAL, &old));
	B(old.it_value.tv_sec >= 49);
	R(setitimer(ITIMER_PROF, &it, NULL));
	R(getitimer(ITIMER_PROF, &old));
	B(old.it_value.tv_sec >= 49);
}

CASE(alarms)
{
	io_on(SIGALRM, 0);
	R(alarm(10));
	R(alarm(5));
	R(alarm(0));
	R(alarm(0));
	R(alarm(1));
	R(pause());
	printf("signals %d\n", io_signals);
}

CASE(alarm_kills)
{
	alarm(1);
	pause();
}

CASE(virtual_timer)
{
	struct itimerval it = { { 0, 0 }, { 0, 30000 } };

	io_on(SIGVTALRM, 0);
	R(setitimer(ITIMER_VIRTUAL, &it, NULL));
	long end = io_now_ms() + 5000;
	while (!io_signals && io_now_ms() < end)
		;
	printf("signals %d\n", io_signals);
}

/* A timer on CPU time does not run while nobody does. */
CASE(cpu_time)
{
	struct itimerspec v = { { 0, 0 }, { 0, 20000000 } };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct timespec from, now;
	timer_t t;

	io_on(SIGUSR1, 0);
	NEED(timer_create(CLOCK_PROCESS_CPUTIME_ID, &ev, &t));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	R(timer_settime(t, 0, &v, NULL));
	while (!io_signals)
		;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	B((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec >= 20000000);
	R(timer_gettime(t, &v));
	R(v.it_value.tv_sec + v.it_value.tv_nsec);
	R(timer_delete(t));
}
