/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/device_test.c - a driver in plain memory, first a good one, then every kind of
 * bad.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "tier/vm/i8042.h"
#include "tier/vm/serial.h"
#include "tier/vm/virtio/bench.h"
#include "tier/vm/virtio/rng.h"

static void good_driver(void **state)
{
	struct bench *b = bench_make(false, false);
	uint8_t page[4096];
	char id[20];

	(void)state;
	assert_int_equal(rd(&b->block.dev, 0x00), 0x74726976);
	assert_int_equal(rd(&b->block.dev, 0x04), 2);
	assert_int_equal(rd(&b->block.dev, 0x08), 2);
	assert_int_equal(rd(&b->block.dev, 0x100), DISK_BYTES / 512);
	start(b, VDEV_F_EVENT_IDX);
	assert_int_equal(rd(&b->block.dev, 0x70), 15);
	assert_int_equal(ask(b, 0, 8, BUF + 0x1000, 4096), 0);
	assert_true(gmem_read(&b->mem, GPA(BUF + 0x1000), page, sizeof(page)));
	assert_int_equal(page[0], 'b');
	assert_int_equal(page[4095], 'b');
	assert_int_equal(get16(b, USED + 2), 1);
	assert_int_equal(get32(b, USED + 4), 0);
	assert_int_equal(get32(b, USED + 8), 4097);
	assert_int_equal(b->raised, 1);
	assert_int_equal(rd(&b->block.dev, 0x60), 1);
	wr(&b->block.dev, 0x64, 1);
	assert_int_equal(rd(&b->block.dev, 0x60), 0);
	memset(page, 'w', sizeof(page));
	assert_true(gmem_write(&b->mem, GPA(BUF + 0x1000), page, sizeof(page)));
	assert_int_equal(ask(b, 1, 8, BUF + 0x1000, 4096), 0);
	assert_int_equal(ask(b, 0, 8, BUF + 0x2000, 512), 0);
	assert_true(gmem_read(&b->mem, GPA(BUF + 0x2000), page, 512));
	assert_int_equal(page[511], 'w');
	assert_int_equal(ask(b, 4, 0, BUF + 0x1000, 512), 0);
	assert_int_equal(ask(b, 8, 0, BUF + 0x3000, 20), 0);
	assert_true(gmem_read(&b->mem, GPA(BUF + 0x3000), id, sizeof(id)));
	assert_string_equal(id, "disk-one");
	assert_int_equal(b->block.errors, 0);
	bench_free(b);
}

/* Without an event index the driver says with a flag that it does not want to be told; with one, it
 * says from which request on. */
static void telling(void **state)
{
	struct bench *b = bench_make(false, false);

	(void)state;
	start(b, 0);
	put16(b, AVAIL, 1);
	assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
	assert_int_equal(b->raised, 0);
	put16(b, AVAIL, 0);
	assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
	assert_int_equal(b->raised, 1);
	bench_free(b);

	b = bench_make(false, false);
	start(b, VDEV_F_EVENT_IDX);
	put16(b, AVAIL + 4 + 2 * SIZE, 2); /* tell me about the third */
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
		assert_int_equal(b->raised, i >= 2);
	}
	/* It asks to be kicked for the next one. */
	assert_int_equal(get16(b, USED + 4 + 8 * SIZE), b->avail);
	bench_free(b);
}

static void indexes_wrap(void **state)
{
	struct bench *b = bench_make(false, false);

	(void)state;
	start(b, VDEV_F_EVENT_IDX);
	for (unsigned i = 0; i < 70000; i++) {
		put16(b, AVAIL + 4 + 2 * SIZE, (uint16_t)i);
		assert_int_equal(ask(b, 0, i % 100, BUF + 0x1000, 512), 0);
	}
	assert_int_equal(b->raised, 70000);
	assert_int_equal(get16(b, USED + 2), (uint16_t)70000);
	bench_free(b);
}

static void note_later(struct vdev *d, unsigned q)
{
	(void)q;
	d->generation++; /* nothing else counts there now */
}

/* A queue full of requests is a turn: the rest comes with the next kick, which is due already. */
static void turns(void **state)
{
	struct bench *b = bench_make(false, false);

	(void)state;
	start(b, 0);
	b->block.dev.later = note_later;
	set_desc(b, 0, BUF, 16, NEXT, 1);
	set_desc(b, 1, BUF + 0x1000, 512, NEXT | WRITE, 2);
	set_desc(b, 2, BUF + 0x2000, 1, WRITE, 0);
	for (unsigned i = 0; i < SIZE; i++)
		offer(b, 0);
	b->block.dev.ops->kick(&b->block.dev, 0);
	assert_int_equal(get16(b, USED + 2), SIZE);
	assert_int_equal(b->block.dev.generation, 1);
	b->block.dev.ops->kick(&b->block.dev, 0);
	assert_int_equal(get16(b, USED + 2), SIZE);
	assert_int_equal(b->block.dev.generation, 1);
	bench_free(b);
}

/* Requests that are answered with an error and hurt nobody. */
static void bad_requests(void **state)
{
	static const struct {
		const char *name;
		uint32_t type;
		uint64_t sector;
		uint32_t len;
		uint8_t want;
	} cases[] = {
		{ "beyond the end", 0, DISK_BYTES / 512, 512, 1 },
		{ "across the end", 0, DISK_BYTES / 512 - 1, 1024, 1 },
		{ "sector wraps", 0, UINT64_MAX, 512, 1 },
		{ "sector times 512 wraps", 0, UINT64_MAX / 512 + 1, 512, 1 },
		{ "half a sector", 0, 0, 100, 1 },
		{ "write beyond the end", 1, DISK_BYTES / 512, 512, 1 },
		{ "unknown type", 99, 0, 512, 2 },
		{ "short id", 8, 0, 19, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench *b = bench_make(false, false);
		uint8_t got;

		start(b, 0);
		got = ask(b, cases[i].type, cases[i].sector, BUF + 0x1000, cases[i].len);
		if (got != cases[i].want)
			fail_msg("%s: status %d", cases[i].name, got);
		/* The device goes on. */
		assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
		bench_free(b);
	}
}

static void read_only_disk(void **state)
{
	struct bench *b = bench_make(true, false);
	uint8_t byte;

	(void)state;
	start(b, 0);
	assert_int_equal(ask(b, 1, 0, BUF + 0x1000, 512), 1);
	assert_int_equal(pread(b->disk.base, &byte, 1, 0), 1);
	assert_int_equal(byte, 'b');
	bench_free(b);
}

/* Rings that no driver makes: the device stops, says so, and reads nothing more of them. */
static void hostile_rings(void **state)
{
	enum {
		LOOP,
		OUTSIDE,
		WRAPS,
		ACROSS_END,
		BAD_HEAD,
		BAD_NEXT,
		TOO_MANY,
		INDIR,
		ORDER,
		LONG,
		NO_STATUS,
		CASES
	};
	static const char *const names[CASES] = { "loop", "outside memory", "address wraps",
		"across the end of memory", "head beyond the queue", "next beyond the queue",
		"more than the queue holds", "indirect", "readable behind writable", "too long",
		"no status" };

	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct bench *b = bench_make(false, false);
		uint16_t head = 0, used;

		start(b, 0);
		set_desc(b, 0, BUF, 16, NEXT, 1);
		set_desc(b, 1, BUF + 0x1000, 512, WRITE, 0);
		if (i == LOOP)
			set_desc(b, 1, BUF + 0x1000, 0, NEXT, 0);
		else if (i == OUTSIDE)
			set_desc(b, 1, GMEM_GAP_START + 4096, 512, WRITE, 0);
		else if (i == WRAPS)
			set_desc(b, 1, UINT64_MAX - 100, 512, WRITE, 0);
		else if (i == ACROSS_END)
			set_desc(b, 1, MEM - 256, 512, WRITE, 0);
		else if (i == BAD_HEAD)
			head = SIZE;
		else if (i == BAD_NEXT)
			set_desc(b, 0, BUF, 16, NEXT, SIZE + 1);
		else if (i == INDIR)
			set_desc(b, 1, BUF + 0x1000, 512, INDIRECT, 0);
		else if (i == LONG)
			set_desc(b, 1, 0, VIRTQ_BYTES_MAX, WRITE, 0);
		else if (i == NO_STATUS)
			set_desc(b, 1, BUF + 0x1000, 512, 0, 0);
		if (i == ORDER) {
			set_desc(b, 0, BUF + 0x1000, 512, NEXT | WRITE, 1);
			set_desc(b, 1, BUF, 16, 0, 0);
		}
		offer(b, head);
		if (i == TOO_MANY)
			put16(b, AVAIL + 2, SIZE + 2);
		used = get16(b, USED + 2);
		wr(&b->block.dev, 0x50, 0);
		if (!(rd(&b->block.dev, 0x70) & VDEV_NEEDS_RESET) || get16(b, USED + 2) != used)
			fail_msg("%s: status %#x", names[i], rd(&b->block.dev, 0x70));
		assert_non_null(b->block.dev.complaint);
		assert_int_equal(rd(&b->block.dev, 0x60) & 2, 2);
		/* A reset makes it whole again. */
		wr(&b->block.dev, 0x70, 0);
		assert_int_equal(rd(&b->block.dev, 0x70), 0);
		b->avail = 0;
		put16(b, AVAIL + 2, 0);
		start(b, 0);
		assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
		bench_free(b);
	}
}

static void bad_queues(void **state)
{
	static const struct {
		const char *name;
		uint32_t size;
		uint64_t desc, avail, used;
	} cases[] = {
		{ "size 0", 0, DESC, AVAIL, USED },
		{ "not a power of two", 6, DESC, AVAIL, USED },
		{ "too large", 512, DESC, AVAIL, USED },
		{ "size beyond 16 bits", 65536 + 8, DESC, AVAIL, USED },
		{ "descriptors not aligned", SIZE, DESC + 8, AVAIL, USED },
		{ "available not aligned", SIZE, DESC, AVAIL + 1, USED },
		{ "used not aligned", SIZE, DESC, AVAIL, USED + 2 },
		{ "descriptors outside", SIZE, MEM, AVAIL, USED },
		{ "descriptors across the end", SIZE, MEM - 64, AVAIL, USED },
		{ "used across the end", SIZE, DESC, AVAIL, MEM - 8 },
		{ "available wraps", SIZE, DESC, UINT64_MAX - 1, USED },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench *b = bench_make(false, false);
		struct vdev *d = &b->block.dev;

		greet(d, VDEV_F_VERSION_1);
		set_queue(d, 0, cases[i].size, cases[i].desc, cases[i].avail, cases[i].used);
		wr(d, 0x70, 15);
		if (!(rd(d, 0x70) & VDEV_NEEDS_RESET))
			fail_msg("%s: status %#x", cases[i].name, rd(d, 0x70));
		wr(d, 0x50, 0); /* nothing happens */
		bench_free(b);
	}
}

/* After DRIVER_OK the registers are dead: what the device uses are its own copies. */
static void frozen_registers(void **state)
{
	struct bench *b = bench_make(false, false);
	struct vdev *d = &b->block.dev;

	(void)state;
	start(b, 0);
	set_queue(d, 0, 256, MEM - 16, MEM - 2, MEM - 4);
	wr(d, 0x44, 0);
	wr(d, 0x20, 0);
	assert_int_equal(d->queues[0].size, SIZE);
	assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
	bench_free(b);
}

static void steps_of_life(void **state)
{
	struct bench *b = bench_make(false, false);
	struct vdev *d = &b->block.dev;

	(void)state;
	set_queue(d, 0, SIZE, DESC, AVAIL, USED); /* too early: dropped */
	assert_int_equal(rd(d, 0x44), 0);
	wr(d, 0x70, 1);
	wr(d, 0x70, 15); /* a jump */
	assert_int_equal(rd(d, 0x70) & VDEV_FAILED, VDEV_FAILED);
	wr(d, 0x70, 3);
	assert_int_equal(rd(d, 0x70) & VDEV_DRIVER, 0);
	wr(d, 0x70, 0);
	greet(d, 0); /* without VERSION_1 */
	assert_int_equal(rd(d, 0x70), 3);
	wr(d, 0x70, 0);
	greet(d, UINT64_MAX); /* more than was offered */
	assert_int_equal(d->acked & ~d->offered, 0);
	wr(d, 0x70, 0);
	/* Odd widths and places: zeros, and nothing happens. */
	for (unsigned off = 0; off < 0x100; off++) {
		uint64_t v = UINT64_MAX;

		vdev_read(d, off, &v, 8);
		assert_int_equal(v, 0);
		vdev_write(d, off, &v, 8);
		vdev_write(d, off, &v, 1);
		vdev_write(d, off, &v, 2);
	}
	assert_int_equal(rd(d, 0x70), 0);
	/* Configuration beyond its end. */
	assert_int_equal(rd(d, 0x108), 0);
	assert_int_equal(rd(d, 0x106), 0);
	bench_free(b);
}

static void two_files(void **state)
{
	struct bench *b = bench_make(false, true);
	uint8_t data[8192];

	(void)state;
	start(b, 0);
	memset(data, 'n', sizeof(data));
	assert_true(gmem_write(&b->mem, GPA(BUF + 0x1000), data, sizeof(data)));
	/* From the middle of one cluster to the middle of another. */
	assert_int_equal(ask(b, 1, 3, BUF + 0x1000, 5120), 0);
	assert_int_equal(ask(b, 0, 0, BUF + 0x4000, 8192 + 512), 0);
	assert_true(gmem_read(&b->mem, GPA(BUF + 0x4000), data, sizeof(data)));
	for (unsigned i = 0; i < sizeof(data); i++)
		if (data[i] != (i >= 3 * 512 && i < 3 * 512 + 5120 ? 'n' : 'b'))
			fail_msg("byte %u is %c", i, data[i]);
	for (unsigned i = 0; i < DISK_BYTES; i += 512) {
		assert_int_equal(pread(b->disk.base, data, 1, i), 1);
		assert_int_equal(data[0], 'b');
	}
	bench_free(b);
}

/* Serves what is due until the driver has had @count answers. */
static void serve_until(struct bench *b, struct watches *events, uint16_t count)
{
	struct err e;

	while (get16(b, USED + 2) < count) {
		assert_int_equal(watches_wait(events, -1, &e), 0);
		watches_serve(events);
	}
}

/* No token is there, whatever time it took to get here. */
static void use_up(struct pace *p)
{
	p->limiter.ops.at_ns = clock_ns() + 1000000;
	p->limiter.ops.tokens = 0;
}

/* A disk with a rate answers the first second's worth, and the rest when its timer says. Kicks do
 * not hurry it, and one who was reset is not woken. */
static void rate(void **state)
{
	struct bench *b = bench_make(false, false);
	struct watches events;
	struct err e;

	(void)state;
	assert_int_equal(watches_init(&events, &e), 0);
	assert_true(block_limit(&b->block, UINT64_MAX, 0, &events, &e) < 0);
	assert_int_equal(block_limit(&b->block, 1 << 20, 2, &events, &e), 0);
	start(b, 0);
	assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
	use_up(&b->block.pace);
	if (ask(b, 0, 0, BUF + 0x1000, 512) == 0x77)
		assert_true(b->block.pace.waits);
	b->block.pace.limiter.ops.tokens = 1;
	for (unsigned i = 0; i < 3 && b->block.pace.waits; i++)
		wr(&b->block.dev, 0x50, 0);
	serve_until(b, &events, 2);
	assert_false(b->block.pace.waits);
	use_up(&b->block.pace);
	ask(b, 0, 0, BUF + 0x1000, 512);
	wr(&b->block.dev, 0x70, 0);
	assert_false(b->block.pace.waits);
	block_done(&b->block);
	watches_done(&events);
	bench_free(b);
}

static void buckets(void **state)
{
	const uint64_t ms = 1000000;
	struct bucket_limit limit = { .size = 1000, .refill_ms = 1000, .burst = 500 };
	struct bucket b;

	(void)state;
	assert_true(bucket_init(&b, &limit, 0));
	assert_true(bucket_take(&b, 1500, 0));
	assert_false(bucket_take(&b, 1, 0));
	assert_true(bucket_take(&b, 1, ms));
	assert_false(bucket_take(&b, 1, ms));
	/* Asking often does not lose the fractions. */
	for (uint64_t i = 1; i <= 1000; i++)
		bucket_take(&b, 1000000, ms + i * ms / 1000);
	assert_true(bucket_take(&b, 1, 2 * ms));
	/* The burst does not come back. */
	assert_true(bucket_take(&b, 1000, 100000 * ms));
	assert_false(bucket_take(&b, 1, 100000 * ms));
	/* More than it ever holds passes when full, and the next waits. */
	assert_true(bucket_take(&b, 5000, 200000 * ms));
	assert_false(bucket_take(&b, 1, 203000 * ms));
	assert_true(bucket_take(&b, 1, 204002 * ms));
	limit = (struct bucket_limit){ .size = 10 };
	assert_false(bucket_init(&b, &limit, 0));
	limit = (struct bucket_limit){ .size = 10, .refill_ms = UINT64_MAX };
	assert_false(bucket_init(&b, &limit, 0));
	limit = (struct bucket_limit){ 0 };
	assert_true(bucket_init(&b, &limit, 0));
	assert_true(bucket_take(&b, UINT64_MAX, 0));
}

static void randomness(void **state)
{
	static const uint8_t zero[64];
	struct bench *b = bench_make(false, false);
	struct rng *r = calloc(1, sizeof(*r));
	struct watches events;
	uint8_t got[64];
	struct err e;

	(void)state;
	assert_non_null(r);
	rng_init(r, &b->mem, raise_line, b);
	greet(&r->dev, VDEV_F_VERSION_1);
	set_queue(&r->dev, 0, SIZE, DESC, AVAIL, USED);
	set_desc(b, 0, BUF, 64, WRITE, 0);
	offer(b, 0);
	wr(&r->dev, 0x70, 15); /* what was there before is seen without a kick */
	assert_int_equal(get32(b, USED + 8), 64);
	assert_true(gmem_read(&b->mem, GPA(BUF), got, sizeof(got)));
	assert_memory_not_equal(got, zero, sizeof(got));
	/* It costs the host something, so it has a rate too; more than the most in one request is
	 * not given, and not paid for. */
	assert_int_equal(watches_init(&events, &e), 0);
	assert_int_equal(rng_limit(r, RNG_BYTES_S, 2, &events, &e), 0);
	use_up(&r->pace);
	set_desc(b, 0, BUF, RNG_BYTES_MAX + 4096, WRITE, 0);
	offer(b, 0);
	wr(&r->dev, 0x50, 0);
	serve_until(b, &events, 2);
	assert_int_equal(get32(b, USED + 16), RNG_BYTES_MAX);
	r->pace.limiter.ops.tokens = 2;
	set_desc(b, 0, BUF, 64, 0, 0); /* no room */
	offer(b, 0);
	wr(&r->dev, 0x50, 0);
	assert_int_equal(rd(&r->dev, 0x70) & VDEV_NEEDS_RESET, VDEV_NEEDS_RESET);
	rng_done(r);
	watches_done(&events);
	free(r);
	bench_free(b);
}

/* Two regions around the gap, and nothing between. */
static void memory_above_the_gap(void **state)
{
	struct gmem m;
	struct err e;
	uint8_t byte = 1;

	(void)state;
	assert_int_equal(gmem_create(&m, GMEM_GAP_START + (64ull << 20), GMEM_ANON, &e), 0);
	assert_int_equal(m.count, 2);
	assert_true(gmem_has(&m, GPA(GMEM_GAP_START - 1), 1));
	assert_false(gmem_has(&m, GPA(GMEM_GAP_START - 1), 2));
	assert_false(gmem_has(&m, GPA(GMEM_GAP_START), 1));
	assert_false(gmem_has(&m, GPA(GMEM_GAP_END - 1), 1));
	assert_true(gmem_has(&m, GPA(GMEM_GAP_END), 64ull << 20));
	assert_false(gmem_has(&m, GPA(GMEM_GAP_END), (64ull << 20) + 1));
	assert_false(gmem_has(&m, GPA(UINT64_MAX), 2));
	assert_false(gmem_has(&m, GPA(0), UINT64_MAX));
	assert_int_equal(gmem_track(&m, &e), 0);
	assert_true(gmem_write(&m, GPA(GMEM_GAP_END + 4096), &byte, 1));
	/* The bit is where the page is in the file, behind the first region. */
	assert_int_equal(m.dirty[(GMEM_GAP_START / 4096 + 1) / 64],
		1ull << ((GMEM_GAP_START / 4096 + 1) % 64));
	gmem_done(&m);
}

static void memory_given_back(void **state)
{
	static const enum gmem_kind kinds[] = { GMEM_ANON, GMEM_SHARED, GMEM_COPY };
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		int fd = file_of("memory", MEM, 'm');
		uint8_t byte = 7;
		struct gmem m;

		if (kinds[i] == GMEM_COPY)
			assert_int_equal(gmem_map(&m, fd, MEM, &e), 0);
		else
			assert_int_equal(gmem_create(&m, MEM, kinds[i], &e), 0);
		assert_true(gmem_write(&m, GPA(8192), &byte, 1));
		assert_true(gmem_release(&m, GPA(8192), 4096));
		assert_true(gmem_read(&m, GPA(8192), &byte, 1));
		assert_int_equal(byte, 0);
		assert_false(gmem_release(&m, GPA(8193), 4096));
		assert_false(gmem_release(&m, GPA(MEM), 4096));
		assert_false(gmem_release(&m, GPA(MEM - 4096), 8192));
		gmem_done(&m);
		close(fd);
	}
}

struct console {
	char out[64];
	unsigned len, raised;
};

static void console_out(void *arg, uint8_t byte)
{
	struct console *c = arg;

	if (c->len < sizeof(c->out) - 1)
		c->out[c->len++] = (char)byte;
}

static void console_raise(void *arg)
{
	((struct console *)arg)->raised++;
}

static void serial_port(void **state)
{
	struct console c = { 0 };
	struct serial s;
	char many[200] = { 0 };

	(void)state;
	serial_init(&s, console_out, console_raise, &c);
	assert_int_equal(serial_read(&s, 5), 0x60);
	serial_write(&s, 7, 0x5a);
	assert_int_equal(serial_read(&s, 7), 0x5a);
	serial_write(&s, 4, 0x1a); /* how Linux probes */
	assert_int_equal(serial_read(&s, 6) & 0xf0, 0x90);
	serial_write(&s, 4, 0);
	serial_write(&s, 3, 0x83);
	serial_write(&s, 0, 1);
	assert_int_equal(serial_read(&s, 0), 1);
	serial_write(&s, 3, 3);
	serial_write(&s, 0, 'h');
	assert_int_equal(c.raised, 0);
	serial_write(&s, 1, 2); /* tell me when there is room */
	assert_int_equal(c.raised, 1);
	assert_int_equal(serial_read(&s, 2), 2);
	assert_int_equal(serial_read(&s, 2), 1);
	serial_write(&s, 0, 'i');
	assert_int_equal(c.raised, 2);
	assert_string_equal(c.out, "hi");
	assert_int_equal(serial_input(&s, many, sizeof(many)), SERIAL_INPUT_MAX);
	serial_write(&s, 1, 1);
	assert_int_equal(serial_read(&s, 2), 4);
	for (unsigned i = 0; i < SERIAL_INPUT_MAX; i++) {
		assert_int_equal(serial_read(&s, 5) & 1, 1);
		serial_read(&s, 0);
	}
	assert_int_equal(serial_read(&s, 5) & 1, 0);
}

static void keyboard(void **state)
{
	struct console c = { 0 };
	struct i8042 k;

	(void)state;
	i8042_init(&k, console_raise, &c);
	assert_int_equal(i8042_read(&k, 0x64), 0x10);
	assert_false(i8042_write(&k, 0x64, 0x60));
	assert_false(i8042_write(&k, 0x60, 0x41));
	assert_false(i8042_write(&k, 0x64, 0x20));
	assert_int_equal(i8042_read(&k, 0x64), 0x11);
	assert_int_equal(i8042_read(&k, 0x60), 0x41);
	assert_true(i8042_press(&k));
	assert_false(i8042_press(&k));
	assert_int_equal(i8042_read(&k, 0x60), 0x14);
	for (unsigned i = 0; i < 100; i++)
		assert_false(i8042_write(&k, 0x60, 0xff));
	assert_true(i8042_write(&k, 0x64, 0xfe));
	assert_true(c.raised > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_driver),
		cmocka_unit_test(telling),
		cmocka_unit_test(indexes_wrap),
		cmocka_unit_test(turns),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(read_only_disk),
		cmocka_unit_test(hostile_rings),
		cmocka_unit_test(bad_queues),
		cmocka_unit_test(frozen_registers),
		cmocka_unit_test(steps_of_life),
		cmocka_unit_test(two_files),
		cmocka_unit_test(rate),
		cmocka_unit_test(buckets),
		cmocka_unit_test(randomness),
		cmocka_unit_test(memory_above_the_gap),
		cmocka_unit_test(memory_given_back),
		cmocka_unit_test(serial_port),
		cmocka_unit_test(keyboard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
