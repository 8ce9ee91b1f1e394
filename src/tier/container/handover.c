/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/container/handover.c - the prepared mounts go from ward to the first process.
 *
 * Owns:  the order of the descriptors in the message.
 * Rules: both ends are the same program, one a copy of the other, so the counts in struct mounts
 * are all that is sent beside the descriptors.
 */
#include <errno.h>
#include <string.h>

#include "host/host.h"
#include "tier/container/handover.h"

enum { HANDOVER_MAX = 4 + BINDS_MAX + MOUNTS_MAX + LAYERS_MAX + CGROUP_PARTS };

struct counts {
	unsigned char dev, upper, binds, mounts, tasks;
	/* Who was born before the cgroups were made does not know yet what they hold. */
	unsigned char memory_limited, pids_limited;
	unsigned lowers, bind_bits;
};

static void add(int *fds, unsigned *count, const int *from, unsigned n)
{
	memcpy(fds + *count, from, n * sizeof(int));
	*count += n;
}

int handover_send(struct container *c, int channel, struct err *e)
{
	struct mounts *t = &c->tree;
	struct counts n = {
		.dev = t->dev >= 0,
		.upper = c->rooted && !c->upper_is_ours,
		.binds = (unsigned char)t->bind_count,
		.mounts = (unsigned char)t->mount_count,
		.lowers = t->lower_count,
		.bind_bits = c->binds,
		.memory_limited = c->cg.memory_limited,
		.pids_limited = c->cg.pids_limited,
	};
	int fds[HANDOVER_MAX];
	unsigned count = 0;
	ssize_t sent;

	for (int i = 0; i < CGROUP_PARTS; i++) {
		if (c->cg.tasks[i] >= 0) {
			add(fds, &count, &c->cg.tasks[i], 1);
			n.tasks++;
		}
	}
	if (c->rooted) {
		add(fds, &count, &t->root, 1);
		add(fds, &count, &t->shm, 1);
		add(fds, &count, &t->dev, n.dev);
		add(fds, &count, &t->upper, n.upper);
		add(fds, &count, t->binds, n.binds);
		add(fds, &count, t->mounts, n.mounts);
		add(fds, &count, t->lowers, n.lowers);
	}
	sent = host_send_fds(channel, &n, sizeof(n), fds, count);
	if (sent != sizeof(n))
		return err_set(
			e, sent < 0 ? (int)-sent : EIO, "handing the mounts to the first process");
	return 0;
}

static void take(int *to, const int *fds, unsigned *at, unsigned n)
{
	memcpy(to, fds + *at, n * sizeof(int));
	*at += n;
}

int handover_receive(struct container *c, int channel, struct err *e)
{
	struct mounts *t = &c->tree;
	struct counts n;
	int fds[HANDOVER_MAX];
	unsigned count = 0, at = 0;
	ssize_t got = host_recv_fds(channel, &n, sizeof(n), fds, HANDOVER_MAX, &count);

	if (got != sizeof(n))
		return err_set(
			e, got < 0 ? (int)-got : EPIPE, "waiting for ward to hand over the mounts");
	if (count !=
		n.tasks + (c->rooted ? 2u : 0) + n.dev + n.upper + n.binds + n.mounts + n.lowers)
		return err_say(
			e, EPROTO, "ward handed over %u descriptors, which does not add up", count);
	take(c->tasks, fds, &at, n.tasks);
	c->task_count = n.tasks;
	c->cg.memory_limited = n.memory_limited;
	c->cg.pids_limited = n.pids_limited;
	if (!c->rooted)
		return 0;
	take(&t->root, fds, &at, 1);
	take(&t->shm, fds, &at, 1);
	take(&t->dev, fds, &at, n.dev);
	take(&t->upper, fds, &at, n.upper);
	take(t->binds, fds, &at, n.binds);
	take(t->mounts, fds, &at, n.mounts);
	take(t->lowers, fds, &at, n.lowers);
	t->bind_count = n.binds;
	c->binds = n.bind_bits;
	t->mount_count = n.mounts;
	t->lower_count = n.lowers;
	return 0;
}
