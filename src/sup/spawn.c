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
	unsigned count = s->link >= 0 ? SUP_FD_FROM : SUP_FD_LINK;

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

/* `ward --state-dir DIR sup...`, with @s->request, @s->link and @s->from. */
static int run_sup(struct start *s, const char *const words[], const struct sup_spawn *how,
	pid_t *ret_pid, int *ret_pidfd, struct err *e)
{
	char *const env[] = { NULL };
	char *argv[8] = { (char *)"ward", (char *)"--state-dir", (char *)how->state_dir };
	own_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;

	if (null < 0)
		return err_set(e, errno, "opening /dev/null");
	for (unsigned i = 0; words[i]; i++)
		argv[3 + i] = (char *)words[i];
	s->path = how->ward;
	s->argv = argv;
	s->env = env;
	s->null = null;
	s->log = how->log_fd >= 0 ? how->log_fd : 2;
	pid = start(s, ret_pidfd);
	if (pid < 0)
		return err_set(e, -pid, "starting '%s sup'", how->ward);
	*ret_pid = pid;
	return 0;
}

static int make_pair(int type, int *ret_ours, int *ret_theirs, struct err *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, errno, "the supervisor's first connection");
	*ret_ours = pair[0];
	*ret_theirs = pair[1];
	return 0;
}

int sup_spawn(const struct sup_request *q, const struct sup_spawn *how,
	const struct link_hooks *hooks, struct link **ret, pid_t *ret_pid, int *ret_pidfd,
	struct err *e)
{
	const char *const words[] = { "sup", q->id, NULL };
	own_fd int request = -1, ours = -1, theirs = -1, pidfd = -1;
	int r = sup_request_encode(q, &request, e);
	struct start s = { .from = q->from };

	if (r == 0)
		r = make_pair(SOCK_STREAM, &ours, &theirs, e);
	if (r < 0)
		return r;
	s.request = request;
	s.link = theirs;
	r = run_sup(&s, words, how, ret_pid, &pidfd, e);
	if (r < 0)
		return r;
	r = link_create(take_fd(&ours), hooks, ret, e);
	if (r < 0) {
		host_pidfd_kill(pidfd, SIGKILL); /* the sweep takes what it has made so far */
		return r;
	}
	*ret_pidfd = take_fd(&pidfd);
	return 0;
}

int sup_spawn_ahead(const char *id, enum wall tier, const struct sup_spawn *how, int *ret_sock,
	pid_t *ret_pid, int *ret_pidfd, struct err *e)
{
	const char *const words[] = { "sup", "--ahead", wall_name(tier), id, NULL };
	own_fd int ours = -1, theirs = -1;
	struct start s = { .link = -1 };
	int r = make_pair(SOCK_SEQPACKET, &ours, &theirs, e);

	if (r < 0)
		return r;
	s.request = theirs;
	r = run_sup(&s, words, how, ret_pid, ret_pidfd, e);
	if (r == 0)
		*ret_sock = take_fd(&ours);
	return r;
}

int sup_ask(int sock, const struct sup_request *q, const struct link_hooks *hooks,
	struct link **ret, struct err *e)
{
	static const char asks[] = { SUP_ASKS };
	own_fd int request = -1, ours = -1, theirs = -1;
	int r = sup_request_encode(q, &request, e), fds[5];
	struct link *l = NULL;
	unsigned count = 2;
	ssize_t n;

	if (r == 0)
		r = make_pair(SOCK_STREAM, &ours, &theirs, e);
	if (r < 0)
		return r;
	fds[0] = request;
	fds[1] = theirs;
	if (q->from) {
		fds[count++] = q->from->state;
		fds[count++] = q->from->memory;
		fds[count++] = q->from->disk;
	}
	/* First, so that nothing can fail any more when it has the request. */
	r = link_create(take_fd(&ours), hooks, &l, e);
	if (r < 0)
		return r;
	n = host_send_fds(sock, asks, sizeof(asks), fds, count);
	if (n < 0) {
		link_destroy(l);
		return err_set(e, (int)-n, "asking a supervisor that waits");
	}
	*ret = l;
	return 0;
}
