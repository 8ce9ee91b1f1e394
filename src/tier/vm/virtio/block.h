/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_BLOCK_H
#define WARD_TIER_VM_VIRTIO_BLOCK_H

#include "tier/vm/disk.h"
#include "tier/vm/limiter.h"
#include "tier/vm/watches.h"
#include "tier/vm/virtio/device.h"

enum { BLOCK_ID_BYTES = 20 };

struct block {
	struct vdev dev; /* first */
	struct disk *disk;
	struct limiter limiter;
	bool waits; /* for the limiter: block_retry() comes after LIMITER_RETRY_MS */
	int timer;  /* that makes it come; -1: there is no limit. Ours. */
	struct watch timer_watch;
	struct watches *events;
	char id[BLOCK_ID_BYTES];
	struct vchain chain; /* the request at hand */
	uint64_t requests, errors;
};

/* Borrows @disk. @write_back: offers flush. */
void block_init(struct block *b, struct disk *disk, const char *id, bool write_back,
	struct gmem *mem, void (*raise)(void *arg), void *arg);
/* From now on so many bytes and requests a second; 0: as many as it likes. Before the first run. */
int block_limit(
	struct block *b, uint64_t bytes_s, uint64_t ops_s, struct watches *events, struct err *e);
/* The limiter may let the next one through. */
void block_retry(struct block *b);
void block_done(struct block *b);

#endif
