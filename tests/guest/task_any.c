/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls by number, through the one function that makes any of them: what is asked for there again
 * and again may be remembered, and must not be told to another, or when it has changed.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "guest.h"

enum { OFTEN = 60 };

static long often(long nr)
{
	long r = 0;

	for (int i = 0; i < OFTEN; i++)
		r = syscall(nr);
	return r;
}

static bool is_self(void)
{
	return often(SYS_getpid) == getpid() && often(SYS_getppid) == getppid() &&
	       often(SYS_getuid) == getuid() && often(SYS_getgid) == getgid() &&
	       often(SYS_geteuid) == geteuid() && often(SYS_getegid) == getegid() &&
	       often(SYS_gettid) == gettid();
}

static void *in_thread(void *arg)
{
	*(long *)arg = often(SYS_gettid);
	return NULL;
}

CASE(who)
{
	pid_t before = getpid(), pid;
	long there = 0;
	pthread_t t;

	say_is("self", is_self());
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(syscall(SYS_getpid) == before || syscall(SYS_getppid) != before ||
			!is_self());
	need("waitpid", waitpid(pid, (int[]){ 0 }, 0));
	say_is("self", is_self());
	pid = vfork();
	if (pid == 0)
		_exit(syscall(SYS_getpid) == before);
	need("waitpid", waitpid(pid, (int[]){ 0 }, 0));
	say_is("self", is_self());
	need("setresuid", setresuid(1234, 1235, 0));
	say_n("user", syscall(SYS_getuid));
	say_n("rights of", syscall(SYS_geteuid));
	need("setresuid", setresuid(0, 0, 0));
	errno = pthread_create(&t, NULL, in_thread, &there);
	say_is("a thread", errno == 0);
	pthread_join(t, NULL);
	say_is("is another", there > 0 && there != before && syscall(SYS_gettid) == before);
}

static int64_t now(long id)
{
	struct timespec t = { 0 };

	return syscall(SYS_clock_gettime, id, &t) < 0 ? -errno
						      : t.tv_sec * 1000000000LL + t.tv_nsec;
}

CASE(clocks)
{
	struct timespec t;
	int64_t last = 0, here;
	bool forth = true;

	for (int i = 0; i < OFTEN; i++) {
		here = now(CLOCK_MONOTONIC);
		forth &= here > 0 && here >= last;
		last = here;
	}
	say_is("goes forth", forth);
	need("clock_gettime", clock_gettime(CLOCK_MONOTONIC, &t));
	say_is("the same", t.tv_sec * 1000000000LL + t.tv_nsec >= last);
	for (int i = 0; i < OFTEN; i++)
		here = now(CLOCK_REALTIME);
	say_is("the time", here / 1000000000 - time(NULL) < 2);
	say_is("none", now(99) == -EINVAL);
	say_is("of this process", now(CLOCK_PROCESS_CPUTIME_ID) > 0);
	say("nowhere", (int)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, BAD_PTR));
	say_is("still", now(CLOCK_MONOTONIC) >= last);
}

static long six(long a, long b, long c, long d, long e, long f)
{
	return syscall(SYS_mmap, a, b, c, d, e, f);
}

/* All six arguments arrive, whatever else was asked there. */
CASE(arguments)
{
	int fd = need_fd("open", open("f", O_RDWR | O_CREAT, 0600));
	char *p, b[4] = "";
	struct stat st;

	say_is("self", is_self());
	need("pwrite", syscall(SYS_pwrite64, fd, "abcd", 4, 8192));
	p = (char *)six(0, 4096, 1 /* PROT_READ */, 2 /* MAP_PRIVATE */, fd, 8192);
	say_is("mapped from there", p != (char *)-1 && memcmp(p, "abcd", 4) == 0);
	for (int i = 0; i < OFTEN; i++)
		need("pread64", syscall(SYS_pread64, fd, b, 4, 8192));
	say_is("read there", memcmp(b, "abcd", 4) == 0);
	for (int i = 0; i < OFTEN; i++)
		need("newfstatat", syscall(SYS_newfstatat, AT_FDCWD, "/", &st, 0));
	say_is("a directory", S_ISDIR(st.st_mode));
	say("nothing there", (int)syscall(SYS_openat, AT_FDCWD, "/nothing", O_RDONLY, 0));
	say("no call", (int)syscall(1000));
	say("no call", (int)syscall(-1));
}

static volatile sig_atomic_t ticks, wrong;
static pid_t self;

static void tick(int sig)
{
	int err = errno;
	struct timespec t;

	if (syscall(SYS_getpid) != self || syscall(SYS_getuid) != 0 ||
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) != 0 || t.tv_nsec >= 1000000000)
		wrong = 1;
	if (syscall(SYS_access, "/nothing", 0) != -1 || errno != ENOENT)
		wrong = 2;
	errno = err;
	ticks++;
}

CASE(in_the_middle)
{
	struct itimerval often_ = { { 0, 300 }, { 0, 300 } }, never = { 0 };
	char b[16];

	self = getpid();
	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &often_, NULL);
	while (ticks < 100 && !wrong) {
		if (syscall(SYS_readlink, "/usr", b, sizeof(b)) != -1 || errno != EINVAL)
			wrong = 3;
		if (syscall(SYS_getppid) != getppid() || now(CLOCK_MONOTONIC) <= 0)
			wrong = 4;
		if (syscall(SYS_access, "/nothing at all", 0) != -1 || errno != ENOENT)
			wrong = 5;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	say_n("wrong", wrong);
}

struct act {
	uint64_t handler, flags, restorer, mask;
};

/* From a site that nobody knows, so that the kernel has to say it. */
static long really_asked(long sig, struct act *ret)
{
	register long size __asm__("r10") = 8;
	long r;

	__asm__ volatile("nop\n"
			 "syscall"
			 : "=a"(r)
			 : "a"(SYS_rt_sigaction), "D"(sig), "S"(0), "d"(ret), "r"(size)
			 : "rcx", "r11", "memory");
	return r;
}

/* What happens before an exec: every signal that is not ignored gets its default. */
static void set_defaults(void)
{
	struct sigaction act, none = { .sa_handler = SIG_DFL };

	for (int sig = 1; sig < 32; sig++)
		if (sigaction(sig, NULL, &act) == 0 && act.sa_handler != SIG_IGN)
			sigaction(sig, &none, NULL);
}

static unsigned with_restorer(void)
{
	unsigned n = 0;
	struct act a;

	for (int sig = 1; sig < 32; sig++)
		n += really_asked(sig, &a) == 0 && a.handler == 0 && (a.flags & 0x4000000) &&
		     a.restorer;
	return n;
}

static volatile unsigned child, again, below;

static void set_twice(void)
{
	set_defaults();
	child = with_restorer();
	set_defaults();
	again = with_restorer();
}

static void set_and_fork(void)
{
	int status = 0;
	pid_t inner;

	set_defaults();
	inner = fork();
	if (inner == 0)
		_exit((int)with_restorer());
	waitpid(inner, &status, 0);
	below = (unsigned)WEXITSTATUS(status);
}

static void in_our_memory(void (*fn)(void))
{
	pid_t pid = vfork();

	if (pid == 0) {
		fn();
		_exit(0);
	}
	need("waitpid", waitpid(pid, NULL, 0));
}

/* A child of vfork sets dispositions in its parent's memory: they are its own. */
CASE(set_before_exec)
{
	signal(SIGUSR1, tick);
	signal(SIGHUP, SIG_IGN);
	for (int i = 0; i < 3; i++) {
		child = again = below = 0;
		in_our_memory(set_twice);
		say_n("in the child", child);
		say_n("once more", again);
		in_our_memory(set_and_fork);
		say_n("below", below);
		say_n("not here", with_restorer());
	}
	ticks = 0;
	self = getpid();
	raise(SIGUSR1);
	say_n("still heard", ticks);
}
