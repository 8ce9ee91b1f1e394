/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_QUEUE_H
#define WARD_TIER_VM_VIRTIO_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "tier/vm/gmem.h"

enum {
	VIRTQ_SIZE_MAX = 256,
	VIRTQ_BYTES_MAX = 1 << 22, /* of one chain, both directions, if nobody says more */
};

/*
 * A split virtqueue whose other end is hostile. Its registers are frozen when it is activated: the
 * data path uses the private copies, and translates the three areas once.
 */
struct virtq {
	struct gmem *mem;
	uint64_t bytes_max; /* of one chain */
	/* As the driver wrote them. */
	uint16_t size_max, size;
	bool ready;
	gpa_t desc, avail, used;
	/* While it is active. */
	bool active;
	const char *broken; /* why nothing more is taken from it; NULL: it works */
	bool event_idx;
	uint16_t mask;
	volatile uint8_t *desc_at, *avail_at, *used_at;
	uint16_t next_avail, next_used;
	uint16_t told_used; /* next_used when that was asked last */
};

/* One request: first what the device reads, then what it writes. */
struct vchain {
	uint16_t head;
	unsigned in, out; /* parts that the device reads, and writes */
	uint64_t in_bytes, out_bytes;
	struct iovec iov[VIRTQ_SIZE_MAX];
};

/* An answered request. */
struct vused {
	uint16_t head;
	uint32_t written;
};

void virtq_init(struct virtq *q, struct gmem *mem, uint16_t size_max);
void virtq_reset(struct virtq *q);
/* At DRIVER_OK. False: the driver described no queue that could work. */
bool virtq_activate(struct virtq *q, bool event_idx);

/* 1: @ret is the next request; 0: none now; -1: the queue is broken (from now on). */
int virtq_pop(struct virtq *q, struct vchain *ret);
/* The request that was popped last comes again with the next pop. */
void virtq_unpop(struct virtq *q);
/* @head is done, and @written bytes of its writable part were filled. */
void virtq_push(struct virtq *q, uint16_t head, uint32_t written);
/* The same for @count requests that the driver must find together or not at all. */
void virtq_push_all(struct virtq *q, const struct vused *done, unsigned count);
/* After a batch of pushes: does the driver want to be told? */
bool virtq_should_tell(struct virtq *q);
/* Nothing left: asks to be kicked for the next. True: one came meanwhile, go on popping. */
bool virtq_rearm(struct virtq *q);
/* What there is does not suffice: asks to be kicked for one more than that. True as above. */
bool virtq_rearm_for_more(struct virtq *q);
/* Breaks it: the guest's fault, said in @why. Returns -1. */
int virtq_break(struct virtq *q, const char *why);

/* Copies out of the readable part, or into the writable part, from byte @at of it; how many bytes
 * there were. */
size_t vchain_read(const struct vchain *c, uint64_t at, void *to, size_t len);
size_t vchain_write(const struct vchain *c, uint64_t at, const void *from, size_t len);
/* The writable (or readable) part from byte @at, at most @len bytes, as iovecs. How many. */
unsigned vchain_slice(const struct vchain *c, bool writable, uint64_t at, uint64_t len,
	struct iovec ret[VIRTQ_SIZE_MAX]);

#endif
