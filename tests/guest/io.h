/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/guest/io.h - how the io, sock, tty, timer and ipc programs say what they saw.
 *
 * Rules: each case runs in a process of its own, so that a hang or a crash costs one case. What is
 *        printed is the same on every Linux: error names, truth values, relative results.
 */
#ifndef WARD_TESTS_GUEST_IO_H
#define WARD_TESTS_GUEST_IO_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IO_CASE_SECONDS 20

static inline const char *io_errname(int e)
{
#define E(n)                                                                                       \
	if (e == n)                                                                                \
		return #n;
	E(EPERM)
	E(ENOENT) E(ESRCH) E(EINTR) E(EIO) E(ENXIO) E(E2BIG) E(EBADF) E(ECHILD) E(EAGAIN) E(
		ENOMEM) E(EACCES) E(EFAULT) E(EBUSY) E(EEXIST) E(ENODEV) E(ENOTDIR) E(EISDIR)
		E(EINVAL) E(ENFILE) E(EMFILE) E(ENOTTY) E(EFBIG) E(ENOSPC) E(ESPIPE) E(EROFS) E(
			EPIPE) E(ERANGE) E(ENAMETOOLONG) E(ENOSYS) E(ELOOP) E(ENOMSG) E(EIDRM)
			E(EPROTO) E(EBADMSG) E(EOVERFLOW) E(ENOTSOCK) E(EDESTADDRREQ) E(EMSGSIZE) E(
				EPROTOTYPE) E(ENOPROTOOPT) E(EPROTONOSUPPORT) E(ESOCKTNOSUPPORT)
				E(EOPNOTSUPP) E(EPFNOSUPPORT) E(EAFNOSUPPORT) E(EADDRINUSE) E(
					EADDRNOTAVAIL) E(ENETDOWN) E(ENETUNREACH) E(ECONNABORTED)
					E(ECONNRESET) E(ENOBUFS) E(EISCONN) E(ENOTCONN) E(ETIMEDOUT)
						E(ECONNREFUSED) E(EHOSTUNREACH) E(EALREADY)
							E(EINPROGRESS) E(ETOOMANYREFS) E(ECANCELED)
								E(ENOKEY) E(EXDEV) E(EDEADLK)
#undef E
									return "E?";
}

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

static void *volatile io_badp = (void *)8; /* volatile: the compiler need not know */
#define BADP io_badp

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

static inline void io_run(const char *name, void (*fn)(void))
{
	pid_t p;
	int r;

	printf("== %s\n", name);
	fflush(stdout);
	p = fork();
	if (p == 0) {
		setvbuf(stdout, NULL, _IOFBF, 65536);
		fn();
		fflush(stdout);
		_exit(0);
	}
	long end = io_now_ms() + IO_CASE_SECONDS * 1000L;
	int st = 0;
	while ((r = waitpid(p, &st, WNOHANG)) == 0 && io_now_ms() < end)
		io_nap(1);
	if (r == 0) {
		kill(p, SIGKILL);
		waitpid(p, &st, 0);
		printf("HUNG\n");
	} else if (WIFSIGNALED(st)) {
		printf("killed by signal %d\n", WTERMSIG(st));
	} else if (WEXITSTATUS(st)) {
		printf("exit %d\n", WEXITSTATUS(st));
	}
	fflush(stdout);
}

#define RUN(fn) io_run(#fn, fn)

#endif
