/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_NET_H
#define WARD_TIER_VM_VIRTIO_NET_H

#include "tier/vm/watches.h"
#include "tier/vm/virtio/device.h"

/* A network card, on the other side of which is a tap of the host. */
enum {
	NET_MAC_BYTES = 6,
	NET_HEAD_BYTES = 12, /* of what stands before each frame, on the tap and in the rings */
	/* With it: the largest packet, its Ethernet head and a VLAN's, and room to see more. */
	NET_FRAME_MAX = 66 * 1024,
	NET_AT_ONCE = 64, /* frames in one turn, each way; then it is the others' turn */
};

struct net {
	struct vdev dev; /* first */
	struct watches *events;
	int tap;   /* ours; non-blocking, with heads of NET_HEAD_BYTES */
	int again; /* eventfd, ours: a turn ended before the work did */
	struct watch tap_watch, again_watch;
	/* What the tap may leave to the guest (TUN_F_...); 0 or -errno. A test has its own. */
	int (*offload)(int tap, unsigned what);
	uint8_t mac[NET_MAC_BYTES];
	bool gone;          /* the tap is: nothing comes any more */
	uint32_t frame_len; /* of a frame for which the guest had no room yet; 0: none */
	uint8_t frame[NET_FRAME_MAX];
	struct vchain chain, first;
	struct vused done[VIRTQ_SIZE_MAX];
	uint64_t received, sent, dropped;
};

/* Takes @tap, also when it fails. */
int net_init(struct net *n, int tap, const uint8_t mac[NET_MAC_BYTES], struct watches *events,
	struct gmem *mem, void (*raise)(void *arg), void *arg, struct err *e);
void net_done(struct net *n);

#endif
