/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/rng.c - randomness for the guest, from the host's getrandom().
 *
 * Owns:  nothing.
 * Rules: a request may be answered with less than it has room for, never with nothing.
 */
#include <string.h>
#include <sys/random.h>

#include "tier/vm/virtio/rng.h"

/* What a request gets, at most. */
static uint64_t most(const struct vchain *c)
{
	return c->out_bytes < RNG_BYTES_MAX ? c->out_bytes : RNG_BYTES_MAX;
}

/* Straight into the guest's memory, part by part; how many bytes. */
static uint32_t fill(const struct vchain *c)
{
	struct iovec iov[VIRTQ_SIZE_MAX];
	unsigned n = vchain_slice(c, true, 0, most(c), iov);
	uint32_t done = 0;

	for (unsigned i = 0; i < n; i++) {
		for (size_t at = 0; at < iov[i].iov_len;) {
			size_t want = iov[i].iov_len - at;
			ssize_t got = getrandom(
				(uint8_t *)iov[i].iov_base + at, want < 256 ? want : 256, 0);

			if (got <= 0)
				return done;
			at += (size_t)got;
			done += (uint32_t)got;
		}
	}
	return done;
}

static void work(struct rng *r)
{
	struct virtq *q = &r->dev.queues[0];
	unsigned count = 0;
	bool over = false;
	int got = 0;

	if (!vdev_is_active(&r->dev) || r->pace.waits)
		return;
	do {
		while (!over && (got = virtq_pop(q, &r->chain)) > 0) {
			if (r->chain.in || !r->chain.out) {
				got = virtq_break(q, "a request for randomness without room");
				break;
			}
			if (!pace_take(&r->pace, most(&r->chain))) {
				virtq_unpop(q);
				break;
			}
			virtq_push(q, r->chain.head, fill(&r->chain));
			over = vdev_had_turn(&r->dev, 0, ++count);
		}
	} while (got == 0 && !over && !r->pace.waits && virtq_rearm(q));
	vdev_tell(&r->dev, q);
	if (got < 0)
		vdev_stop(&r->dev, q->broken);
}

static void rng_kick(struct vdev *d, unsigned q)
{
	(void)q;
	work((struct rng *)d);
}

static void go_on(void *arg)
{
	work(arg);
}

static void rng_begin(struct vdev *d)
{
	pace_clear(&((struct rng *)d)->pace);
}

static const struct vdev_ops rng_ops = {
	.name = "rng",
	.id = VDEV_RNG,
	.queues = 1,
	.queue_size = 64,
	.activate = rng_begin,
	.reset = rng_begin,
	.kick = rng_kick,
};

void rng_init(struct rng *r, struct gmem *mem, void (*raise)(void *arg), void *arg)
{
	memset(r, 0, sizeof(*r));
	pace_init(&r->pace);
	vdev_init(&r->dev, &rng_ops, VDEV_F_EVENT_IDX, mem, raise, arg);
}

int rng_limit(
	struct rng *r, uint64_t bytes_s, uint64_t ops_s, struct watches *events, struct err *e)
{
	return pace_limit(&r->pace, bytes_s, ops_s, events, go_on, r, e);
}

void rng_done(struct rng *r)
{
	pace_done(&r->pace);
}
