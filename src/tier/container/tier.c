/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/tier.c - the container tier: namespaces, cgroups, seccomp and an overlay root.
 *
 * Owns:  the life of a struct container, from ward's side.
 * Rules: start makes things in the order that box_undo() told; stop undoes them from any state.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <linux/sched.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "jail/seccomp.h"
#include "tier/container/container.h"
#include "tier/container/handover.h"
#include "tier/views.h"

static int container_probe(struct err *e)
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

static int clone_first(struct container *c, struct err *e);
static void container_stop(struct box *box);

/*
 * A v2 child is born in its cgroup, which does not exist yet, and an ordinary user's makes its root
 * out of a template that is not known yet. Anyone else can be born now.
 */
static bool born_early(const struct container *c)
{
	return c->rooted && c->cg.kind != CGROUP_V2;
}

static void warn_of_limits(struct container *c)
{
	if (c->cg.kind == CGROUP_NONE)
		str_copy(c->box.warning, sizeof(c->box.warning),
			"no cgroup is writable here: the default limits are kept per process "
			"(rlimits) only");
}

static int container_prepare(
	const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e)
{
	struct container *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(e, ENOMEM, "preparing the sandbox");
	box_init(&c->box, &tier_container, plan);
	mounts_init(&c->tree);
	cgroup_init(&c->cg);
	c->rooted = geteuid() == 0;
	c->new_time = access("/proc/self/ns/time", F_OK) == 0;
	trail_begin(trail, STEP_CGROUP);
	r = cgroup_plan(&c->cg, plan, e);
	if (r == 0 && born_early(c)) {
		trail_begin(trail, STEP_CLONE);
		r = clone_first(c, e);
	}
	if (r < 0) {
		container_stop(&c->box);
		return r;
	}
	for (int i = 0; i < CGROUP_PARTS; i++)
		if (c->cg.path[i][0])
			box_add_undo(&c->box, UNDO_CGROUP, c->cg.path[i], NULL);
	/* Made only at the end, and a kept box only once its record is there. */
	if (plan->keep &&
		str_fmt(c->kept, sizeof(c->kept), "%s/boxes/%s", plan->state_dir, plan->id) == 0)
		box_add_undo(&c->box, UNDO_TREE, c->kept, NULL);
	*ret_box = &c->box;
	return 0;
}

static int clone_first(struct container *c, struct err *e)
{
	int channel[2], r;
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_PIDFD,
		.pidfd = (uintptr_t)&c->box.fds.pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;

	c->box.shared = box_share_trail(e);
	if (!c->box.shared)
		return -e->code;
	r = host_socketpair(SOCK_STREAM, channel);
	if (r < 0)
		return err_set(e, -r, "making the agent's channel");
	c->box.fds.channel = channel[0];
	if (c->new_time)
		args.flags |= WARD_CLONE_NEWTIME;
	if (c->cg.kind == CGROUP_V2) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)c->cg.dir[0];
	}
	pid = host_clone3(&args);
	if (pid == 0) {
		close(channel[0]);
		child_main(c, channel[1]);
	}
	close(channel[1]);
	if (pid < 0)
		return err_set(e, -pid,
			"starting the first process in new user and pid namespaces ('ward doctor' "
			"says what this host lacks)");
	c->box.pid = pid;
	return 0;
}

static int open_user_ns(pid_t pid, struct err *e)
{
	char path[64];
	int fd = str_fmt(path, sizeof(path), "/proc/%d/ns/user", (int)pid);

	if (fd == 0)
		fd = host_open(path, O_RDONLY, 0);
	if (fd < 0)
		err_set(e, -fd, "opening %s", path);
	return fd;
}

/* What only ward can do, now that the first process has a user namespace. */
static int equip(struct container *c, struct trail *trail, struct err *e)
{
	own_fd int user_ns = -1;
	int r;

	if (!needs_handover(c))
		return 0; /* an ordinary user's first process does it all by itself */
	trail_begin(trail, STEP_IDMAP);
	r = c->rooted || c->sub_count ? ids_write(c, c->box.pid, e) : 0;
	if (r < 0)
		return r;
	if (c->rooted) {
		user_ns = open_user_ns(c->box.pid, e);
		if (user_ns < 0)
			return user_ns;
		trail_begin(trail, STEP_TREE);
		r = mounts_make(c, user_ns, e);
		if (r < 0)
			return r;
	}
	trail_begin(trail, STEP_HANDOVER);
	r = handover_send(c, c->box.fds.channel, e);
	/* One descriptor of the upper stays: what is left in it is asked at the end. */
	c->box.upper = take_fd(&c->tree.upper);
	mounts_done(&c->tree);
	return r;
}

static int container_start(struct box *box, struct trail *trail, struct err *e)
{
	struct container *c = container_of(box);
	int r;

	c->binds = binds_find(c->box.plan);
	r = ids_plan(c, e);
	if (r < 0)
		return r;
	trail_begin(trail, STEP_CGROUP);
	r = cgroup_make(&c->cg, box->plan, e);
	if (r < 0)
		return r;
	warn_of_limits(c);
	box->fds.oom = take_fd(&c->cg.oom);
	if (!box->pid) {
		trail_begin(trail, STEP_CLONE);
		r = clone_first(c, e);
	}
	return r < 0 ? r : equip(c, trail, e);
}

static void container_kill(struct box *box)
{
	struct pollfd wait = { .fd = box->fds.pidfd, .events = POLLIN };

	if (!box->pid)
		return;
	/* The first process takes its whole pid namespace along. */
	host_pidfd_kill(box->fds.pidfd, SIGKILL);
	while (poll(&wait, 1, -1) < 0 && errno == EINTR)
		;
}

static bool is_full(int upper)
{
	struct statfs fs;

	if (upper < 0 || host_fstatfs(upper, &fs) < 0)
		return false;
	/* A disk file system keeps a few blocks that no file gets. */
	return fs.f_bavail <= fs.f_blocks / 64 || fs.f_ffree == 0;
}

static void container_measure(struct box *box, struct usage *usage)
{
	struct container *c = container_of(box);

	cgroup_usage(&c->cg, box->plan->report, usage);
	usage->disk_full = is_full(box->upper);
	/* Held to the end, the file system would be taken down by ward, after everything else. */
	if (!box->plan->keep && box->upper >= 0)
		close(take_fd(&box->upper));
}

/* Everything that the sandbox wrote, as boxes/<id>/upper. */
static int container_keep(struct box *box, struct err *e)
{
	char from[64], dir[WARD_PATH_MAX], to[WARD_PATH_MAX];
	int r = str_fmt(from, sizeof(from), "/proc/self/fd/%d/up", box->upper);

	if (box->upper < 0)
		return err_say(e, EBADF, "the sandbox's files are gone already");
	if (r == 0)
		r = str_fmt(dir, sizeof(dir), "%s/boxes/%s", box->plan->state_dir, box->plan->id);
	if (r == 0)
		r = str_fmt(to, sizeof(to), "%s/upper", dir);
	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	r = tree_make(dir, 0700, e);
	return r < 0 ? r : tree_copy(from, to, e);
}

static void container_stop(struct box *box)
{
	struct container *c = container_of(box);
	struct usage unused;
	int status;

	if (box->pid) {
		container_kill(box);
		box_reap(box, &status, &unused);
	}
	mounts_done(&c->tree);
	cgroup_drop(&c->cg);
	box_done(box);
	free(c);
}

static void container_calls(unsigned *ret_guest, unsigned *ret_own)
{
	*ret_guest = jail_calls_allowed();
}

const struct tier_ops tier_container = {
	.name = "container",
	.what = "namespaces, cgroups, seccomp and an overlay root",
	.wall = WALL_CONTAINER,
	.probe = container_probe,
	.calls = container_calls,
	.prepare = container_prepare,
	.start = container_start,
	.kill = container_kill,
	.measure = container_measure,
	.keep = container_keep,
	.stop = container_stop,
};
