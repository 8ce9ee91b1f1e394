/* SPDX-License-Identifier: Apache-2.0 */
/* signalfd: what is read, for whom, errors. */
#include "io.h"

#include <sys/signalfd.h>

static sigset_t set;

static int setup(int flags)
{
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, flags);
}

CASE(errors)
{
	struct signalfd_siginfo si;
	int p[2];
	int s = setup(SFD_NONBLOCK);

	B(s >= 0);
	R(read(s, &si, sizeof(si)));
	R(read(s, &si, sizeof(si) - 1));
	R(write(s, &si, 1));
	R(signalfd(-1, &set, 0x40));
	R(signalfd(999, &set, 0));
	NEED(pipe(p));
	R(signalfd(p[0], &set, 0));
	R(syscall(SYS_signalfd4, -1, &set, 4, 0));
	R(syscall(SYS_signalfd4, -1, BADP, 8, 0));
	raise(SIGUSR1);
	R(read(s, BADP, sizeof(si)));
}

CASE(reads)
{
	struct signalfd_siginfo si[4];
	int s = setup(SFD_NONBLOCK);

	io_show_poll("none", s);
	raise(SIGUSR2);
	raise(SIGUSR1);
	raise(SIGUSR1);
	union sigval v = { .sival_int = 42 };
	sigqueue(getpid(), SIGRTMIN + 1, v);
	v.sival_int = 43;
	sigqueue(getpid(), SIGRTMIN + 1, v);
	io_show_poll("some", s);
	memset(si, 0, sizeof(si));
	R(read(s, si, sizeof(si)) / (long)sizeof(si[0]));
	for (int i = 0; i < 4; i++)
		printf("%d code %d int %d me %d\n",
			(int)si[i].ssi_signo - (si[i].ssi_signo > 31 ? SIGRTMIN : 0),
			si[i].ssi_code, si[i].ssi_int, si[i].ssi_pid == (unsigned)getpid());
	R(read(s, si, sizeof(si[0])));
	sigset_t pend;
	sigpending(&pend);
	B(sigismember(&pend, SIGUSR1));
	/* another mask for the same descriptor */
	sigset_t one;
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	B(signalfd(s, &one, 0) == s);
	raise(SIGUSR1);
	R(read(s, si, sizeof(si)));
}

CASE(blocks)
{
	struct signalfd_siginfo si;
	int s = setup(0);
	pid_t c = io_kick(SIGUSR2, 30);

	B(read(s, &si, sizeof(si)) == sizeof(si));
	printf("%d from child %d\n", (int)si.ssi_signo, si.ssi_pid == (unsigned)c);
	io_reap(c);
}

CASE(child_signal)
{
	struct signalfd_siginfo si;
	sigset_t m;

	sigemptyset(&m);
	sigaddset(&m, SIGCHLD);
	sigprocmask(SIG_BLOCK, &m, NULL);
	int s = signalfd(-1, &m, 0);
	fflush(stdout);
	pid_t c = fork();
	if (c == 0)
		_exit(3);
	B(read(s, &si, sizeof(si)) == sizeof(si));
	printf("%d code %d status %d\n", (int)si.ssi_signo, si.ssi_code, si.ssi_status);
	B(si.ssi_pid == (unsigned)c);
	io_reap(c);
}
