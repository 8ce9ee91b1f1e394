/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_vdev.c - every virtio device in front of a guest that does anything: registers in any
 * order, rings and requests of any kind, frames and bytes that come from outside meanwhile.
 *
 * Input: steps, each a byte that says what, then its arguments. No device may crash, hang, touch
 * what is not the guest's memory, or go on with a ring that is broken.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/ckd.h"
#include "tier/vm/virtio/balloon.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/virtio/net.h"
#include "tier/vm/virtio/rng.h"
#include "tier/vm/virtio/vsock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	MEM = 16 << 20,
	AREA = 64 * 1024, /* where the guest of this test lives */
	STEPS_MAX = 300,
	DISK_BYTES = 64 * 1024,
	DEVICES = 5,
	QUEUE_SIZE = 16,
};

struct input {
	const uint8_t *at, *end;
};

struct bench {
	struct gmem *mem;
	struct watches events;
	struct disk disk;
	struct block block;
	struct rng rng;
	struct vsock vsock;
	struct net net;
	struct balloon balloon;
	int tap, stream; /* the host's ends; -1: none */
};

static unsigned byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint32_t word(struct input *in)
{
	uint32_t v = byte(in);

	v |= byte(in) << 8;
	v |= byte(in) << 16;
	return v | (uint32_t)byte(in) << 24;
}

/* Mostly in the area, now and then anywhere. */
static uint64_t address(struct input *in)
{
	static const uint64_t wild[] = { 0, MEM - 8, MEM, MEM + 4096, GMEM_GAP_START, GMEM_GAP_END,
		UINT64_MAX, UINT64_MAX - 4095 };
	unsigned b = byte(in);

	return b < 0xf0 ? (uint64_t)b << 8 | byte(in) : wild[b % ARRAY_LEN(wild)];
}

static struct vdev *device(struct bench *b, unsigned i)
{
	struct vdev *const all[DEVICES] = { &b->block.dev, &b->rng.dev, &b->vsock.dev, &b->net.dev,
		&b->balloon.dev };

	return all[i % DEVICES];
}

static void raise_line(void *arg)
{
	(void)arg;
}

static int no_offload(int tap, unsigned what)
{
	(void)tap;
	(void)what;
	return 0;
}

static int dial(void *arg, uint32_t port)
{
	struct bench *b = arg;
	int pair[2];

	if (port % 2 || b->stream >= 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return -ECONNREFUSED;
	b->stream = pair[0];
	return pair[1];
}

static void wr(struct vdev *d, unsigned off, uint32_t v)
{
	vdev_write(d, off, &v, sizeof(v));
}

/* Where the rings of queue @q of any device are, when a good driver set them up. */
static uint64_t ring_at(unsigned q, unsigned part)
{
	return 0x1000 + q * 0x1000ull + part * 0x400ull;
}

static void bring_up(struct vdev *d, uint32_t features)
{
	wr(d, 0x70, 0);
	wr(d, 0x70, 1);
	wr(d, 0x70, 3);
	wr(d, 0x24, 0);
	wr(d, 0x20, features);
	wr(d, 0x24, 1);
	wr(d, 0x20, 1);
	wr(d, 0x70, 11);
	for (unsigned q = 0; q < d->ops->queues; q++) {
		wr(d, 0x30, q);
		wr(d, 0x38, QUEUE_SIZE);
		wr(d, 0x80, (uint32_t)ring_at(q, 0));
		wr(d, 0x90, (uint32_t)ring_at(q, 1));
		wr(d, 0xa0, (uint32_t)ring_at(q, 2));
		wr(d, 0x44, 1);
	}
	wr(d, 0x70, 15);
}

static void describe(struct bench *b, struct input *in)
{
	uint64_t at = ring_at(byte(in) % 3, 0) + 16ull * (byte(in) % QUEUE_SIZE);
	struct {
		uint64_t addr;
		uint32_t len;
		uint16_t flags, next;
	} d = { .addr = address(in) };
	unsigned n = byte(in);

	d.len = n < 0xe0 ? n * 16 : word(in);
	d.flags = (uint16_t)byte(in);
	d.next = (uint16_t)(byte(in) % (QUEUE_SIZE + 2));
	gmem_write(b->mem, GPA(at), &d, sizeof(d));
}

/* One more request in queue @q, and a kick. */
static void offer(struct bench *b, struct vdev *d, struct input *in)
{
	unsigned q = byte(in) % 3;
	uint64_t at = ring_at(q, 1);
	uint16_t head = (uint16_t)(byte(in) % (QUEUE_SIZE + 1)), count;

	if (!gmem_read(b->mem, GPA(at + 2), &count, sizeof(count)))
		return;
	gmem_write(b->mem, GPA(at + 4 + 2ull * (count % QUEUE_SIZE)), &head, sizeof(head));
	count = (uint16_t)(count + 1);
	gmem_write(b->mem, GPA(at + 2), &count, sizeof(count));
	wr(d, 0x50, q);
}

static void write_memory(struct bench *b, struct input *in)
{
	uint64_t at = address(in);
	size_t len = byte(in), left = (size_t)(in->end - in->at);

	len = len < left ? len : left;
	gmem_write(b->mem, GPA(at), in->at, len);
	in->at += len;
}

static void from_outside(struct bench *b, struct input *in)
{
	uint8_t data[2048] = { 0 };
	size_t len = byte(in) * 8u;
	struct err e;

	if (byte(in) % 2)
		send(b->tap, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	else if (b->stream >= 0)
		send(b->stream, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (watches_wait(&b->events, 0, &e) == 0)
		watches_serve(&b->events);
}

static void step(struct bench *b, struct input *in)
{
	unsigned what = byte(in);
	struct vdev *d = device(b, what >> 4);
	uint64_t v;

	switch (what % 16) {
	case 0:
	case 1:
		bring_up(d, word(in));
		break;
	case 2:
	case 3:
	case 4:
	case 5:
		describe(b, in);
		break;
	case 6:
	case 7:
	case 8:
		offer(b, d, in);
		break;
	case 9:
	case 10:
		write_memory(b, in);
		break;
	case 11: /* any register, any width */
		v = word(in);
		vdev_write(d, byte(in) * 4u, &v, 1u << byte(in) % 4);
		break;
	case 12:
		vdev_read(d, byte(in) * 2u, &v, 1u << byte(in) % 4);
		break;
	case 13:
		wr(d, 0x50, byte(in) % 6);
		break;
	case 14:
		from_outside(b, in);
		break;
	default:
		if (b->stream >= 0)
			close(b->stream);
		b->stream = -1;
		break;
	}
}

static void begin(struct bench *b, struct gmem *mem)
{
	static const uint8_t mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 1 };
	int pair[2], file = memfd_create("disk", MFD_CLOEXEC);
	struct err e;

	memset(b, 0, sizeof(*b));
	b->mem = mem;
	b->stream = -1;
	if (watches_init(&b->events, &e) < 0 || file < 0 || ftruncate(file, DISK_BYTES) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0 ||
		disk_open(&b->disk, file, -1, false, &e) < 0 ||
		net_init(&b->net, pair[0], mac, &b->events, mem, raise_line, b, &e) < 0)
		abort();
	b->tap = pair[1];
	b->net.offload = no_offload;
	block_init(&b->block, &b->disk, "disk", true, mem, raise_line, b);
	rng_init(&b->rng, mem, raise_line, b);
	vsock_init(&b->vsock, 3, &b->events, dial, b, mem, raise_line, b);
	balloon_init(&b->balloon, mem, raise_line, b);
}

static void end(struct bench *b)
{
	for (unsigned i = 0; i < DEVICES; i++)
		wr(device(b, i), 0x70, 0);
	vsock_done(&b->vsock);
	net_done(&b->net);
	disk_close(&b->disk);
	watches_done(&b->events);
	close(b->tap);
	if (b->stream >= 0)
		close(b->stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gmem mem;
	static struct bench bench;
	struct input in = { data, data + size };
	struct err e;

	if (!mem.area && gmem_create(&mem, MEM, GMEM_ANON, &e) < 0)
		abort();
	gmem_fill(&mem, GPA(0), 0, AREA);
	begin(&bench, &mem);
	for (unsigned i = 0; i < STEPS_MAX && in.at < in.end; i++)
		step(&bench, &in);
	end(&bench);
	return 0;
}
