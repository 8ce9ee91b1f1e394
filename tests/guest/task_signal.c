/* SPDX-License-Identifier: Apache-2.0 */
/* Signals: handlers, masks, queues, stacks, frames, restarts. */
#include "io.h"

#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile int hits, last, order[32], ordered;
static siginfo_t info;

static void count(int sig)
{
	hits++;
	last = sig;
}

static void keep(int sig, siginfo_t *si, void *uc)
{
	hits++;
	info = *si;
	if (ordered < 32)
		order[ordered++] = sig;
}

static void on(int sig, void (*fn)(int), int flags)
{
	struct sigaction a = { .sa_handler = fn, .sa_flags = flags };

	sigaction(sig, &a, NULL);
}

static void on_info(int sig, int flags)
{
	struct sigaction a = { .sa_sigaction = keep, .sa_flags = flags | SA_SIGINFO };

	sigaction(sig, &a, NULL);
}

CASE(errors)
{
	struct sigaction a = { .sa_handler = count };
	sigset_t set;

	R(sigaction(0, &a, NULL));
	R(sigaction(65, &a, NULL));
	R(sigaction(SIGKILL, &a, NULL));
	R(sigaction(SIGSTOP, &a, NULL));
	R(syscall(SYS_rt_sigaction, SIGUSR1, &a, NULL, 4));
	R(syscall(SYS_rt_sigaction, SIGUSR1, BADP, NULL, 8));
	R(syscall(SYS_rt_sigprocmask, 77, &set, NULL, 8));
	R(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 4));
	R(syscall(SYS_rt_sigprocmask, SIG_BLOCK, BADP, NULL, 8));
	R(kill(getpid(), 65));
	R(kill(getpid(), -1));
	R(kill(999999, 0));
	R(kill(getpid(), 0));
	R(syscall(SYS_tgkill, getpid(), 0, 0));
	R(syscall(SYS_tgkill, getpid(), 999999, 0));
	R(syscall(SYS_tkill, -1, 0));
	R(syscall(SYS_rt_sigsuspend, &set, 4));
	R(syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 4));
}

CASE(handler_runs)
{
	on(SIGUSR1, count, 0);
	R(raise(SIGUSR1));
	R(kill(getpid(), SIGUSR1));
	printf("%d %d\n", hits, last == SIGUSR1);
}

CASE(info_of_kill)
{
	on_info(SIGUSR1, 0);
	kill(getpid(), SIGUSR1);
	printf("%d %d %d\n", info.si_code == SI_USER, info.si_pid == getpid(),
		info.si_uid == getuid());
	raise(SIGUSR1);
	printf("%d\n", info.si_code == SI_TKILL);
}

CASE(real_time_queues)
{
	sigset_t set;

	on_info(SIGRTMIN + 1, 0);
	on_info(SIGRTMIN + 2, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	sigaddset(&set, SIGRTMIN + 2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 3; i++) {
		sigqueue(getpid(), SIGRTMIN + 2, (union sigval){ .sival_int = i });
		sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = i });
	}
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("%d\n", hits);
	/* Handlers nest: the lowest number was set up last of all, so it runs first. */
	for (int i = 0; i < ordered; i++)
		printf("%d ", order[i] - SIGRTMIN);
	printf("value %d\n", info.si_value.sival_int);
}

CASE(standard_ones_do_not)
{
	sigset_t set, pend;

	on(SIGUSR1, count, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 3; i++)
		raise(SIGUSR1);
	sigpending(&pend);
	printf("pending %d\n", sigismember(&pend, SIGUSR1));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("%d\n", hits);
}

static volatile int depth, deepest;
static void nested(int sig)
{
	depth++;
	if (depth > deepest)
		deepest = depth;
	if (hits++ < 3)
		raise(sig);
	depth--;
}

CASE(masked_while_it_runs)
{
	on(SIGUSR1, nested, 0);
	raise(SIGUSR1);
	printf("%d %d\n", hits, deepest);
	hits = deepest = 0;
	on(SIGUSR1, nested, SA_NODEFER);
	raise(SIGUSR1);
	printf("%d %d\n", hits, deepest);
}

static void show_mask(int sig)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, NULL, &set);
	printf("usr1 %d usr2 %d hup %d\n", sigismember(&set, SIGUSR1), sigismember(&set, SIGUSR2),
		sigismember(&set, SIGHUP));
}

CASE(mask_of_an_action)
{
	struct sigaction a = { .sa_handler = show_mask };

	sigaddset(&a.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
	show_mask(0);
}

CASE(reset_hand)
{
	struct sigaction a;

	on(SIGUSR1, count, SA_RESETHAND);
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &a);
	printf("%d %d\n", hits, a.sa_handler == SIG_DFL);
}

CASE(ignored_is_dropped)
{
	sigset_t set, pend;

	on(SIGUSR1, count, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_IGN);
	sigpending(&pend);
	printf("pending %d\n", sigismember(&pend, SIGUSR1));
}

static char *alt;
static volatile int on_alt;
static void where(int sig)
{
	char here;

	on_alt = &here >= alt && &here < alt + 65536;
}

CASE(alternate_stack)
{
	stack_t ss = { .ss_size = 65536 }, old;

	alt = malloc(65536);
	ss.ss_sp = alt;
	R(sigaltstack(NULL, &old));
	printf("disabled %d\n", old.ss_flags == SS_DISABLE);
	R(sigaltstack(&ss, NULL));
	on(SIGUSR1, where, 0);
	raise(SIGUSR1);
	printf("%d\n", on_alt);
	on(SIGUSR1, where, SA_ONSTACK);
	raise(SIGUSR1);
	printf("%d\n", on_alt);
	R(sigaltstack(NULL, &old));
	printf("%d %d\n", old.ss_sp == alt, old.ss_flags);
	ss.ss_size = 100;
	R(sigaltstack(&ss, NULL));
	ss.ss_flags = 0x55;
	R(sigaltstack(&ss, NULL));
	ss.ss_flags = SS_DISABLE;
	R(sigaltstack(&ss, NULL));
}

static sigjmp_buf back;
static void jump(int sig, siginfo_t *si, void *uc)
{
	info = *si;
	siglongjmp(back, 1);
}

CASE(faults)
{
	struct sigaction a = { .sa_sigaction = jump, .sa_flags = SA_SIGINFO };
	char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile int zero = 0;

	sigaction(SIGSEGV, &a, NULL);
	sigaction(SIGFPE, &a, NULL);
	sigaction(SIGILL, &a, NULL);
	sigaction(SIGTRAP, &a, NULL);
	if (!sigsetjmp(back, 1))
		*(volatile char *)bad_ptr() = 1;
	printf("segv %d %d %d\n", info.si_signo == SIGSEGV, info.si_code == SEGV_MAPERR,
		info.si_addr == bad_ptr());
	if (!sigsetjmp(back, 1))
		*(volatile char *)page = 1;
	printf("accerr %d %d\n", info.si_code == SEGV_ACCERR, info.si_addr == page);
	if (!sigsetjmp(back, 1))
		zero = 1 / zero;
	printf("fpe %d %d\n", info.si_signo == SIGFPE, info.si_code == FPE_INTDIV);
	if (!sigsetjmp(back, 1))
		__asm__ volatile("ud2");
	printf("ill %d\n", info.si_signo == SIGILL);
	if (!sigsetjmp(back, 1))
		__asm__ volatile("int3");
	printf("trap %d\n", info.si_signo == SIGTRAP);
}

CASE(fault_without_handler)
{
	int st;
	pid_t p = fork();

	if (!p) {
		sigset_t all;

		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL); /* it cannot be blocked away */
		*(volatile char *)bad_ptr() = 1;
		_exit(0);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WTERMSIG(st));
}

static long overflow(long n)
{
	volatile char big[8192];

	big[n % 8192] = 1;
	if (n > 1 << 30)
		return big[0];
	return overflow(n + 1) + big[1];
}

CASE(stack_overflow)
{
	struct sigaction a = { .sa_sigaction = jump, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t ss = { .ss_sp = malloc(65536), .ss_size = 65536 };

	sigaltstack(&ss, NULL);
	sigaction(SIGSEGV, &a, NULL);
	if (!sigsetjmp(back, 1))
		printf("%ld\n", overflow(0));
	printf("caught %d\n", info.si_signo == SIGSEGV);
}

static void change(int sig, siginfo_t *si, void *arg)
{
	ucontext_t *uc = arg;

	uc->uc_mcontext.gregs[REG_RBX] = 0x1234;
}

CASE(registers_come_back)
{
	struct sigaction a = { .sa_sigaction = change, .sa_flags = SA_SIGINFO };
	double x = 1.5, y;
	long rbx;

	sigaction(SIGUSR1, &a, NULL);
	y = x * 3;
	__asm__ volatile("mov $0x77, %%rbx\n mov $39, %%eax\n syscall\n mov %%eax, %%edi\n mov "
			 "%%eax, %%esi\n"
			 "mov $10, %%edx\n mov $234, %%eax\n syscall\n mov %%rbx, %0"
			 : "=r"(rbx)
			 :
			 : "rax", "rbx", "rcx", "rdx", "rdi", "rsi", "r11", "memory");
	printf("%lx %g\n", rbx, y);
}

CASE(suspend)
{
	sigset_t block, wait;

	on(SIGUSR1, count, 0);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, NULL);
	raise(SIGUSR1);
	printf("%d\n", hits);
	sigemptyset(&wait);
	R(sigsuspend(&wait));
	printf("%d\n", hits);
	show_mask(0);
}

CASE(timed_wait)
{
	struct timespec ts = { 0, 20000000 };
	sigset_t set;
	siginfo_t si;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	R(sigtimedwait(&set, &si, &ts));
	raise(SIGUSR1);
	printf("%d\n", sigtimedwait(&set, &si, &ts) == SIGUSR1);
	pid_t p = fork();

	if (!p) {
		usleep(20000);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	printf("%d\n", sigwaitinfo(&set, &si) == SIGUSR1);
	printf("%d\n", si.si_pid == p);
	ts.tv_nsec = -1;
	R(sigtimedwait(&set, &si, &ts));
}

CASE(restarts)
{
	int p[2], st;
	char c;
	pid_t child;

	NEED(pipe(p));
	on(SIGUSR1, count, SA_RESTART);
	child = fork();
	if (!child) {
		usleep(20000);
		kill(getppid(), SIGUSR1);
		usleep(20000);
		_exit(write(p[1], "x", 1) != 1);
	}
	R(read(p[0], &c, 1));
	waitpid(child, &st, 0);
	on(SIGUSR1, count, 0);
	child = fork();
	if (!child) {
		usleep(20000);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	R(read(p[0], &c, 1));
	waitpid(child, &st, 0);
	printf("%d\n", hits);
}

CASE(sleep_goes_on_without_handler)
{
	struct timespec ts = { 0, 80000000 };
	pid_t me = getpid(), child;
	int st;

	signal(SIGUSR1, SIG_IGN);
	child = fork();
	if (!child) {
		usleep(20000);
		kill(me, SIGUSR1);
		kill(me, SIGSTOP);
		usleep(10000);
		kill(me, SIGCONT);
		_exit(0);
	}
	R(nanosleep(&ts, NULL));
	waitpid(child, &st, 0);
}

static void *target(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	while (!hits)
		usleep(1000);
	return NULL;
}

CASE(a_thread_of_ones_choice)
{
	pthread_t t;
	sigset_t set;

	on(SIGUSR1, count, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_create(&t, NULL, target, NULL);
	kill(getpid(), SIGUSR1); /* only the other one can take it */
	pthread_join(t, NULL);
	printf("%d\n", hits);
}

CASE(busy_loop_is_interrupted)
{
	struct itimerval it = { { 0, 0 }, { 0, 30000 } };

	on(SIGALRM, count, 0);
	setitimer(ITIMER_REAL, &it, NULL);
	while (!hits)
		;
	printf("%d\n", last == SIGALRM);
}

CASE(init_is_not_killed_by_itself)
{
	pid_t p = fork();
	int st;

	if (!p) {
		signal(SIGTERM, SIG_DFL);
		raise(SIGTERM);
		_exit(0);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WTERMSIG(st));
}

CASE(permission)
{
	pid_t p = fork();
	int st;

	if (!p) {
		int bad = 0;

		if (setuid(1000) < 0)
			_exit(9);
		bad |= kill(getppid(), 0) == 0 || errno != EPERM;
		bad |= kill(getpid(), 0) != 0;
		_exit(bad);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
}

static stack_t seen_stack;
static int seen_change;

static void look_at_stack(int sig)
{
	stack_t off = { .ss_flags = SS_DISABLE };

	sigaltstack(NULL, &seen_stack);
	seen_change = sigaltstack(&off, NULL) < 0 ? errno : 0;
}

CASE(altstack_while_on_it)
{
	static char stack[64 << 10];
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction a = { .sa_handler = look_at_stack, .sa_flags = SA_ONSTACK };

	sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
	printf("%d %d\n", seen_stack.ss_flags, seen_change);
	sigaltstack(NULL, &ss);
	printf("%d %d\n", ss.ss_flags, ss.ss_size == sizeof(stack));
	ss.ss_flags = SS_DISABLE | SS_ONSTACK;
	R(sigaltstack(&ss, NULL));
	a.sa_flags = 0;
	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
	printf("%d %d\n", seen_stack.ss_flags, seen_change);
}

static char *alt;
static int faults, handled;

static void on_blocked_stack(int sig)
{
	if (sig == SIGSEGV) {
		faults++;
		mprotect(alt, 65536, PROT_READ | PROT_WRITE);
	} else {
		handled++;
	}
}

/* No place for a handler's frame is a fault; without a handler for that, the end. */
CASE(a_stack_that_cannot_be_written)
{
	stack_t st = { .ss_size = 65536 };
	struct sigaction a = { .sa_handler = on_blocked_stack };
	pid_t p;

	alt = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	st.ss_sp = alt;
	R(sigaltstack(&st, NULL));
	sigaction(SIGSEGV, &a, NULL);
	a.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
	printf("%d %d\n", handled, faults);
	mprotect(alt, 65536, PROT_READ);
	R(raise(SIGUSR1));
	printf("%d %d\n", handled, faults);
	raise(SIGUSR1);
	printf("%d %d\n", handled, faults);
	mprotect(alt, 65536, PROT_READ);
	signal(SIGSEGV, SIG_DFL);
	fflush(stdout);
	p = fork();
	if (!p) {
		raise(SIGUSR1);
		_exit(3);
	}
	R(io_reap(p));
	signal(SIGSEGV, SIG_IGN);
	p = fork();
	if (!p) {
		raise(SIGUSR1);
		_exit(3);
	}
	R(io_reap(p));
}

static char *first_frame;
static int moved, rounds;

static void again(int sig)
{
	char here;

	if (!first_frame)
		first_frame = &here;
	moved += &here != first_frame;
	if (++rounds < 3000)
		raise(sig);
}

/* The next one comes when the handler returns, in its place and not below it. */
CASE(one_after_the_other)
{
	volatile double d = 1.5;
	struct sigaction a = { .sa_handler = again };

	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
	printf("%d %d %g\n", rounds, moved, d * 2);
}

static uint32_t word;

static long wait_on_word(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
}

static void change_word(int sig)
{
	if (++hits == 3)
		word = 1;
}

/* A wait without end is interrupted, or goes on, as the handler says: so a semaphore's is. */
CASE(a_handler_ends_a_wait_for_memory)
{
	struct itimerval often = { { .tv_usec = 20000 }, { .tv_usec = 20000 } };

	on(SIGALRM, count, 0);
	setitimer(ITIMER_REAL, &often, NULL);
	R(wait_on_word());
	hits = 0;
	on(SIGALRM, change_word, SA_RESTART);
	R(wait_on_word());
	B(hits >= 3);
}

static void fault_again(int sig)
{
	*(volatile char *)BAD_PTR = 1;
}

/* A handler that faults for ever is ended by the bottom of its stack, and not beyond it. */
CASE(off_the_bottom)
{
	enum { HALF = 128 << 10 };
	char *area =
		mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	stack_t s = { .ss_sp = area + HALF, .ss_size = HALF };
	struct sigaction a = { .sa_handler = fault_again, .sa_flags = SA_ONSTACK | SA_NODEFER };
	size_t touched = 0;
	int st = 0;
	pid_t p;

	NEED(area == MAP_FAILED ? -1 : 0);
	fflush(stdout);
	NEED(p = fork());
	if (p == 0) {
		if (sigaltstack(&s, NULL) < 0 || sigaction(SIGSEGV, &a, NULL) < 0)
			_exit(1);
		fault_again(0);
	}
	NEED(waitpid(p, &st, 0));
	printf("killed by %d\n", WIFSIGNALED(st) ? WTERMSIG(st) : 0);
	for (int i = 0; i < HALF; i++)
		touched += area[i] != 0;
	B(touched == 0);
}
