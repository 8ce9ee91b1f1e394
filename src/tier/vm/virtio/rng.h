/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_RNG_H
#define WARD_TIER_VM_VIRTIO_RNG_H

#include "tier/vm/pace.h"
#include "tier/vm/virtio/device.h"

enum {
	RNG_BYTES_MAX = 64 * 1024, /* for one request */
	/* For every guest, each second: it is the host's processor that makes them. */
	RNG_BYTES_S = 1 << 20,
	RNG_OPS_S = 1000,
};

struct rng {
	struct vdev dev; /* first */
	struct pace pace;
	struct vchain chain;
};

void rng_init(struct rng *r, struct gmem *mem, void (*raise)(void *arg), void *arg);
/* From now on at most that much a second. Before the first run. */
int rng_limit(
	struct rng *r, uint64_t bytes_s, uint64_t ops_s, struct watches *events, struct err *e);
void rng_done(struct rng *r);

#endif
