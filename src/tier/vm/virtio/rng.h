/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_RNG_H
#define WARD_TIER_VM_VIRTIO_RNG_H

#include "tier/vm/limiter.h"
#include "tier/vm/virtio/device.h"

enum { RNG_BYTES_MAX = 64 * 1024 }; /* for one request */

struct rng {
	struct vdev dev; /* first */
	struct limiter limiter;
	bool waits; /* for the limiter */
	struct vchain chain;
};

void rng_init(struct rng *r, struct gmem *mem, void (*raise)(void *arg), void *arg);
void rng_retry(struct rng *r);

#endif
