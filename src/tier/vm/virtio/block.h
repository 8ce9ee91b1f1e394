/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_BLOCK_H
#define WARD_TIER_VM_VIRTIO_BLOCK_H

#include "tier/vm/disk.h"
#include "tier/vm/pace.h"
#include "tier/vm/virtio/device.h"

enum { BLOCK_ID_BYTES = 20 };

struct block {
	struct vdev dev; /* first */
	struct disk *disk;
	struct pace pace;
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
void block_done(struct block *b);

#endif
