/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/balloon_test.c - a guest in plain memory that gives some of it back, and one that
 * tries to give back what it does not have.
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
#include "tier/vm/virtio/balloon.h"

enum {
	MEM = 32 << 20,
	RINGS = 0x10000, /* three times: descriptors, available, used, 0x1000 each */
	LIST = 0x80000,
	FREE_AT = 8 << 20, /* what is reported */
	BLOCK = 2 << 20,
	SIZE = 32,
	NEXT = 1,
	WRITE = 2,
	INFLATE = 0,
	DEFLATE = 1,
	REPORT = 2,
	F_OOM = 1 << 2,
	F_REPORT = 1 << 5,
};

struct bench {
	struct gmem mem;
	struct balloon balloon;
	unsigned raised;
	uint16_t avail[3];
};

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
	vdev_write(&b->balloon.dev, off, &v, sizeof(v));
}

static uint32_t rd(struct bench *b, unsigned off)
{
	uint32_t v;

	vdev_read(&b->balloon.dev, off, &v, sizeof(v));
	return v;
}

static void start(struct bench *b, uint32_t features, unsigned queues)
{
	wr(b, 0x70, 1);
	wr(b, 0x70, 3);
	wr(b, 0x24, 0);
	wr(b, 0x20, features);
	wr(b, 0x24, 1);
	wr(b, 0x20, 1);
	wr(b, 0x70, 11);
	for (unsigned q = 0; q < queues; q++) {
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
	struct err e;

	assert_non_null(b);
	assert_int_equal(gmem_create(&b->mem, MEM, GMEM_ANON, &e), 0);
	assert_true(gmem_fill(&b->mem, GPA(0x100000), 'x', MEM - 0x100000));
	balloon_init(&b->balloon, &b->mem, raise_line, b);
	return b;
}

static void bench_free(struct bench *b)
{
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

static void ask(struct bench *b, unsigned q)
{
	uint16_t head = 0, count = ++b->avail[q];

	assert_true(gmem_write(
		&b->mem, GPA(ring_at(q, 1) + 4 + 2ull * ((count - 1u) % SIZE)), &head, 2));
	assert_true(gmem_write(&b->mem, GPA(ring_at(q, 1) + 2), &count, 2));
	wr(b, 0x50, q);
}

static unsigned used(struct bench *b, unsigned q)
{
	uint16_t v;

	assert_true(gmem_read(&b->mem, GPA(ring_at(q, 2) + 2), &v, 2));
	return v;
}

/* How many bytes of the guest's memory the host really holds. */
static uint64_t held(struct bench *b)
{
	unsigned char *pages = malloc(MEM / 4096);
	uint64_t n = 0;

	assert_non_null(pages);
	assert_int_equal(mincore(b->mem.regions[0].host, MEM, pages), 0);
	for (unsigned i = 0; i < MEM / 4096; i++)
		n += pages[i] & 1;
	free(pages);
	return n * 4096;
}

static uint8_t byte_at(struct bench *b, uint64_t at)
{
	uint8_t v;

	assert_true(gmem_read(&b->mem, GPA(at), &v, 1));
	return v;
}

/* Free pages are reported: the host has them again, and the guest reads zeros. */
static void reports(void **state)
{
	struct bench *b = bench_make();
	uint64_t before = held(b);

	(void)state;
	start(b, F_OOM | F_REPORT, 3);
	assert_int_equal(rd(b, 0x70), 15);
	/* Six blocks of 2 MiB: more bytes than any other queue takes in one request. */
	for (uint16_t i = 0; i < 6; i++)
		set_desc(b, REPORT, i, FREE_AT + (uint64_t)i * BLOCK, BLOCK,
			WRITE | (i < 5 ? NEXT : 0), (uint16_t)(i + 1));
	ask(b, REPORT);
	assert_int_equal(used(b, REPORT), 1);
	assert_int_equal(b->raised, 1);
	assert_int_equal(b->balloon.released, 6 * BLOCK);
	assert_int_equal(held(b), before - 6 * BLOCK);
	assert_int_equal(byte_at(b, FREE_AT), 0);
	assert_int_equal(byte_at(b, FREE_AT + 6 * BLOCK), 'x');
	assert_int_equal(byte_at(b, FREE_AT - 1), 'x');
	bench_free(b);
}

static void inflates(void **state)
{
	static const uint32_t pages[] = { 0x1000, 0x1001, 0x1002, 0x1010, 0xffffffff, 0xc0000,
		MEM / 4096 };
	struct bench *b = bench_make();

	(void)state;
	start(b, F_OOM, 2); /* a driver without reporting has two queues */
	assert_int_equal(rd(b, 0x70), 15);
	balloon_ask(&b->balloon, 64 * 4096);
	assert_int_equal(b->raised, 1);
	assert_int_equal(rd(b, 0x100), 64);
	assert_true(gmem_write(&b->mem, GPA(LIST), pages, sizeof(pages)));
	set_desc(b, INFLATE, 0, LIST, sizeof(pages), 0, 0);
	ask(b, INFLATE);
	assert_int_equal(used(b, INFLATE), 1);
	assert_int_equal(b->balloon.released, 4 * 4096);
	assert_int_equal(b->balloon.refused, 3);
	assert_int_equal(byte_at(b, 0x1002000), 0);
	assert_int_equal(byte_at(b, 0x1003000), 'x');
	wr(b, 0x104, 4);
	wr(b, 0x100, 99); /* not the driver's */
	assert_int_equal(b->balloon.actual, 4);
	assert_int_equal(b->balloon.target, 64);
	set_desc(b, DEFLATE, 0, LIST, sizeof(pages), 0, 0);
	ask(b, DEFLATE);
	assert_int_equal(used(b, DEFLATE), 1);
	assert_int_equal(b->balloon.released, 4 * 4096);
	ask(b, REPORT); /* a queue that is not there */
	assert_int_equal(rd(b, 0x70), 15);
	bench_free(b);
}

/* Nothing that is not the guest's, and no half pages. */
static void hostile(void **state)
{
	static const struct {
		const char *name;
		unsigned q;
		uint64_t addr;
		uint32_t len;
		uint16_t flags;
		bool stops;
	} cases[] = {
		{ "half a page", REPORT, FREE_AT, 2048, WRITE, false },
		{ "not aligned", REPORT, FREE_AT + 8, BLOCK, WRITE, false },
		{ "outside", REPORT, MEM, BLOCK, WRITE, true },
		{ "across the end", REPORT, MEM - 4096, BLOCK, WRITE, true },
		{ "in the gap", REPORT, GMEM_GAP_START, BLOCK, WRITE, true },
		{ "wraps", REPORT, UINT64_MAX - 4095, BLOCK, WRITE, true },
		{ "readable", REPORT, FREE_AT, BLOCK, 0, true },
		{ "all, and more", REPORT, 0, UINT32_MAX, WRITE, true },
		{ "a list to write to", INFLATE, LIST, 64, WRITE, true },
		{ "a long list", INFLATE, LIST, 4 * BALLOON_PAGES_MAX + 4, 0, true },
		{ "a long list back", DEFLATE, LIST, 4 * BALLOON_PAGES_MAX + 4, 0, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench *b = bench_make();
		bool stopped;

		start(b, F_OOM | F_REPORT, 3);
		set_desc(b, cases[i].q, 0, cases[i].addr, cases[i].len, cases[i].flags, 0);
		ask(b, cases[i].q);
		stopped = rd(b, 0x70) & VDEV_NEEDS_RESET;
		if (stopped != cases[i].stops || b->balloon.released)
			fail_msg("%s: status %#x, %llu released", cases[i].name, rd(b, 0x70),
				(unsigned long long)b->balloon.released);
		bench_free(b);
	}
}

/* The driver took reporting and has no queue for it. */
static void missing_queue(void **state)
{
	struct bench *b = bench_make();

	(void)state;
	start(b, F_OOM | F_REPORT, 2);
	assert_int_equal(rd(b, 0x70) & VDEV_NEEDS_RESET, VDEV_NEEDS_RESET);
	bench_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports),
		cmocka_unit_test(inflates),
		cmocka_unit_test(hostile),
		cmocka_unit_test(missing_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
