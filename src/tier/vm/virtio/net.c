/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/net.c - the network card: frames between the guest's rings and a tap.
 *
 * Owns:  the tap's descriptor, and one frame for which the guest has no room or no tokens yet.
 * Rules: what the tap acts on (the head of the offloads, the Ethernet head) is checked on a copy,
 *        and the copy is what goes out. A frame that is not right is dropped, and the card goes on;
 *        only a ring that is not right stops it. Each of the states in which nothing moves has its
 *        event: no room in the guest ends with a kick of queue 0, a turn that was cut with the
 *        card's own eventfd, a rate that is used up with its timer.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>

#include "base/ckd.h"
#include "tier/vm/virtio/net.h"
#include "tier/vm/vwalk.h"

enum { QUEUE_IN, QUEUE_OUT };
/* What is copied before it is looked at. */
enum { HEADS_BYTES = NET_HEAD_BYTES + ETH_HLEN };

#define F(bit) (1ull << VIRTIO_NET_F_##bit)
#define OFFERED                                                                                    \
	(F(MAC) | F(CSUM) | F(HOST_TSO4) | F(HOST_TSO6) | F(GUEST_CSUM) | F(GUEST_TSO4) |          \
		F(GUEST_TSO6) | F(MRG_RXBUF) | VDEV_F_EVENT_IDX)

_Static_assert(sizeof(struct virtio_net_hdr_v1) == NET_HEAD_BYTES, "the head of version 1");

static bool has(const struct net *n, uint64_t feature)
{
	return (n->dev.acked & feature) == feature;
}

static void come_again(struct net *n)
{
	uint64_t one = 1;

	/* It is never read that late that it would be full. */
	n->dropped += write(n->again, &one, sizeof(one)) < 0;
}

/* --- To the guest ----------------------------------------------------------------------------- */

/* Requests that were taken and hold no frame yet go back, as if nobody had looked. */
static void give_back_room(struct net *n)
{
	struct virtq *q = &n->dev.queues[QUEUE_IN];

	for (; n->room_count; n->room_count--)
		virtq_unpop(q);
	n->room_at = n->iov_at = n->iov_count = 0;
	n->room_bytes = 0;
	n->room_full = false;
}

/* Adds the request at hand. False: that is enough for one frame. */
static bool add_room(struct net *n)
{
	const struct vchain *c = &n->chain;

	if (n->room_count == VIRTQ_SIZE_MAX || n->iov_count + c->out > NET_PARTS_MAX)
		return false;
	if (n->iov_at + n->iov_count + c->out > ARRAY_LEN(n->iov)) {
		memmove(n->iov, n->iov + n->iov_at, n->iov_count * sizeof(n->iov[0]));
		n->iov_at = 0;
	}
	memcpy(n->iov + n->iov_at + n->iov_count, c->iov, c->out * sizeof(c->iov[0]));
	n->room[(n->room_at + n->room_count++) % VIRTQ_SIZE_MAX] =
		(struct net_room){ c->head, (uint16_t)c->out, (uint32_t)c->out_bytes };
	n->iov_count += c->out;
	n->room_bytes += c->out_bytes;
	return true;
}

/* Takes requests until they hold the largest frame, or there are no more. False: broken. */
static bool find_room(struct net *n, struct virtq *q)
{
	int r = 0;

	while (n->room_bytes < NET_FRAME_MAX && (r = virtq_pop(q, &n->chain)) > 0) {
		if (n->chain.in || n->chain.out_bytes < NET_HEAD_BYTES) {
			virtq_break(q, "a request for a frame without room for one");
			return false;
		}
		n->room_full = !add_room(n);
		if (n->room_full) {
			virtq_unpop(q);
			break;
		}
	}
	return r >= 0;
}

/* Copies to byte @at of the room. */
static void put(struct net *n, size_t at, const void *from, size_t len)
{
	for (unsigned i = n->iov_at; len > 0; i++) {
		size_t here = n->iov[i].iov_len;

		if (at >= here) {
			at -= here;
			continue;
		}
		here = here - at < len ? here - at : len;
		memcpy((uint8_t *)n->iov[i].iov_base + at, from, here);
		from = (const uint8_t *)from + here;
		len -= here;
		at = 0;
	}
}

/* A frame of @len bytes lies in the room: the guest gets as much of that as it fills. */
static void hand_over(struct net *n, struct virtq *q, uint32_t len)
{
	uint16_t count = 0;
	uint32_t at = 0;

	while (at < len) {
		const struct net_room *r = &n->room[(n->room_at + count) % VIRTQ_SIZE_MAX];
		uint32_t here = r->bytes < len - at ? r->bytes : len - at;

		n->done[count++] = (struct vused){ r->head, here };
		at += here;
	}
	put(n, offsetof(struct virtio_net_hdr_v1, num_buffers), &count, sizeof(count));
	for (unsigned i = 0; i < count; i++) {
		const struct net_room *r = &n->room[n->room_at];

		n->iov_at += r->parts;
		n->iov_count -= r->parts;
		n->room_bytes -= r->bytes;
		n->room_at = (n->room_at + 1) % VIRTQ_SIZE_MAX;
		n->room_count--;
	}
	n->room_full = false;
	virtq_push_all(q, n->done, count);
	n->received++;
}

static void forget_frame(struct net *n)
{
	n->frame_len = 0;
	n->paid = false;
}

/* The frame that waits, to the guest. False: there is no room now. */
static bool deliver(struct net *n, struct virtq *q)
{
	bool many = has(n, F(MRG_RXBUF));
	uint64_t bytes = many || !n->room_count ? n->room_bytes : n->room[n->room_at].bytes;

	if (bytes >= n->frame_len) {
		put(n, 0, n->frame, n->frame_len);
		hand_over(n, q, n->frame_len);
	} else if (n->room_full || n->room_count >= (many ? q->size : 1u)) {
		n->dropped++; /* all that it can ever offer is too little: nobody waits for that */
	} else {
		return false;
	}
	forget_frame(n);
	return true;
}

/* What the tap said when it was read: is it a frame? */
static bool is_frame(struct net *n, ssize_t len)
{
	/* A tap that was removed is at its end for good, and says so for ever. */
	if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
		n->gone = true;
		watches_change(n->events, &n->tap_watch, 0);
	}
	return len > HEADS_BYTES;
}

/*
 * The next frame of the tap: straight to where it belongs if there is room for any, else it is kept
 * until there is. What has a rate is looked at first. False: none now.
 */
static bool take_frame(struct net *n, struct virtq *q)
{
	ssize_t len;

	if (n->gone)
		return false;
	if (has(n, F(MRG_RXBUF)) && n->room_bytes >= NET_FRAME_MAX && n->in.timer < 0) {
		len = readv(n->tap, n->iov + n->iov_at, (int)n->iov_count);
		if (!is_frame(n, len))
			return false;
		hand_over(n, q, (uint32_t)len);
		return true;
	}
	len = read(n->tap, n->frame, sizeof(n->frame));
	if (!is_frame(n, len))
		return false;
	n->frame_len = (uint32_t)len;
	return true;
}

static void receive(struct net *n)
{
	struct virtq *q = &n->dev.queues[QUEUE_IN];
	unsigned i;

	if (!vdev_is_active(&n->dev) || n->in.waits)
		return;
	for (i = 0; i < NET_AT_ONCE && find_room(n, q); i++) {
		if (!n->frame_len && !take_frame(n, q))
			break;
		if (!n->frame_len)
			continue;
		if (!n->paid && !pace_take(&n->in, n->frame_len))
			break;
		n->paid = true;
		/* Once more if a request came while the guest was told that one is missed. */
		if (!deliver(n, q) && !virtq_rearm_for_more(q))
			break;
	}
	/* The rest of a turn that was cut is still in the tap, which says so, but not this one. */
	if (i == NET_AT_ONCE && n->frame_len)
		come_again(n);
	/* As long as one frame waits, the others wait in the tap, which drops what is too much. */
	if (!n->gone)
		watches_change(n->events, &n->tap_watch, n->frame_len ? 0 : EPOLLIN);
	vdev_tell(&n->dev, q);
	if (q->broken)
		vdev_stop(&n->dev, q->broken);
}

/* --- From the guest --------------------------------------------------------------------------- */

/* May the tap act on this head? Only on what the driver said that it would ask for. */
static bool head_is_fine(const struct net *n, const struct virtio_net_hdr_v1 *h)
{
	if (h->flags & ~VIRTIO_NET_HDR_F_NEEDS_CSUM)
		return false;
	if (h->flags && !has(n, F(CSUM)))
		return false;
	switch (h->gso_type) {
	case VIRTIO_NET_HDR_GSO_NONE:
		return true;
	case VIRTIO_NET_HDR_GSO_TCPV4:
		return has(n, F(HOST_TSO4)) && h->flags && h->gso_size;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		return has(n, F(HOST_TSO6)) && h->flags && h->gso_size;
	default:
		return false;
	}
}

static bool send_frame(struct net *n, const struct vchain *c)
{
	struct {
		struct virtio_net_hdr_v1 net;
		struct ethhdr eth;
	} heads;
	struct iovec iov[VIRTQ_SIZE_MAX + 1] = { { &heads, sizeof(heads) } };
	unsigned parts;

	_Static_assert(sizeof(heads) == HEADS_BYTES, "both heads");
	if (c->in_bytes > NET_FRAME_MAX ||
		vchain_read(c, 0, &heads, sizeof(heads)) != sizeof(heads))
		return false;
	/* Nobody speaks in another's name. */
	if (!head_is_fine(n, &heads.net) || memcmp(heads.eth.h_source, n->mac, NET_MAC_BYTES) != 0)
		return false;
	heads.net.num_buffers = 0;
	parts = vchain_slice(c, false, sizeof(heads), c->in_bytes - sizeof(heads), iov + 1);
	return writev(n->tap, iov, (int)parts + 1) > 0;
}

static void transmit(struct net *n)
{
	struct virtq *q = &n->dev.queues[QUEUE_OUT];
	unsigned i = 0;
	int r = 0;

	if (!vdev_is_active(&n->dev) || n->out.waits)
		return;
	do {
		while (i < NET_AT_ONCE && (r = virtq_pop(q, &n->chain)) > 0) {
			if (n->chain.out) {
				r = virtq_break(q, "a frame to send with room to write");
				break;
			}
			if (!pace_take(&n->out, n->chain.in_bytes)) {
				virtq_unpop(q);
				break;
			}
			if (send_frame(n, &n->chain))
				n->sent++;
			else
				n->dropped++;
			virtq_push(q, n->chain.head, 0);
			i++;
		}
	} while (r == 0 && i < NET_AT_ONCE && !n->out.waits && virtq_rearm(q));
	if (i == NET_AT_ONCE)
		come_again(n);
	vdev_tell(&n->dev, q);
	if (r < 0)
		vdev_stop(&n->dev, q->broken);
}

/* --- The card --------------------------------------------------------------------------------- */

static void on_tap(void *arg, uint32_t events)
{
	(void)events;
	receive(arg);
}

static void on_again(void *arg, uint32_t events)
{
	struct net *n = arg;
	uint64_t count;

	(void)events;
	if (read(n->again, &count, sizeof(count)) < 0)
		return;
	receive(n);
	transmit(n);
}

static void net_kick(struct vdev *d, unsigned q)
{
	if (q == QUEUE_IN)
		receive((struct net *)d);
	else
		transmit((struct net *)d);
}

/* What the driver agreed to, at the tap. */
static void open_tap(struct vdev *d)
{
	struct net *n = (struct net *)d;
	unsigned what = 0;

	if (has(n, F(GUEST_CSUM))) {
		what |= TUN_F_CSUM;
		what |= has(n, F(GUEST_TSO4)) ? TUN_F_TSO4 : 0;
		what |= has(n, F(GUEST_TSO6)) ? TUN_F_TSO6 : 0;
	}
	if (n->offload(n->tap, what) < 0) {
		vdev_stop(d, "the tap does not take these offloads");
		return;
	}
	if (!n->gone)
		watches_change(n->events, &n->tap_watch, EPOLLIN);
}

static void net_settle(struct vdev *d)
{
	give_back_room((struct net *)d);
}

static void net_walk(struct vdev *d, struct vwalk *w)
{
	/* The guest goes on with the address that it knows. */
	vwalk_bytes(w, "net.mac", ((struct net *)d)->mac, NET_MAC_BYTES);
	if (w->loading && vwalk_ok(w) && vdev_is_active(d))
		open_tap(d);
}

static void net_reset(struct vdev *d)
{
	struct net *n = (struct net *)d;

	forget_frame(n);
	give_back_room(n);
	pace_clear(&n->in);
	pace_clear(&n->out);
	watches_change(n->events, &n->tap_watch, 0);
}

static void net_config(struct vdev *d, unsigned off, void *to, unsigned len)
{
	memcpy(to, ((struct net *)d)->mac + off, len);
}

static const struct vdev_ops net_ops = {
	.name = "net",
	.id = VDEV_NET,
	.queues = 2,
	.queue_size = 256,
	.activate = open_tap,
	.reset = net_reset,
	.kick = net_kick,
	.config_read = net_config,
	.config_bytes = NET_MAC_BYTES,
	.settle = net_settle,
	.walk = net_walk,
};

static int set_offload(int tap, unsigned what)
{
	return ioctl(tap, TUNSETOFFLOAD, (unsigned long)what) < 0 ? -errno : 0;
}

int net_init(struct net *n, int tap, const uint8_t mac[NET_MAC_BYTES], struct watches *events,
	struct gmem *mem, void (*raise)(void *arg), void *arg, struct err *e)
{
	int r;

	memset(n, 0, sizeof(*n));
	n->events = events;
	n->tap = tap;
	n->offload = set_offload;
	memcpy(n->mac, mac, NET_MAC_BYTES);
	pace_init(&n->in);
	pace_init(&n->out);
	n->tap_watch = (struct watch){ .fd = -1, .fn = on_tap, .arg = n };
	n->again_watch = (struct watch){ .fd = -1, .fn = on_again, .arg = n };
	vdev_init(&n->dev, &net_ops, OFFERED, mem, raise, arg);
	n->again = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = n->again < 0 ? err_set(e, errno, "an event for a network card") : 0;
	if (r == 0)
		r = watches_add(events, &n->tap_watch, tap, 0, e);
	if (r == 0)
		r = watches_add(events, &n->again_watch, n->again, EPOLLIN, e);
	if (r < 0)
		net_done(n);
	return r;
}

static void go_on_in(void *arg)
{
	receive(arg);
}

static void go_on_out(void *arg)
{
	transmit(arg);
}

int net_limit(struct net *n, uint64_t bytes_s, uint64_t frames_s, struct err *e)
{
	int r = pace_limit(&n->in, bytes_s, frames_s, n->events, go_on_in, n, e);

	return r < 0 ? r : pace_limit(&n->out, bytes_s, frames_s, n->events, go_on_out, n, e);
}

void net_done(struct net *n)
{
	pace_done(&n->in);
	pace_done(&n->out);
	watches_remove(n->events, &n->tap_watch);
	watches_remove(n->events, &n->again_watch);
	close(n->tap);
	if (n->again >= 0)
		close(n->again);
	n->tap = n->again = -1;
}
