/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/child.c - the first process of a sandbox, from clone to agent.
 *
 * Owns:  nothing that outlives it; what it does is seen in the shared trail.
 * Rules: a copy of ward's memory with nobody else's threads: no allocation, no logging. It never
 *        executes another program itself, so its memory map still belongs to the host's user
 *        namespace and nothing inside can trace or read it. Every step that fails ends it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "abi/newer.h"
#include "agent/agent.h"
#include "base/ckd.h"
#include "base/own.h"
#include "host/host.h"
#include "jail/caps.h"
#include "jail/landlock.h"
#include "jail/seccomp.h"
#include "tier/container/container.h"
#include "tier/container/handover.h"

static int new_namespaces(const struct container *c, struct err *e)
{
	int flags = CLONE_NEWNS | CLONE_NEWUTS;
	int r;

	if (c->box.plan->net != NET_HOST)
		flags |= CLONE_NEWNET;
	r = host_unshare(flags);
	if (r < 0)
		return err_set(e, -r, "making the sandbox's namespaces");
	return 0;
}

static int loopback_up(struct err *e)
{
	own_fd int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &request) < 0)
		return err_set(e, errno, "bringing the loopback device up");
	return 0;
}

static int become_root_inside(const struct container *c, struct err *e)
{
	gid_t none[1] = { 0 };
	/* setgroups is closed to a namespace whose only id is its maker's. */
	int r = host_setids(0, 0, c->rooted || c->sub_count ? none : NULL, 0);

	if (r < 0)
		return err_set(e, -r, "becoming root inside");
	return 0;
}

/* Everything inside is its own; what a stray descriptor or link could reach outside is not. */
static int second_ring(const struct container *c, struct err *e)
{
	static const struct landlock_rule rules[] = {
		{ "/", LL_READ | LL_EXEC | LL_WRITE },
		{ "/dev", LL_READ | LL_WRITE | LL_IOCTL },
		/* mq_open() goes through a mount of the kernel's own, which is below nothing. */
		{ "/dev/mqueue", LL_READ | LL_WRITE },
	};
	unsigned flags = LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL;
	int r;

	if (c->box.plan->net == NET_NONE)
		flags |= LL_NO_TCP;
	r = landlock_confine(rules, ARRAY_LEN(rules), flags, e);
	/* The second ring is there where the kernel has it; the first does not lean on it. */
	return r == -ENOSYS || r == -EOPNOTSUPP ? 0 : r;
}

static int limit_files(const struct container *c, struct err *e)
{
	static const struct {
		int what;
		rlim_t soft, hard;
		const char *name;
	} limits[] = {
		{ RLIMIT_CORE, 0, 0, "core" },
		{ RLIMIT_NOFILE, 1024, 65536, "nofile" },
		{ RLIMIT_MEMLOCK, 8 << 20, 8 << 20, "memlock" },
		{ RLIMIT_MSGQUEUE, 819200, 819200, "msgqueue" },
		{ RLIMIT_SIGPENDING, 4096, 4096, "sigpending" },
	};
	struct rlimit old;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit new = { limits[i].soft, limits[i].hard };

		/* Never above what the caller has: raising needs a privilege, and is not ours to
		 * give. */
		if (getrlimit(limits[i].what, &old) < 0)
			return err_set(e, errno, "reading the %s limit", limits[i].name);
		if (old.rlim_max < new.rlim_max)
			new.rlim_max = old.rlim_max;
		if (new.rlim_max < new.rlim_cur)
			new.rlim_cur = new.rlim_max;
		r = host_setrlimit(limits[i].what, &new);
		if (r < 0)
			return err_set(e, -r, "setting the %s limit", limits[i].name);
	}
	if (c->cg.pids_limited || !c->box.plan->limits.pids)
		return 0;
	/* No cgroup: the process limit falls back to this one, per user and namespace. */
	r = host_setrlimit(RLIMIT_NPROC,
		&(struct rlimit){ c->box.plan->limits.pids, c->box.plan->limits.pids });
	return r < 0 ? err_set(e, -r, "setting the process limit") : 0;
}

static int limit_memory(const struct container *c, struct err *e)
{
	uint64_t bytes = c->box.plan->limits.memory_bytes;
	int r;

	if (c->cg.memory_limited || !bytes)
		return 0;
	/* Data, not address space: runtimes reserve far more than they use. */
	r = host_setrlimit(RLIMIT_DATA, &(struct rlimit){ bytes, bytes });
	return r < 0 ? err_set(e, -r, "setting the memory limit") : 0;
}

/* Only the channel stays, as descriptor 3; 0 to 2 are the sandbox's own /dev/null. */
static int close_rest(int *channel, struct err *e)
{
	int null, r;

	r = host_dup3(*channel, 3, O_CLOEXEC);
	if (r == -EINVAL) /* it is 3 already */
		r = 3;
	if (r >= 0)
		r = host_close_from(4);
	if (r < 0)
		return err_set(e, -r, "closing ward's descriptors");
	*channel = 3;
	null = host_open("/dev/null", O_RDWR, 0);
	r = null;
	for (int i = 0; r >= 0 && i < 3; i++)
		r = host_dup3(null, i, 0);
	if (r >= 0)
		r = host_close_from(4);
	if (r < 0)
		return err_set(e, -r, "opening /dev/null");
	return 0;
}

/*
 * From here on this process can be told to stand still. What it still had of ward's would then be
 * open for ever, and the daemon would not see its supervisor's connection end.
 */
static int close_wards(int channel, int listener, int upper, struct err *e)
{
	int keep[] = { channel, listener, upper }, next = 3, r = 0;

	for (size_t done = 0; r == 0 && done < ARRAY_LEN(keep); done++) {
		int least = INT_MAX;

		for (size_t i = 0; i < ARRAY_LEN(keep); i++)
			if (keep[i] >= next && keep[i] < least)
				least = keep[i];
		if (least == INT_MAX)
			break;
		r = host_close_range(next, least - 1);
		next = least + 1;
	}
	if (r == 0)
		r = host_close_from(next);
	return r < 0 ? err_set(e, -r, "closing ward's descriptors") : 0;
}

static int make_world(struct container *c, int channel, struct trail *t, struct err *e)
{
	const struct plan *plan = c->box.plan;
	int r;

	trail_begin(t, STEP_UNSHARE);
	r = new_namespaces(c, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_HANDOVER);
	if (needs_handover(c))
		r = handover_receive(c, channel, e);
	if (r == 0 && !c->rooted && !c->sub_count)
		r = ids_write_own(plan->caller_uid, plan->caller_gid, e);
	if (r < 0)
		return r;
	r = become_root_inside(c, e);
	if (r < 0)
		return r;
	/* Only now: whoever makes it owns its folder of message queues, and somebody whom the ids
	 * inside do not name would own it for ever. */
	r = host_unshare(CLONE_NEWIPC);
	if (r < 0)
		return err_set(e, -r, "making the sandbox's ipc namespace");
	trail_begin(t, STEP_NET);
	if (plan->net == NET_LOOPBACK)
		r = loopback_up(e);
	if (r == 0)
		r = host_sethostname(plan->hostname);
	if (r < 0)
		return e->code ? r : err_set(e, -r, "setting the host name '%s'", plan->hostname);
	r = root_enter(c, t, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_ATTACH);
	if (needs_handover(c))
		r = cgroup_receive(&c->cg, channel, e);
	return r < 0 ? r : cgroup_settle(&c->cg, e);
}

static int lock_down(struct container *c, int *channel, struct trail *t, struct err *e)
{
	int listener = -1, r;
	/* As an ordinary user only this process can see the upper; ward wants it for --keep and
	 * usage. */
	int upper = c->rooted ? -1 : c->tree.upper;

	trail_begin(t, STEP_RLIMITS);
	r = limit_files(c, e);
	if (r == 0)
		r = limit_memory(c, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_CAPS);
	r = host_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (r < 0)
		return err_set(e, -r, "setting no_new_privs");
	r = jail_caps(e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_LANDLOCK);
	r = second_ring(c, e);
	if (r < 0)
		return r;
	/* Cleared by every change of ids, so it comes after them. */
	r = host_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (r == 0)
		r = host_prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (r < 0)
		return err_set(e, -r, "binding the first process to ward");
	/* Whoever waits for the agent's word should not wait for the command to finish its turn. */
	if (c->box.plan->live)
		host_short_turns();
	trail_begin(t, STEP_SECCOMP);
	r = jail_seccomp(JAIL_CONTAINER, &listener, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_AGENT);
	r = close_wards(*channel, listener, upper, e);
	if (r == 0)
		r = box_send_ready(*channel, listener, upper, e);
	return r < 0 ? r : close_rest(channel, e);
}

void child_main(struct box *box, int channel)
{
	struct container *c = container_of(box);
	struct trail *t = (struct trail *)c->box.shared;
	struct err e = { 0 };
	int r;

	/* If ward dies now, so does this; the agent also ends when the channel does. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	umask(022);
	r = make_world(c, channel, t, &e);
	if (r == 0)
		r = lock_down(c, &channel, t, &e);
	if (r < 0) {
		e.code = e.code ? e.code : -r;
		trail_fail(t, &e);
		_exit(125);
	}
	trail_begin(t, STEP_EXEC);
	box_forget_arguments(c->box.plan);
	_exit(agent_run(
		&(struct agent_config){ .channel = channel, .standby = c->box.plan->live }));
}
