/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/guest/io.h - how the io, sock, tty, timer and ipc programs say what they saw.
 *
 * Rules: the text of a call is its label, so that what is printed explains itself.
 */
#ifndef WARD_TESTS_GUEST_IO_H
#define WARD_TESTS_GUEST_IO_H

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "guest.h"

#define io_errname errno_name

/* The value of a call, or its error's name. */
#define R(call)                                                                                    \
	do {                                                                                       \
		errno = 0;                                                                         \
		long r_ = (long)(call);                                                            \
		if (r_ == -1)                                                                      \
			printf("%s: %s\n", #call, io_errname(errno));                              \
		else                                                                               \
			printf("%s: %ld\n", #call, r_);                                            \
	} while (0)

/* The same for a value that differs between runs: a descriptor, a pid. */
#define OK(call)                                                                                   \
	do {                                                                                       \
		errno = 0;                                                                         \
		long r_ = (long)(call);                                                            \
		printf("%s: %s\n", #call, r_ == -1 ? io_errname(errno) : "ok");                    \
	} while (0)

#define B(cond) printf("%s: %s\n", #cond, (cond) ? "yes" : "no")

#define NEED(call)                                                                                 \
	do {                                                                                       \
		if ((call) == -1) {                                                                \
			printf("NEED %s: %s\n", #call, io_errname(errno));                         \
			fflush(stdout);                                                            \
			_exit(9);                                                                  \
		}                                                                                  \
	} while (0)

#define BADP BAD_PTR

static inline int io_poll(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (poll(&p, 1, 0) < 0)
		return -1;
	return p.revents;
}

/* poll's answer in words. */
static inline void io_show_poll(const char *what, int fd)
{
	int r = io_poll(fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM);

	printf("poll %s:%s%s%s%s%s%s%s\n", what, r & POLLIN ? " in" : "", r & POLLOUT ? " out" : "",
		r & POLLPRI ? " pri" : "", r & POLLRDHUP ? " rdhup" : "", r & POLLHUP ? " hup" : "",
		r & POLLERR ? " err" : "", r & POLLNVAL ? " nval" : "");
}

static inline void io_nap(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static inline long io_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000L + t.tv_nsec / 1000000;
}

static volatile sig_atomic_t io_signals;

static inline void io_count(int sig)
{
	(void)sig;
	io_signals++;
}

static inline void io_on(int sig, int flags)
{
	struct sigaction a;

	memset(&a, 0, sizeof(a));
	a.sa_handler = io_count;
	a.sa_flags = flags;
	sigaction(sig, &a, NULL);
}

/* A child that sends @sig to its parent after @ms. */
static inline pid_t io_kick(int sig, int ms)
{
	pid_t parent = getpid(), p;

	fflush(stdout);
	p = fork();
	if (p == 0) {
		io_nap(ms);
		kill(parent, sig);
		_exit(0);
	}
	return p;
}

static inline int io_reap(pid_t p)
{
	int st = 0;

	while (waitpid(p, &st, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

#endif
