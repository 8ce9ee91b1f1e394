/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/cgroup_pass.c - the cgroups that ward made, given to the process that is to enter them.
 *
 * Owns:  the message: how many there are, what they hold, and their "tasks".
 * Rules: both ends are the same program, one a copy of the other from before they were made.
 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "abi/newer.h"
#include "base/own.h"
#include "host/host.h"
#include "tier/cgroup.h"
#include "tier/fds.h"

struct pass {
	unsigned char tasks;
	/* Who was born before the cgroups were made does not know yet what they hold. */
	unsigned char memory_limited, pids_limited;
};

int cgroup_send(struct cgroup *cg, int channel, struct err *e)
{
	struct pass p = { .memory_limited = cg->memory_limited, .pids_limited = cg->pids_limited };
	int fds[CGROUP_PARTS];
	unsigned count = 0;
	ssize_t sent;

	for (int i = 0; i < CGROUP_PARTS; i++)
		if (cg->tasks[i] >= 0)
			fds_add(fds, &count, &cg->tasks[i], 1);
	p.tasks = (unsigned char)count;
	sent = host_send_fds(channel, &p, sizeof(p), fds, count);
	for (int i = 0; i < CGROUP_PARTS; i++)
		if (cg->tasks[i] >= 0)
			close(take_fd(&cg->tasks[i]));
	/* A first process that failed meanwhile shows as its end, with the step that it failed at.
	 */
	if (sent == -EPIPE || sent == -ECONNRESET)
		return 0;
	if (sent != sizeof(p))
		return err_set(
			e, sent < 0 ? (int)-sent : EIO, "handing the cgroups to the first process");
	return 0;
}

int cgroup_receive(struct cgroup *cg, int channel, struct err *e)
{
	struct pass p;
	int fds[CGROUP_PARTS];
	unsigned count = 0;
	ssize_t got = host_recv_fds(channel, &p, sizeof(p), fds, CGROUP_PARTS, &count);

	if (got != sizeof(p))
		return err_set(e, got < 0 ? (int)-got : EPIPE,
			"waiting for ward to hand over the cgroups");
	if (count != p.tasks)
		return err_say(
			e, EPROTO, "ward handed over %u cgroups, which does not add up", count);
	for (unsigned i = 0; i < CGROUP_PARTS; i++)
		cg->tasks[i] = i < count ? fds[i] : -1;
	cg->memory_limited = p.memory_limited;
	cg->pids_limited = p.pids_limited;
	return 0;
}

int cgroup_settle(const struct cgroup *cg, struct err *e)
{
	unsigned count = 0;
	int r;

	while (count < CGROUP_PARTS && cg->tasks[count] >= 0)
		count++;
	r = cgroup_enter(cg->tasks, count, e);
	if (r < 0)
		return r;
	r = host_unshare(CLONE_NEWCGROUP);
	return r < 0 ? err_set(e, -r, "making the cgroup namespace") : 0;
}
