/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that a program puts on itself: strict mode, answers, traps, ends, who inherits them. */
#include "io.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>

#define LOAD_NR BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ON(nr, answer)                                                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, (answer))
#define PASS BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define INSTALL(code) install(code, COUNT(code))

static int install(const struct sock_filter *code, size_t n)
{
	struct sock_fprog p = { (unsigned short)n, (struct sock_filter *)code };

	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p);
}

/* How a child ends that runs @fn. */
static void child(const char *what, void (*fn)(void))
{
	int st = 0;
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p) {
		fn();
		fflush(stdout);
		syscall(SYS_exit_group, 0);
	}
	waitpid(p, &st, 0);
	if (WIFSIGNALED(st))
		printf("%s: signal %d\n", what, WTERMSIG(st));
	else
		printf("%s: exit %d\n", what, WEXITSTATUS(st));
}

static void strict_pid(void)
{
	char c = 'x';

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
	if (write(2, &c, 0) == 0)
		syscall(SYS_getpid);
}

static void strict_exit(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
	syscall(SYS_exit, 7);
}

/* Asked so often that somebody may have the answer at hand; then a filter wants to see it too. */
static void hot_then_filtered(void)
{
	static const struct sock_filter code[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_ERRNO | 55),
		ON(SYS_access, SECCOMP_RET_ERRNO | 56), PASS };
	int same = 0, missing = 0;
	pid_t parent = getppid();

	for (int i = 0; i < 2000; i++) {
		same += getppid() == parent;
		missing += access("/no/such/file", F_OK) < 0 && errno == ENOENT;
	}
	printf("%d %d\n", same, missing);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	printf("%d\n", INSTALL(code));
	same = getppid() == -55; /* a call that cannot fail: no errno */
	errno = 0;
	missing = access("/no/such/file", F_OK) == -1 && errno == 56;
	printf("%d %d\n", same, missing);
}

CASE(hot)
{
	child("hot", hot_then_filtered);
}

CASE(strict)
{
	child("another call", strict_pid);
	child("exit", strict_exit);
}

static const struct sock_filter answers[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_ERRNO | ENOTSUP),
	ON(SYS_getuid, SECCOMP_RET_ERRNO | 0), ON(SYS_getpgid, SECCOMP_RET_TRACE | 1),
	ON(SYS_umask, SECCOMP_RET_LOG), ON(SYS_uname, SECCOMP_RET_KILL_PROCESS), PASS };

static void answered(void)
{
	R(INSTALL(answers));
	R(prctl(PR_GET_SECCOMP));
	R(syscall(SYS_getppid));
	R(syscall(SYS_getuid));
	R(syscall(SYS_getpgid, 0));
	R(syscall(SYS_umask, 022));
	B(syscall(SYS_getpid) > 1);
	fflush(stdout);
	syscall(SYS_uname, NULL);
}

CASE(answers)
{
	child("killed", answered);
	B(getppid() > 0);
}

/* Two filters: the stricter one wins, whichever came first. */
static void stacked(void)
{
	static const struct sock_filter a[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_ERRNO | EIO),
		ON(SYS_getpgid, SECCOMP_RET_TRAP), PASS };
	static const struct sock_filter b[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_ERRNO | EPERM),
		ON(SYS_getpgid, SECCOMP_RET_ERRNO | EPERM), PASS };

	R(INSTALL(a));
	R(INSTALL(b));
	R(syscall(SYS_getppid));
	fflush(stdout);
	syscall(SYS_getpgid, 0);
}

CASE(the_stricter_wins)
{
	child("trap without a handler", stacked);
}

static void on_trap(int sig, siginfo_t *si, void *uc)
{
	struct {
		int32_t head[4];
		uint64_t addr;
		int32_t nr;
		uint32_t arch;
	} *w = (void *)si;

	printf("trap %d code %d errno %d nr %d arch %d addr %d\n", sig == SIGSYS, si->si_code,
		si->si_errno, w->nr == SYS_getppid, w->arch == AUDIT_ARCH_X86_64, w->addr != 0);
}

static void trapped(void)
{
	static const struct sock_filter f[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_TRAP | 42),
		PASS };
	struct sigaction a = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	sigaction(SIGSYS, &a, NULL);
	R(INSTALL(f));
	B(syscall(SYS_getppid) == SYS_getppid);
}

CASE(traps)
{
	child("trap", trapped);
}

static void arguments(void)
{
	/* getpgid(pid) is refused for one pid only; scratch words, arithmetic and X on the way. */
	static const struct sock_filter f[] = { LOAD_NR,
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 8),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 2), BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LD | BPF_IMM, 9), BPF_STMT(BPF_LDX | BPF_MEM, 3),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_X, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | E2BIG),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM), PASS };

	R(INSTALL(f));
	R(syscall(SYS_getpgid, 7));
	R(syscall(SYS_getpgid, 8));
}

CASE(looks_at_arguments)
{
	child("end", arguments);
}

static void inherited(void)
{
	static const struct sock_filter f[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_ERRNO | EIO),
		PASS };
	pid_t p;

	R(INSTALL(f));
	fflush(stdout);
	p = fork();
	if (!p) {
		R(syscall(SYS_getppid));
		fflush(stdout);
		_exit(0);
	}
	waitpid(p, NULL, 0);
}

CASE(children_have_it)
{
	child("end", inherited);
}

static volatile int asker;

static void *asks(void *arg)
{
	static const struct sock_filter f[] = { LOAD_NR, ON(SYS_getppid, SECCOMP_RET_KILL_THREAD),
		PASS };

	INSTALL(f);
	asker = (int)syscall(SYS_gettid);
	syscall(SYS_getppid);
	return arg;
}

static void one_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, asks, NULL); /* no join: not every libc hears of such an end */
	while (!asker || syscall(SYS_tgkill, getpid(), asker, 0) == 0)
		io_nap(1);
	B(syscall(SYS_getppid) > 0);
}

CASE(ends_one_thread)
{
	child("end", one_thread);
}

static void plain_user(void)
{
	static const struct sock_filter f[] = { PASS };

	R(INSTALL(f));
	R(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	R(INSTALL(f));
	R(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0));
}

CASE(a_user_needs_no_new_privs)
{
	as_user(65534, 65534, plain_user);
}

CASE(wrong_programs)
{
	static const struct sock_filter none[] = { LOAD_NR };
	static const struct sock_filter jumps[] = { BPF_JUMP(BPF_JMP | BPF_JA, 5, 0, 0), PASS };
	static const struct sock_filter branches[] = { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		PASS };
	static const struct sock_filter odd[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), PASS };
	static const struct sock_filter outside[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64),
		PASS };
	static const struct sock_filter bytes[] = { BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), PASS };
	static const struct sock_filter divides[] = { BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0),
		PASS };
	static const struct sock_filter scratch[] = { BPF_STMT(BPF_ST, 16), PASS };
	static const struct sock_filter unknown[] = { BPF_STMT(0xffff, 0), PASS };
	static const struct sock_filter fine[] = { PASS };
	uint32_t action = SECCOMP_RET_ERRNO, odd_action = 0x12340000;

	R(INSTALL(none));
	R(INSTALL(jumps));
	R(INSTALL(branches));
	R(INSTALL(odd));
	R(INSTALL(outside));
	R(INSTALL(bytes));
	R(INSTALL(divides));
	R(INSTALL(scratch));
	R(INSTALL(unknown));
	R(install(fine, 0));
	R(install(fine, 4097));
	R(install(BADP, 1));
	R(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, BADP));
	R(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 20, BADP));
	R(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
	R(syscall(SYS_seccomp, 99, 0, NULL));
	R(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	R(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &odd_action));
	R(prctl(PR_SET_SECCOMP, 9, 0, 0, 0));
}
