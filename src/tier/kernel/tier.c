/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/tier.c - the kernel tier: a userspace kernel answers every call.
 *
 * Owns:  the life of a struct kbox, from ward's side.
 * Rules: start makes things in the order that box_undo() told; stop undoes them from any state.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/box.h"
#include "tier/kernel/jail.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/trap/filter.h"
#include "tier/first.h"
#include "tier/upper.h"
#include "tier/views.h"

static int kernel_probe(struct err *e)
{
	struct seccomp_notif_sizes sizes;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return err_set(e, errno,
			"this kernel has no seccomp user notification (Linux 5.14 or newer)");
	return first_probe(e);
}

static int check_plan(const struct plan *plan, struct err *e)
{
	if (plan->keep)
		return err_say(e, EOPNOTSUPP,
			"--keep is not supported by the kernel tier; use --tier container");
	if (plan->net == NET_HOST)
		return err_say(e, EOPNOTSUPP,
			"--net host is not possible in the kernel tier: a guest has no host "
			"network");
	return 0;
}

static int clone_first(struct kbox *b, struct err *e);
static void kernel_stop(struct box *box);

/* A v2 child is born in its cgroup, which does not exist yet, and an ordinary user's makes its root
 * out of a template that is not known yet. Anyone else can be born now. */
static bool born_early(const struct kbox *b)
{
	return b->rooted && !cgroup_is_v2();
}

static int kernel_prepare(
	const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e)
{
	struct kbox *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_set(e, ENOMEM, "preparing the sandbox");
	box_init(&b->box, &tier_kernel, plan);
	cgroup_init(&b->cg);
	b->box.files_stay = true; /* they are the kernel process's, with their pages */
	b->upper = -1;
	b->rooted = geteuid() == 0;
	r = check_plan(plan, e);
	if (r == 0) {
		b->report = box_share(&b->box, sizeof(*b->report), e);
		r = b->report ? 0 : -e->code;
	}
	/* Before anything else is looked at: what comes after happens beside its namespaces. */
	if (r == 0 && born_early(b)) {
		trail_begin(trail, STEP_CLONE);
		r = clone_first(b, e);
	}
	if (r == 0) {
		trail_begin(trail, STEP_CGROUP);
		r = cgroup_plan(&b->cg, plan, e);
	}
	if (r < 0) {
		kernel_stop(&b->box);
		return r;
	}
	first_list_cgroups(&b->box, &b->cg);
	*ret_box = &b->box;
	return 0;
}

static int clone_first(struct kbox *b, struct err *e)
{
	return first_clone(&b->box, &b->cg, CLONE_NEWUSER | CLONE_NEWPID, kbox_first,
		"starting the kernel process in new user and pid namespaces ('ward doctor' says "
		"what this host lacks)",
		e);
}

static int write_ids(const struct kbox *b, struct err *e)
{
	static const char *const files[] = { "uid_map", "gid_map" };
	char text[64], path[64];

	snprintf(text, sizeof(text), "0 %u %u", b->box.plan->id_base, SANDBOX_IDS);
	for (int i = 0; i < 2; i++) {
		int r = str_fmt(path, sizeof(path), "/proc/%d/%s", (int)b->box.pid, files[i]);

		if (r == 0)
			r = host_put(AT_FDCWD, path, text);
		if (r < 0)
			return err_set(e, -r, "writing '%s' to %s", text, path);
	}
	return 0;
}

/* What only root can do, now that the first process has a user namespace. */
static int equip(struct kbox *b, struct trail *trail, struct err *e)
{
	own_fd int user_ns = -1;
	int r;

	trail_begin(trail, STEP_IDMAP);
	r = write_ids(b, e);
	if (r < 0)
		return r;
	user_ns = first_user_ns(&b->box, e);
	if (user_ns < 0)
		return user_ns;
	trail_begin(trail, STEP_TREE);
	r = kbox_views(b, user_ns, e);
	if (r < 0)
		return r;
	trail_begin(trail, STEP_HANDOVER);
	r = kbox_send(b, b->box.fds.channel, e);
	/* One descriptor of the upper stays: what is left in it is asked at the end. */
	b->box.upper = take_fd(&b->upper);
	kbox_close_views(b);
	return r;
}

/* The limit that guests see is kept by the kernel process, which has a thread of its own behind
 * each of theirs: what the cgroup must hold for that. */
static uint32_t set_pids(struct kbox *b, uint32_t pids)
{
	b->report->pids_limit = pids;
	return pids ? 2 * pids + KBOX_PIDS_OWN : 0;
}

static int make_cgroups(struct kbox *b, struct trail *trail, struct err *e)
{
	struct box *box = &b->box;
	struct plan limits = *box->plan;
	int r;

	trail_begin(trail, STEP_CGROUP);
	limits.limits.pids = set_pids(b, limits.limits.pids);
	r = cgroup_make(&b->cg, &limits, e);
	if (r < 0)
		return r;
	if (b->cg.kind == CGROUP_NONE)
		str_copy(box->warning, sizeof(box->warning),
			"no cgroup is writable here: the default limits are kept per process "
			"(rlimits) "
			"only");
	box->fds.oom = take_fd(&b->cg.oom);
	return 0;
}

static int kernel_start(struct box *box, struct trail *trail, struct err *e)
{
	struct kbox *b = kbox_of(box);
	bool born = box->pid != 0;
	int r = 0;

	b->bind_bits = binds_find(box->plan);
	/* Who lives already needs its views first, and enters its cgroups later. */
	if (!born)
		r = make_cgroups(b, trail, e);
	if (r == 0 && !born) {
		trail_begin(trail, STEP_CLONE);
		r = clone_first(b, e);
	}
	if (r == 0 && b->rooted)
		r = equip(b, trail, e);
	if (r == 0 && born)
		r = make_cgroups(b, trail, e);
	if (r == 0 && (b->rooted || b->cg.kind == CGROUP_V1)) {
		trail_begin(trail, STEP_HANDOVER);
		r = cgroup_send(&b->cg, box->fds.channel, e);
	}
	return r;
}

static void kernel_kill(struct box *box)
{
	first_kill(box, NULL);
}

/* The page was the kernel process's to write: every number is checked. */
static void read_report(const struct kbox *b, struct usage *usage)
{
	struct kernel_report copy;

	memcpy(&copy, b->report, sizeof(copy));
	usage->pids_refused = copy.pids_refused;
	if (usage->pids_peak != UINT64_MAX)
		usage->pids_peak =
			copy.tasks_peak; /* the guest's, not the kernel process's threads */
	usage->disk_full |= copy.disk_full;
	usage->unknown_count = 0;
	for (unsigned i = 0; i < copy.unknown_count && i < UNKNOWN_CALLS_MAX; i++) {
		const struct sys_row *row = sys_row(copy.unknown[i].nr);
		struct unknown_use *u = &usage->unknown[usage->unknown_count++];

		if (row)
			str_copy(u->name, sizeof(u->name), row->name);
		else
			snprintf(u->name, sizeof(u->name), "call %d", copy.unknown[i].nr);
		u->count = copy.unknown[i].count;
	}
}

static void kernel_measure(struct box *box, struct usage *usage)
{
	struct kbox *b = kbox_of(box);
	struct statfs fs;

	cgroup_usage(&b->cg, box->plan->report, usage);
	usage->disk_full = box->upper >= 0 && host_fstatfs(box->upper, &fs) == 0 &&
			   (fs.f_bavail <= fs.f_blocks / 64 || fs.f_ffree == 0);
	read_report(b, usage);
	first_measured(box, &b->cg);
	if (box->upper >= 0)
		close(take_fd(&box->upper));
}

static void kernel_stop(struct box *box)
{
	struct kbox *b = kbox_of(box);

	kernel_kill(box);
	first_reap(box);
	kbox_close_views(b);
	if (!cgroup_drop(&b->cg))
		box_left(box);
	box_done(box);
	free(b);
}

static void kernel_calls(unsigned *ret_guest, unsigned *ret_own)
{
	*ret_guest = guest_filter_calls();
	*ret_own = kernel_jail_calls();
}

/*
 * Not by the freezer: a guest process that waits for its kernel's answer never stands still in the
 * freezer's eyes. The kernel process is stopped first, so that nobody is born any more; then
 * everyone else is: who waits for an answer waits on, who computes stops.
 */
static int kernel_pause(struct box *box, void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	int r = host_pidfd_kill(box->fds.pidfd, SIGSTOP);

	(void)meanwhile;
	(void)arg;
	if (r == 0)
		r = cgroup_signal(&kbox_of(box)->cg, SIGSTOP);
	if (r < 0) {
		host_pidfd_kill(box->fds.pidfd, SIGCONT);
		return err_set(e, -r, "stopping the sandbox's processes");
	}
	kbox_of(box)->paused = true;
	cgroup_reclaim(&kbox_of(box)->cg);
	return 0;
}

static int kernel_resume(struct box *box, struct err *e)
{
	int r = cgroup_signal(&kbox_of(box)->cg, SIGCONT);

	if (r < 0)
		return err_set(e, -r, "letting the sandbox's processes go on");
	kbox_of(box)->paused = false;
	return 0;
}

static int kernel_set_limits(struct box *box, const struct plan_limits *limits, struct err *e)
{
	struct kbox *b = kbox_of(box);
	struct plan_limits outer = *limits;

	if (limits->pids)
		outer.pids = set_pids(b, limits->pids);
	return cgroup_set_limits(&b->cg, &outer, e);
}

static void kernel_usage_now(struct box *box, struct usage_now *usage)
{
	cgroup_usage_now(&kbox_of(box)->cg, usage);
}

const struct tier_ops tier_kernel = {
	.name = "kernel",
	.what = "a userspace kernel answers every system call",
	.wall = WALL_KERNEL,
	.probe = kernel_probe,
	.calls = kernel_calls,
	.prepare = kernel_prepare,
	.start = kernel_start,
	.kill = kernel_kill,
	.measure = kernel_measure,
	.pause = kernel_pause,
	.resume = kernel_resume,
	.set_limits = kernel_set_limits,
	.usage_now = kernel_usage_now,
	.stop = kernel_stop,
};
