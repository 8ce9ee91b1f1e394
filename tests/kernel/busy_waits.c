/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "busy.h"

static int row; /* which child this is */

static void about(void)
{
	__atomic_store_n(&shared->about[row], 1, __ATOMIC_SEQ_CST);
}

/* Children that wait, each in another call; and what ends it. */

static void on_signal(int sig)
{
}

static void catch (int sig)
{
	struct sigaction sa = { .sa_handler = on_signal };

	must(sigaction(sig, &sa, NULL) == 0);
}

static void in_read(void)
{
	about();
	must(reads(pipes[row][0], "go"));
}

static void end_pipe(pid_t pid)
{
	put(pipes[row][1], "go");
}

static void in_write(void)
{
	static char big[BIG];

	memset(big, 'w', sizeof(big));
	about();
	must(write(pipes[row][1], big, sizeof(big)) == BIG);
}

static void drain(int n)
{
	char buf[4096];

	while (n > 0) {
		ssize_t r = read(pipes[row][0], buf, sizeof(buf));

		must(r > 0 && buf[0] == 'w' && buf[r - 1] == 'w');
		n -= (int)r;
	}
}

static void end_drain(pid_t pid)
{
	drain(BIG);
}

static void in_sendfile(void)
{
	int fd = open("/tmp/big", O_RDWR | O_CREAT, 0600);
	char page[4096];

	memset(page, 'w', sizeof(page));
	for (int i = 0; i < 40; i++)
		must(write(fd, page, sizeof(page)) == sizeof(page));
	must(lseek(fd, 0, SEEK_SET) == 0);
	about();
	for (int left = 40 * 4096; left > 0;) {
		ssize_t n = sendfile(pipes[row][1], fd, NULL, (size_t)left);

		must(n > 0);
		left -= (int)n;
	}
}

static void end_sendfile(pid_t pid)
{
	drain(40 * 4096);
}

static void in_poll(void)
{
	struct pollfd p = { pipes[row][0], POLLIN, 0 };

	about();
	must(poll(&p, 1, LONG_S * 1000) == 1 && p.revents == POLLIN);
}

static void in_select(void)
{
	struct timespec ts = { LONG_S, 0 };
	sigset_t none;
	fd_set in;

	FD_ZERO(&in);
	FD_SET(pipes[row][0], &in);
	sigfillset(&none);
	about();
	must(pselect(pipes[row][0] + 1, &in, NULL, NULL, &ts, &none) == 1);
}

static void in_epoll(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u32 = 5 }, got;
	int e = epoll_create1(0);
	sigset_t all;

	sigfillset(&all);
	must(epoll_ctl(e, EPOLL_CTL_ADD, pipes[row][0], &ev) == 0);
	about();
	must(epoll_pwait(e, &got, 1, -1, &all) == 1 && got.data.u32 == 5);
}

static void in_accept(void)
{
	about();
	must(accept(listener, NULL, NULL) >= 0);
}

static void end_accept(pid_t pid)
{
	close(un_socket("/tmp/busy.sock", false, 0));
}

/* The backlog is full: the connect waits. */
static void in_connect(void)
{
	about();
	must(un_socket("/tmp/full.sock", false, 0) >= 0);
}

static void end_connect(pid_t pid)
{
	must(accept(full_listener, NULL, NULL) >= 0);
}

static void in_recvmsg(void)
{
	about();
	must(reads(recv_fd(pair[1]), "passed"));
}

static void end_recvmsg(pid_t pid)
{
	int fds[2];

	must(pipe(fds) == 0);
	put(fds[1], "passed");
	send_fd(pair[0], fds[0]);
	close(fds[0]);
	close(fds[1]);
}

static void in_lock(void)
{
	struct flock fl = range(F_WRLCK);

	about();
	must(fcntl(locked, F_SETLKW, &fl) == 0);
}

static void end_lock(pid_t pid)
{
	struct flock fl = range(F_UNLCK);

	must(fcntl(locked, F_SETLK, &fl) == 0);
}

static void in_flock(void)
{
	int fd = open("/tmp/flocked", O_RDWR);

	about();
	must(flock(fd, LOCK_EX) == 0);
}

static void end_flock(pid_t pid)
{
	must(flock(flocked, LOCK_UN) == 0);
}

static void in_msgrcv(void)
{
	struct message m;

	about();
	must(msgrcv(msgs, &m, sizeof(m.text), 9, 0) == 8 && strcmp(m.text, "seventy") == 0);
}

static void end_msgrcv(pid_t pid)
{
	struct message m = { 9, "seventy" };

	must(msgsnd(msgs, &m, sizeof(m.text), 0) == 0);
}

static void in_semop(void)
{
	struct sembuf op = { 1, -2, SEM_UNDO };

	about();
	must(semop(sems, &op, 1) == 0);
}

static void end_semop(pid_t pid)
{
	struct sembuf op = { 1, 2, 0 };

	must(semop(sems, &op, 1) == 0);
}

static void in_mq(void)
{
	char buf[64];
	unsigned prio;

	about();
	must(mq_receive(queue, buf, sizeof(buf), &prio) == 3 && prio == 2);
}

static void end_mq(pid_t pid)
{
	must(mq_send(queue, "one", 3, 2) == 0);
}

static void in_nanosleep(void)
{
	struct timespec ts = { LONG_S, 0 }, left = { 0, 0 };

	catch (SIGUSR1);
	about();
	must(nanosleep(&ts, &left) < 0 && errno == EINTR && left.tv_sec > 0 &&
		left.tv_sec < LONG_S);
}

static void end_signal(pid_t pid)
{
	must(kill(pid, SIGUSR1) == 0);
}

static void in_sigwait(void)
{
	sigset_t set;
	siginfo_t si;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 4);
	sigprocmask(SIG_BLOCK, &set, NULL);
	about();
	must(sigwaitinfo(&set, &si) == SIGRTMIN + 4 && si.si_value.sival_int == 44);
}

static void end_sigwait(pid_t pid)
{
	must(sigqueue(pid, SIGRTMIN + 4, (union sigval){ .sival_int = 44 }) == 0);
}

static void in_sigsuspend(void)
{
	sigset_t set, none;

	catch (SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigemptyset(&none);
	about();
	must(sigsuspend(&none) < 0 && errno == EINTR);
	sigprocmask(SIG_BLOCK, NULL, &none);
	must(sigismember(&none, SIGUSR1));
}

static void in_wait(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		must(reads(pipes[row][0], "go"));
		_exit(7);
	}
	about();
	must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
}

static void in_vfork(void)
{
	volatile int fd = pipes[row][0];
	pid_t pid;
	int status;

	about();
	pid = vfork();
	if (pid == 0) {
		char c;

		syscall(SYS_read, fd, &c, 1);
		_exit(8);
	}
	must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 8);
}

/* The host's own wait: nobody but it knows. */
static void wait_word(const struct timespec *timeout)
{
	about();
	while (__atomic_load_n(&shared->word, __ATOMIC_SEQ_CST) == 0)
		must(syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, timeout, NULL, 0) == 0 ||
			errno == EINTR || errno == EAGAIN);
	must(shared->word == 9);
}

static void in_futex(void)
{
	wait_word(NULL);
}

static void in_timed_futex(void)
{
	wait_word(&(struct timespec){ LONG_S, 0 });
}

static void end_futex(pid_t pid)
{
	__atomic_store_n(&shared->word, 9, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &shared->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void in_fifo(void)
{
	about();
	must(open("/tmp/fifo", O_RDONLY) >= 0);
}

static void end_fifo(pid_t pid)
{
	fifo_end = open("/tmp/fifo", O_WRONLY);
	must(fifo_end >= 0);
}

static void in_terminal(void)
{
	must(setsid() > 0 && ioctl(slave, TIOCSCTTY, 0) == 0 && tcgetpgrp(slave) == getpid());
	about();
	must(reads(slave, "typed\n"));
}

static void end_terminal(pid_t pid)
{
	put(master, "d\n");
}

/* Not in a call at all. */
static void in_loop(void)
{
	volatile uint64_t n = 0;

	about();
	while (!__atomic_load_n(&shared->spin, __ATOMIC_SEQ_CST))
		n++;
	must(n > 0);
}

static void end_loop(pid_t pid)
{
	__atomic_store_n(&shared->spin, 1, __ATOMIC_SEQ_CST);
}

static void in_stop(void)
{
	about();
	raise(SIGSTOP);
}

static void end_stop(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	must(kill(pid, SIGCONT) == 0);
}

static void *thread(void *arg)
{
	int fd = *(int *)arg;
	char c;

	prctl(PR_SET_NAME, "walked-thread");
	must(read(fd, &c, 1) == 1);
	return arg;
}

static void in_threads(void)
{
	pthread_t t[3];

	for (size_t i = 0; i < COUNT(t); i++)
		must(pthread_create(&t[i], NULL, thread, &pipes[row][0]) == 0);
	about();
	for (size_t i = 0; i < COUNT(t); i++)
		must(pthread_join(t[i], NULL) == 0);
}

static void end_threads(pid_t pid)
{
	put(pipes[row][1], "123");
}

/* Another user, in a place that has been removed, with other limits. */
static void in_another(void)
{
	struct rlimit rl = { 77, 99 };
	gid_t groups[] = { 5, 6, 7 };
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog filter = { 1, &allow };
	cpu_set_t cpus;

	must(mkdir("/tmp/gone-place", 0777) == 0 && chdir("/tmp/gone-place") == 0);
	must(rmdir("/tmp/gone-place") == 0);
	umask(0123);
	CPU_ZERO(&cpus);
	must(sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
		sched_setaffinity(0, sizeof(cpus), &cpus) == 0);
	must(setrlimit(RLIMIT_NOFILE, &rl) == 0 && nice(5) == 5);
	must(setgroups(COUNT(groups), groups) == 0 && setresgid(11, 12, 13) == 0 &&
		setresuid(21, 22, 23) == 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
	prctl(PR_SET_NAME, "another");
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	in_read();
	must(umask(0) == 0123 && getuid() == 21 && geteuid() == 22 && getgroups(0, NULL) == 3);
	must(getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur == 77 &&
		getpriority(PRIO_PROCESS, 0) == 5);
}

/* Landlock: rights that were given up, and a child that has given up more. */
enum { MAY_WRITE = 2, MAY_READ = 4, MAY_LIST = 8, MAY_CUT = 1 << 14, MAY_CONNECT = 2 };

static void allow(int set, const char *path, uint64_t what)
{
	struct {
		uint64_t allowed;
		int32_t fd;
	} __attribute__((packed)) r = { what, open(path, O_PATH | O_CLOEXEC) };

	must(r.fd >= 0 && syscall(SYS_landlock_add_rule, set, 1, &r, 0) == 0);
	close(r.fd);
}

static int obey(uint64_t files, uint64_t ports, uint64_t scopes, bool rules)
{
	uint64_t handles[3] = { files, ports, scopes }, port[2] = { MAY_CONNECT, PORT };
	int set = (int)syscall(SYS_landlock_create_ruleset, handles, sizeof(handles), 0);

	must(set >= 0);
	if (rules) {
		allow(set, "/tmp/domain", MAY_WRITE | MAY_READ | MAY_LIST);
		allow(set, "/busy", MAY_READ); /* the template's, never changed */
		allow(set, "/proc", MAY_LIST);
		allow(set, "/proc/self/status", MAY_READ);
		allow(set, "/dev/null", MAY_WRITE);
		must(syscall(SYS_landlock_add_rule, set, 2, port, 0) == 0);
	}
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	must(syscall(SYS_landlock_restrict_self, set, 0) == 0);
	return set; /* it stays open */
}

static bool opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	must(fd >= 0 || errno == EACCES);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool connects(uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r, error;

	must(fd >= 0);
	r = connect(fd, (struct sockaddr *)&in, sizeof(in));
	error = errno;
	close(fd);
	return r == 0 || error != EACCES;
}

static void is_kept(bool writes, pid_t child)
{
	must(opens("/tmp/domain/f", O_RDONLY) && opens("/tmp/domain", O_RDONLY | O_DIRECTORY));
	must(opens("/tmp/domain/f", O_WRONLY) == writes &&
		!opens("/tmp/domain/f", O_RDWR | O_TRUNC));
	must(opens("/busy", O_RDONLY) && !opens("/tmp/file", O_RDONLY));
	must(opens("/proc", O_RDONLY | O_DIRECTORY) && !opens("/proc/self/stat", O_RDONLY));
	must(opens("/dev/null", O_WRONLY) == writes && !opens("/dev/zero", O_RDONLY));
	must(connects(PORT) && !connects(PORT + 9));
	if (child) /* inside; its parent is not */
		must(kill(child, 0) == 0 && kill(getppid(), 0) < 0);
}

static void in_domain(void)
{
	int fd, status, set, more[2];
	pid_t child;

	must(mkdir("/tmp/domain", 0700) == 0 && pipe(more) == 0);
	fd = open("/tmp/domain/f", O_RDWR | O_CREAT, 0600);
	put(fd, "kept");
	close(fd);
	set = obey(MAY_WRITE | MAY_READ | MAY_LIST | MAY_CUT, 3, 3, true);
	must(opens("/proc/self/status", O_RDONLY));
	fd = open("/tmp/domain/f", O_RDWR);
	child = fork();
	must(child >= 0);
	if (child == 0) {
		obey(MAY_WRITE, 0, 0, false);
		put(more[1], "in");
		must(reads(pipes[row][0], "go"));
		is_kept(false, 0);
		_exit(0);
	}
	must(reads(more[0], "in"));
	about();
	must(waitpid(child, &status, 0) == child && status == 0);
	child = fork();
	must(child >= 0);
	if (child == 0)
		for (;;)
			pause();
	is_kept(true, child);
	must(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
	must(ftruncate(fd, 0) < 0 && errno == EACCES && write(fd, "K", 1) == 1);
	must(syscall(SYS_landlock_restrict_self, set, 0) == 0); /* the ruleset still is one */
	must(opens("/tmp/domain/f", O_RDONLY) && !opens("/tmp/file", O_RDONLY));
}

static const struct {
	const char *name;
	void (*in)(void);
	void (*end)(pid_t pid);
	char state; /* of its process, once it is there; 0: S */
} waits[] = {
	{ "read", in_read, end_pipe, 0 },
	{ "write", in_write, end_drain, 0 },
	{ "sendfile", in_sendfile, end_sendfile, 0 },
	{ "poll", in_poll, end_pipe, 0 },
	{ "select", in_select, end_pipe, 0 },
	{ "epoll", in_epoll, end_pipe, 0 },
	{ "accept", in_accept, end_accept, 0 },
	{ "connect", in_connect, end_connect, 0 },
	{ "recvmsg", in_recvmsg, end_recvmsg, 0 },
	{ "lock", in_lock, end_lock, 0 },
	{ "flock", in_flock, end_flock, 0 },
	{ "msgrcv", in_msgrcv, end_msgrcv, 0 },
	{ "semop", in_semop, end_semop, 0 },
	{ "mq_receive", in_mq, end_mq, 0 },
	{ "nanosleep", in_nanosleep, end_signal, 0 },
	{ "sigwait", in_sigwait, end_sigwait, 0 },
	{ "sigsuspend", in_sigsuspend, end_signal, 0 },
	{ "wait", in_wait, end_pipe, 0 },
	{ "vfork", in_vfork, end_pipe, 0 },
	{ "futex", in_futex, end_futex, 0 },
	{ "futex with a time", in_timed_futex, end_futex, 0 },
	{ "fifo", in_fifo, end_fifo, 0 },
	{ "terminal", in_terminal, end_terminal, 0 },
	{ "loop", in_loop, end_loop, 'R' },
	{ "stop", in_stop, end_stop, 'T' },
	{ "threads", in_threads, end_threads, 0 },
	{ "another", in_another, end_pipe, 0 },
	{ "domain", in_domain, end_pipe, 0 },
};
_Static_assert(COUNT(waits) <= COUNT(waiting), "a place for each");

void start_waits(void)
{
	for (row = 0; row < (int)COUNT(waits); row++) {
		must(pipe(pipes[row]) == 0);
		waiting[row] = fork();
		must(waiting[row] >= 0);
		if (waiting[row] == 0) {
			waits[row].in();
			_exit(0);
		}
	}
	for (row = 0; row < (int)COUNT(waits); row++) {
		char want = waits[row].state ? waits[row].state : 'S';

		while (!__atomic_load_n(&shared->about[row], __ATOMIC_SEQ_CST) ||
			state_of(waiting[row]) != want) {
			int status;

			must(waitpid(waiting[row], &status, WNOHANG) == 0);
			usleep(1000);
		}
	}
}

void end_waits(void)
{
	for (row = 0; row < (int)COUNT(waits); row++) {
		int status = -1;

		must(kill(waiting[row], 0) == 0);
		waits[row].end(waiting[row]);
		while (waitpid(waiting[row], &status, 0) < 0)
			must(errno == EINTR);
		if (status)
			printf("%s: %x\n", waits[row].name, status);
		must(status == 0);
	}
}
