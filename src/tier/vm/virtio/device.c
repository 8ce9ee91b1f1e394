/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/device.c - virtio-mmio, version 2.
 *
 * Owns:  the registers of one device and the steps of its life.
 * Rules: status goes 0, ACK, DRIVER, FEATURES_OK, DRIVER_OK and nowhere else, but for FAILED and
 * the reset. Features change between DRIVER and FEATURES_OK only, queue registers between
 *        FEATURES_OK and DRIVER_OK only: after that, writes to them are dropped. The data path
 *        never looks at a register that the driver can still write.
 */
#include <string.h>

#include "tier/vm/virtio/device.h"

/* clang-format off */
enum reg {
	REG_MAGIC = 0x000, REG_VERSION = 0x004, REG_DEVICE = 0x008, REG_VENDOR = 0x00c,
	REG_FEATURES = 0x010, REG_FEATURES_SEL = 0x014,
	REG_DRIVER_FEATURES = 0x020, REG_DRIVER_SEL = 0x024,
	REG_QUEUE_SEL = 0x030, REG_QUEUE_MAX = 0x034, REG_QUEUE_SIZE = 0x038, REG_QUEUE_READY = 0x044,
	REG_NOTIFY = 0x050, REG_INT_STATUS = 0x060, REG_INT_ACK = 0x064, REG_STATUS = 0x070,
	REG_DESC_LOW = 0x080, REG_DESC_HIGH = 0x084, REG_AVAIL_LOW = 0x090, REG_AVAIL_HIGH = 0x094,
	REG_USED_LOW = 0x0a0, REG_USED_HIGH = 0x0a4,
	REG_SHM_LEN_LOW = 0x0b0, REG_SHM_LEN_HIGH = 0x0b4, REG_SHM_BASE_LOW = 0x0b8,
	REG_SHM_BASE_HIGH = 0x0bc, REG_GENERATION = 0x0fc,
};
/* clang-format on */

enum { MAGIC = 0x74726976, VERSION = 2 };

void vdev_init(struct vdev *d, const struct vdev_ops *ops, uint64_t features, struct gmem *mem,
	void (*raise)(void *arg), void *arg)
{
	d->ops = ops;
	d->offered = features | VDEV_F_VERSION_1;
	d->mem = mem;
	d->raise = raise;
	d->raise_arg = arg;
	d->later = NULL;
	d->acked = 0;
	d->feature_word = d->driver_word = d->queue_at = 0;
	d->status = d->interrupts = d->generation = 0;
	d->complaint = NULL;
	for (unsigned i = 0; i < ops->queues; i++)
		virtq_init(&d->queues[i], mem, ops->queue_size);
}

void vdev_interrupt(struct vdev *d, uint32_t why)
{
	/* The status first: the line is edge-triggered, and the driver reads the status at once. */
	__atomic_fetch_or(&d->interrupts, why, __ATOMIC_SEQ_CST);
	d->raise(d->raise_arg);
}

void vdev_tell(struct vdev *d, struct virtq *q)
{
	if (virtq_should_tell(q))
		vdev_interrupt(d, VDEV_INT_RING);
}

bool vdev_had_turn(struct vdev *d, unsigned q, unsigned count)
{
	if (!d->later || count < d->queues[q].size)
		return false;
	d->later(d, q);
	return true;
}

void vdev_stop(struct vdev *d, const char *why)
{
	if (d->status & VDEV_NEEDS_RESET)
		return;
	d->complaint = why;
	d->status |= VDEV_NEEDS_RESET;
	if (d->status & VDEV_DRIVER_OK)
		vdev_interrupt(d, VDEV_INT_CONFIG);
}

/* The queue that the select register names, if it may be set up now; NULL: neither. */
static struct virtq *open_queue(struct vdev *d)
{
	bool open = (d->status & VDEV_FEATURES_OK) && !(d->status & (VDEV_DRIVER_OK | VDEV_FAILED));

	return open && d->queue_at < d->ops->queues ? &d->queues[d->queue_at] : NULL;
}

static uint32_t read_register(struct vdev *d, uint64_t off)
{
	const struct virtq *q = d->queue_at < d->ops->queues ? &d->queues[d->queue_at] : NULL;

	switch (off) {
	case REG_MAGIC:
		return MAGIC;
	case REG_VERSION:
		return VERSION;
	case REG_DEVICE:
		return d->ops->id;
	case REG_VENDOR:
		return VDEV_VENDOR;
	case REG_FEATURES:
		return d->feature_word < 2 ? (uint32_t)(d->offered >> (32 * d->feature_word)) : 0;
	case REG_QUEUE_MAX:
		return q ? q->size_max : 0;
	case REG_QUEUE_READY:
		return q ? q->ready : 0;
	case REG_INT_STATUS:
		return __atomic_load_n(&d->interrupts, __ATOMIC_SEQ_CST);
	case REG_STATUS:
		return d->status;
	case REG_GENERATION:
		return d->generation;
	case REG_SHM_LEN_LOW: /* all ones: there is no such region */
	case REG_SHM_LEN_HIGH:
	case REG_SHM_BASE_LOW:
	case REG_SHM_BASE_HIGH:
		return UINT32_MAX;
	default:
		return 0;
	}
}

/* False: it lies outside, or crosses the end. */
static bool in_config(const struct vdev *d, uint64_t off, unsigned len)
{
	return off >= VDEV_CONFIG_AT && off - VDEV_CONFIG_AT < d->ops->config_bytes &&
	       len <= d->ops->config_bytes - (off - VDEV_CONFIG_AT);
}

void vdev_read(struct vdev *d, uint64_t off, void *to, unsigned len)
{
	uint32_t v;

	memset(to, 0, len);
	if (off >= VDEV_CONFIG_AT) {
		if (in_config(d, off, len) && d->ops->config_read)
			d->ops->config_read(d, (unsigned)(off - VDEV_CONFIG_AT), to, len);
		return;
	}
	if (len != sizeof(v) || off % sizeof(v))
		return;
	v = read_register(d, off);
	memcpy(to, &v, sizeof(v));
}

bool vdev_quick(struct vdev *d, bool write, uint64_t off, void *data, unsigned len)
{
	uint32_t v;

	if (len != sizeof(v) || off != (write ? REG_INT_ACK : REG_INT_STATUS))
		return false;
	if (write) {
		memcpy(&v, data, sizeof(v));
		__atomic_fetch_and(&d->interrupts, ~v, __ATOMIC_SEQ_CST);
	} else {
		v = __atomic_load_n(&d->interrupts, __ATOMIC_SEQ_CST);
		memcpy(data, &v, sizeof(v));
	}
	return true;
}

static void reset(struct vdev *d)
{
	if (d->status & VDEV_DRIVER_OK)
		d->ops->reset(d);
	for (unsigned i = 0; i < d->ops->queues; i++)
		virtq_reset(&d->queues[i]);
	d->acked = 0;
	d->feature_word = d->driver_word = d->queue_at = 0;
	d->status = 0;
	__atomic_store_n(&d->interrupts, 0, __ATOMIC_SEQ_CST);
}

static void fail(struct vdev *d, const char *why)
{
	d->complaint = why;
	d->status |= VDEV_FAILED;
}

/* This may be the thread of a vCPU, which does a device's work never. */
static void kick(struct vdev *d, unsigned q)
{
	if (d->later)
		d->later(d, q);
	else
		d->ops->kick(d, q);
}

static void activate(struct vdev *d)
{
	unsigned needed = d->ops->needs ? d->ops->needs(d->acked) : d->ops->queues;

	for (unsigned i = 0; i < needed; i++) {
		if (!virtq_activate(&d->queues[i], d->acked & VDEV_F_EVENT_IDX)) {
			d->status |= VDEV_DRIVER_OK;
			vdev_stop(d, "a queue that cannot work");
			return;
		}
	}
	d->status |= VDEV_DRIVER_OK;
	d->ops->activate(d);
	/* What was kicked before there was anyone to see it. */
	for (unsigned i = 0; i < d->ops->queues; i++)
		kick(d, i);
}

static void write_status(struct vdev *d, uint32_t v)
{
	enum { STEPS = VDEV_ACK | VDEV_DRIVER | VDEV_FEATURES_OK | VDEV_DRIVER_OK };
	uint32_t now = d->status & STEPS, next = v & STEPS;

	if (v == 0) {
		reset(d);
		return;
	}
	if (v & VDEV_FAILED)
		fail(d, "the driver gave up");
	if (next == now || (d->status & VDEV_FAILED))
		return;
	if (now == 0 && next == VDEV_ACK)
		d->status |= VDEV_ACK;
	else if (now == VDEV_ACK && next == (VDEV_ACK | VDEV_DRIVER))
		d->status |= VDEV_DRIVER;
	else if (now == (VDEV_ACK | VDEV_DRIVER) && next == (now | VDEV_FEATURES_OK)) {
		/* A driver that does not take VERSION_1 speaks another ring format. */
		if (d->acked & VDEV_F_VERSION_1)
			d->status |= VDEV_FEATURES_OK;
	} else if (now == (VDEV_ACK | VDEV_DRIVER | VDEV_FEATURES_OK) && next == STEPS)
		activate(d);
	else
		fail(d, "a step of the device's life out of order");
}

static void write_features(struct vdev *d, uint32_t v)
{
	enum { OPEN = VDEV_ACK | VDEV_DRIVER };
	uint64_t bits;

	if (d->status != OPEN || d->driver_word > 1)
		return;
	bits = (uint64_t)v << (32 * d->driver_word);
	if (bits & ~d->offered)
		d->complaint = "a feature that was not offered";
	d->acked &= ~((uint64_t)UINT32_MAX << (32 * d->driver_word));
	d->acked |= bits & d->offered;
}

static void set_half(gpa_t *at, bool high, uint32_t v)
{
	if (high)
		at->v = (at->v & UINT32_MAX) | (uint64_t)v << 32;
	else
		at->v = (at->v & ~(uint64_t)UINT32_MAX) | v;
}

static void write_queue(struct vdev *d, uint64_t off, uint32_t v)
{
	struct virtq *q = open_queue(d);

	if (!q)
		return;
	switch (off) {
	case REG_QUEUE_SIZE:
		q->size = v <= UINT16_MAX ? (uint16_t)v : 0;
		break;
	case REG_QUEUE_READY:
		q->ready = v == 1;
		break;
	case REG_DESC_LOW:
	case REG_DESC_HIGH:
		set_half(&q->desc, off == REG_DESC_HIGH, v);
		break;
	case REG_AVAIL_LOW:
	case REG_AVAIL_HIGH:
		set_half(&q->avail, off == REG_AVAIL_HIGH, v);
		break;
	case REG_USED_LOW:
	case REG_USED_HIGH:
		set_half(&q->used, off == REG_USED_HIGH, v);
		break;
	}
}

static void write_register(struct vdev *d, uint64_t off, uint32_t v)
{
	switch (off) {
	case REG_FEATURES_SEL:
		d->feature_word = v;
		break;
	case REG_DRIVER_FEATURES:
		write_features(d, v);
		break;
	case REG_DRIVER_SEL:
		d->driver_word = v;
		break;
	case REG_QUEUE_SEL:
		d->queue_at = v;
		break;
	case REG_NOTIFY: /* an eventfd takes these while the machine runs; this is the slow way */
		if (vdev_is_active(d) && v < d->ops->queues)
			kick(d, v);
		break;
	case REG_INT_ACK:
		__atomic_fetch_and(&d->interrupts, ~v, __ATOMIC_SEQ_CST);
		break;
	case REG_STATUS:
		write_status(d, v);
		break;
	default:
		write_queue(d, off, v);
		break;
	}
}

void vdev_write(struct vdev *d, uint64_t off, const void *from, unsigned len)
{
	uint32_t v;

	if (off >= VDEV_CONFIG_AT) {
		if (in_config(d, off, len) && d->ops->config_write && (d->status & VDEV_DRIVER) &&
			!(d->status & VDEV_FAILED))
			d->ops->config_write(d, (unsigned)(off - VDEV_CONFIG_AT), from, len);
		return;
	}
	if (len != sizeof(v) || off % sizeof(v))
		return;
	memcpy(&v, from, sizeof(v));
	write_register(d, off, v);
}
