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
#include <stdlib.h>
#include <linux/sched.h>

#include "base/clock.h"
#include "base/own.h"
#include "host/host.h"
#include "host/tree.h"
#include "plan/source.h"
#include "tier/first.h"
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

static int check_mode(const struct ws_box *b, struct err *e)
{
	if (b->box.plan->user && geteuid() != 0)
		return err_say(e, EINVAL,
			"--user: the workspace tier runs as you; only root may choose somebody "
			"else");
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

static int list_undo(struct ws_box *b, struct err *e)
{
	const struct plan *plan = b->box.plan;

	first_list_cgroups(&b->box, &b->cg);
	for (unsigned i = 0; i < plan->source_count; i++) {
		const struct plan_source *s = &plan->sources[i];
		const char *work = ws_text(&b->text, "%s/work/%s", b->dir, s->name);

		if (!work)
			return err_say(e, ENAMETOOLONG, "the workspace's paths are too long");
		if (s->kind == SOURCE_GIT)
			box_add_undo(&b->box, UNDO_WORKTREE, s->src, work);
	}
	box_add_undo(&b->box, UNDO_TREE, b->dir, NULL);
	if (plan->keep)
		box_add_undo(&b->box, UNDO_KEPT, NULL, NULL);
	return 0;
}

static int prepare(
	const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e)
{
	struct ws_box *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_set(e, ENOMEM, "preparing a workspace");
	trail_begin(trail, STEP_WORKSPACE);
	box_init(&b->box, &tier_workspace, plan);
	r = probe(e);
	if (r == 0)
		r = ws_mounts_check(plan, e);
	if (r == 0)
		r = plan_sources_check(plan->sources, plan->source_count, plan->state_dir, e);
	if (r == 0) {
		b->mode = ws_mode_pick();
		r = check_mode(b, e);
	}
	if (r == 0)
		r = cgroup_plan(&b->cg, plan, e);
	if (r == 0)
		r = ws_layout_find(b, e);
	if (r == 0)
		r = list_undo(b, e);
	if (r < 0) {
		free(b);
		return r;
	}
	*ret_box = &b->box;
	return 0;
}

static int start_first(struct ws_box *b, struct err *e)
{
	uint64_t flags = 0;

	b->uid = geteuid();
	b->gid = getegid();
	b->pids = ws_limits_pids(b);
	if (b->mode != WORKSPACE_PLAIN)
		flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
	if (b->mode != WORKSPACE_PLAIN && b->box.plan->net != NET_HOST)
		flags |= CLONE_NEWNET;
	if (b->mode == WORKSPACE_USER)
		flags |= CLONE_NEWUSER;
	return first_clone(&b->box, &b->cg, flags, ws_first, "making the first process", e);
}

/* Counting takes one part in this many of the time, and comes so often at most and at least. */
enum { WATCH_SHARE = 20, WATCH_MS = 100, WATCH_MS_MAX = 10000 };

/*
 * Every file has its limit from the kernel; all of them together are counted, as often as that is
 * cheap. What was there before the command does not count.
 */
static unsigned watch(struct box *box, bool *ret_over)
{
	struct ws_box *b = (struct ws_box *)box;
	uint64_t limit = box->plan->limits.disk_bytes, bytes = 0, began = clock_ns(), took_ms;
	int r;

	*ret_over = false;
	if (!limit)
		return 0;
	r = tree_size(b->dir, &bytes);
	took_ms = (clock_ns() - began) / 1000000;
	if (!b->size_known)
		b->size_before = bytes;
	b->size_known = true;
	/* Too deep to be counted is too much. */
	*ret_over = r == -ELOOP || bytes > b->size_before + limit;
	took_ms = took_ms * WATCH_SHARE > WATCH_MS ? took_ms * WATCH_SHARE : WATCH_MS;
	return took_ms > WATCH_MS_MAX ? WATCH_MS_MAX : (unsigned)took_ms;
}

static int start(struct box *box, struct trail *trail, struct err *e)
{
	struct ws_box *b = (struct ws_box *)box;
	bool over;
	int r;

	trail_begin(trail, STEP_WORKSPACE);
	r = ws_layout_make(b, e);
	if (r == 0)
		r = ws_sources_make(b, e);
	if (r == 0)
		r = ws_record_write(b, e);
	if (r == 0)
		r = ws_rules_make(b, e);
	if (r < 0)
		return r;
	box->workdir = b->workdir;
	box->env = b->env;
	watch(box, &over); /* what is there before the command */
	trail_begin(trail, STEP_CGROUP);
	r = cgroup_make(&b->cg, box->plan, e);
	if (r < 0)
		return r;
	box->fds.oom = take_fd(&b->cg.oom);
	trail_begin(trail, STEP_CLONE);
	return start_first(b, e);
}

static void kill_all(struct box *box)
{
	const struct ws_box *b = (const struct ws_box *)box;

	/* A pid namespace is empty before the end of its first process can be seen. */
	if (box->pid && b->mode == WORKSPACE_PLAIN)
		ws_kill_tree(box->pid);
	first_kill(box, NULL);
}

static void measure(struct box *box, struct usage *usage)
{
	bool over;

	cgroup_usage(&((struct ws_box *)box)->cg, box->plan->report, usage);
	/* The last look: it may have grown since. */
	watch(box, &over);
	usage->disk_full = over;
}

static int keep(struct box *box, struct err *e)
{
	(void)e;
	((struct ws_box *)box)->kept = true;
	return 0;
}

static void stop(struct box *box)
{
	struct ws_box *b = (struct ws_box *)box;
	bool kept = b->kept && !box->discarded;

	kill_all(box);
	first_reap(box);
	if (!cgroup_drop(&b->cg))
		box_left(box);
	box_done(box);
	/* A second time, for what has failed once; a third time it is up to a sweep. */
	if (ws_layout_remove(b, kept, NULL) < 0 && ws_layout_remove(b, kept, NULL) < 0)
		box_left(box);
	free(b);
}

const struct tier_ops tier_workspace = {
	.name = "workspace",
	.what = "a working copy, Landlock, rlimits and seccomp",
	.wall = WALL_WORKSPACE,
	.probe = probe,
	.prepare = prepare,
	.start = start,
	.watch = watch,
	.kill = kill_all,
	.measure = measure,
	.keep = keep,
	.stop = stop,
};
