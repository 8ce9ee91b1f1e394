/* SPDX-License-Identifier: Apache-2.0 */
/* epoll: levels, edges, one-shot, exclusive, nesting, what close does. */
#include "io.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

static int ep, p[2];

static void setup(void)
{
	ep = epoll_create1(0);
	NEED(ep);
	NEED(pipe2(p, O_NONBLOCK));
}

static int add(int fd, unsigned ev)
{
	struct epoll_event e = { .events = ev, .data.u64 = (unsigned)fd };

	return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}

static int mod(int fd, unsigned ev)
{
	struct epoll_event e = { .events = ev, .data.u64 = (unsigned)fd };

	return epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e);
}

static int wait0(void)
{
	struct epoll_event e[8];
	int n = epoll_wait(ep, e, 8, 0);

	for (int i = 0; i < n; i++)
		printf(" ev %x\n", e[i].events);
	return n;
}

CASE(errors)
{
	struct epoll_event e = { .events = EPOLLIN };

	R(epoll_create(0));
	R(epoll_create(-1));
	OK(epoll_create(1));
	R(epoll_create1(1));
	setup();
	R(epoll_ctl(ep, EPOLL_CTL_ADD, ep, &e));
	R(epoll_ctl(p[0], EPOLL_CTL_ADD, p[1], &e));
	R(epoll_ctl(ep, EPOLL_CTL_ADD, 999, &e));
	R(epoll_ctl(999, EPOLL_CTL_ADD, p[0], &e));
	R(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], BADP));
	R(epoll_ctl(ep, 77, p[0], &e));
	R(epoll_ctl(ep, EPOLL_CTL_MOD, p[0], &e));
	R(epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL));
	R(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e));
	R(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e));
	int f = open("/", O_RDONLY | O_DIRECTORY);
	R(epoll_ctl(ep, EPOLL_CTL_ADD, f, &e));
	R(epoll_wait(ep, &e, 0, 0));
	R(epoll_wait(ep, &e, -1, 0));
	R(epoll_wait(999, &e, 1, 0));
	R(epoll_wait(p[0], &e, 1, 0));
	R(epoll_wait(ep, &e, 0x7fffffff, 0));
	write(p[1], "x", 1);
	R(epoll_wait(ep, BADP, 1, 0));
	R(epoll_wait(ep, &e, 1, 0));
	char c;
	R(read(ep, &c, 1));
	R(write(ep, &c, 1));
	R(lseek(ep, 0, SEEK_SET));
}

CASE(level)
{
	setup();
	R(add(p[0], EPOLLIN));
	R(wait0());
	write(p[1], "ab", 2);
	R(wait0());
	R(wait0());
	char c;
	read(p[0], &c, 1);
	R(wait0());
	read(p[0], &c, 1);
	R(wait0());
	R(mod(p[0], 0));
	write(p[1], "a", 1);
	R(wait0());
	close(p[1]);
	R(wait0()); /* HUP comes without being asked for */
}

CASE(edge)
{
	char c[8];

	setup();
	R(add(p[0], EPOLLIN | EPOLLET));
	write(p[1], "a", 1);
	R(wait0());
	R(wait0());
	write(p[1], "b", 1);
	R(wait0());
	read(p[0], c, 1);
	R(wait0());
	R(mod(p[0], EPOLLIN | EPOLLET)); /* arms again */
	R(wait0());
	R(add(p[1], EPOLLOUT | EPOLLET));
	R(wait0());
	R(wait0());
	read(p[0], c, 8);
	close(p[1]);
	R(wait0());
}

CASE(oneshot)
{
	setup();
	R(add(p[0], EPOLLIN | EPOLLONESHOT));
	write(p[1], "a", 1);
	R(wait0());
	R(wait0());
	write(p[1], "b", 1);
	R(wait0());
	R(mod(p[0], EPOLLIN | EPOLLONESHOT));
	R(wait0());
	R(wait0());
}

CASE(exclusive)
{
	setup();
	R(add(p[0], EPOLLIN | EPOLLEXCLUSIVE));
	R(mod(p[0], EPOLLIN | EPOLLEXCLUSIVE));
	R(mod(p[0], EPOLLIN));
	R(add(p[1], EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT));
	int ep2 = epoll_create1(0);
	R(add(ep2, EPOLLIN | EPOLLEXCLUSIVE));
	write(p[1], "a", 1);
	R(wait0());
}

CASE(nested)
{
	setup();
	struct epoll_event e = { .events = EPOLLIN };
	int outer = epoll_create1(0);
	R(add(p[0], EPOLLIN));
	R(epoll_ctl(outer, EPOLL_CTL_ADD, ep, &e));
	R(epoll_wait(outer, &e, 1, 0));
	io_show_poll("outer", outer);
	write(p[1], "a", 1);
	R(epoll_wait(outer, &e, 1, 0));
	io_show_poll("outer", outer);
	io_show_poll("inner", ep);
	R(epoll_wait(outer, &e, 1, 0));
	char c;
	read(p[0], &c, 1);
	R(epoll_wait(outer, &e, 1, 0));
	io_show_poll("inner", ep);
	/* a ring of them is refused */
	e.events = EPOLLIN;
	R(epoll_ctl(ep, EPOLL_CTL_ADD, outer, &e));
}

CASE(depth)
{
	int last = epoll_create1(0), i;
	struct epoll_event e = { .events = EPOLLIN };

	for (i = 0; i < 10; i++) {
		int n = epoll_create1(0);
		if (epoll_ctl(n, EPOLL_CTL_ADD, last, &e) < 0) {
			printf("%d: %s\n", i, io_errname(errno));
			break;
		}
		last = n;
	}
}

CASE(close_removes)
{
	setup();
	int d = dup(p[0]);
	R(add(p[0], EPOLLIN));
	write(p[1], "a", 1);
	close(p[0]);
	R(wait0()); /* the open file lives on in its duplicate */
	R(epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL));
	R(wait0());
	close(d);
	R(wait0());
	/* the same number again is a new file */
	NEED(pipe2(p, O_NONBLOCK));
	R(add(p[0], EPOLLIN));
	R(wait0());
}

CASE(same_file_two_numbers)
{
	setup();
	int d = dup(p[0]);
	R(add(p[0], EPOLLIN));
	R(add(d, EPOLLIN));
	write(p[1], "a", 1);
	R(wait0());
}

CASE(waits)
{
	struct epoll_event e;

	setup();
	R(add(p[0], EPOLLIN));
	long t = io_now_ms();
	R(epoll_wait(ep, &e, 1, 40));
	B(io_now_ms() - t >= 39);
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		write(p[1], "x", 1);
		_exit(0);
	}
	R(epoll_wait(ep, &e, 1, -1));
	io_reap(c);
	char x;
	read(p[0], &x, 1);
	io_on(SIGUSR1, SA_RESTART);
	c = io_kick(SIGUSR1, 30);
	R(epoll_wait(ep, &e, 1, 5000)); /* never restarted */
	io_reap(c);
}

CASE(masks)
{
	struct epoll_event e;
	sigset_t none, usr1;

	setup();
	R(add(p[0], EPOLLIN));
	io_on(SIGUSR1, 0);
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	raise(SIGUSR1);
	R(epoll_wait(ep, &e, 1, 10));
	printf("signals %d\n", io_signals);
	R(epoll_pwait(ep, &e, 1, 5000, &none));
	printf("signals %d\n", io_signals);
	sigset_t now;
	sigprocmask(SIG_SETMASK, NULL, &now);
	B(sigismember(&now, SIGUSR1));
	R(syscall(SYS_epoll_pwait, ep, &e, 1, 0, &none, 4));
	R(syscall(SYS_epoll_pwait, ep, &e, 1, 0, BADP, 8));
	struct timespec ts = { 0, 10000000 };
	R(syscall(441, ep, &e, 1, &ts, NULL, 8));
	ts.tv_nsec = 1000000000;
	R(syscall(441, ep, &e, 1, &ts, NULL, 8));
	R(syscall(441, ep, &e, 1, BADP, NULL, 8));
}

CASE(fairness)
{
	struct epoll_event e;
	int fds[4], seen = 0;

	ep = epoll_create1(0);
	for (int i = 0; i < 4; i++) {
		fds[i] = eventfd(1, 0);
		e = (struct epoll_event){ .events = EPOLLIN, .data.u32 = (unsigned)i };
		NEED(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e));
	}
	for (int i = 0; i < 4; i++) {
		NEED(epoll_wait(ep, &e, 1, 0));
		seen |= 1 << e.data.u32;
	}
	printf("seen %x\n", seen);
}

CASE(thousand)
{
	struct epoll_event e[16];
	int fd[1000], n = 0;

	ep = epoll_create1(0);
	for (int i = 0; i < 1000; i++) {
		fd[i] = eventfd(0, EFD_NONBLOCK);
		if (fd[i] < 0)
			break;
		e[0] = (struct epoll_event){ .events = EPOLLIN, .data.u32 = (unsigned)i };
		if (epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], e) == 0)
			n++;
	}
	printf("added %d\n", n);
	uint64_t one = 1;
	write(fd[500], &one, 8);
	write(fd[7], &one, 8);
	R(epoll_wait(ep, e, 16, 0));
	printf("%u %u\n", e[0].data.u32, e[1].data.u32);
}
