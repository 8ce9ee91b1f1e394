/* SPDX-License-Identifier: Apache-2.0 */
/* poll, ppoll, select, pselect6. */
#include "io.h"

#include <sys/resource.h>
#include <sys/select.h>

static int p[2];

CASE(poll_errors)
{
	struct pollfd f[2] = { { 0 } };

	NEED(pipe(p));
	f[0] = (struct pollfd){ p[0], POLLIN, -1 };
	f[1] = (struct pollfd){ 999, POLLIN, 0 };
	R(poll(f, 2, 0));
	printf("%x %x\n", f[0].revents, f[1].revents);
	f[1].fd = -1;
	f[1].revents = 7;
	R(poll(f, 2, 0));
	printf("%x\n", f[1].revents);
	R(poll(BADP, 1, 0));
	R(poll(NULL, 0, 0));
	R(poll(BADP, 0, 5));
	struct rlimit rl;
	getrlimit(RLIMIT_NOFILE, &rl);
	R(poll(f, rl.rlim_cur + 1, 0));
	struct timespec ts = { 0, -1 };
	R(syscall(SYS_ppoll, f, 1, &ts, NULL, 8));
	ts.tv_sec = -1;
	ts.tv_nsec = 0;
	R(syscall(SYS_ppoll, f, 1, &ts, NULL, 8));
	R(syscall(SYS_ppoll, f, 1, BADP, NULL, 8));
	sigset_t s;
	sigemptyset(&s);
	R(syscall(SYS_ppoll, f, 1, NULL, &s, 16));
	ts.tv_sec = 0;
	R(syscall(SYS_ppoll, f, 1, &ts, BADP, 8));
}

CASE(poll_waits)
{
	struct pollfd f;

	NEED(pipe(p));
	f = (struct pollfd){ p[0], POLLIN, 0 };
	long t = io_now_ms();
	R(poll(&f, 1, 40));
	B(io_now_ms() - t >= 39);
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		write(p[1], "x", 1);
		_exit(0);
	}
	R(poll(&f, 1, -1));
	printf("%x\n", f.revents);
	io_reap(c);
	char x;
	read(p[0], &x, 1);
	io_on(SIGUSR1, SA_RESTART);
	c = io_kick(SIGUSR1, 30);
	R(poll(&f, 1, 5000));
	io_reap(c);
	/* An ignored signal does not end the wait. */
	signal(SIGUSR2, SIG_IGN);
	c = io_kick(SIGUSR2, 20);
	R(poll(&f, 1, 100));
	io_reap(c);
	/* Same descriptor twice, different questions. */
	struct pollfd g[2] = { { p[1], POLLOUT, 0 }, { p[1], POLLIN, 0 } };
	R(poll(g, 2, 0));
	printf("%x %x\n", g[0].revents, g[1].revents);
}

CASE(ppoll_mask)
{
	struct pollfd f;
	struct timespec ts = { 5, 0 };
	sigset_t usr1, none;

	NEED(pipe(p));
	f = (struct pollfd){ p[0], POLLIN, 0 };
	io_on(SIGUSR1, 0);
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	raise(SIGUSR1);
	R(ppoll(&f, 1, &ts, &none));
	printf("signals %d\n", io_signals);
	/* Ready now: the pending signal stays pending. */
	raise(SIGUSR1);
	write(p[1], "x", 1);
	R(ppoll(&f, 1, &ts, &none));
	sigset_t pend;
	sigpending(&pend);
	printf("signals %d pending %d\n", io_signals, sigismember(&pend, SIGUSR1));
	/* The raw call writes back what is left. */
	ts = (struct timespec){ 5, 0 };
	R(syscall(SYS_ppoll, &f, 1, &ts, NULL, 8));
	B(ts.tv_sec == 4);
}

CASE(select_basics)
{
	fd_set r, w, x;
	struct timeval tv = { 0, 0 };

	NEED(pipe(p));
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&x);
	FD_SET(p[0], &r);
	FD_SET(p[1], &w);
	FD_SET(p[0], &x);
	R(select(p[1] + 1, &r, &w, &x, &tv));
	printf("%d %d %d\n", FD_ISSET(p[0], &r) != 0, FD_ISSET(p[1], &w) != 0,
		FD_ISSET(p[0], &x) != 0);
	write(p[1], "x", 1);
	FD_SET(p[0], &r);
	R(select(p[1] + 1, &r, NULL, NULL, NULL));
	close(p[1]);
	char c;
	read(p[0], &c, 1);
	FD_SET(p[0], &r);
	R(select(p[1] + 1, &r, NULL, NULL, NULL)); /* end of file is readable */
	FD_SET(p[1], &r);
	R(select(p[1] + 1, &r, NULL, NULL, &tv));
	R(select(-1, &r, NULL, NULL, &tv));
	R(select(1, BADP, NULL, NULL, &tv));
	tv.tv_usec = -1;
	R(select(0, NULL, NULL, NULL, &tv));
	tv = (struct timeval){ -1, 0 };
	R(select(0, NULL, NULL, NULL, &tv));
	R(syscall(SYS_select, 0, NULL, NULL, NULL, BADP));
	tv = (struct timeval){ 0, 40000 };
	long t = io_now_ms();
	R(syscall(SYS_select, 0, NULL, NULL, NULL, &tv));
	B(io_now_ms() - t >= 39);
	B(tv.tv_sec == 0 && tv.tv_usec == 0);
	R(select(100000, &r, NULL, NULL, &(struct timeval){ 0, 0 }) < 0);
}

CASE(pselect_mask)
{
	struct timespec ts = { 5, 0 };
	sigset_t usr1, none;
	fd_set r;

	NEED(pipe(p));
	io_on(SIGUSR1, 0);
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	raise(SIGUSR1);
	FD_ZERO(&r);
	FD_SET(p[0], &r);
	R(pselect(p[0] + 1, &r, NULL, NULL, &ts, &none));
	printf("signals %d\n", io_signals);
	struct {
		const void *s;
		size_t n;
	} arg = { &none, 4 };
	R(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &ts, &arg));
	R(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &ts, BADP));
	arg.s = NULL;
	ts = (struct timespec){ 0, 1000000 };
	R(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &ts, &arg));
	ts = (struct timespec){ 0, 2000000000 };
	R(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &ts, NULL));
	io_signals = 0;
	sigprocmask(SIG_UNBLOCK, &usr1, NULL);
	pid_t c = io_kick(SIGUSR1, 30);
	FD_SET(p[0], &r);
	R(select(p[0] + 1, &r, NULL, NULL, NULL));
	io_reap(c);
}

CASE(regular_files)
{
	int f = open("/proc/self/exe", O_RDONLY);

	io_show_poll("file", f);
	io_show_poll("null", open("/dev/null", O_RDWR));
	io_show_poll("zero", open("/dev/zero", O_RDWR));
}

/* STICKY_TIMEOUTS: select leaves its timeout alone. */
CASE(sticky_timeouts)
{
	struct timeval tv = { 0, 10 };

	R(syscall(SYS_personality, 0x4000000) == -1);
	R(syscall(SYS_select, 0, NULL, NULL, NULL, &tv));
	R(tv.tv_usec);
}
