/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/exhaust.c - takes as much as there is of everything that the kernel keeps in tables.
 * Each kind is tried in a child of an ordinary user, until a call says no; one line with the error,
 * then a line of input is awaited.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 400000 };

static int failed(long r)
{
	return r < 0 ? errno : 0;
}

static int one_pipe(int n)
{
	int pair[2];

	return failed(pipe(pair));
}

static int one_socket(int n)
{
	static const int families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };

	return failed(socket(families[n % 4], n % 4 == 3 ? SOCK_RAW : SOCK_STREAM, 0));
}

static int one_event(int n)
{
	return failed(n % 3 == 0   ? eventfd(0, 0)
		      : n % 3 == 1 ? timerfd_create(CLOCK_MONOTONIC, 0)
				   : epoll_create1(0));
}

static int one_timer(int n)
{
	timer_t id;
	struct sigevent e = { .sigev_notify = SIGEV_NONE };

	return failed(timer_create(CLOCK_MONOTONIC, &e, &id));
}

static int one_watch(int n)
{
	static int fd = -1;
	char name[32];

	if (fd < 0)
		fd = inotify_init1(IN_NONBLOCK);
	snprintf(name, sizeof(name), "/tmp/w%d", n);
	if (mkdir(name, 0700) < 0 && errno != EEXIST)
		return errno;
	return failed(inotify_add_watch(fd, name, IN_ALL_EVENTS));
}

static int one_signal(int n)
{
	union sigval v = { 0 };
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return failed(sigqueue(getpid(), SIGRTMIN, v));
}

static int one_process(int n)
{
	pid_t p = fork();

	if (p == 0) {
		pause();
		_exit(0);
	}
	return failed(p);
}

static int one_message(int n)
{
	static int pair[2] = { -1, -1 };
	char bytes[4096] = { 0 };

	if (pair[0] < 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) < 0)
		return errno;
	return failed(send(pair[0], bytes, sizeof(bytes), 0));
}

static int one_lock(int n)
{
	static int fd = -1;
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2L * n, .l_len = 1 };

	if (fd < 0)
		fd = open("/tmp/locks", O_RDWR | O_CREAT, 0600);
	return failed(fcntl(fd, F_SETLK, &l));
}

static int one_segment(int n)
{
	return failed(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
}

static int one_semaphore(int n)
{
	return failed(semget(IPC_PRIVATE, 32, IPC_CREAT | 0600));
}

static int one_queue(int n)
{
	return failed(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
}

static int one_mapping(int n)
{
	/* Each beside one with other rights, so that they stay two. */
	return mmap(NULL, 4096, n % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0) == MAP_FAILED
		       ? errno
		       : 0;
}

static const struct {
	const char *name;
	int (*take)(int n);
} kinds[] = {
	{ "pipes", one_pipe },
	{ "sockets", one_socket },
	{ "events", one_event },
	{ "timers", one_timer },
	{ "watches", one_watch },
	{ "signals", one_signal },
	{ "processes", one_process },
	{ "messages", one_message },
	{ "locks", one_lock },
	{ "segments", one_segment },
	{ "semaphores", one_semaphore },
	{ "queues", one_queue },
	{ "mappings", one_mapping },
};

static void take_all(int (*take)(int n))
{
	struct rlimit most;
	int e = 0;

	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	if (setgid(1000) < 0 || setuid(1000) < 0)
		_exit(255);
	for (int n = 0; n < TRIES && !e; n++)
		e = take(n);
	signal(SIGTERM, SIG_IGN);
	_exit(e);
}

int main(void)
{
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		pid_t p = fork();
		int st = 0;

		if (p == 0)
			take_all(kinds[i].take);
		if (p < 0 || waitpid(p, &st, 0) != p)
			return 1;
		p = fork();
		if (p == 0) { /* what it left behind */
			if (setuid(1000) == 0)
				kill(-1, SIGKILL);
			_exit(0);
		}
		waitpid(p, NULL, 0);
		printf("%s: %d\n", kinds[i].name, WIFEXITED(st) ? WEXITSTATUS(st) : -WTERMSIG(st));
		if (!fgets(line, sizeof(line), stdin))
			return 2;
	}
	puts("still here");
	return 0;
}
