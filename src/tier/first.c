/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/first.c - a sandbox's first process: born, killed and waited for.
 *
 * Owns:  how a tier's first process comes into the world and leaves it.
 * Rules: after a failed clone nothing is left but what box_done() closes.
 */
#include "tier/first.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>
#include <linux/sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"

int first_probe(struct err *e)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return err_set(e, errno, "forking to try a user namespace");
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET) < 0 ? errno
											     : 0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "waiting for the namespace probe");
	if (!WIFEXITED(status))
		return err_say(e, EIO, "the namespace probe was killed");
	if (WEXITSTATUS(status))
		return err_set(e, WEXITSTATUS(status),
			"user namespaces are closed here (see kernel.unprivileged_userns_clone and "
			"user.max_user_namespaces)");
	return 0;
}

void first_list_cgroups(struct box *box, const struct cgroup *cg)
{
	for (int i = 0; i < CGROUP_PARTS; i++)
		if (cg->path[i][0])
			box_add_undo(box, UNDO_CGROUP, cg->path[i], NULL);
}

int first_clone(struct box *box, const struct cgroup *cg, uint64_t flags,
	void (*body)(struct box *box, int channel), const char *what, struct err *e)
{
	struct clone_args args = {
		.flags = flags | CLONE_PIDFD,
		.pidfd = (uintptr_t)&box->fds.pidfd,
		.exit_signal = SIGCHLD,
	};
	int channel[2], r;

	if (!box->shared && !box_share(box, 0, e))
		return -e->code;
	r = host_socketpair(SOCK_STREAM, channel);
	if (r < 0)
		return err_set(e, -r, "making the agent's channel");
	if (cg->kind == CGROUP_V2) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cg->dir[0];
	}
	r = host_clone3(&args);
	if (r == -EINVAL && (flags & WARD_CLONE_NEWTIME)) { /* trying is cheaper than asking */
		args.flags &= ~(uint64_t)WARD_CLONE_NEWTIME;
		r = host_clone3(&args);
	}
	if (r == 0) {
		close(channel[0]);
		box->fds.channel = -1;
		body(box, channel[1]);
		_exit(125);
	}
	close(channel[1]);
	if (r < 0) {
		close(channel[0]);
		return err_set(e, -r, "%s", what);
	}
	box->fds.channel = channel[0];
	box->pid = r;
	return 0;
}

int first_user_ns(const struct box *box, struct err *e)
{
	char path[64];
	int fd = str_fmt(path, sizeof(path), "/proc/%d/ns/user", (int)box->pid);

	if (fd == 0)
		fd = host_open(path, O_RDONLY, 0);
	return fd < 0 ? err_set(e, -fd, "opening %s", path) : fd;
}

void first_kill(struct box *box, struct cgroup *frozen)
{
	struct pollfd wait = { .fd = box->fds.pidfd, .events = POLLIN };

	if (!box->pid)
		return;
	host_pidfd_kill(box->fds.pidfd, SIGKILL);
	/* A process that is frozen does not die on a v1 host. */
	if (frozen)
		cgroup_thaw(frozen, NULL);
	while (poll(&wait, 1, -1) < 0 && errno == EINTR)
		;
}

void first_measured(struct box *box, struct cgroup *cg)
{
	if (box->plan->live)
		return;
	cgroup_close(cg);
	if (box->fds.oom >= 0)
		close(take_fd(&box->fds.oom));
}

void first_reap(struct box *box)
{
	struct usage unused;
	int status;

	if (box->pid)
		box_reap(box, &status, &unused);
}
