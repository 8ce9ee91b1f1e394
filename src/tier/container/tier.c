/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/tier.c - the container tier: namespaces, cgroups, seccomp and an overlay root.
 *
 * Owns:  the life of a struct container, from ward's side.
 * Rules: start makes things in the order that box_undo() told; stop undoes them from any state.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <linux/sched.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "jail/seccomp.h"
#include "tier/container/container.h"
#include "tier/container/handover.h"
#include "tier/first.h"
#include "tier/views.h"

static int clone_first(struct container *c, struct err *e);
static void container_stop(struct box *box);

/*
 * A v2 child is born in its cgroup, which does not exist yet, and an ordinary user's makes its root
 * out of a template that is not known yet. Anyone else can be born now.
 */
static bool born_early(const struct container *c)
{
	return c->rooted && !cgroup_is_v2();
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
	c->map_count = c->rooted ? SANDBOX_IDS : 1;
	r = 0;
	/* Before anything else is looked at: what comes after happens beside its namespaces. */
	if (born_early(c)) {
		trail_begin(trail, STEP_CLONE);
		r = clone_first(c, e);
	}
	if (r == 0) {
		trail_begin(trail, STEP_CGROUP);
		r = cgroup_plan(&c->cg, plan, e);
	}
	if (r < 0) {
		container_stop(&c->box);
		return r;
	}
	first_list_cgroups(&c->box, &c->cg);
	/* Made only at the end, and a kept box only once its record is there. */
	if (plan->keep &&
		str_fmt(c->kept, sizeof(c->kept), "%s/boxes/%s", plan->state_dir, plan->id) == 0)
		box_add_undo(&c->box, UNDO_TREE, c->kept, NULL);
	*ret_box = &c->box;
	return 0;
}

static int clone_first(struct container *c, struct err *e)
{
	return first_clone(&c->box, &c->cg, CLONE_NEWUSER | CLONE_NEWPID | WARD_CLONE_NEWTIME,
		child_main,
		"starting the first process in new user and pid namespaces ('ward doctor' says "
		"what this host lacks)",
		e);
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
		user_ns = first_user_ns(&c->box, e);
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

static int make_cgroups(struct container *c, struct trail *trail, struct err *e)
{
	int r;

	trail_begin(trail, STEP_CGROUP);
	r = cgroup_make(&c->cg, c->box.plan, e);
	if (r < 0)
		return r;
	warn_of_limits(c);
	c->box.fds.oom = take_fd(&c->cg.oom);
	return 0;
}

static int container_start(struct box *box, struct trail *trail, struct err *e)
{
	struct container *c = container_of(box);
	bool born = box->pid != 0;
	int r;

	c->binds = binds_find(c->box.plan);
	r = ids_plan(c, e);
	/* Who lives already needs its root first, and enters its cgroups later. */
	if (r == 0 && !born)
		r = make_cgroups(c, trail, e);
	if (r == 0 && !born) {
		trail_begin(trail, STEP_CLONE);
		r = clone_first(c, e);
	}
	if (r == 0)
		r = equip(c, trail, e);
	if (r == 0 && born)
		r = make_cgroups(c, trail, e);
	if (r == 0 && needs_handover(c)) {
		trail_begin(trail, STEP_HANDOVER);
		r = cgroup_send(&c->cg, box->fds.channel, e);
	}
	return r;
}

static void container_kill(struct box *box)
{
	struct container *c = container_of(box);

	first_kill(box, c->paused ? &c->cg : NULL);
}

static unsigned container_watch(struct box *box, bool *ret_over)
{
	(void)ret_over; /* more than the limit is never in use: the file system refuses it */
	return upper_watch(container_of(box));
}

static void container_measure(struct box *box, struct usage *usage)
{
	struct container *c = container_of(box);

	cgroup_usage(&c->cg, box->plan->report, usage);
	usage->disk_full = c->disk_seen_full || upper_is_full(box->upper);
	first_measured(box, &c->cg);
	/* Held to the end, the file system would be taken down by ward, after everything else. */
	if (!box->plan->keep && box->upper >= 0)
		close(take_fd(&box->upper));
}

static int container_pause(struct box *box, void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	struct container *c = container_of(box);
	int r = cgroup_freeze(&c->cg, meanwhile, arg, e);

	if (r < 0)
		return r;
	c->paused = true;
	cgroup_reclaim(&c->cg);
	return 0;
}

static int container_resume(struct box *box, struct err *e)
{
	struct container *c = container_of(box);
	int r = cgroup_thaw(&c->cg, e);

	if (r == 0)
		c->paused = false;
	return r;
}

static int container_set_limits(struct box *box, const struct plan_limits *l, struct err *e)
{
	return cgroup_set_limits(&container_of(box)->cg, l, e);
}

/* "  eth0: 12 3 0 0 0 0 0 0 45 6 ...": bytes in, seven more, bytes out. */
static void add_device(const char *line, struct usage_now *u)
{
	const char *colon = strchr(line, ':');
	uint64_t in, out;

	line += strspn(line, " ");
	if (!colon || strncmp(line, "lo:", 3) == 0)
		return;
	if (sscanf(colon + 1, "%" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &in, &out) != 2)
		return;
	u->net_in += in;
	u->net_out += out;
}

static void net_now(const struct box *box, struct usage_now *u)
{
	char path[64], text[4096];

	/* The host's own traffic is not the sandbox's. */
	if (box->plan->net == NET_HOST || !box->pid ||
		str_fmt(path, sizeof(path), "/proc/%d/net/dev", (int)box->pid) < 0 ||
		host_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	u->net_in = u->net_out = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		add_device(line, u);
	}
}

static void container_usage_now(struct box *box, struct usage_now *u)
{
	struct statfs fs;

	cgroup_usage_now(&container_of(box)->cg, u);
	net_now(box, u);
	if (box->upper >= 0 && host_fstatfs(box->upper, &fs) == 0) {
		u->disk_total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
		u->disk_used = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	}
}

struct naming {
	int ns;
	const char *name;
};

static int name_inside(void *arg)
{
	const struct naming *n = arg;
	int r = host_setns(n->ns, CLONE_NEWUTS);

	return r < 0 ? r : host_sethostname(n->name);
}

static int container_set_hostname(struct box *box, const char *name, struct err *e)
{
	struct naming n = { .ns = -1, .name = name };
	char path[64];
	int r;

	if (!container_of(box)->rooted)
		return err_say(e, EOPNOTSUPP, "only root can name a sandbox that runs");
	r = str_fmt(path, sizeof(path), "/proc/%d/ns/uts", (int)box->pid);
	if (r == 0)
		n.ns = host_open(path, O_RDONLY, 0);
	r = n.ns < 0 ? n.ns : host_errand(name_inside, &n);
	if (n.ns >= 0)
		close(n.ns);
	return r < 0 ? err_set(e, -r, "setting the host name '%s'", name) : 0;
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
	return r < 0 ? r : tree_copy_upper(from, to, e);
}

static void container_stop(struct box *box)
{
	struct container *c = container_of(box);

	container_kill(box);
	first_reap(box);
	mounts_done(&c->tree);
	if (!cgroup_drop(&c->cg))
		box_left(box);
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
	.probe = first_probe,
	.calls = container_calls,
	.prepare = container_prepare,
	.start = container_start,
	.watch = container_watch,
	.kill = container_kill,
	.measure = container_measure,
	.keep = container_keep,
	.pause = container_pause,
	.resume = container_resume,
	.set_limits = container_set_limits,
	.usage_now = container_usage_now,
	.set_hostname = container_set_hostname,
	.stop = container_stop,
};
