/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/net_test.c - a guest made of two rings in plain memory, and a socket for a tap.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "tier/vm/virtio/net.h"

enum {
	MEM = 16 << 20,
	RINGS = 0x10000, /* twice: descriptors, available, used, 0x1000 each */
	BUFFERS = 0x100000,
	SIZE = 128,
	NEXT = 1,
	WRITE = 2,
	IN = 0,
	OUT = 1,
	HEADS = NET_HEAD_BYTES + 14,
};

static const uint8_t mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 7 };

struct bench {
	struct gmem mem;
	struct watches events;
	struct net net;
	int host; /* the other end of the tap */
	unsigned raised;
	uint16_t avail[2];
};

/* What was asked of the tap. */
static unsigned offloads;

static int note_offload(int tap, unsigned what)
{
	(void)tap;
	offloads = what;
	return 0;
}

static int no_offload(int tap, unsigned what)
{
	(void)tap;
	(void)what;
	return -EINVAL;
}

static void raise_line(void *arg)
{
	((struct bench *)arg)->raised++;
}

static uint64_t ring_at(unsigned q, unsigned part)
{
	return RINGS + q * 0x4000ull + part * 0x1000ull;
}

static void wr(struct bench *b, unsigned off, uint32_t v)
{
	vdev_write(&b->net.dev, off, &v, sizeof(v));
}

static uint32_t status(struct bench *b)
{
	uint32_t v;

	vdev_read(&b->net.dev, 0x70, &v, sizeof(v));
	return v;
}

static void put16(struct bench *b, uint64_t at, uint16_t v)
{
	assert_true(gmem_write(&b->mem, GPA(at), &v, sizeof(v)));
}

static uint16_t get16(struct bench *b, uint64_t at)
{
	uint16_t v;

	assert_true(gmem_read(&b->mem, GPA(at), &v, sizeof(v)));
	return v;
}

static uint16_t used(struct bench *b, unsigned q)
{
	return get16(b, ring_at(q, 2) + 2);
}

static uint32_t used_len(struct bench *b, unsigned q, unsigned i)
{
	uint32_t v;

	assert_true(gmem_read(&b->mem, GPA(ring_at(q, 2) + 4 + 8ull * (i % SIZE) + 4), &v, 4));
	return v;
}

static void start(struct bench *b, uint64_t features)
{
	features |= VDEV_F_VERSION_1;
	wr(b, 0x70, 1);
	wr(b, 0x70, 3);
	wr(b, 0x24, 0);
	wr(b, 0x20, (uint32_t)features);
	wr(b, 0x24, 1);
	wr(b, 0x20, (uint32_t)(features >> 32));
	wr(b, 0x70, 11);
	for (unsigned q = 0; q < 2; q++) {
		wr(b, 0x30, q);
		wr(b, 0x38, SIZE);
		wr(b, 0x80, (uint32_t)ring_at(q, 0));
		wr(b, 0x90, (uint32_t)ring_at(q, 1));
		wr(b, 0xa0, (uint32_t)ring_at(q, 2));
		wr(b, 0x44, 1);
	}
	wr(b, 0x70, 15);
}

static struct bench *bench_make(void)
{
	struct bench *b = calloc(1, sizeof(*b));
	int pair[2], room = 1 << 20;
	struct err e;

	assert_non_null(b);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	assert_int_equal(gmem_create(&b->mem, MEM, GMEM_ANON, &e), 0);
	assert_int_equal(watches_init(&b->events, &e), 0);
	assert_int_equal(
		net_init(&b->net, pair[0], mac, &b->events, &b->mem, raise_line, b, &e), 0);
	b->net.offload = note_offload;
	b->host = pair[1];
	return b;
}

static void bench_free(struct bench *b)
{
	net_done(&b->net);
	watches_done(&b->events);
	close(b->host);
	gmem_done(&b->mem);
	free(b);
}

static void set_desc(struct bench *b, unsigned q, unsigned i, uint64_t addr, uint32_t len,
	uint16_t flags, uint16_t next)
{
	struct {
		uint64_t addr;
		uint32_t len;
		uint16_t flags, next;
	} d = { addr, len, flags, next };

	assert_true(gmem_write(&b->mem, GPA(ring_at(q, 0) + 16ull * i), &d, sizeof(d)));
}

static void offer(struct bench *b, unsigned q, uint16_t head)
{
	put16(b, ring_at(q, 1) + 4 + 2ull * (b->avail[q] % SIZE), head);
	put16(b, ring_at(q, 1) + 2, ++b->avail[q]);
}

/* Room for @len bytes, as descriptor @i. */
static void make_room(struct bench *b, uint16_t i, uint32_t len)
{
	set_desc(b, IN, i, BUFFERS + 0x10000ull * i, len, WRITE, 0);
	offer(b, IN, i);
}

static void kick(struct bench *b, unsigned q)
{
	wr(b, 0x50, q);
}

/* Whatever the card waits for. */
static void turn(struct bench *b)
{
	struct err e;

	assert_int_equal(watches_wait(&b->events, 0, &e), 0);
	watches_serve(&b->events);
}

/* A frame of @len bytes after its head, on its way to the guest. */
static void arrive(struct bench *b, uint32_t len)
{
	uint8_t *data = calloc(1, NET_HEAD_BYTES + len);

	assert_non_null(data);
	memset(data + NET_HEAD_BYTES, 'f', len);
	assert_int_equal(
		send(b->host, data, NET_HEAD_BYTES + len, 0), (ssize_t)(NET_HEAD_BYTES + len));
	free(data);
}

/* The guest sends @len bytes, head included; with this head, and from this address. */
static void leave(
	struct bench *b, const struct virtio_net_hdr_v1 *head, const uint8_t *from, uint32_t len)
{
	uint8_t data[256] = { 0 };

	memcpy(data, head, NET_HEAD_BYTES);
	memset(data + NET_HEAD_BYTES, 'd', 6);
	memcpy(data + NET_HEAD_BYTES + 6, from, 6);
	assert_true(gmem_write(&b->mem, GPA(BUFFERS), data, sizeof(data)));
	/* Across two descriptors, the border in the middle of the Ethernet head. */
	set_desc(b, OUT, 0, BUFFERS, len < 20 ? len : 20, len > 20 ? NEXT : 0, 1);
	set_desc(b, OUT, 1, BUFFERS + 20, len > 20 ? len - 20 : 0, 0, 0);
	offer(b, OUT, 0);
	kick(b, OUT);
}

static const struct virtio_net_hdr_v1 plain;

static void good_driver(void **state)
{
	struct bench *b = bench_make();
	uint8_t got[512], config[NET_MAC_BYTES];

	(void)state;
	vdev_read(&b->net.dev, 0x100, config, sizeof(config));
	assert_memory_equal(config, mac, sizeof(config));
	start(b, 1ull << VIRTIO_NET_F_MAC | 1ull << VIRTIO_NET_F_GUEST_CSUM |
			 1ull << VIRTIO_NET_F_GUEST_TSO4);
	assert_int_equal(status(b), 15);
	assert_int_equal(offloads, TUN_F_CSUM | TUN_F_TSO4);
	leave(b, &plain, mac, 100);
	assert_int_equal(recv(b->host, got, sizeof(got), 0), 100);
	assert_int_equal(used(b, OUT), 1);
	make_room(b, 0, 2048);
	kick(b, IN);
	arrive(b, 60);
	turn(b);
	assert_int_equal(used(b, IN), 1);
	assert_int_equal(used_len(b, IN, 0), NET_HEAD_BYTES + 60);
	/* How many buffers it is in. */
	assert_int_equal(get16(b, BUFFERS + 10), 1);
	assert_int_equal(get16(b, BUFFERS + NET_HEAD_BYTES), 'f' | 'f' << 8);
	assert_int_equal(b->raised, 2);
	bench_free(b);
}

/* No room in the ring: the frame waits, the others wait in the tap, and a kick starts it again. */
static void no_room(void **state)
{
	struct bench *b = bench_make();

	(void)state;
	start(b, VDEV_F_EVENT_IDX);
	for (unsigned i = 0; i < 5; i++)
		arrive(b, 60 + i);
	turn(b);
	turn(b);
	assert_int_equal(used(b, IN), 0);
	assert_false(b->net.tap_watch.armed);
	for (uint16_t i = 0; i < 5; i++) {
		make_room(b, i, 2048);
		/* It has asked to be kicked for exactly this one. */
		assert_int_equal(get16(b, ring_at(IN, 2) + 4 + 8 * SIZE), i);
		kick(b, IN);
		assert_int_equal(used(b, IN), i + 1);
		assert_int_equal(used_len(b, IN, i), NET_HEAD_BYTES + 60 + i);
		turn(b);
	}
	assert_true(b->net.tap_watch.armed);
	assert_int_equal(b->net.dropped, 0);
	bench_free(b);
}

/* A large frame goes into as many buffers as it takes, which the driver sees all at once. */
static void in_many_buffers(void **state)
{
	struct bench *b = bench_make();

	(void)state;
	start(b, 1ull << VIRTIO_NET_F_MRG_RXBUF | VDEV_F_EVENT_IDX);
	make_room(b, 0, 1000);
	make_room(b, 1, 1000);
	arrive(b, 2500);
	kick(b, IN);
	assert_int_equal(used(b, IN), 0);
	/* Two are there and do not suffice: it asks for a third. */
	assert_int_equal(get16(b, ring_at(IN, 2) + 4 + 8 * SIZE), 2);
	make_room(b, 2, 1000);
	kick(b, IN);
	assert_int_equal(used(b, IN), 3);
	assert_int_equal(used_len(b, IN, 0) + used_len(b, IN, 1) + used_len(b, IN, 2),
		NET_HEAD_BYTES + 2500);
	assert_int_equal(get16(b, BUFFERS + 10), 3);
	/* One that the whole ring could not hold is dropped, and the next one comes through. */
	for (uint16_t i = 0; i < SIZE; i++)
		make_room(b, i, 100);
	arrive(b, 20000);
	arrive(b, 60);
	kick(b, IN);
	assert_int_equal(b->net.dropped, 1);
	assert_int_equal(used(b, IN), 4);
	bench_free(b);
}

/* Without merging, what does not fit into the first buffer is dropped. */
static void too_large(void **state)
{
	struct bench *b = bench_make();

	(void)state;
	start(b, 0);
	make_room(b, 0, 100);
	arrive(b, 100);
	arrive(b, 60);
	kick(b, IN);
	assert_int_equal(b->net.dropped, 1);
	assert_int_equal(used(b, IN), 1);
	assert_int_equal(used_len(b, IN, 0), NET_HEAD_BYTES + 60);
	bench_free(b);
}

/* A ring full of room, @len bytes each. */
static void fill_ring(struct bench *b, uint32_t len)
{
	for (uint16_t i = 0; i < SIZE; i++)
		make_room(b, i, len);
}

/* With room for any frame, frames go straight from the tap to where they belong; the rest of the
 * room stays for the next one, and goes back to the ring when the machine is written down. */
static void straight(void **state)
{
	struct bench *b = bench_make();
	struct virtq *q = &b->net.dev.queues[IN];
	uint64_t second = BUFFERS + 0x10000ull * 26;

	(void)state;
	start(b, 1ull << VIRTIO_NET_F_MRG_RXBUF);
	fill_ring(b, 2048);
	kick(b, IN);
	arrive(b, 50000);
	arrive(b, 60);
	turn(b);
	assert_int_equal(b->net.frame_len, 0);
	/* 25 buffers for the first, one for the second. */
	assert_int_equal(used(b, IN), 26);
	assert_int_equal(get16(b, BUFFERS + 10), 25);
	assert_int_equal(used_len(b, IN, 24), NET_HEAD_BYTES + 50000 - 24 * 2048);
	assert_int_equal(used_len(b, IN, 25), NET_HEAD_BYTES + 60);
	assert_int_equal(get16(b, second - 0x10000 + 10), 1);
	assert_int_equal(get16(b, second - 0x10000 + NET_HEAD_BYTES), 'f' | 'f' << 8);
	/* What was taken from the ring and not used. */
	assert_true(b->net.room_count > 0);
	assert_int_equal(q->next_avail, 26 + b->net.room_count);
	b->net.dev.ops->settle(&b->net.dev);
	assert_int_equal(q->next_avail, 26);
	arrive(b, 60);
	turn(b);
	assert_int_equal(used(b, IN), 27);
	assert_int_equal(get16(b, second + NET_HEAD_BYTES), 'f' | 'f' << 8);
	/* A reset forgets what was taken: the new driver's room is used from its beginning. */
	wr(b, 0x70, 0);
	assert_int_equal(b->net.room_count, 0);
	b->avail[IN] = 0;
	put16(b, ring_at(IN, 1) + 2, 0);
	put16(b, ring_at(IN, 2) + 2, 0);
	start(b, 1ull << VIRTIO_NET_F_MRG_RXBUF);
	fill_ring(b, 2048);
	kick(b, IN);
	arrive(b, 60);
	turn(b);
	assert_int_equal(used(b, IN), 1);
	bench_free(b);
}

/* The same memory in every request, in parts of a few bytes: more parts than are ever looked at. A
 * frame that does not fit into those is dropped, one that does comes through. */
static void tiny_parts(void **state)
{
	struct bench *b = bench_make();

	(void)state;
	start(b, 1ull << VIRTIO_NET_F_MRG_RXBUF);
	for (uint16_t i = 0; i < SIZE; i++)
		set_desc(b, IN, i, BUFFERS, 16, WRITE | (i < SIZE - 1 ? NEXT : 0),
			(uint16_t)(i + 1));
	for (unsigned i = 0; i < SIZE; i++)
		offer(b, IN, 0);
	kick(b, IN);
	arrive(b, 16 * NET_PARTS_MAX);
	arrive(b, 16 * SIZE + 60);
	turn(b);
	assert_int_equal(b->net.dropped, 1);
	assert_int_equal(used(b, IN), 2);
	assert_int_equal(used_len(b, IN, 0), 16 * SIZE);
	assert_int_equal(status(b), 15);
	bench_free(b);
}

/* Each way has its rate: what is too much waits, and the card's timer lets it go on. */
static void rate(void **state)
{
	struct bench *b = bench_make();
	uint8_t got[512];
	struct err e;

	(void)state;
	assert_int_equal(net_limit(&b->net, 1 << 20, 10, &e), 0);
	start(b, 1ull << VIRTIO_NET_F_MRG_RXBUF);
	fill_ring(b, 2048);
	b->net.in.limiter.ops.tokens = b->net.out.limiter.ops.tokens = 0;
	b->net.in.limiter.ops.at_ns = b->net.out.limiter.ops.at_ns = clock_ns() + 1000000;
	leave(b, &plain, mac, 100);
	arrive(b, 60);
	turn(b);
	if (b->net.in.waits)
		assert_int_equal(used(b, IN), 0);
	if (b->net.out.waits)
		assert_int_equal(used(b, OUT), 0);
	while (used(b, IN) < 1 || used(b, OUT) < 1) {
		assert_int_equal(watches_wait(&b->events, -1, &e), 0);
		watches_serve(&b->events);
	}
	assert_int_equal(recv(b->host, got, sizeof(got), 0), 100);
	assert_int_equal(used_len(b, IN, 0), NET_HEAD_BYTES + 60);
	bench_free(b);
}

/* Frames that go nowhere, and hurt nobody. */
static void bad_frames(void **state)
{
	static const uint8_t other[] = { 2, 0, 0, 0, 0, 8 };
	static const struct {
		const char *name;
		struct virtio_net_hdr_v1 head;
		const uint8_t *from;
		uint32_t len;
	} cases[] = {
		{ "another's address", { 0 }, other, 100 },
		{ "no frame at all", { 0 }, mac, 0 },
		{ "half a head", { 0 }, mac, 6 },
		{ "half an Ethernet head", { 0 }, mac, HEADS - 1 },
		{ "an unknown flag", { .flags = 2 }, mac, 100 },
		{ "a checksum that was not agreed", { .flags = 1 }, mac, 100 },
		{ "TSO that was not agreed", { .flags = 1, .gso_type = 1, .gso_size = 1 }, mac,
			100 },
		{ "UFO", { .flags = 1, .gso_type = 3, .gso_size = 1 }, mac, 100 },
		{ "an unknown kind", { .gso_type = 77 }, mac, 100 },
		{ "ECN", { .flags = 1, .gso_type = 0x81, .gso_size = 1 }, mac, 100 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench *b = bench_make();
		uint8_t got[512];

		start(b, 0);
		leave(b, &cases[i].head, cases[i].from, cases[i].len);
		if (recv(b->host, got, sizeof(got), 0) >= 0 || b->net.dropped != 1)
			fail_msg("%s went out", cases[i].name);
		leave(b, &plain, mac, 100);
		assert_int_equal(recv(b->host, got, sizeof(got), 0), 100);
		assert_int_equal(used(b, OUT), 2);
		bench_free(b);
	}
}

static void agreed_offloads(void **state)
{
	struct virtio_net_hdr_v1 head = { .flags = 1, .gso_type = 1, .gso_size = 1000 };
	struct bench *b = bench_make();
	uint8_t got[512];

	(void)state;
	start(b, 1ull << VIRTIO_NET_F_CSUM | 1ull << VIRTIO_NET_F_HOST_TSO4);
	assert_int_equal(offloads, 0);
	leave(b, &head, mac, 100);
	assert_int_equal(recv(b->host, got, sizeof(got), 0), 100);
	head.gso_size = 0; /* segments of nothing */
	leave(b, &head, mac, 100);
	assert_true(recv(b->host, got, sizeof(got), 0) < 0);
	bench_free(b);

	b = bench_make();
	b->net.offload = no_offload;
	start(b, 0);
	assert_int_equal(status(b) & VDEV_NEEDS_RESET, VDEV_NEEDS_RESET);
	bench_free(b);
}

static void hostile_rings(void **state)
{
	enum { READABLE, NO_HEAD, WRITABLE, LOOP, OUTSIDE, TOO_MANY, CASES };
	static const char *const names[CASES] = { "nothing to write to", "no room for the head",
		"room to write in a frame to send", "a loop", "outside memory", "too many" };

	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct bench *b = bench_make();
		unsigned q = i == WRITABLE || i == LOOP ? OUT : IN;

		start(b, 1ull << VIRTIO_NET_F_MRG_RXBUF);
		arrive(b, 60);
		set_desc(b, q, 0, BUFFERS, 2048, q == IN ? WRITE : 0, 0);
		if (i == READABLE)
			set_desc(b, q, 0, BUFFERS, 2048, 0, 0);
		else if (i == NO_HEAD)
			set_desc(b, q, 0, BUFFERS, NET_HEAD_BYTES - 1, WRITE, 0);
		else if (i == WRITABLE)
			set_desc(b, q, 0, BUFFERS, 2048, WRITE, 0);
		else if (i == LOOP)
			set_desc(b, q, 0, BUFFERS, 0, NEXT, 0);
		else if (i == OUTSIDE)
			set_desc(b, q, 0, MEM - 100, 2048, WRITE, 0);
		offer(b, q, 0);
		if (i == TOO_MANY)
			put16(b, ring_at(q, 1) + 2, SIZE + 2);
		kick(b, q);
		if (!(status(b) & VDEV_NEEDS_RESET) || used(b, q))
			fail_msg("%s: status %#x", names[i], status(b));
		turn(b); /* the tap's frame moves nothing any more */
		wr(b, 0x70, 0);
		assert_false(b->net.tap_watch.armed);
		bench_free(b);
	}
}

/* A guest that never stops sending has its turn, and then the next has. */
static void endless(void **state)
{
	struct bench *b = bench_make();

	(void)state;
	start(b, 0);
	for (uint16_t i = 0; i < SIZE; i++) {
		set_desc(b, OUT, i, BUFFERS, 100, 0, 0);
		offer(b, OUT, i);
	}
	kick(b, OUT);
	assert_int_equal(used(b, OUT), NET_AT_ONCE);
	turn(b);
	assert_int_equal(used(b, OUT), SIZE);
	turn(b);
	assert_int_equal(used(b, OUT), SIZE);
	bench_free(b);
}

/* The tap is removed: that is the end of frames, not of the machine, and nobody spins. */
static void tap_gone(void **state)
{
	struct bench *b = bench_make();

	(void)state;
	start(b, 0);
	assert_int_equal(shutdown(b->net.tap, SHUT_RDWR), 0);
	turn(b);
	assert_true(b->net.gone);
	assert_false(b->net.tap_watch.armed);
	make_room(b, 0, 2048);
	kick(b, IN);
	assert_int_equal(used(b, IN), 0);
	assert_int_equal(status(b), 15);
	bench_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_driver),
		cmocka_unit_test(no_room),
		cmocka_unit_test(in_many_buffers),
		cmocka_unit_test(too_large),
		cmocka_unit_test(straight),
		cmocka_unit_test(tiny_parts),
		cmocka_unit_test(rate),
		cmocka_unit_test(bad_frames),
		cmocka_unit_test(agreed_offloads),
		cmocka_unit_test(hostile_rings),
		cmocka_unit_test(endless),
		cmocka_unit_test(tap_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
