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
#include <linux/netlink.h>
#include <mqueue.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "busy.h"

struct shared *shared;
int pipes[64][2], fifo_end, event, listener, full_listener, pair[2], msgs, sems, locked, flocked,
	master, slave;
mqd_t queue;
pid_t waiting[64];

void must_(bool is, const char *what, const char *file, int line)
{
	if (is)
		return;
	printf("%s:%d: not so: %s (%s)\n", file, line, what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

void put(int fd, const char *s)
{
	must(write(fd, s, strlen(s)) == (ssize_t)strlen(s));
}

bool reads(int fd, const char *s)
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

int un_socket(const char *name, bool listens, int backlog)
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

void send_fd(int sock, int fd)
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

int recv_fd(int sock)
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

struct flock range(short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = 3, .l_len = 4 };
}

char state_of(pid_t pid)
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
