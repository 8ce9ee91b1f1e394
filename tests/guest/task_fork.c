/* SPDX-License-Identifier: Apache-2.0 */
/* fork, vfork, clone, clone3: what a child has, and what it has not. */
#include "io.h"

#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int wait_code(pid_t pid)
{
	int st = -1;

	waitpid(pid, &st, 0);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

CASE(memory_is_a_copy)
{
	static volatile int v = 1;
	pid_t p = fork();

	if (!p) {
		v = 2;
		_exit(v);
	}
	printf("child %d\n", wait_code(p));
	printf("parent %d\n", v);
}

CASE(shared_memory_is_shared)
{
	volatile int *v =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t p;

	B(v != MAP_FAILED);
	p = fork();
	if (!p) {
		*v = 7;
		_exit(0);
	}
	printf("child %d\n", wait_code(p));
	printf("parent %d\n", *v);
}

CASE(descriptors_share_their_position)
{
	char c;
	pid_t p;
	int fd;

	put("f", "abcdef");
	fd = open("f", O_RDONLY);
	p = fork();
	if (!p)
		_exit(read(fd, &c, 1) == 1 ? c : 0);
	printf("child %c\n", wait_code(p));
	R(read(fd, &c, 1));
	printf("parent %c\n", c);
}

CASE(ids)
{
	pid_t me = getpid(), group = getpgrp(), session = getsid(0);
	pid_t p = fork();

	if (!p)
		_exit((getppid() == me) | (getpgrp() == group) << 1 | (getsid(0) == session) << 2 |
			(getpid() != me) << 3 | (getpid() == (pid_t)syscall(SYS_gettid)) << 4);
	printf("%d\n", wait_code(p));
}

static void nothing(int sig)
{
}

CASE(signals_of_a_child)
{
	sigset_t set, pend;
	pid_t p;

	signal(SIGUSR1, nothing);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	p = fork();
	if (!p) {
		struct sigaction a, b;
		sigset_t mask;

		sigpending(&pend);
		sigprocmask(SIG_BLOCK, NULL, &mask);
		sigaction(SIGUSR1, NULL, &a);
		sigaction(SIGUSR2, NULL, &b);
		_exit(sigismember(&pend, SIGUSR1) | sigismember(&mask, SIGUSR1) << 1 |
			(a.sa_handler == nothing) << 2 | (b.sa_handler == SIG_IGN) << 3);
	}
	printf("pending, masked, handler, ignored: %d\n", wait_code(p));
}

CASE(vfork_waits_for_the_child)
{
	volatile int v = 0;
	pid_t p = vfork();

	if (!p) {
		struct timespec ts = { 0, 30000000 };

		nanosleep(&ts, NULL);
		v = 5; /* the same memory */
		_exit(3);
	}
	printf("seen %d\n", v);
	printf("child %d\n", wait_code(p));
}

static int thread_like(void *arg)
{
	*(int *)arg = 9;
	return 4;
}

CASE(clone_with_a_stack)
{
	static char stack[65536] __attribute__((aligned(16)));
	int v = 0, st;
	pid_t p = clone(thread_like, stack + sizeof(stack), CLONE_VM | SIGCHLD, &v);

	B(p > 0);
	waitpid(p, &st, 0);
	printf("%d %d\n", v, WEXITSTATUS(st));
	v = 0;
	p = clone(thread_like, stack + sizeof(stack), SIGCHLD, &v);
	waitpid(p, &st, 0);
	printf("%d %d\n", v, WEXITSTATUS(st));
}

CASE(clone_errors)
{
	R(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
	R(syscall(SYS_clone, CLONE_THREAD | CLONE_VM, 0, 0, 0, 0));
	R(syscall(SYS_clone3, NULL, 8));
	R(syscall(SYS_clone3, BADP, 88));
	R(syscall(SYS_clone3, BADP, 5000));
}

CASE(clone3_makes_a_child)
{
	struct clone_args a = { .exit_signal = SIGCHLD };
	int parent_tid = 0, st;
	pid_t p;

	a.flags = CLONE_PARENT_SETTID;
	a.parent_tid = (uintptr_t)&parent_tid;
	p = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (!p)
		_exit(6);
	B(p > 0);
	B(parent_tid == p);
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
	a.exit_signal = 99;
	R(syscall(SYS_clone3, &a, sizeof(a)));
}

CASE(exit_signal_and_wall)
{
	static char stack[65536] __attribute__((aligned(16)));
	int v = 0, st;
	pid_t p = clone(thread_like, stack + sizeof(stack), 0, &v);

	B(p > 0);
	errno = 0;
	R(waitpid(-1, &st, 0));
	B(waitpid(-1, &st, __WALL) == p);
	printf("%d\n", WEXITSTATUS(st));
}

CASE(pidfd_of_a_child)
{
	struct clone_args a = { .exit_signal = SIGCHLD, .flags = CLONE_PIDFD };
	int fd = -1, st;
	pid_t p;

	a.pidfd = (uintptr_t)&fd;
	p = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (!p)
		_exit(2);
	B(p > 0 && fd >= 0);
	B(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	siginfo_t si = { 0 };
	R(waitid(3 /* P_PIDFD */, (id_t)fd, &si, WEXITED));
	printf("%d %d\n", si.si_status, si.si_code == CLD_EXITED);
	R(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
	R(waitpid(p, &st, 0));
}

CASE(orphans_go_to_a_subreaper)
{
	pid_t p, me = getpid();
	int pp[2], st;
	char yes = 0;

	R(prctl(PR_SET_CHILD_SUBREAPER, 1));
	NEED(pipe(pp));
	p = fork();
	if (!p) {
		if (!fork()) {
			while (getppid() != me)
				usleep(1000);
			yes = 1;
			if (write(pp[1], &yes, 1) != 1)
				_exit(1);
			_exit(8);
		}
		_exit(0);
	}
	printf("first %d\n", wait_code(p));
	R(read(pp[0], &yes, 1));
	B(wait(&st) > 0);
	printf("orphan %d\n", WEXITSTATUS(st));
}

CASE(many_children)
{
	int n = 0, st, sum = 0;

	for (int i = 0; i < 50; i++)
		if (!fork())
			_exit(i);
	while (wait(&st) > 0) {
		n++;
		sum += WEXITSTATUS(st);
	}
	printf("%d %d\n", n, sum);
	R(wait(&st));
}

static void *grandchild(void *arg)
{
	pid_t p = fork();

	if (!p)
		_exit(getpid() == (pid_t)syscall(SYS_gettid) ? 11 : 12);
	printf("from a thread %d\n", wait_code(p));
	return NULL;
}

CASE(fork_in_a_thread)
{
	pthread_t t;

	NEED(pthread_create(&t, NULL, grandchild, NULL) ? -1 : 0);
	pthread_join(t, NULL);
}

CASE(limits_are_inherited)
{
	struct rlimit r = { 100, 200 }, got;
	pid_t p;

	R(setrlimit(RLIMIT_NOFILE, &r));
	p = fork();
	if (!p) {
		getrlimit(RLIMIT_NOFILE, &got);
		_exit(got.rlim_cur == 100 && got.rlim_max == 200);
	}
	printf("%d\n", wait_code(p));
}

CASE(parent_death_signal)
{
	int pp[2];
	char c = 0;
	pid_t p;

	NEED(pipe(pp));
	p = fork();
	if (!p) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (write(pp[1], "r", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		close(pp[1]);
		if (read(pp[0], &c, 1) != 1)
			_exit(1);
		_exit(0);
	}
	close(pp[1]);
	printf("%d\n", wait_code(p));
	R(read(pp[0], &c, 1)); /* 0: nobody holds the other end any more */
}

/* The program that the child becomes hears of it, too. */
CASE(parent_death_after_exec)
{
	int ready[2], alive[2];
	char c = 0;
	pid_t p;

	NEED(pipe2(ready, O_CLOEXEC));
	NEED(pipe(alive));
	p = fork();
	if (!p) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			execl("/bin/sleep", "sleep", "60", NULL);
			_exit(1);
		}
		close(ready[1]);
		_exit(read(ready[0], &c, 1)); /* it has become another */
	}
	close(ready[1]);
	close(alive[1]);
	printf("%d\n", wait_code(p));
	R(read(alive[0], &c, 1));
}

static void hears(int sig)
{
	(void)sig;
}

/* A child that ends while the next is being made: its signal must not get in the way. */
CASE(among_signals)
{
	int made = 0, well = 0;

	signal(SIGCHLD, hears);
	while (made < 200 || well < made) {
		pid_t p = made < 200 ? fork() : -1;
		int status;

		if (p == 0)
			_exit(0);
		made += p > 0;
		while (waitpid(-1, &status, made < 200 ? WNOHANG : 0) > 0) {
			if (status != 0)
				printf("status %x\n", (unsigned)status);
			well++;
		}
	}
	printf("%d\n", well);
}
