/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that leave a call to somebody else: to a listener, or to a tracer. */
#include "io.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#ifndef PTRACE_EVENT_SECCOMP
#define PTRACE_EVENT_SECCOMP 7
#endif
#define OPTION_SECCOMP (1 << PTRACE_EVENT_SECCOMP)

#define LOAD_NR BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ON(nr, answer)                                                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, (answer))
#define PASS BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int install(const struct sock_filter *code, unsigned short n, unsigned flags)
{
	struct sock_fprog p = { n, (struct sock_filter *)code };

	need("privileges", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p);
}
#define INSTALL(code, flags) install(code, sizeof(code) / sizeof((code)[0]), flags)

static const struct sock_filter asks[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_USER_NOTIF),
	ON(SYS_mkdir, SECCOMP_RET_USER_NOTIF), ON(SYS_getpgid, SECCOMP_RET_USER_NOTIF),
	ON(SYS_getsid, SECCOMP_RET_USER_NOTIF), PASS };

static _Atomic int listener = -1;
static _Atomic int handled;
static long got[5];
static int errs[5];

static void call_it(int i, long nr, long arg)
{
	errno = 0;
	got[i] = syscall(nr, arg);
	errs[i] = errno;
}

static void on_signal(int sig)
{
	handled = sig;
}

static void *is_asked(void *arg)
{
	int fd = INSTALL(asks, SECCOMP_FILTER_FLAG_NEW_LISTENER);

	listener = fd < 0 ? -1000 - errno : fd;
	if (fd < 0)
		return arg;
	call_it(0, SYS_getppid, 0);
	call_it(1, SYS_mkdir, (long)"made");
	call_it(2, SYS_getpgid, 0);
	call_it(3, SYS_getppid, 0);
	call_it(4, SYS_getsid, 0);
	return arg;
}

static int start(pthread_t *t)
{
	need("thread", pthread_create(t, NULL, is_asked, NULL) ? -1 : 0);
	while (listener == -1)
		sched_yield();
	if (listener < 0)
		printf("  listener: %s\n", errno_name(-listener - 1000));
	return listener;
}

static uint64_t next_question(int fd, long nr)
{
	struct seccomp_notif q;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	need("poll", poll(&p, 1, -1));
	memset(&q, 0, sizeof(q));
	say("recv", ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &q));
	say_is("it", q.data.nr == nr && q.pid > 0);
	say("valid", ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &q.id));
	return q.id;
}

static long answer(int fd, uint64_t id, long val, int error, unsigned flags)
{
	struct seccomp_notif_resp a = { .id = id, .val = val, .error = error, .flags = flags };

	return ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &a);
}

CASE(asked)
{
	struct seccomp_notif used = { .flags = 1 };
	struct seccomp_notif_addfd add = { .srcfd = 0 };
	pthread_t t;
	int fd = start(&t);
	uint64_t id;

	if (fd < 0)
		return;
	say("not empty", ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &used));
	say("nobody's", answer(fd, 12345, 0, 0, 0));
	say("other", ioctl(fd, 0x2177));
	id = next_question(fd, SYS_getppid);
	say("value and go", answer(fd, id, 1, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
	say("unknown flag", answer(fd, id, 0, 0, 8));
	say("value", answer(fd, id, 4242, 0, 0));
	id = next_question(fd, SYS_mkdir);
	say("error", answer(fd, id, 0, -EXDEV, 0));
	id = next_question(fd, SYS_getpgid);
	say("go", answer(fd, id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
	id = next_question(fd, SYS_getppid);
	add.id = id;
	add.srcfd = 9999;
	say("no file", ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add));
	add.srcfd = (unsigned)fd;
	add.newfd = 77;
	say("number for nothing", ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add));
	add.flags = SECCOMP_ADDFD_FLAG_SETFD;
	say_n("file", ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add));
	say_is("there", fcntl(77, F_GETFD) == 0);
	add.newfd = 0;
	add.flags = SECCOMP_ADDFD_FLAG_SEND;
	say_is("and answered", ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) > 0);
	id = next_question(fd, SYS_getsid);
	say("value", answer(fd, id, 9, 0, 0));
	pthread_join(t, NULL);
	printf("  %ld, %ld %s, %d, %d, %ld\n", got[0], got[1], errno_name(errs[1]),
		got[2] == getpgid(0), got[3] > 2, got[4]);
	say("made", access("made", F_OK));
	say("too late", answer(fd, id, 0, 0, 0));
}

/* The end of all who could ask. */
CASE(nobody_asks)
{
	struct pollfd p;
	pthread_t t;
	int fd = start(&t);

	if (fd < 0)
		return;
	for (int i = 0; i < 5; i++) {
		struct seccomp_notif q;

		memset(&q, 0, sizeof(q));
		need("recv", ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &q));
		need("go", answer(fd, q.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE));
	}
	pthread_join(t, NULL);
	p = (struct pollfd){ .fd = fd };
	need("poll", poll(&p, 1, -1));
	say_is("hung up", p.revents == POLLHUP);
}

/* A handler ends the wait, and then there is nobody to answer. */
CASE(interrupted)
{
	struct sigaction sa = { .sa_handler = on_signal };
	pthread_t t;
	int fd;
	uint64_t id;

	sigaction(SIGUSR1, &sa, NULL);
	fd = start(&t);
	if (fd < 0)
		return;
	id = next_question(fd, SYS_getppid);
	pthread_kill(t, SIGUSR1);
	next_question(fd, SYS_mkdir);
	say_is("handled", handled == SIGUSR1);
	say("too late", answer(fd, id, 0, 0, 0));
	close(fd); /* nobody answers any more */
	pthread_join(t, NULL);
	printf("  %ld %s\n", got[0], errno_name(errs[0]));
	for (int i = 1; i < 5; i++)
		printf("  %ld %s\n", got[i], errno_name(errs[i]));
}

CASE(flags)
{
	static const struct sock_filter pass[] = { PASS };
	unsigned short sizes[3] = { 0 };
	unsigned action = SECCOMP_RET_USER_NOTIF;

	say("sizes", syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, sizes));
	say_is("large enough", sizes[0] >= 80 && sizes[1] >= 24 && sizes[2] >= 64);
	say("known", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	say("with threads",
		INSTALL(pass, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC));
	say("killable alone", INSTALL(pass, 1 << 5));
	say("one", INSTALL(pass, SECCOMP_FILTER_FLAG_NEW_LISTENER) >= 0 ? 0 : -1);
	say("two", INSTALL(pass, SECCOMP_FILTER_FLAG_NEW_LISTENER));
	say("another filter", INSTALL(pass, 0));
}

/* To a tracer. */

static long trace(long op, pid_t pid, unsigned long addr, unsigned long data)
{
	return syscall(SYS_ptrace, op, (long)pid, addr, data);
}

static void traced(void)
{
	static const struct sock_filter code[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_TRACE | 77),
		ON(SYS_getsid, SECCOMP_RET_TRACE | 78), ON(SYS_getpgid, SECCOMP_RET_ERRNO | EXDEV),
		PASS };
	pid_t parent = getppid();

	trace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	need("filter", INSTALL(code, 0));
	say_is("let through", syscall(SYS_getppid) == parent);
	say_is("not made", syscall(SYS_getppid) == 5);
	say("made another", syscall(SYS_getppid));
	say_is("and told the end", syscall(SYS_getsid, 0) > 0);
	fflush(stdout);
	_exit(3);
}

static void next(pid_t p)
{
	unsigned long word = 0;
	int st = 0;

	need("wait", waitpid(p, &st, 0));
	if (WIFEXITED(st)) {
		printf("  exit %d\n", WEXITSTATUS(st));
		return;
	}
	trace(PTRACE_GETEVENTMSG, p, 0, (unsigned long)&word);
	if (st >> 16)
		printf("  event %d, %lu\n", st >> 16, word);
	else
		printf("  signal %d\n", WSTOPSIG(st));
}

CASE(left_to_a_tracer)
{
	struct user_regs_struct r;
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p)
		traced();
	next(p);
	R(trace(PTRACE_SETOPTIONS, p, 0, OPTION_SECCOMP | PTRACE_O_TRACESYSGOOD));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_GETREGS, p, 0, (unsigned long)&r));
	say_is("number", r.orig_rax == SYS_getppid && (long)r.rax == -ENOSYS);
	r.orig_rax = (unsigned long)-1;
	r.rax = 5;
	R(trace(PTRACE_SETREGS, p, 0, (unsigned long)&r));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_GETREGS, p, 0, (unsigned long)&r));
	r.orig_rax = SYS_getpgid; /* the filter looks again */
	R(trace(PTRACE_SETREGS, p, 0, (unsigned long)&r));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_SYSCALL, p, 0, 0));
	next(p);
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
}
