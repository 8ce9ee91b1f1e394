/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_DEVICE_H
#define WARD_TIER_VM_VIRTIO_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/vm/virtio/queue.h"

/*
 * What every virtio device has in common: the registers of virtio-mmio version 2, the steps of its
 * life, its queues. A device is a const table and what it embeds this in.
 */
enum {
	VDEV_QUEUES_MAX = 5,
	VDEV_WINDOW = 4096, /* bytes of registers */
	VDEV_CONFIG_AT = 0x100,
	VDEV_VENDOR = 0x64726177, /* "ward" */
};

enum vdev_id { VDEV_NET = 1, VDEV_BLOCK = 2, VDEV_RNG = 4, VDEV_BALLOON = 5, VDEV_VSOCK = 19 };

enum vdev_status {
	VDEV_ACK = 1,
	VDEV_DRIVER = 2,
	VDEV_DRIVER_OK = 4,
	VDEV_FEATURES_OK = 8,
	VDEV_NEEDS_RESET = 64,
	VDEV_FAILED = 128,
};

/* Feature bits that belong to the transport. */
#define VDEV_F_EVENT_IDX (1ull << 29)
#define VDEV_F_VERSION_1 (1ull << 32)

/* Bits of the interrupt status. */
enum { VDEV_INT_RING = 1, VDEV_INT_CONFIG = 2 };

struct vdev;
struct vwalk;

struct vdev_ops {
	const char *name;
	enum vdev_id id;
	unsigned queues;
	/* How many of them must work with the features in @acked; the rest may be there or not.
	 * Optional; without it: all. */
	unsigned (*needs)(uint64_t acked);
	uint16_t queue_size;
	/* Required. All queues are active; look at each once: kicks before this are lost. Runs in
	 * the thread of the vCPU that wrote DRIVER_OK. */
	void (*activate)(struct vdev *d);
	/* Required. The driver has let go: forget all requests. */
	void (*reset)(struct vdev *d);
	/* Required. The driver has put something into queue @q. */
	void (*kick)(struct vdev *d, unsigned q);
	/* Optional. @off + @len lies within the configuration that config_bytes tells. */
	void (*config_read)(struct vdev *d, unsigned off, void *to, unsigned len);
	void (*config_write)(struct vdev *d, unsigned off, const void *from, unsigned len);
	unsigned config_bytes;
	/* Optional. It is about to be written down: what it took from a ring and has not answered
	 * goes back. */
	void (*settle)(struct vdev *d);
	/* Optional. Fields of its own that survive a snapshot: see walks.h. */
	void (*walk)(struct vdev *d, struct vwalk *w);
};

struct vdev {
	const struct vdev_ops *ops;
	uint64_t offered, acked;
	uint32_t feature_word, driver_word, queue_at; /* the select registers */
	uint32_t status, interrupts, generation;
	struct virtq queues[VDEV_QUEUES_MAX];
	struct gmem *mem;
	/* Raises the interrupt line; how is the machine's business. */
	void (*raise)(void *arg);
	void *raise_arg;
	/* Has queue @q kicked a little later, by the thread that serves the devices. NULL: it is
	 * this one. */
	void (*later)(struct vdev *d, unsigned q);
	const char *complaint; /* what the driver did wrong last; NULL: nothing. For the log. */
};

void vdev_init(struct vdev *d, const struct vdev_ops *ops, uint64_t features, struct gmem *mem,
	void (*raise)(void *arg), void *arg);

/* An access to the device's window. Never fails: what makes no sense reads as 0, and is dropped. */
void vdev_read(struct vdev *d, uint64_t off, void *to, unsigned len);
void vdev_write(struct vdev *d, uint64_t off, const void *from, unsigned len);
/* The same for what a driver asks and says at every interrupt, which needs no lock. False: it is
 * something else. */
bool vdev_quick(struct vdev *d, bool write, uint64_t off, void *data, unsigned len);

static inline bool vdev_is_active(const struct vdev *d)
{
	return (d->status & (VDEV_DRIVER_OK | VDEV_NEEDS_RESET)) == VDEV_DRIVER_OK;
}

/* The driver should look at the queues (VDEV_INT_RING) or the configuration. Any thread. */
void vdev_interrupt(struct vdev *d, uint32_t why);
/* Tells the driver about what was pushed to @q, if it wants to know. */
void vdev_tell(struct vdev *d, struct virtq *q);
/* @count requests of queue @q were served without a pause: is that a turn? Then the rest comes with
 * a kick that is due already, after the other devices and the vCPUs had theirs. A guest that adds
 * requests without end would have the machine for itself otherwise. */
bool vdev_had_turn(struct vdev *d, unsigned q, unsigned count);
/* A queue broke: the device stops, and says so. */
void vdev_stop(struct vdev *d, const char *why);

#endif
