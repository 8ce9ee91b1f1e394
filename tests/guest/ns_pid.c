/* SPDX-License-Identifier: Apache-2.0 */
/* Pid namespaces: numbers, the first process and its end, signals from within and from above. */
#include "io.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static void apart(const char *name, void (*fn)(void))
{
	int st = 0;
	pid_t p;

	fflush(stdout);
	p = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (!p) {
		fn();
		fflush(stdout);
		_exit(7);
	}
	need(name, p);
	need("wait", waitpid(p, &st, 0) == p ? 0 : -1);
	printf("  %s: %s %d\n", name, WIFSIGNALED(st) ? "signal" : "exit",
		WIFSIGNALED(st) ? WTERMSIG(st) : WEXITSTATUS(st));
}

static void numbers(void)
{
	siginfo_t si;
	pid_t p;

	printf("  pid %d tid %ld ppid %d sid %d pgrp %d\n", getpid(), syscall(SYS_gettid),
		getppid(), getsid(0), getpgrp());
	fflush(stdout);
	p = fork();
	if (!p) {
		printf("  child %d of %d\n", getpid(), getppid());
		printf("  session %d %d %d\n", setsid(), getsid(0), getpgrp());
		fflush(stdout);
		_exit(5);
	}
	printf("  forked %d\n", p);
	need("waitid", waitid(P_PID, (id_t)p, &si, WEXITED));
	printf("  waited %d %d\n", si.si_pid, si.si_status);
	say("again", waitpid(p, NULL, 0));
	say("who is not there", kill(9999, 0));
	say("not one of mine", waitpid(1, NULL, 0));
}

CASE(own_numbers)
{
	apart("apart", numbers);
}

static void orphan(void)
{
	int st;

	fflush(stdout);
	if (!fork()) {
		if (!fork()) {
			while (getppid() != 1)
				usleep(1000);
			_exit(9);
		}
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		need("wait", wait(&st));
		say_is("taken", WEXITSTATUS(st) == 9 || WEXITSTATUS(st) == 0);
	}
}

CASE(orphans)
{
	apart("apart", orphan);
}

static void immune(void)
{
	say("kill me", kill(1, SIGKILL));
	say("stop me", kill(1, SIGSTOP));
	say("end me", kill(1, SIGTERM));
	say("all others", kill(-1, SIGKILL));
	fflush(stdout);
	if (!fork()) {
		say("a child's try", kill(1, SIGKILL));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	say_is("still here", getpid() == 1);
}

CASE(first_is_safe)
{
	apart("apart", immune);
}

static int ends[2];

static void leave_many(void)
{
	for (int i = 0; i < 3; i++)
		if (!fork()) {
			pause();
			_exit(0);
		}
	_exit(3);
}

CASE(end_of_all)
{
	char c;

	need("pipe", pipe(ends));
	apart("apart", leave_many);
	close(ends[1]);
	say_is("nobody is left", read(ends[0], &c, 1) == 0);
}

CASE(killed_from_above)
{
	int st;
	pid_t p;

	fflush(stdout);
	p = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (!p) {
		pause();
		_exit(0);
	}
	need("clone", p);
	say("term", kill(p, SIGTERM));
	say("kill", kill(p, SIGKILL));
	need("wait", waitpid(p, &st, 0) == p ? 0 : -1);
	say_is("by that", WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL);
}

CASE(for_children)
{
	pid_t p, q;
	int st;

	need("unshare", unshare(CLONE_NEWPID));
	say_is("not myself", getpid() != 1);
	fflush(stdout);
	p = fork();
	if (!p) {
		say_is("the first", getpid() == 1 && getppid() == 0);
		fflush(stdout);
		_exit(4);
	}
	waitpid(p, &st, 0);
	printf("  exit %d\n", WEXITSTATUS(st));
	q = fork();
	if (!q)
		_exit(0);
	say("after its end", q);
	say("once more", unshare(CLONE_NEWPID));
}

static void look_around(void)
{
	char self[16] = { 0 };
	struct stat st;

	need("private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	need("proc", mount("proc", "dir", "proc", 0, NULL));
	need("self", readlink("dir/self", self, sizeof(self) - 1));
	say_str("self", self);
	say("1", stat("dir/1", &st));
	say("2", stat("dir/2", &st));
	fflush(stdout);
	system("grep -E '^(Tgid|Pid|PPid):' dir/self/status | sed 's/^/  /'");
}

static void mount_it(void)
{
	need("mounts", unshare(CLONE_NEWNS));
	look_around();
}

CASE(own_proc)
{
	need("mkdir", mkdir("dir", 0755));
	apart("apart", mount_it);
}

static int pair[2];

static void tell(void)
{
	struct msghdr m = { 0 };
	struct iovec io = { (char *)(uintptr_t) "x", 1 };

	m.msg_iov = &io;
	m.msg_iovlen = 1;
	say("sent", sendmsg(pair[1], &m, 0));
}

/* A name of somebody inside, outside; and of somebody outside, inside. */
CASE(credentials)
{
	char control[256], c;
	struct iovec io = { &c, 1 };
	struct msghdr m = { 0 };
	int on = 1;
	struct cmsghdr *h;
	struct ucred u = { 0 };

	need("pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	need("pass", setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)));
	apart("apart", tell);
	m.msg_iov = &io;
	m.msg_iovlen = 1;
	m.msg_control = control;
	m.msg_controllen = sizeof(control);
	say_n("received", recvmsg(pair[0], &m, 0));
	h = CMSG_FIRSTHDR(&m);
	if (h)
		memcpy(&u, CMSG_DATA(h), sizeof(u));
	say_is("not 1", u.pid != 1);
}
