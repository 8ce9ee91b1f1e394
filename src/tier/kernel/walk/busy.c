/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/busy.c - a sandbox with one of everything.
 *
 * Owns:  what it is making, while it does: one at a time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/walk/busy.h"

static struct busy *made;
static struct fake *g;
static struct task *me;
static gva_t mem, out;

#define CALL(name, ...) fake_call(me, SYS_##name, ##__VA_ARGS__)
#define must(what) must_(what, __LINE__)
#define OK(name, ...) must(CALL(name, ##__VA_ARGS__) >= 0)

static void must_(bool is, int line)
{
	if (is)
		return;
	fprintf(stderr, "walk/busy.c:%d: not as it should be\n", line);
	abort();
}

static uint64_t text(const char *s)
{
	return fake_str(g, s).v;
}

static void put(const void *p, size_t len)
{
	memcpy(fake_ptr(g, mem), p, len);
}

static void at(long fd, int place)
{
	must(fd >= 0);
	must(CALL(dup3, (uint64_t)fd, (uint64_t)place, O_CLOEXEC) == place);
	must(CALL(close, (uint64_t)fd) == 0);
}

static void pair_at(int a, int b)
{
	int fds[2];

	memcpy(fds, fake_ptr(g, mem), sizeof(fds));
	at(fds[0], a);
	at(fds[1], b);
}

static void some_files(void)
{
	at(CALL(open, text("/tmp/file"), O_RDWR | O_CREAT | O_APPEND, 0640), FD_FILE);
	put("hello world", 11);
	must(CALL(write, FD_FILE, mem.v, 11) == 11);
	must(CALL(lseek, FD_FILE, 6, SEEK_SET) == 6);
	at(CALL(open, text("/tmp/gone"), O_RDWR | O_CREAT, 0600), FD_DELETED);
	must(CALL(write, FD_DELETED, mem.v, 5) == 5);
	must(CALL(unlink, text("/tmp/gone")) == 0);
	at(CALL(open, text("/other"), O_RDONLY | O_CREAT, 0600), FD_HIDDEN);
	at(CALL(open, text("/below"), O_RDONLY | O_CREAT, 0600), FD_BELOW);
	must(CALL(unlink, text("/other")) == 0);
	at(CALL(open, text("/"), O_RDONLY | O_DIRECTORY), FD_DIR);
	must(CALL(getdents64, FD_DIR, out.v, 64) > 0); /* begun, not ended */
	at(CALL(memfd_create, text("m"), MFD_ALLOW_SEALING), FD_MEMFD);
	must(CALL(pwrite64, FD_MEMFD, mem.v, 11, 8190) == 11);
	must(CALL(fcntl, FD_MEMFD, F_ADD_SEALS, F_SEAL_GROW) == 0);
	at(CALL(open, text("/tmp"), O_RDWR | O_TMPFILE, 0600), FD_TMPFILE);
	must(CALL(write, FD_TMPFILE, mem.v, 3) == 3);
	at(CALL(open, text("/proc/self/status"), O_RDONLY), FD_PROC);
	must(CALL(read, FD_PROC, out.v, 5) == 5);
	at(CALL(open, text("/proc/self/stat"), O_RDONLY), FD_PROC_TOO);
	at(CALL(open, text("/dev/null"), O_RDWR), FD_NULL);
	at(CALL(open, text("/tmp"), O_PATH), FD_PATH);
	OK(mkdir, text("/tmp/dir"), 0700);
	OK(chdir, text("/tmp/dir"));
	OK(umask, 027);
}

static void some_mounts(void)
{
	OK(mkdir, text("/tmp/a"), 0755);
	OK(mkdir, text("/tmp/b"), 0755);
	OK(mount, text("none"), text("/tmp/a"), text("tmpfs"), MS_NOEXEC, 0);
	OK(mount, text("none"), text("/tmp/b"), text("tmpfs"), 0, 0);
	OK(mkdir, text("/tmp/b/under"), 0755);
	/* Onto a newer one: the order of the list is not that of the tree. */
	OK(mount, text("/tmp/a"), text("/tmp/b/under"), 0, MS_MOVE, 0);
	OK(mkdir, text("/tmp/b/under/in"), 0755);
	OK(mount, 0, text("/tmp/b"), 0, MS_SHARED, 0);
	OK(mount, 0, text("/tmp/b/under"), 0, MS_UNBINDABLE, 0);
	/* Nowhere but in a descriptor. */
	at(CALL(open_tree, (uint64_t)AT_FDCWD, text("/tmp/b"), 1), FD_TREE);
}

static void some_pipes(void)
{
	int full;

	OK(pipe2, mem.v, 0);
	pair_at(FD_PIPE_R, FD_PIPE_W);
	memset(fake_ptr(g, mem), 'p', 9000);
	must(CALL(write, FD_PIPE_W, mem.v, 9000) == 9000);
	must(CALL(read, FD_PIPE_R, mem.v, 1000) == 1000);
	OK(pipe2, mem.v, O_DIRECT);
	pair_at(FD_PACKET_R, FD_PACKET_W);
	put("onetwo", 6);
	must(CALL(write, FD_PACKET_W, mem.v, 3) == 3);
	must(CALL(write, FD_PACKET_W, mem.v + 3, 3) == 3);
	OK(mknod, text("/tmp/fifo"), S_IFIFO | 0600, 0);
	at(CALL(open, text("/tmp/fifo"), O_RDWR), FD_FIFO);
	must(CALL(write, FD_FIFO, mem.v, 6) == 6);
	full = (int)CALL(fcntl, FD_FIFO, F_SETPIPE_SZ, 8192);
	must(full == 8192);
}

static void some_events(void)
{
	int64_t spec[4] = { 0, 5000000, 1000, 0 };
	struct itimerval it = { { 3, 0 }, { 2000, 0 } };
	struct {
		uint64_t value;
		int32_t signo, notify, tid, pad[11];
	} ev = { 42, SIGRTMIN + 1, SIGEV_SIGNAL, 0, { 0 } };
	uint64_t mask = GSIG_BIT(SIGUSR1);

	at(CALL(eventfd2, 77, 0), FD_EVENT);
	at(CALL(timerfd_create, CLOCK_MONOTONIC, 0), FD_TIMER);
	put(spec, sizeof(spec));
	OK(timerfd_settime, FD_TIMER, 0, mem.v, 0);
	put(&mask, 8);
	at(CALL(signalfd4, (uint64_t)-1, mem.v, 8, 0), FD_SIGNAL);
	put(&it, sizeof(it));
	OK(setitimer, ITIMER_REAL, mem.v, 0);
	OK(setitimer, ITIMER_PROF, mem.v, 0);
	put(&ev, sizeof(ev));
	OK(timer_create, CLOCK_MONOTONIC, mem.v, out.v);
	OK(timer_create, CLOCK_PROCESS_CPUTIME_ID, 0, out.v);
	put(spec, sizeof(spec));
	OK(timer_settime, 0, 0, mem.v, 0);
	OK(timer_settime, 1, 0, mem.v, 0);
}

static void send_fds(int sock, const int *fds, unsigned count)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} c = { 0 };
	struct msghdr m = { 0 };
	struct iovec iov;
	gva_t data = fake_put(g, "fds", 3), control;

	c.h.cmsg_len = CMSG_LEN(count * sizeof(int));
	c.h.cmsg_level = SOL_SOCKET;
	c.h.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&c.h), fds, count * sizeof(int));
	control = fake_put(g, &c, CMSG_SPACE(count * sizeof(int)));
	iov = (struct iovec){ (void *)(uintptr_t)data.v, 3 };
	m.msg_iov = (struct iovec *)(uintptr_t)fake_put(g, &iov, sizeof(iov)).v;
	m.msg_iovlen = 1;
	m.msg_control = (void *)(uintptr_t)control.v;
	m.msg_controllen = CMSG_SPACE(count * sizeof(int));
	must(CALL(sendmsg, (uint64_t)sock, fake_put(g, &m, sizeof(m)).v, 0) == 3);
}

static void some_unix_sockets(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "/tmp/sock" };
	struct sockaddr_un hidden = { .sun_family = AF_UNIX, .sun_path = "\0name" };
	uint64_t u = fake_put(g, &un, sizeof(un)).v, h = fake_put(g, &hidden, sizeof(hidden)).v;
	int fds[2];

	OK(socketpair, AF_UNIX, SOCK_STREAM, 0, mem.v);
	pair_at(FD_UNIX_A, FD_UNIX_B);
	put("bytes", 5);
	must(CALL(write, FD_UNIX_A, mem.v, 5) == 5);
	/* One that only the message holds, and one of ours. */
	OK(pipe2, mem.v, 0);
	memcpy(fds, fake_ptr(g, mem), sizeof(fds));
	send_fds(FD_UNIX_A, (int[]){ fds[0], FD_EVENT }, 2);
	put("deep", 4);
	must(CALL(write, (uint64_t)fds[1], mem.v, 4) == 4);
	OK(close, (uint64_t)fds[0]);
	OK(close, (uint64_t)fds[1]);
	at(CALL(socket, AF_UNIX, SOCK_STREAM, 0), FD_LISTEN);
	OK(bind, FD_LISTEN, u, sizeof(un));
	OK(listen, FD_LISTEN, 5);
	at(CALL(socket, AF_UNIX, SOCK_STREAM, 0), FD_CLIENT);
	OK(connect, FD_CLIENT, u, sizeof(un));
	put("waiting", 7);
	must(CALL(write, FD_CLIENT, mem.v, 7) == 7);
	at(CALL(socket, AF_UNIX, SOCK_DGRAM, 0), FD_DGRAM_A);
	at(CALL(socket, AF_UNIX, SOCK_DGRAM, 0), FD_DGRAM_B);
	OK(bind, FD_DGRAM_B, h, 7);
	OK(connect, FD_DGRAM_A, h, 7);
	must(CALL(write, FD_DGRAM_A, mem.v, 3) == 3);
	must(CALL(write, FD_DGRAM_A, mem.v + 3, 4) == 4);
}

static void some_inet_sockets(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons(8080),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ip_mreqn in_group = { { htonl(0xe0000055) }, { 0 }, 1 };
	uint64_t addr = fake_put(g, &in, sizeof(in)).v;
	uint64_t group = fake_put(g, &in_group, sizeof(in_group)).v;

	at(CALL(socket, AF_INET, SOCK_STREAM, 0), FD_TCP_LISTEN);
	OK(bind, FD_TCP_LISTEN, addr, sizeof(in));
	OK(listen, FD_TCP_LISTEN, 5);
	at(CALL(socket, AF_INET, SOCK_STREAM, 0), FD_TCP_CLIENT);
	OK(connect, FD_TCP_CLIENT, addr, sizeof(in));
	put("request", 7);
	must(CALL(write, FD_TCP_CLIENT, mem.v, 7) == 7);
	at(CALL(socket, AF_INET, SOCK_DGRAM, 0), FD_UDP);
	OK(bind, FD_UDP, addr, sizeof(in));
	OK(setsockopt, FD_UDP, IPPROTO_IP, IP_ADD_MEMBERSHIP, group, sizeof(in_group));
	must(CALL(sendto, FD_UDP, mem.v, 3, 0, addr, sizeof(in)) == 3);
	/* Held back, and urgent. */
	must(CALL(sendto, FD_UDP, mem.v, 3, MSG_MORE, addr, sizeof(in)) == 3);
	must(CALL(sendto, FD_TCP_CLIENT, mem.v + 3, 1, MSG_OOB, 0, 0) == 1);
}

static void some_terminals(void)
{
	int zero = 0;

	at(CALL(open, text("/dev/ptmx"), O_RDWR | O_NOCTTY), FD_MASTER);
	put(&zero, sizeof(zero));
	OK(ioctl, FD_MASTER, TIOCSPTLCK, mem.v);
	at(CALL(open, text("/dev/pts/0"), O_RDWR), FD_SLAVE);
	put("line\nhalf", 9);
	must(CALL(write, FD_MASTER, mem.v, 9) == 9);
	must(CALL(write, FD_SLAVE, mem.v, 4) == 4);
}

static void some_ipc(void)
{
	struct sembuf op = { 1, 3, SEM_UNDO };
	struct {
		long type;
		char text[8];
	} m = { 7, "message" };
	uint64_t attr[8] = { 0, 4, 32 };
	long shm, sem, msg;

	shm = CALL(shmget, 0x1234, 10000, IPC_CREAT | 0600);
	sem = CALL(semget, 0x1234, 3, IPC_CREAT | 0600);
	msg = CALL(msgget, 0x1234, IPC_CREAT | 0600);
	must(shm >= 0 && sem >= 0 && msg >= 0);
	OK(shmat, (uint64_t)shm, 0, 0);
	put(&op, sizeof(op));
	OK(semop, (uint64_t)sem, mem.v, 1);
	put(&m, sizeof(m));
	OK(msgsnd, (uint64_t)msg, mem.v, 8, 0);
	put(attr, sizeof(attr));
	at(CALL(mq_open, text("queue"), O_RDWR | O_CREAT, 0600, mem.v), FD_MQ);
	at(CALL(mq_open, text("queue"), O_RDONLY | O_PATH, 0, 0), FD_MQ_PATH);
	put("low high", 8);
	OK(mq_timedsend, FD_MQ, mem.v, 3, 1, 0);
	OK(mq_timedsend, FD_MQ, mem.v + 4, 4, 9, 0);
}

static void some_locks(void)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 3 };
	struct flock ofd = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 9, .l_len = 0 };

	put(&fl, sizeof(fl));
	OK(fcntl, FD_FILE, F_SETLK, mem.v);
	put(&ofd, sizeof(ofd));
	OK(fcntl, FD_FILE, F_OFD_SETLK, mem.v);
	OK(flock, FD_DELETED, 2 /* LOCK_EX */);
	at(CALL(open, text("/tmp/leased"), O_RDONLY | O_CREAT, 0600), FD_LEASE);
	OK(fcntl, FD_LEASE, F_SETLEASE, F_RDLCK);
}

static void touch(const char *path)
{
	long fd = CALL(open, text(path), O_RDONLY);

	OK(close, (uint64_t)fd);
}

static void some_words(void)
{
	at(CALL(open, text("/proc/sys/vm/swappiness"), O_RDWR), FD_KNOB);
	put("7\n", 2);
	must(CALL(write, FD_KNOB, mem.v, 2) == 2);
}

static void some_watches(void)
{
	struct {
		uint32_t events;
		uint64_t data;
	} __attribute__((packed)) ev;
	static const int watched[] = { FD_PIPE_R, FD_EVENT, FD_TIMER, FD_SIGNAL, FD_UNIX_B,
		FD_TCP_LISTEN };

	at(CALL(fanotify_init, 2 | 4 /* nonblock, content */, O_RDONLY), FD_FANOTIFY);
	OK(fanotify_mark, FD_FANOTIFY, 1 | 0x10 /* add, mount */, 0x10020, (uint64_t)AT_FDCWD,
		text("/tmp"));
	at(CALL(fanotify_init, 2 | 0xe00, O_RDONLY), FD_FANOTIFY_FID);
	OK(fanotify_mark, FD_FANOTIFY_FID, 1 | 0x100, 0x40000100, (uint64_t)AT_FDCWD, text("/tmp"));
	OK(fanotify_mark, FD_FANOTIFY_FID, 1, 0x20, (uint64_t)AT_FDCWD, text("/below"));
	touch("/tmp/leased");
	touch("/below");
	at(CALL(inotify_init1, 0), FD_INOTIFY);
	must(CALL(inotify_add_watch, FD_INOTIFY, text("/tmp"), IN_CREATE | IN_DELETE) == 1);
	must(CALL(inotify_add_watch, FD_INOTIFY, text("/below"), IN_OPEN) == 2);
	OK(mkdir, text("/tmp/event"), 0700);
	OK(rmdir, text("/tmp/event"));
	OK(fcntl, FD_DIR, F_NOTIFY, DN_DELETE | DN_MULTISHOT);
	at(CALL(epoll_create1, 0), FD_EPOLL);
	at(CALL(epoll_create1, 0), FD_OUTER);
	for (unsigned i = 0; i < ARRAY_LEN(watched); i++) {
		ev.events = EPOLLIN | (i == 1 ? EPOLLONESHOT : 0);
		ev.data = 100 + i;
		put(&ev, sizeof(ev));
		OK(epoll_ctl, FD_EPOLL, EPOLL_CTL_ADD, (uint64_t)watched[i], mem.v);
	}
	ev.events = EPOLLIN;
	put(&ev, sizeof(ev));
	OK(epoll_ctl, FD_OUTER, EPOLL_CTL_ADD, FD_EPOLL, mem.v);
}

static void a_loop_device(void)
{
	at(CALL(open, text("/tmp/disk"), O_RDWR | O_CREAT, 0600), FD_BACK);
	must(CALL(ftruncate, FD_BACK, 8192) == 0);
	at(CALL(open, text("/dev/loop0"), O_RDWR), FD_LOOP);
	OK(ioctl, FD_LOOP, 0x4C00 /* LOOP_SET_FD */, FD_BACK);
	put("on disk", 7);
	must(CALL(pwrite64, FD_LOOP, mem.v, 7, 4096) == 7);
}

/* Children: one that waits in a read, one in a poll, a zombie, a session of its own with a thread.
 */
static void some_processes(void)
{
	struct task *reader = fake_fork(me), *zombie = fake_fork(me), *leader = fake_fork(me),
		    *stale = fake_fork(me), *thread;
	union gsiginfo info = { .signo = SIGRTMIN + 3, .code = SI_QUEUE };
	struct pollfd pfd = { FD_CLIENT, POLLIN, 0 };
	uint64_t pf = fake_put(g, &pfd, sizeof(pfd)).v;
	char path[32];

	made->blocked_pid = reader->proc->pid;
	made->zombie_pid = zombie->proc->pid;
	made->leader_pid = leader->proc->pid;
	info.kill.value = 99;
	proc_set_sid(leader->proc);
	signal_set_mask(leader, GSIG_BIT(SIGRTMIN + 3) | GSIG_BIT(SIGUSR2));
	thread = fake_thread(leader);
	made->thread_tid = thread->tid;
	must(fake_call(leader, SYS_setresuid, 5, 6, 7) == 0);
	signal_send_task(leader, SIGRTMIN + 3, &info);
	signal_send_task(leader, SIGRTMIN + 3, &info);
	signal_send_proc(leader->proc, SIGUSR2, NULL);
	leader->sighand->act[SIGUSR1 - 1] = (struct gsigaction){ 0x1000, 4, 5, 6 };
	at(CALL(pidfd_open, (uint64_t)made->leader_pid, 0), FD_PIDFD);
	/* The file of a process that is gone. */
	snprintf(path, sizeof(path), "/proc/%d/status", stale->proc->pid);
	at(CALL(open, text(path), O_RDONLY), FD_STALE);
	proc_exit(stale->proc, 0);
	must(CALL(wait4, (uint64_t)stale->proc->pid, 0, 0, 0) == stale->proc->pid);
	proc_exit(zombie->proc, 3 << 8);
	/* An empty eventfd: the read waits. The poll's copy of its array is memory of the call's.
	 */
	must(fake_call(reader, SYS_read, FD_CLIENT, out.v + 4096, 100) == SYS_BLOCK);
	must(fake_call(thread, SYS_poll, pf, 1, 3600 * 1000) == SYS_BLOCK);
}

/* One that has left: its own names, ids, keys; a file of a namespace that nobody is in. */
static void some_namespaces(void)
{
	struct task *apart = fake_fork(me), *first;
	uint64_t path = text("/proc/self/uid_map"), uts = text("/proc/self/ns/uts");
	long fd;

	made->apart_pid = apart->proc->pid;
	must(fake_call(apart, SYS_unshare, CLONE_NEWUTS) == 0);
	must(fake_call(apart, SYS_open, uts, O_RDONLY) >= 0);
	must(fake_call(apart, SYS_unshare, CLONE_NEWUSER | CLONE_NEWUTS | CLONE_NEWIPC) == 0);
	fd = fake_call(apart, SYS_open, path, O_WRONLY);
	must(fd >= 0);
	put("7 0 1", 5);
	must(fake_call(apart, SYS_write, (uint64_t)fd, mem.v, 5) == 5);
	must(fake_call(apart, SYS_getuid) == 7);
	must(fake_call(apart, SYS_sethostname, text("apart"), 5) == 0);
	must(fake_call(apart, SYS_shmget, 0x5150, 4096, IPC_CREAT | 0600) >= 0);
	must(fake_call(apart, SYS_unshare, CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWNET) == 0);
	must(fake_call(apart, SYS_mount, text("x"), text("/tmp"), text("tmpfs"), 0, 0) == 0);
	must(fake_call(apart, SYS_socket, AF_INET, SOCK_DGRAM, 0) >= 0);
	must(fake_call(apart, SYS_unshare, CLONE_NEWPID) == 0);
	first = fake_fork(apart);
	made->first_pid = first->proc->pid;
	must(fake_call(first, SYS_setsid) == 1);
	must(fake_call(first, SYS_mount, text("p"), text("/tmp"), text("proc"), 0, 0) == 0);
}

static void rule_about(struct task *t, long set, const char *path, uint64_t allowed)
{
	struct {
		uint64_t allowed;
		int32_t fd;
	} __attribute__((packed))
	r = { allowed, (int32_t)fake_call(t, SYS_open, text(path), O_PATH) };

	must(r.fd >= 0);
	put(&r, sizeof(r));
	must(fake_call(t, SYS_landlock_add_rule, (uint64_t)set, 1, mem.v, 0) == 0);
	must(fake_call(t, SYS_close, (uint64_t)r.fd) == 0);
}

static void obeys(struct task *t, uint64_t set)
{
	must(fake_call(t, SYS_landlock_restrict_self, set, 0) == 0);
}

/* Rules about files that are there, and about some that are not any more. */
static void a_ruleset(void)
{
	const uint64_t handles[3] = { LANDLOCK_READ | LANDLOCK_LIST | LANDLOCK_WRITE |
					      LANDLOCK_TRUNCATE,
		LANDLOCK_NET_ALL, LANDLOCK_SCOPES };
	const uint64_t port[2] = { LANDLOCK_CONNECT, 8080 };
	struct task *stale = fake_fork(me);
	char path[32];

	put(handles, sizeof(handles));
	at(CALL(landlock_create_ruleset, mem.v, sizeof(handles), 0), FD_RULESET);
	put(port, sizeof(port));
	OK(landlock_add_rule, FD_RULESET, 2, mem.v, 0);
	snprintf(path, sizeof(path), "/proc/%d", stale->proc->pid);
	rule_about(me, FD_RULESET, path, LANDLOCK_READ);
	proc_exit(stale->proc, 0);
	must(CALL(wait4, (uint64_t)stale->proc->pid, 0, 0, 0) == stale->proc->pid);
	OK(mkdir, text("/tmp/away"), 0700);
	OK(mount, text("none"), text("/tmp/away"), text("tmpfs"), 0, 0);
	rule_about(me, FD_RULESET, "/tmp/away", LANDLOCK_READ);
	OK(umount2, text("/tmp/away"), 0);
	rule_about(me, FD_RULESET, "/tmp/dir", LANDLOCK_READ | LANDLOCK_LIST | LANDLOCK_WRITE);
	rule_about(me, FD_RULESET, "/below", LANDLOCK_READ);
	rule_about(me, FD_RULESET, "/proc/1/status", LANDLOCK_READ);
}

static void some_domains(void)
{
	const uint64_t writes = LANDLOCK_WRITE;
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "\0same" };
	uint64_t addr = fake_put(g, &name, sizeof(name)).v;
	struct task *kept, *same, *deeper, *first = task_find(me->k, made->first_pid);
	long fd;

	a_ruleset();
	kept = fake_fork(me);
	obeys(kept, FD_RULESET);
	same = fake_fork(kept);
	deeper = fake_fork(kept);
	put(&writes, sizeof(writes));
	fd = fake_call(deeper, SYS_landlock_create_ruleset, mem.v, sizeof(writes), 0);
	must(fd >= 0);
	obeys(deeper, (uint64_t)fd);
	fd = fake_call(same, SYS_socket, AF_UNIX, SOCK_DGRAM, 0);
	must(fd >= 0 && fake_call(same, SYS_bind, (uint64_t)fd, addr, 7) == 0);
	fd = fake_call(kept, SYS_open, text("/tmp/dir/uncut"), O_RDWR | O_CREAT, 0600);
	must(fd >= 0);
	made->uncut_fd = (int32_t)fd;
	/* A rule about a file of a file system that only this one has. */
	put(&writes, sizeof(writes));
	fd = fake_call(first, SYS_landlock_create_ruleset, mem.v, sizeof(writes), 0);
	must(fd >= 0);
	rule_about(first, fd, "/tmp/1/status", LANDLOCK_WRITE);
	made->kept_pid = kept->proc->pid;
	made->same_pid = same->proc->pid;
	made->deeper_pid = deeper->proc->pid;
}

void busy_make(struct busy *all, struct fake *fake)
{
	made = all;
	g = fake;
	me = g->task;
	mem = fake_alloc(g, 1 << 14);
	out = fake_alloc(g, 1 << 14);
	some_files();
	some_mounts();
	some_pipes();
	some_events();
	some_unix_sockets();
	some_inet_sockets();
	some_terminals();
	some_ipc();
	some_locks();
	some_words();
	some_watches();
	a_loop_device();
	some_processes();
	some_namespaces();
	some_domains();
	OK(sethostname, text("walked"), 6);
}
