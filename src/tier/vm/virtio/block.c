/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/block.c - the block device.
 *
 * Owns:  one request at a time.
 * Rules: a request is checked on a copy of its head before the disk is touched: direction, whole
 *        sectors, inside the disk, room for the status. A bad one is answered IOERR or UNSUPP; one
 *        that cannot even be answered breaks the queue.
 */
#include <errno.h>
#include <string.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/vwalk.h"

#define F_RO (1ull << 5)
#define F_FLUSH (1ull << 9)

enum { TYPE_IN = 0, TYPE_OUT = 1, TYPE_FLUSH = 4, TYPE_ID = 8 };
enum { STATUS_OK, STATUS_IOERR, STATUS_UNSUPP };

struct head {
	uint32_t type, reserved;
	uint64_t sector;
};

struct request {
	struct head head;
	uint64_t data_bytes; /* without head and status */
	uint32_t written;    /* into the writable part */
};

/* Whole sectors within the disk? */
static bool in_range(const struct block *b, const struct request *r)
{
	uint64_t at, end;

	return r->data_bytes % DISK_SECTOR == 0 && !ckd_mul(&at, r->head.sector, DISK_SECTOR) &&
	       !ckd_add(&end, at, r->data_bytes) && end <= b->disk->bytes;
}

static uint8_t transfer(struct block *b, struct request *r)
{
	struct iovec iov[VIRTQ_SIZE_MAX];
	bool read = r->head.type == TYPE_IN;
	uint64_t at = r->head.sector * DISK_SECTOR;
	unsigned n;

	if (!in_range(b, r))
		return STATUS_IOERR;
	n = vchain_slice(&b->chain, read, read ? 0 : sizeof(struct head), r->data_bytes, iov);
	if ((read ? disk_read(b->disk, iov, n, at) : disk_write(b->disk, iov, n, at)) < 0)
		return STATUS_IOERR;
	r->written = read ? (uint32_t)r->data_bytes : 0;
	return STATUS_OK;
}

static uint8_t give_id(struct block *b, struct request *r)
{
	if (r->data_bytes < BLOCK_ID_BYTES)
		return STATUS_IOERR;
	r->written = (uint32_t)vchain_write(&b->chain, 0, b->id, BLOCK_ID_BYTES);
	return STATUS_OK;
}

static uint8_t carry_out(struct block *b, struct request *r)
{
	const struct vchain *c = &b->chain;
	bool has_in = c->in_bytes > sizeof(struct head), has_out = c->out_bytes > 1;

	switch (r->head.type) {
	case TYPE_IN:
		r->data_bytes = c->out_bytes - 1;
		return has_in ? STATUS_IOERR : transfer(b, r);
	case TYPE_OUT:
		r->data_bytes = c->in_bytes - sizeof(struct head);
		return has_out || b->disk->read_only ? STATUS_IOERR : transfer(b, r);
	case TYPE_FLUSH:
		return disk_flush(b->disk) < 0 ? STATUS_IOERR : STATUS_OK;
	case TYPE_ID:
		r->data_bytes = c->out_bytes - 1;
		return has_in ? STATUS_IOERR : give_id(b, r);
	default:
		return STATUS_UNSUPP;
	}
}

/* The status is the last byte of the writable part, wherever the driver put its borders. */
static int serve(struct block *b, struct virtq *q)
{
	struct request r = { 0 };
	uint8_t status;

	if (b->chain.out_bytes < 1)
		return virtq_break(q, "a request without room for its status");
	if (vchain_read(&b->chain, 0, &r.head, sizeof(r.head)) != sizeof(r.head))
		status = STATUS_IOERR;
	else
		status = carry_out(b, &r);
	b->requests++;
	b->errors += status != STATUS_OK;
	vchain_write(&b->chain, b->chain.out_bytes - 1, &status, 1);
	virtq_push(q, b->chain.head, r.written + 1);
	return 0;
}

static void work(struct block *b)
{
	struct virtq *q = &b->dev.queues[0];
	unsigned count = 0;
	bool over = false;
	int r = 0;

	if (!vdev_is_active(&b->dev) || b->pace.waits)
		return;
	do {
		while (!over && (r = virtq_pop(q, &b->chain)) > 0) {
			if (!pace_take(&b->pace, b->chain.in_bytes + b->chain.out_bytes)) {
				virtq_unpop(q);
				break;
			}
			r = serve(b, q);
			if (r < 0)
				break;
			over = vdev_had_turn(&b->dev, 0, ++count);
		}
	} while (r == 0 && !over && !b->pace.waits && virtq_rearm(q));
	vdev_tell(&b->dev, q);
	if (r < 0)
		vdev_stop(&b->dev, q->broken);
}

static void block_kick(struct vdev *d, unsigned q)
{
	(void)q;
	work((struct block *)d);
}

static void go_on(void *arg)
{
	work(arg);
}

int block_limit(
	struct block *b, uint64_t bytes_s, uint64_t ops_s, struct watches *events, struct err *e)
{
	return pace_limit(&b->pace, bytes_s, ops_s, events, go_on, b, e);
}

void block_done(struct block *b)
{
	pace_done(&b->pace);
}

static void block_begin(struct vdev *d)
{
	pace_clear(&((struct block *)d)->pace);
}

static void block_config(struct vdev *d, unsigned off, void *to, unsigned len)
{
	uint64_t sectors = ((struct block *)d)->disk->bytes / DISK_SECTOR;

	memcpy(to, (const uint8_t *)&sectors + off, len);
}

/* The same disk: a file system that finds another under it does damage. */
static void block_walk(struct vdev *d, struct vwalk *w)
{
	vwalk_same(w, "block.bytes", ((struct block *)d)->disk->bytes);
	if (w->loading)
		block_begin(d);
}

static const struct vdev_ops block_ops = {
	.name = "block",
	.id = VDEV_BLOCK,
	.queues = 1,
	.queue_size = 256,
	.activate = block_begin,
	.reset = block_begin,
	.kick = block_kick,
	.config_read = block_config,
	.config_bytes = sizeof(uint64_t),
	.walk = block_walk,
};

void block_init(struct block *b, struct disk *disk, const char *id, bool write_back,
	struct gmem *mem, void (*raise)(void *arg), void *arg)
{
	uint64_t features = VDEV_F_EVENT_IDX;
	size_t n = strnlen(id, BLOCK_ID_BYTES);

	memset(b, 0, sizeof(*b));
	if (disk->read_only)
		features |= F_RO;
	if (write_back)
		features |= F_FLUSH;
	b->disk = disk;
	pace_init(&b->pace);
	memcpy(b->id, id, n);
	vdev_init(&b->dev, &block_ops, features, mem, raise, arg);
}
