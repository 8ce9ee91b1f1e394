/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/spawn.c - starts a supervisor.
 *
 * Owns:  nothing; what it makes is handed over.
 * Rules: the caller may be a large process with threads: nothing of it is copied, and the child, as
 *        long as it shares our memory, calls nothing that locks or allocates. The supervisor gets
 *        three descriptors beside its stdio: SUP_FD_REQUEST, SUP_FD_LINK, and no more.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/own.h"
#include "host/host.h"
#include "sup/link.h"
#include "sup/serve.h"

enum { STACK_BYTES = 64 * 1024 };

struct start {
	const char *path;
	char *const *argv;
	char *const *env;
	int request, link, log, null;
	const struct snap *from;
	volatile int code;
};

/* In the child: everything moves up first, so that nothing is overwritten on its way down. */
static int place_fds(const struct start *s)
{
	int from[] = { s->null, s->null, s->log, s->request, s->link, -1, -1, -1 };
	unsigned count = SUP_FD_FROM;

	if (s->from) {
		from[count++] = s->from->state;
		from[count++] = s->from->memory;
		from[count++] = s->from->disk;
	}
	for (unsigned i = 0; i < count; i++) {
		from[i] = fcntl(from[i], F_DUPFD, 16);
		if (from[i] < 0)
			return -errno;
	}
	for (unsigned i = 0; i < count; i++)
		if (dup2(from[i], (int)i) < 0)
			return -errno;
	return syscall(SYS_close_range, count, ~0U, 0) < 0 ? -errno : 0;
}

static int child(void *arg)
{
	struct start *s = arg;
	struct sigaction act = { .sa_handler = SIG_DFL };
	uint64_t none = 0;
	int r;

	/* The parent's handlers must not run here, where they would see its memory. */
	for (int sig = 1; sig < 32; sig++)
		sigaction(sig, &act, NULL);
	setsid();
	r = place_fds(s);
	if (r == 0) {
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
		execve(s->path, s->argv, s->env);
		r = -errno;
	}
	s->code = -r;
	_exit(127);
}

/* Blocks all signals, so that none is handled in the child while it shares our memory. */
static pid_t start(struct start *s, int *ret_pidfd)
{
	own_mem char *stack = malloc(STACK_BYTES);
	uint64_t all = ~(uint64_t)0, old = 0;
	int pidfd = -1;
	pid_t pid;

	if (!stack)
		return -ENOMEM;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof(all));
	pid = clone(child, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s,
		&pidfd);
	if (pid < 0)
		pid = -errno;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	if (pid < 0)
		return pid;
	if (s->code) {
		close(pidfd);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return -s->code;
	}
	*ret_pidfd = pidfd;
	return pid;
}

int sup_spawn(const struct sup_request *q, const struct sup_spawn *how,
	const struct link_hooks *hooks, struct link **ret, pid_t *ret_pid, int *ret_pidfd,
	struct err *e)
{
	char *const env[] = { NULL };
	char *const argv[] = { (char *)"ward", (char *)"--state-dir", (char *)how->state_dir,
		(char *)"sup", (char *)q->id, NULL };
	own_fd int request = -1, null = -1, ours = -1, theirs = -1, pidfd = -1;
	struct start s = { .path = how->ward, .argv = argv, .env = env };
	int pair[2], r = sup_request_encode(q, &request, e);
	pid_t pid;

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, errno, "the supervisor's first connection");
	ours = pair[0];
	theirs = pair[1];
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return err_set(e, errno, "opening /dev/null");
	s.request = request;
	s.link = theirs;
	s.from = q->from;
	s.null = null;
	s.log = how->log_fd >= 0 ? how->log_fd : 2;
	pid = start(&s, &pidfd);
	if (pid < 0)
		return err_set(e, -pid, "starting '%s sup'", how->ward);
	r = link_create(take_fd(&ours), hooks, ret, e);
	if (r < 0) {
		host_pidfd_kill(pidfd, SIGKILL); /* the sweep takes what it has made so far */
		return r;
	}
	*ret_pid = pid;
	*ret_pidfd = take_fd(&pidfd);
	return 0;
}
