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
#include "tier/fds.h"

enum { HANDOVER_MAX = 4 + BINDS_MAX + MOUNTS_MAX + LAYERS_MAX };

struct counts {
	unsigned char dev, upper, shm, binds, mounts, assembled;
	unsigned lowers, bind_bits;
};

int handover_send(struct container *c, int channel, struct err *e)
{
	struct mounts *t = &c->tree;
	struct counts n = {
		.dev = t->dev >= 0,
		.upper = c->rooted && !c->upper_is_ours,
		.shm = c->rooted && !c->assembled,
		.binds = c->assembled ? 0 : (unsigned char)t->bind_count,
		.assembled = c->assembled,
		.mounts = (unsigned char)t->mount_count,
		.lowers = t->lower_count,
		.bind_bits = c->binds,
	};
	int fds[HANDOVER_MAX];
	unsigned count = 0;
	ssize_t sent;

	if (c->rooted) {
		fds_add(fds, &count, &t->root, 1);
		fds_add(fds, &count, &t->shm, n.shm);
		fds_add(fds, &count, &t->dev, n.dev);
		fds_add(fds, &count, &t->upper, n.upper);
		fds_add(fds, &count, t->binds, n.binds);
		fds_add(fds, &count, t->mounts, n.mounts);
		fds_add(fds, &count, t->lowers, n.lowers);
	}
	sent = host_send_fds(channel, &n, sizeof(n), fds, count);
	if (sent != sizeof(n))
		return err_set(
			e, sent < 0 ? (int)-sent : EIO, "handing the mounts to the first process");
	return 0;
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
	if (count != (c->rooted ? 1u : 0) + n.shm + n.dev + n.upper + n.binds + n.mounts + n.lowers)
		return err_say(
			e, EPROTO, "ward handed over %u descriptors, which does not add up", count);
	if (!c->rooted)
		return 0;
	fds_take(&t->root, fds, &at, 1);
	fds_take(&t->shm, fds, &at, n.shm);
	fds_take(&t->dev, fds, &at, n.dev);
	fds_take(&t->upper, fds, &at, n.upper);
	fds_take(t->binds, fds, &at, n.binds);
	fds_take(t->mounts, fds, &at, n.mounts);
	fds_take(t->lowers, fds, &at, n.lowers);
	t->bind_count = n.binds;
	c->assembled = n.assembled;
	c->binds = n.bind_bits;
	t->mount_count = n.mounts;
	t->lower_count = n.lowers;
	return 0;
}
