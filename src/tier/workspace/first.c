/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/first.c - the first process, from its clone to the agent.
 *
 * Owns:  the order of the steps.
 * Rules: no allocation, no output: a step that fails is written to the shared trail and ends the
 *        process. Nothing is left out when it fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "host/host.h"
#include "jail/caps.h"
#include "jail/seccomp.h"
#include "tier/workspace/ws.h"

enum { CHANNEL_FD = 3, EXIT_SETUP = 125 };

/* Of all that ward had open, only the channel stays; 0 to 2 are /dev/null. */
static int keep_channel(int channel, struct err *e)
{
	int r = channel == CHANNEL_FD ? 0 : host_dup3(channel, CHANNEL_FD, O_CLOEXEC), null;

	if (r >= 0)
		r = host_close_from(CHANNEL_FD + 1);
	if (r >= 0)
		r = null = host_open("/dev/null", O_RDWR, 0);
	for (int fd = 0; r >= 0 && fd < CHANNEL_FD; fd++)
		if (fd != null)
			r = host_dup3(null, fd, 0);
	if (r >= 0)
		r = host_close_from(CHANNEL_FD + 1);
	return r < 0 ? err_set(e, -r, "arranging descriptors") : 0;
}

static int attach(const struct ws_box *b, struct err *e)
{
	int tasks[CGROUP_PARTS];
	unsigned count = 0;

	for (int i = 0; i < CGROUP_PARTS; i++)
		if (b->cg.tasks[i] >= 0)
			tasks[count++] = b->cg.tasks[i];
	return b->cg.kind == CGROUP_V1 ? cgroup_enter(tasks, count, e) : 0;
}

static int drop_caps(const struct ws_box *b, struct err *e)
{
	int r;

	/* In a root of its own, root's command may do what root does to files, and no more. */
	if (b->mode == WORKSPACE_ROOT || (b->mode == WORKSPACE_USER && geteuid() == 0))
		return jail_caps(e);
	/* With no_new_privs, what is dropped here does not come back by an exec. */
	r = host_prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (r == 0 || r == -EINVAL)
		r = host_capset(0, 0, 0);
	return r < 0 ? err_set(e, -r, "dropping capabilities") : 0;
}

static int confine(const struct ws_box *b, struct err *e)
{
	struct landlock_rule rules[WS_RULES_MAX];
	unsigned flags = LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL;

	for (unsigned i = 0; i < b->rule_count; i++)
		rules[i] = b->rules[i].rule;
	if (b->box.plan->net == NET_NONE)
		flags |= LL_NO_TCP;
	return landlock_confine(rules, b->rule_count, flags, e);
}

/*
 * A pid namespace ends with its first process, so that process ends with ward. Without one the
 * agent must outlive ward for the moment in which it kills the others: it sees the channel close.
 */
static int end_with_ward(const struct ws_box *b, struct err *e)
{
	int r = b->mode == WORKSPACE_PLAIN ? 0 : host_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);

	return r < 0 ? err_set(e, -r, "asking to end with ward") : 0;
}

static int lock_down(const struct ws_box *b, struct trail *t, struct err *e)
{
	int listener = -1, r;

	trail_begin(t, STEP_RLIMITS);
	r = ws_limits_set(b, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_CAPS);
	r = drop_caps(b, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_LANDLOCK);
	r = confine(b, e);
	if (r < 0)
		return r;
	r = end_with_ward(b, e); /* again: a change of ids clears it */
	if (r < 0)
		return r;
	/* What the command may trace and read it must not find ward's memory in. */
	r = host_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (r < 0)
		return err_set(e, -r, "closing the agent's memory");
	trail_begin(t, STEP_SECCOMP);
	r = jail_seccomp(JAIL_WORKSPACE, &listener, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_AGENT);
	r = box_send_ready(b->channel, listener, -1, e);
	return r < 0 ? r : keep_channel(b->channel, e);
}

static int make_world(const struct ws_box *b, struct trail *t, struct err *e)
{
	int r = end_with_ward(b, e);

	if (r < 0)
		return r;
	/* This early, since the filters need it. */
	r = host_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (r < 0)
		return err_set(e, -r, "giving up new privileges");
	setsid(); /* the user's terminal is not the command's */
	umask(022);
	trail_begin(t, STEP_ATTACH);
	r = attach(b, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_IDMAP);
	if (b->mode == WORKSPACE_USER)
		r = ws_map_self(b->uid, b->gid, e);
	if (r == 0 && b->mode != WORKSPACE_PLAIN)
		r = ws_root_make(b, t, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_NET);
	r = ws_net(b, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_WORKSPACE);
	r = host_chdir(b->workdir);
	return r < 0 ? err_set(e, -r, "entering the working folder '%s'", b->workdir) : 0;
}

_Noreturn void ws_first(struct box *box, int channel)
{
	struct ws_box *b = (struct ws_box *)box;
	struct trail *t = (struct trail *)box->shared;
	struct err e = { 0 };
	int r;

	b->channel = channel;
	r = make_world(b, t, &e);
	if (r == 0)
		r = lock_down(b, t, &e);
	if (r < 0) {
		trail_fail(t, &e);
		_exit(EXIT_SETUP);
	}
	trail_begin(t, STEP_EXEC);
	box_forget_arguments(b->box.plan);
	_exit(agent_run(&(struct agent_config){
		.channel = CHANNEL_FD, .not_init = b->mode == WORKSPACE_PLAIN }));
}
