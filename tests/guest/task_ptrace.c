/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing: stops of signals, calls, steps and events, registers and memory, who may and who ends.
 */
#include "io.h"

#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <elf.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

static volatile long word = 5;

static long trace(int op, pid_t pid, unsigned long addr, unsigned long data)
{
	return syscall(SYS_ptrace, (long)op, (long)pid, addr, data);
}

/* What the next news of @pid is. */
static int next(pid_t pid)
{
	int st = 0;
	pid_t r = waitpid(pid, &st, __WALL);

	if (r < 0)
		printf("  wait: %s\n", errno_name(errno));
	else if (WIFSTOPPED(st))
		printf("  stop: signal %d%s event %d\n", WSTOPSIG(st) & 0x7f,
			WSTOPSIG(st) & 0x80 ? " of a call," : ",", st >> 16);
	else if (WIFSIGNALED(st))
		printf("  ended by %d\n", WTERMSIG(st));
	else
		printf("  exit %d\n", WEXITSTATUS(st));
	return st;
}

static pid_t child(void (*fn)(void))
{
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p) {
		trace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		fn();
		_exit(9);
	}
	next(p);
	return p;
}

static void get_signals(void)
{
	raise(SIGUSR1);
	raise(SIGCHLD); /* nobody minds it, but a tracer hears */
	raise(SIGUSR2);
}

CASE(signals_are_told_first)
{
	pid_t p = child(get_signals);
	siginfo_t si;

	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_GETSIGINFO, p, 0, (unsigned long)&si));
	say_is("its words", si.si_signo == SIGUSR1 && si.si_pid == p);
	R(trace(PTRACE_CONT, p, 0, 0)); /* dropped */
	next(p);
	R(trace(PTRACE_CONT, p, 0, SIGCHLD));
	next(p);
	R(trace(PTRACE_CONT, p, 0, SIGTERM)); /* another one instead */
	next(p);
	R(trace(PTRACE_CONT, p, 0, 0));
}

static void look_at_word(void)
{
	raise(SIGUSR1);
	_exit((int)word);
}

CASE(memory_and_registers)
{
	pid_t p = child(look_at_word);
	struct user_regs_struct r, same;
	struct user_fpregs_struct fp;
	struct iovec iov = { &same, sizeof(same) };
	unsigned long v = 0;

	R(trace(PTRACE_PEEKDATA, p, (unsigned long)&word, (unsigned long)&v));
	printf("  %lu\n", v);
	R(trace(PTRACE_POKEDATA, p, (unsigned long)&word, 44));
	R(trace(PTRACE_PEEKDATA, p, 8, (unsigned long)&v));
	R(trace(PTRACE_POKEDATA, p, 8, 1));
	/* Text that the program itself could not write. */
	R(trace(PTRACE_PEEKTEXT, p, (unsigned long)look_at_word, (unsigned long)&v));
	R(trace(PTRACE_POKETEXT, p, (unsigned long)look_at_word, v));
	R(trace(PTRACE_GETREGS, p, 0, (unsigned long)&r));
	R(trace(PTRACE_GETREGSET, p, NT_PRSTATUS, (unsigned long)&iov));
	say_is("the same twice", memcmp(&r, &same, sizeof(r)) == 0 && iov.iov_len == sizeof(r));
	R(trace(PTRACE_PEEKUSER, p, offsetof(struct user_regs_struct, rip), (unsigned long)&v));
	say_is("one by one", v == r.rip);
	R(trace(PTRACE_PEEKUSER, p, 3, (unsigned long)&v));
	r.r12 = 0x1234;
	R(trace(PTRACE_SETREGS, p, 0, (unsigned long)&r));
	R(trace(PTRACE_GETREGS, p, 0, (unsigned long)&same));
	say_is("set", same.r12 == 0x1234 && same.rip == r.rip && same.fs_base != 0);
	R(trace(PTRACE_GETFPREGS, p, 0, (unsigned long)&fp));
	R(trace(PTRACE_SETFPREGS, p, 0, (unsigned long)&fp));
	iov.iov_len = 8;
	R(trace(PTRACE_GETREGSET, p, 0x7777, (unsigned long)&iov));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_CONT, p, 0, 99));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
}

static void call_and_exit(void)
{
	long r = syscall(SYS_getpriority, 0, 0);

	_exit(r == 7 ? 3 : 4);
}

CASE(stops_at_calls)
{
	pid_t p = child(call_and_exit);
	struct user_regs_struct r;

	R(trace(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXIT));
	R(trace(PTRACE_SETOPTIONS, p, 0, 1 << 19));
	for (int i = 0; i < 50; i++) {
		trace(PTRACE_SYSCALL, p, 0, 0);
		if (waitpid(p, NULL, __WALL) < 0 ||
			trace(PTRACE_GETREGS, p, 0, (unsigned long)&r) < 0)
			break;
		if (r.orig_rax == SYS_getpriority)
			break;
	}
	say_is("at its entry", r.orig_rax == SYS_getpriority && (long)r.rax == -ENOSYS);
	R(trace(PTRACE_SYSCALL, p, 0, 0));
	next(p);
	R(trace(PTRACE_GETREGS, p, 0, (unsigned long)&r));
	say_is("at its end", r.orig_rax == SYS_getpriority && (long)r.rax == 20);
	r.rax = 7;
	R(trace(PTRACE_SETREGS, p, 0, (unsigned long)&r));
	R(trace(PTRACE_SYSCALL, p, 0, 0));
	next(p); /* exit_group */
	R(trace(PTRACE_SYSCALL, p, 0, 0));
	next(p); /* PTRACE_EVENT_EXIT */
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
}

static void spin(void)
{
	__asm__ volatile("nop\n nop\n nop\n nop\n nop\n");
	raise(SIGUSR1);
}

CASE(steps)
{
	pid_t p = child(spin);
	struct user_regs_struct a, b;
	int moved = 0;

	for (int i = 0; i < 20; i++) {
		trace(PTRACE_GETREGS, p, 0, (unsigned long)&a);
		trace(PTRACE_SINGLESTEP, p, 0, 0);
		if (waitpid(p, NULL, __WALL) != p)
			break;
		trace(PTRACE_GETREGS, p, 0, (unsigned long)&b);
		moved += a.rip != b.rip;
	}
	say_n("moved", moved);
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_KILL, p, 0, 0));
	next(p);
}

static void fork_one(void)
{
	pid_t p = fork();

	if (!p)
		_exit(6);
	waitpid(p, NULL, 0);
	execl("/bin/true", "true", (char *)NULL);
}

CASE(events)
{
	pid_t p = child(fork_one), q;
	unsigned long msg = 0;

	R(trace(PTRACE_SETOPTIONS, p, 0, PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
	R(trace(PTRACE_GETEVENTMSG, p, 0, (unsigned long)&msg));
	q = (pid_t)msg;
	next(q);
	R(trace(PTRACE_CONT, p, 0, 0));
	R(trace(PTRACE_CONT, q, 0, 0));
	next(q);
	next(p); /* SIGCHLD */
	R(trace(PTRACE_CONT, p, 0, SIGCHLD));
	next(p); /* exec */
	R(trace(PTRACE_GETEVENTMSG, p, 0, (unsigned long)&msg));
	say_is("its old number", msg == (unsigned long)p);
	R(trace(PTRACE_DETACH, p, 0, 0));
	next(p);
	R(trace(PTRACE_CONT, p, 0, 0));
}

static void sleep_long(void)
{
	struct timespec ts = { 300, 0 };

	for (;;)
		nanosleep(&ts, NULL);
}

CASE(attach_and_let_go)
{
	pid_t p = fork(), q;

	if (!p)
		sleep_long();
	R(trace(PTRACE_CONT, p, 0, 0));
	R(trace(PTRACE_ATTACH, p, 0, 0));
	R(trace(PTRACE_ATTACH, p, 0, 0));
	next(p);
	R(trace(PTRACE_DETACH, p, 0, 0));
	R(trace(PTRACE_INTERRUPT, p, 0, 0));
	R(trace(PTRACE_SEIZE, p, 0, 0));
	R(trace(PTRACE_INTERRUPT, p, 0, 0));
	next(p);
	R(trace(PTRACE_CONT, p, 0, 0));
	R(trace(PTRACE_ATTACH, getpid(), 0, 0));
	R(trace(PTRACE_ATTACH, 999999, 0, 0));
	/* Its tracer ends: with it what it holds so. */
	fflush(stdout);
	q = fork();
	if (!q) {
		pid_t own = fork();

		if (!own)
			sleep_long();
		trace(PTRACE_SEIZE, own, 0, PTRACE_O_EXITKILL);
		_exit(kill(own, 0) == 0 ? 0 : 1);
	}
	next(q);
	kill(p, SIGKILL);
	next(p);
}

/* Breakpoints in registers: a word that is written, an instruction that is reached. */

#define DEBUG(i) offsetof(struct user, u_debugreg[i])

static __attribute__((noinline)) void reached(void)
{
	__asm__ volatile("" ::: "memory");
}

static void writes_and_forks(void)
{
	int st = 0;

	word = 5; /* as it was */
	raise(SIGUSR1);
	word = 6;
	if (fork() == 0)
		_exit(word == 6 ? 3 : 4);
	wait(&st);
	reached();
	_exit(WIFEXITED(st) ? WEXITSTATUS(st) : 99);
}

static void at_breakpoint(pid_t p)
{
	struct user_regs_struct r;
	siginfo_t si;
	unsigned long status = 0;

	next(p);
	R(trace(PTRACE_GETSIGINFO, p, 0, (unsigned long)&si));
	R(trace(PTRACE_PEEKUSER, p, DEBUG(6), (unsigned long)&status));
	R(trace(PTRACE_GETREGS, p, 0, (unsigned long)&r));
	printf("  code %d, hit %lu, word %ld, %s\n", si.si_code, status & 15, word,
		r.rip == (unsigned long)reached ? "there" : "elsewhere");
}

CASE(breakpoints_in_registers)
{
	const unsigned long write_8 = 1 | 1 << 16 | 2 << 18, execute = 4;
	pid_t p = child(writes_and_forks);
	unsigned long v = 0;
	long now = 0;

	R(trace(PTRACE_POKEUSER, p, DEBUG(0), 0xffff800000000000));
	R(trace(PTRACE_POKEUSER, p, DEBUG(0), (unsigned long)&word + 1));
	R(trace(PTRACE_POKEUSER, p, DEBUG(7), write_8)); /* eight bytes, but not at a multiple */
	R(trace(PTRACE_POKEUSER, p, DEBUG(0), (unsigned long)&word));
	R(trace(PTRACE_POKEUSER, p, DEBUG(1), (unsigned long)reached));
	R(trace(PTRACE_POKEUSER, p, DEBUG(4), 1));
	R(trace(PTRACE_POKEUSER, p, DEBUG(7), write_8 | execute));
	R(trace(PTRACE_POKEUSER, p, DEBUG(0), (unsigned long)&word + 1));
	R(trace(PTRACE_PEEKUSER, p, DEBUG(0), (unsigned long)&v));
	say_is("kept", v == (unsigned long)&word);
	R(trace(PTRACE_POKEUSER, p, DEBUG(7), execute));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p); /* SIGUSR1 */
	R(trace(PTRACE_POKEUSER, p, DEBUG(7), write_8 | execute));
	R(trace(PTRACE_CONT, p, 0, 0));
	at_breakpoint(p);
	R(trace(PTRACE_PEEKDATA, p, (unsigned long)&word, (unsigned long)&now));
	printf("  now %ld\n", now);
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p); /* SIGCHLD */
	R(trace(PTRACE_CONT, p, 0, SIGCHLD));
	at_breakpoint(p);
	R(trace(PTRACE_POKEUSER, p, DEBUG(7), 0));
	R(trace(PTRACE_CONT, p, 0, 0));
	next(p);
}
