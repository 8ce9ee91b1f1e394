/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/busy.c - has everything that a program can have, and waits in everything that one
 * can wait in. "ready", then a line of input is awaited; then all of it must be as it was, and
 * every call that waited must end as it should: "still here". With an argument: in rounds, "ready"
 * each time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

#define must(what) must_(what, #what, __LINE__)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void must_(bool is, const char *what, int line)
{
	if (is)
		return;
	printf("busy.c:%d: not so: %s (%s)\n", line, what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

/* What the processes share: who is about to wait, who may go on. */
enum { BIG = 200000, LONG_S = 3600, KEY = 0x77, PORT = 4711 };
static struct shared {
	uint32_t about[64];
	uint32_t word, spin;
	int32_t grandchild;
} * shared;
static int row; /* which child this is */
static int pipes[64][2], fifo_end, event, listener, full_listener, pair[2], msgs, sems;
static mqd_t queue;

static void about(void)
{
	__atomic_store_n(&shared->about[row], 1, __ATOMIC_SEQ_CST);
}

static void put(int fd, const char *s)
{
	must(write(fd, s, strlen(s)) == (ssize_t)strlen(s));
}

static bool reads(int fd, const char *s)
{
	char buf[256] = { 0 };

	return read(fd, buf, sizeof(buf) - 1) == (ssize_t)strlen(s) && strcmp(buf, s) == 0;
}

static struct sockaddr_un un_name(const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memcpy(un.sun_path, name, strlen(name));
	return un;
}

static int un_socket(const char *name, bool listens, int backlog)
{
	struct sockaddr_un un = un_name(name);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	must(fd >= 0);
	if (listens)
		must(bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && listen(fd, backlog) == 0);
	else
		must(connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0);
	return fd;
}

static void send_fd(int sock, int fd)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = { 0 };
	char byte = 'f';
	struct iovec iov = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};

	c.h.cmsg_len = CMSG_LEN(sizeof(int));
	c.h.cmsg_level = SOL_SOCKET;
	c.h.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	must(sendmsg(sock, &m, 0) == 1);
}

static int recv_fd(int sock)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = { 0 };
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};
	int fd;

	must(recvmsg(sock, &m, 0) == 1 && c.h.cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(&c.h), sizeof(fd));
	return fd;
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

static struct flock range(short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = 3, .l_len = 4 };
}

static int locked, flocked;

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

struct message {
	long type;
	char text[8];
};

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

static int master, slave;

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
};
static pid_t waiting[COUNT(waits)];

/* R, S, T or Z. */
static char state_of(pid_t pid)
{
	char path[64], text[512] = { 0 }, *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	at = strrchr(text, ')');
	must(at != NULL);
	return at[2] == 'D' ? 'S' : at[2]; /* as vfork's parent sleeps */
}

static void start_waits(void)
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

static void end_waits(void)
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

/* What the first process has by itself. */

static int file, gone, tmpfile_fd, memfd, dir, dgram[2], tcp, tcp_client, tcp_done, udp, sets[2],
	timer, sigs, notes, proc_fd, leased, small[2], client;
static char *shared_map, *private_map, *anon_map, *shut_map, *memfd_map, *gone_map;
static timer_t posix_timer;
static pid_t zombie;

static void files(void)
{
	char name[32];

	file = open("/tmp/file", O_RDWR | O_CREAT | O_APPEND, 0640);
	put(file, "hello world");
	must(lseek(file, 6, SEEK_SET) == 6);
	gone = open("/tmp/gone", O_RDWR | O_CREAT, 0600);
	put(gone, "removed");
	must(unlink("/tmp/gone") == 0);
	tmpfile_fd = open("/tmp", O_RDWR | O_TMPFILE, 0600);
	put(tmpfile_fd, "nameless");
	memfd = memfd_create("m", MFD_ALLOW_SEALING);
	must(ftruncate(memfd, 20000) == 0 && fcntl(memfd, F_ADD_SEALS, F_SEAL_GROW) == 0);
	must(mkdir("/tmp/dir", 0700) == 0);
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "/tmp/dir/%d", i);
		close(open(name, O_WRONLY | O_CREAT, 0600));
	}
	must(symlink("file", "/tmp/link") == 0 && link("/tmp/file", "/tmp/file2") == 0);
	dir = open("/tmp/dir", O_RDONLY | O_DIRECTORY);
	must(syscall(SYS_getdents64, dir, name, sizeof(name)) > 0);
	must(mkdir("/tmp/mnt", 0755) == 0 &&
		mount("none", "/tmp/mnt", "tmpfs", MS_NODEV, "size=1m") == 0);
	close(open("/tmp/mnt/in", O_WRONLY | O_CREAT, 0600));
	must(chdir("/tmp/dir") == 0);
	umask(027);
	proc_fd = open("/proc/self/status", O_RDONLY);
	must(open("/proc/self/stat", O_RDONLY) >= 0); /* the same directory, looked up again */
	must(read(proc_fd, name, 7) == 7);
}

static void files_are_there(void)
{
	char buf[512];
	struct stat st;

	must(reads(file, "world"));
	must((fcntl(file, F_GETFL) & O_APPEND) && lseek(gone, 0, SEEK_SET) == 0 &&
		reads(gone, "removed"));
	must(lseek(tmpfile_fd, 0, SEEK_SET) == 0 && reads(tmpfile_fd, "nameless"));
	must(fcntl(memfd, F_GET_SEALS) == F_SEAL_GROW && ftruncate(memfd, 30000) < 0);
	must(syscall(SYS_getdents64, dir, buf, sizeof(buf)) > 0);
	must(access("29", F_OK) == 0 && umask(0) == 027 && access("/tmp/mnt/in", F_OK) == 0);
	must(stat("/tmp/link", &st) == 0 && st.st_nlink == 2);
	must(read(proc_fd, buf, 4) == 4);
}

static void streams(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *addr = (struct sockaddr *)&in;
	int inner[2];

	must(pipe2(small, O_DIRECT) == 0);
	put(small[1], "one");
	put(small[1], "two");
	must(mkfifo("/tmp/fifo", 0600) == 0);
	listener = un_socket("/tmp/busy.sock", true, 5);
	full_listener = un_socket("/tmp/full.sock", true, 0);
	client = un_socket("/tmp/full.sock", false, 0); /* in the backlog */
	put(client, "early");
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	must(socketpair(AF_UNIX, SOCK_DGRAM, 0, dgram) == 0);
	put(dgram[0], "first");
	must(pipe(inner) == 0);
	put(inner[1], "inner");
	send_fd(dgram[0], inner[0]); /* only the message has it */
	close(inner[0]);
	close(inner[1]);
	tcp = socket(AF_INET, SOCK_STREAM, 0);
	must(bind(tcp, addr, sizeof(in)) == 0 && listen(tcp, 5) == 0);
	tcp_client = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(tcp_client, addr, sizeof(in)) == 0);
	put(tcp_client, "request");
	tcp_done = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(tcp_done, addr, sizeof(in)) == 0);
	put(tcp_done, "last");
	must(shutdown(tcp_done, SHUT_WR) == 0);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	must(bind(udp, addr, sizeof(in)) == 0 &&
		sendto(udp, "datagram", 8, 0, addr, sizeof(in)) == 8);
	must(openpty(&master, &slave, NULL, NULL, NULL) == 0);
	put(master, "type"); /* not a line yet */
}

static void streams_are_there(void)
{
	int fd;

	must(reads(small[0], "one") && reads(small[0], "two"));
	must(reads(dgram[1], "first") && reads(recv_fd(dgram[1]), "inner"));
	fd = accept(tcp, NULL, NULL);
	must(reads(fd, "request"));
	put(fd, "reply");
	must(reads(tcp_client, "reply"));
	fd = accept(tcp, NULL, NULL);
	must(reads(fd, "last") && reads(fd, ""));
	must(reads(udp, "datagram"));
}

static void events(void)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = 1 };
	struct itimerspec it = { .it_value.tv_sec = LONG_S };
	struct itimerval real = { .it_value.tv_sec = LONG_S }, prof = { .it_value.tv_sec = LONG_S };
	struct sigevent se = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	must(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){ .sival_int = 1 }) == 0);
	must(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){ .sival_int = 2 }) == 0);
	must(kill(getpid(), SIGUSR2) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	sigs = signalfd(-1, &set, 0);
	event = eventfd(77, 0);
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	must(timerfd_settime(timer, 0, &it, NULL) == 0);
	must(timer_create(CLOCK_MONOTONIC, &se, &posix_timer) == 0 &&
		timer_settime(posix_timer, 0, &it, NULL) == 0);
	must(setitimer(ITIMER_REAL, &real, NULL) == 0 && setitimer(ITIMER_PROF, &prof, NULL) == 0);
	sets[0] = epoll_create1(0);
	sets[1] = epoll_create1(0);
	must(epoll_ctl(sets[0], EPOLL_CTL_ADD, event, &ev) == 0 &&
		epoll_ctl(sets[0], EPOLL_CTL_ADD, tcp, &ev) == 0);
	must(epoll_ctl(sets[1], EPOLL_CTL_ADD, sets[0], &ev) == 0);
	notes = inotify_init1(0);
	must(inotify_add_watch(notes, "/tmp", IN_CREATE | IN_DELETE) == 1);
	must(mkdir("/tmp/noted", 0700) == 0);
}

static void events_are_there(void)
{
	struct signalfd_siginfo si;
	struct epoll_event got[4];
	struct itimerspec it;
	struct itimerval real;
	uint64_t n;
	union {
		struct inotify_event e;
		char room[256];
	} note;
	sigset_t set;

	must(epoll_wait(sets[1], got, 4, 0) == 1 && epoll_wait(sets[0], got, 4, 0) == 2);
	must(read(event, &n, sizeof(n)) == sizeof(n) && n == 77);
	for (int i = 1; i <= 2; i++)
		must(read(sigs, &si, sizeof(si)) == sizeof(si) && si.ssi_int == i);
	must(sigpending(&set) == 0 && sigismember(&set, SIGUSR2) == 1);
	must(timerfd_gettime(timer, &it) == 0 && it.it_value.tv_sec > 0);
	must(timer_gettime(posix_timer, &it) == 0 && it.it_value.tv_sec > 0);
	must(getitimer(ITIMER_REAL, &real) == 0 && real.it_value.tv_sec > 0);
	must(getitimer(ITIMER_PROF, &real) == 0 && real.it_value.tv_sec > 0);
	must(read(notes, &note, sizeof(note)) > 0 && strcmp(note.e.name, "noted") == 0);
}

static char *map(size_t len, int prot, int flags, int fd)
{
	char *p = mmap(NULL, len, prot, flags, fd, 0);

	must(p != MAP_FAILED);
	return p;
}

static void memory(void)
{
	int fd = open("/tmp/mapped", O_RDWR | O_CREAT, 0600);

	must(ftruncate(fd, 8192) == 0);
	shared_map = map(8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	private_map = map(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd);
	anon_map = map(8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	shut_map = map(8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memfd_map = map(8192, PROT_READ | PROT_WRITE, MAP_SHARED, memfd);
	/* Reserved, and hardly used. */
	map(1UL << 35, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		-1)[1UL << 34] = 'r';
	close(fd);
	fd = open("/tmp/mapped-gone", O_RDWR | O_CREAT, 0600);
	must(ftruncate(fd, 4096) == 0);
	gone_map = map(4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	close(fd);
	must(unlink("/tmp/mapped-gone") == 0);
	memcpy(shared_map, "shared", 6);
	memcpy(private_map, "own", 3);
	memcpy(anon_map, "both", 4);
	memcpy(shut_map, "behind", 6);
	memcpy(memfd_map, "memory", 6);
	memcpy(gone_map, "kept", 4);
	must(mprotect(shut_map, 8192, PROT_NONE) == 0);
	must(mlock(anon_map, 4096) == 0);
}

static void memory_is_there(void)
{
	char buf[8] = { 0 };
	int fd = open("/tmp/mapped", O_RDONLY);

	must(read(fd, buf, 6) == 6 && memcmp(buf, "shared", 6) == 0);
	must(memcmp(private_map, "own", 3) == 0 && memcmp(anon_map, "both", 4) == 0 &&
		memcmp(gone_map, "kept", 4) == 0);
	must(mprotect(shut_map, 8192, PROT_READ) == 0 && memcmp(shut_map, "behind", 6) == 0);
	must(pread(memfd, buf, 6, 0) == 6 && memcmp(buf, "memory", 6) == 0);
	memcpy(shared_map, "SHARED", 6);
	must(pread(fd, buf, 6, 0) == 6 && memcmp(buf, "SHARED", 6) == 0);
	close(fd);
}

static void ipc(void)
{
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 64 };
	struct sembuf op = { 0, 3, SEM_UNDO };
	int shm = shmget(KEY, 10000, IPC_CREAT | 0600);
	struct message m = { 3, "waiting" };
	char *at = shmat(shm, NULL, 0);

	must(at != (char *)-1);
	memcpy(at, "segment", 8);
	msgs = msgget(KEY, IPC_CREAT | 0600);
	sems = semget(KEY, 2, IPC_CREAT | 0600);
	must(semop(sems, &op, 1) == 0 && msgsnd(msgs, &m, sizeof(m.text), 0) == 0);
	queue = mq_open("/busy", O_RDWR | O_CREAT, 0600, &attr);
	must(queue >= 0);
}

static void ipc_is_there(void)
{
	struct message m;
	char *at = shmat(shmget(KEY, 0, 0), NULL, 0);

	must(at != (char *)-1 && strcmp(at, "segment") == 0);
	must(semctl(sems, 0, GETVAL) == 3);
	must(msgrcv(msgs, &m, sizeof(m.text), 3, IPC_NOWAIT) == 8 &&
		strcmp(m.text, "waiting") == 0);
}

static void locks(void)
{
	struct flock fl = range(F_WRLCK);

	locked = open("/tmp/locked", O_RDWR | O_CREAT, 0600);
	must(fcntl(locked, F_SETLK, &fl) == 0);
	flocked = open("/tmp/flocked", O_RDWR | O_CREAT, 0600);
	must(flock(flocked, LOCK_EX) == 0);
	leased = open("/tmp/leased", O_RDONLY | O_CREAT, 0600);
	must(fcntl(leased, F_SETLEASE, F_RDLCK) == 0);
}

/* What few programs have. */
static int child_fd, place_fd, tree, netlink, fan, owned[2], six;
static int32_t key;
static unsigned long aio;

static void odds(void)
{
	struct sockaddr_nl nl = { .nl_family = AF_NETLINK };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
		.sin6_port = htons(PORT + 1),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };

	child_fd = (int)syscall(SYS_pidfd_open, waiting[0], 0);
	place_fd = open("/tmp", O_PATH);
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/tmp/mnt", 1 /* OPEN_TREE_CLONE */);
	must(child_fd >= 0 && place_fd >= 0 && tree >= 0);
	netlink = socket(AF_NETLINK, SOCK_RAW, 0);
	must(bind(netlink, (struct sockaddr *)&nl, sizeof(nl)) == 0);
	six = socket(AF_INET6, SOCK_STREAM, 0);
	must(bind(six, (struct sockaddr *)&in6, sizeof(in6)) == 0 && listen(six, 3) == 0);
	fan = (int)syscall(SYS_fanotify_init, 0, O_RDONLY);
	must(fan >= 0 && syscall(SYS_fanotify_mark, fan, 1 /* ADD */,
				 8 /* CLOSE_WRITE */ | 0x8000000 /* of children */, AT_FDCWD,
				 "/tmp/dir") == 0);
	close(open("/tmp/dir/fan", O_WRONLY | O_CREAT, 0600));
	must(pipe(owned) == 0 && fcntl(owned[0], F_SETOWN, waiting[0]) == 0);
	must(fcntl(owned[0], F_SETSIG, SIGRTMIN + 5) == 0);
	key = (int32_t)syscall(
		SYS_add_key, "user", "walked", "payload", 7, -3 /* the session's ring */);
	must(key > 0 && syscall(SYS_io_setup, 4, &aio) == 0);
}

static void odds_are_there(void)
{
	char buf[512] = { 0 };

	must(syscall(SYS_pidfd_send_signal, child_fd, 0, NULL, 0) == 0);
	must(faccessat(place_fd, "file", F_OK, 0) == 0 && faccessat(tree, "in", F_OK, 0) == 0);
	must(read(fan, buf, sizeof(buf)) > 0 && fcntl(owned[0], F_GETOWN) == waiting[0]);
	must(fcntl(owned[0], F_GETSIG) == SIGRTMIN + 5);
	must(syscall(SYS_keyctl, 11 /* READ */, key, buf, sizeof(buf)) == 7 &&
		memcmp(buf, "payload", 7) == 0);
	must(syscall(SYS_io_destroy, aio) == 0);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1, status;
	char line[16];

	setvbuf(stdout, NULL, _IONBF, 0);
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED);
	/* Sites that are answered in place. */
	for (int i = 0; i < 100; i++)
		must(syscall(SYS_getppid) >= 0 && access("/tmp", F_OK) == 0 &&
			lseek(0, 0, SEEK_CUR) < 1);
	files();
	memory();
	streams();
	events();
	ipc();
	locks();
	start_waits();
	odds();
	zombie = fork();
	must(zombie >= 0);
	if (zombie == 0)
		_exit(3);
	while (state_of(zombie) != 'Z')
		usleep(1000);
	for (int i = 0; i < rounds; i++) {
		puts("ready");
		must(read(0, line, sizeof(line)) > 0);
	}
	must(waitpid(zombie, &status, 0) == zombie && WEXITSTATUS(status) == 3);
	files_are_there();
	memory_is_there();
	events_are_there();
	streams_are_there();
	ipc_is_there();
	odds_are_there();
	must(fcntl(leased, F_GETLEASE) == F_RDLCK);
	end_waits();
	puts("still here");
	return 0;
}
