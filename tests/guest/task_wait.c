/* SPDX-License-Identifier: Apache-2.0 */
/* wait4, waitid, exit: news of children, and what an end looks like. */
#include "io.h"

#include <sys/resource.h>

static void show(const char *what, int st)
{
	if (WIFEXITED(st))
		printf("%s: exited %d\n", what, WEXITSTATUS(st));
	else if (WIFSIGNALED(st))
		printf("%s: signal %d\n", what, WTERMSIG(st));
	else if (WIFSTOPPED(st))
		printf("%s: stopped %d\n", what, WSTOPSIG(st));
	else if (WIFCONTINUED(st))
		printf("%s: continued\n", what);
}

static pid_t sleeper(void)
{
	pid_t p = fork();

	if (!p)
		for (;;)
			pause();
	return p;
}

CASE(errors)
{
	siginfo_t si;
	int st;

	R(wait(&st));
	R(waitpid(999999, &st, 0));
	R(waitpid(-1, &st, 0x40));
	R(waitid(P_ALL, 0, &si, 0));
	R(waitid(P_PID, 0, &si, WEXITED));
	R(waitid(99, 0, &si, WEXITED));
	R(waitid(P_ALL, 0, &si, WEXITED));
	R(waitpid(INT32_MIN, &st, 0));
}

CASE(codes)
{
	static const int codes[] = { 0, 1, 127, 255, 256, -1 };
	int st;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (!fork())
			_exit(codes[i]);
		wait(&st);
		show("exit", st);
	}
}

CASE(signals_that_end)
{
	static const int sigs[] = { SIGTERM, SIGKILL, SIGINT, SIGHUP, SIGPIPE, SIGALRM, SIGUSR1, 34,
		64 };
	int st;

	for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++) {
		pid_t p = sleeper();

		kill(p, sigs[i]);
		waitpid(p, &st, 0);
		show("kill", st);
	}
}

CASE(no_hang)
{
	pid_t p = sleeper();
	int st = 77;

	R(waitpid(p, &st, WNOHANG));
	printf("%d\n", st);
	kill(p, SIGKILL);
	B(waitpid(p, &st, 0) == p);
	R(waitpid(p, &st, WNOHANG));
}

CASE(stop_and_continue)
{
	pid_t p = sleeper();
	int st;

	kill(p, SIGSTOP);
	B(waitpid(p, &st, WUNTRACED) == p);
	show("news", st);
	R(waitpid(p, &st, WUNTRACED | WNOHANG));
	kill(p, SIGCONT);
	B(waitpid(p, &st, WCONTINUED) == p);
	show("news", st);
	kill(p, SIGTERM);
	B(waitpid(p, &st, 0) == p);
	show("news", st);
}

CASE(kill_a_stopped_one)
{
	pid_t p = sleeper();
	int st;

	kill(p, SIGSTOP);
	waitpid(p, &st, WUNTRACED);
	kill(p, SIGTERM); /* waits until it continues */
	usleep(10000);
	R(waitpid(p, &st, WNOHANG));
	kill(p, SIGKILL);
	waitpid(p, &st, 0);
	show("end", st);
}

CASE(waitid_looks_twice)
{
	siginfo_t si;
	pid_t p = fork();

	if (!p)
		_exit(5);
	memset(&si, 0, sizeof(si));
	R(waitid(P_PID, (id_t)p, &si, WEXITED | WNOWAIT));
	printf("%d %d %d\n", si.si_status, si.si_code == CLD_EXITED, si.si_pid == p);
	memset(&si, 0, sizeof(si));
	R(waitid(P_PID, (id_t)p, &si, WEXITED));
	printf("%d %d\n", si.si_status, si.si_signo == SIGCHLD);
	R(waitid(P_PID, (id_t)p, &si, WEXITED));
}

CASE(waitid_nothing_yet)
{
	siginfo_t si;
	pid_t p = sleeper();

	memset(&si, 0xff, sizeof(si));
	R(waitid(P_ALL, 0, &si, WEXITED | WNOHANG));
	printf("%d %d\n", si.si_signo, si.si_pid);
	kill(p, SIGKILL);
	R(waitid(P_ALL, 0, &si, WEXITED));
	printf("%d %d\n", si.si_status, si.si_code == CLD_KILLED);
}

CASE(groups)
{
	int st;
	pid_t a = sleeper(), b = sleeper();

	R(setpgid(a, a));
	R(setpgid(b, a));
	B(getpgid(b) == a);
	R(waitpid(0, &st, WNOHANG));
	kill(-a, SIGTERM);
	B(waitpid(-a, &st, 0) > 0);
	B(waitpid(-a, &st, 0) > 0);
	R(waitpid(-a, &st, 0));
}

CASE(ignored_children_vanish)
{
	int st;

	signal(SIGCHLD, SIG_IGN);
	if (!fork())
		_exit(1);
	R(wait(&st));
	signal(SIGCHLD, SIG_DFL);
	if (!fork())
		_exit(2);
	B(wait(&st) > 0);
	show("default", st);
}

static volatile int news;
static void on_child(int sig, siginfo_t *si, void *uc)
{
	news = si->si_status * 10 + (si->si_code == CLD_EXITED);
}

CASE(sigchld_tells)
{
	struct sigaction a = { .sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART };
	int st;

	sigaction(SIGCHLD, &a, NULL);
	if (!fork())
		_exit(4);
	B(wait(&st) > 0);
	printf("%d\n", news);
}

CASE(wait_is_interrupted)
{
	struct sigaction a = { .sa_sigaction = on_child, .sa_flags = SA_SIGINFO };
	pid_t p = sleeper();
	int st;

	sigaction(SIGALRM, &a, NULL);
	ualarm(20000, 0);
	R(waitpid(p, &st, 0));
	kill(p, SIGKILL);
	waitpid(p, &st, 0);
}

CASE(usage_of_children)
{
	struct rusage ru;
	int st;
	pid_t p = fork();

	if (!p) {
		clock_t until = clock() + CLOCKS_PER_SEC / 20;

		while (clock() < until)
			;
		_exit(0);
	}
	memset(&ru, 0xff, sizeof(ru));
	B(wait4(p, &st, 0, &ru) == p);
	B(ru.ru_utime.tv_sec == 0);
	R(getrusage(RUSAGE_CHILDREN, &ru));
	R(getrusage(RUSAGE_SELF, &ru));
	R(getrusage(99, &ru));
	R(getrusage(RUSAGE_SELF, BADP));
}

/* A child's memory and time are its parent's to see. */
CASE(usage_of_a_child)
{
	enum { MOST_KB = 60 << 10 }; /* of 64 MB: Linux adds up late */
	struct rusage ru;
	int st;
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p) {
		size_t n = 64 << 20;
		char *m = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(m, 1, n);
		getrusage(RUSAGE_SELF, &ru);
		_exit(ru.ru_maxrss < MOST_KB);
	}
	R(wait4(p, &st, 0, &ru) == p);
	R(WEXITSTATUS(st));
	B(ru.ru_utime.tv_sec || ru.ru_utime.tv_usec || ru.ru_stime.tv_sec || ru.ru_stime.tv_usec);
	B(ru.ru_maxrss >= MOST_KB);
	getrusage(RUSAGE_CHILDREN, &ru);
	B(ru.ru_maxrss >= MOST_KB);
}

/* A dead child has no news but that. */
CASE(only_stops)
{
	siginfo_t i = { 0 };
	pid_t p = fork();

	if (p == 0)
		_exit(3);
	R(waitid(P_PID, (id_t)p, &i, WEXITED | WNOWAIT));
	R(waitid(P_ALL, 0, &i, WSTOPPED));
	R(waitid(P_PID, (id_t)p, &i, WCONTINUED | WNOHANG));
	R(waitid(P_ALL, 0, &i, WEXITED));
	B(i.si_pid == p && i.si_status == 3);
}

CASE(group_of_a_dead_one)
{
	siginfo_t i;
	pid_t p = fork();

	if (p == 0)
		_exit(0);
	NEED(waitid(P_PID, (id_t)p, &i, WEXITED | WNOWAIT));
	R(setpgid(p, p));
	B(getpgid(p) == p);
	R(waitpid(-p, NULL, 0) == p);
	R(setpgid(p, p));
}
