/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/tier.c - the workspace tier: a throw-away working copy, and Landlock around it.
 *
 * Owns:  struct ws_box.
 * Rules: needs no privilege. Where the host gives namespaces, they are used; where it does not,
 *        Landlock stands alone (docs/design/workspace.md says what that leaves open).
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <linux/sched.h>

#include "base/own.h"
#include "host/host.h"
#include "tier/workspace/ws.h"

static int probe(struct err *e)
{
	int abi = landlock_abi();

	if (abi == -EOPNOTSUPP)
		return err_say(e, EOPNOTSUPP,
			"Landlock is switched off: add 'landlock' to the kernel's lsm= option and "
			"boot again");
	if (abi < 0)
		return err_say(e, ENOSYS,
			"this kernel has no Landlock: Linux 5.13 or later with "
			"CONFIG_SECURITY_LANDLOCK is needed");
	return 0;
}

static int check(const struct plan *plan, struct err *e)
{
	int r = probe(e);

	if (r == 0)
		r = ws_limits_check(plan, e);
	if (r == 0 && plan->user && geteuid() != 0)
		return err_say(e, EINVAL,
			"--user: the workspace tier runs as you; only root may choose somebody "
			"else");
	return r;
}

static int check_mode(const struct ws_box *b, struct err *e)
{
	if (b->mode != WORKSPACE_PLAIN)
		return 0;
	if (b->box.plan->net == NET_LOOPBACK)
		return err_say(e, EPERM,
			"--net loopback needs a network namespace, which this host does not give; "
			"use none or host");
	if (b->box.plan->user)
		return err_say(e, EPERM, "--user needs namespaces, which this host does not give");
	return 0;
}

static int share_trail(struct ws_box *b, struct err *e)
{
	void *p = mmap(NULL, sizeof(struct trail), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return err_set(e, errno, "memory for the first process's trail");
	b->box.shared = p;
	return 0;
}

static int start_first(struct ws_box *b, struct err *e)
{
	int sockets[2], pidfd = -1, r = host_socketpair(SOCK_STREAM, sockets);
	struct clone_args args = {
		.flags = CLONE_PIDFD, .exit_signal = SIGCHLD, .pidfd = (uintptr_t)&pidfd
	};

	if (r < 0)
		return err_set(e, -r, "making the agent's channel");
	b->box.fds.channel = sockets[0];
	b->channel = sockets[1];
	b->uid = geteuid();
	b->gid = getegid();
	b->pids = ws_limits_pids(b);
	if (b->mode != WORKSPACE_PLAIN)
		args.flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
	if (b->mode != WORKSPACE_PLAIN && b->box.plan->net != NET_HOST)
		args.flags |= CLONE_NEWNET;
	if (b->mode == WORKSPACE_USER)
		args.flags |= CLONE_NEWUSER;
	r = host_clone3(&args);
	if (r == 0)
		ws_first(b);
	close(b->channel);
	b->channel = -1;
	if (r < 0)
		return err_set(e, -r, "making the first process");
	b->box.pid = r;
	b->box.fds.pidfd = pidfd;
	return 0;
}

static int build(struct ws_box *b, struct trail *trail, struct err *e)
{
	int r;

	trail_begin(trail, STEP_WORKSPACE);
	r = check(b->box.plan, e);
	if (r < 0)
		return r;
	b->mode = ws_mode_pick();
	r = check_mode(b, e);
	if (r == 0)
		r = ws_layout_make(b, e);
	if (r == 0)
		r = ws_sources_make(b, e);
	if (r == 0)
		r = ws_record_write(b, e);
	if (r == 0)
		r = ws_rules_make(b, e);
	if (r == 0)
		r = share_trail(b, e);
	if (r < 0)
		return r;
	trail_begin(trail, STEP_CLONE);
	return start_first(b, e);
}

static void kill_all(struct box *box)
{
	const struct ws_box *b = (const struct ws_box *)box;
	siginfo_t info;

	if (!box->pid)
		return;
	/* A pid namespace is empty before the end of its first process can be seen. */
	if (b->mode == WORKSPACE_PLAIN)
		ws_kill_tree(box->pid);
	else
		host_pidfd_kill(box->fds.pidfd, SIGKILL);
	while (waitid(P_PID, (id_t)box->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
}

static void reap(struct box *box, struct usage *usage)
{
	struct rusage ru;
	pid_t r;

	while ((r = wait4(box->pid, &box->status, 0, &ru)) < 0 && errno == EINTR)
		;
	box->pid = 0;
	if (r < 0)
		return;
	usage->cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000u +
			(uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	usage->written_bytes = (uint64_t)ru.ru_oublock * 512u;
}

static void release(struct ws_box *b, bool keep)
{
	struct usage usage;

	if (b->box.pid) {
		kill_all(&b->box);
		reap(&b->box, &usage);
	}
	if (b->box.fds.pidfd >= 0)
		close(b->box.fds.pidfd);
	if (b->box.fds.channel >= 0)
		close(b->box.fds.channel);
	if (b->box.shared)
		munmap((void *)b->box.shared, sizeof(struct trail));
	/* What cannot be removed now is in the store's record, and the next sweep says why. */
	ws_layout_remove(b, keep, NULL);
	free(b);
}

static int start(const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e)
{
	struct ws_box *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_set(e, ENOMEM, "starting a workspace");
	b->box = (struct box){ .ops = &tier_workspace, .plan = plan, .fds = { -1, -1, -1, -1 } };
	b->channel = -1;
	r = build(b, trail, e);
	if (r < 0) {
		trail_fail(trail, e);
		release(b, false);
		return r;
	}
	b->box.workdir = b->workdir;
	b->box.env = b->env;
	*ret_box = &b->box;
	return 0;
}

static void stop(struct box *box)
{
	release((struct ws_box *)box, box->plan->keep);
}

const struct tier_ops tier_workspace = {
	.name = "workspace",
	.what = "a working copy, Landlock, rlimits and seccomp",
	.wall = WALL_WORKSPACE,
	.probe = probe,
	.start = start,
	.kill = kill_all,
	.reap = reap,
	.stop = stop,
};
