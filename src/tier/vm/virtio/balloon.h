/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_BALLOON_H
#define WARD_TIER_VM_VIRTIO_BALLOON_H

#include "tier/vm/virtio/device.h"

/*
 * The guest's memory that it does not use goes back to the host: pages that it reports as free, and
 * pages that it puts into the balloon when it is asked for some.
 */
enum {
	BALLOON_PAGE = 4096,
	BALLOON_PAGES_MAX = 1024, /* named in one request; Linux names 256 */
	BALLOON_AT_ONCE = 32,     /* requests in one turn; a driver of sense has one under way */
};

struct balloon {
	struct vdev dev; /* first */
	uint32_t target; /* pages that the guest is asked for */
	uint32_t actual; /* that it says it has given */
	struct vchain chain;
	uint64_t released, refused; /* bytes given back; ranges that were not the guest's memory */
};

void balloon_init(struct balloon *b, struct gmem *mem, void (*raise)(void *arg), void *arg);
/* From now on the guest should do without @bytes. A wish: the guest's driver fulfils it, or not. */
void balloon_ask(struct balloon *b, uint64_t bytes);

#endif
