/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_NET_H
#define WARD_TIER_VM_VIRTIO_NET_H

#include "tier/vm/pace.h"
#include "tier/vm/virtio/device.h"

/* A network card, on the other side of which is a tap of the host. */
enum {
	NET_MAC_BYTES = 6,
	NET_HEAD_BYTES = 12, /* of what stands before each frame, on the tap and in the rings */
	/* With it: the largest packet, its Ethernet head and a VLAN's, and room to see more. */
	NET_FRAME_MAX = 66 * 1024,
	NET_AT_ONCE = 64,    /* frames in one turn, each way; then it is the others' turn */
	NET_PARTS_MAX = 512, /* of the guest's memory that one frame is put into */
};

/* A request of the guest for a frame, taken from its ring. */
struct net_room {
	uint16_t head, parts;
	uint32_t bytes;
};

struct net {
	struct vdev dev; /* first */
	struct watches *events;
	int tap;   /* ours; non-blocking, with heads of NET_HEAD_BYTES */
	int again; /* eventfd, ours: a turn ended before the work did */
	struct watch tap_watch, again_watch;
	struct pace in, out; /* how fast frames may come and go */
	/* What the tap may leave to the guest (TUN_F_...); 0 or -errno. A test has its own. */
	int (*offload)(int tap, unsigned what);
	uint8_t mac[NET_MAC_BYTES];
	bool gone;          /* the tap is: nothing comes any more */
	uint32_t frame_len; /* of a frame that could not be delivered yet; 0: none */
	bool paid;          /* it has its tokens */
	uint8_t frame[NET_FRAME_MAX];
	/* Requests in the order in which they came, and where in memory they are. */
	struct net_room room[VIRTQ_SIZE_MAX]; /* a ring: room_count of them from room_at on */
	unsigned room_at, room_count;
	uint64_t room_bytes;
	bool room_full;                      /* no more of them fit, however small they are */
	struct iovec iov[2 * NET_PARTS_MAX]; /* iov_count of them from iov_at on */
	unsigned iov_at, iov_count;
	struct vchain chain;
	struct vused done[VIRTQ_SIZE_MAX];
	uint64_t received, sent, dropped;
};

/* Takes @tap, also when it fails. */
int net_init(struct net *n, int tap, const uint8_t mac[NET_MAC_BYTES], struct watches *events,
	struct gmem *mem, void (*raise)(void *arg), void *arg, struct err *e);
/* From now on so many bytes and frames a second, each way; 0: as many as it likes. Before the first
 * run. */
int net_limit(struct net *n, uint64_t bytes_s, uint64_t frames_s, struct err *e);
void net_done(struct net *n);

#endif
