/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/hostile_test.c - what only a guest does that wants to get out: it changes what is
 * being read, lays its rings over each other, and steps out of line. docs/design/vm.md says which
 * rule is tested where.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "tier/vm/virtio/bench.h"

/* --- Steps out of line ------------------------------------------------------------------------ */

/* Features are agreed on once, and a driver goes forward or back to the beginning. */
static void no_way_back(void **state)
{
	static const uint32_t back[] = { 1, 3, 11, 7, 14, 8, 4, 2 };
	struct bench *b = bench_make(false, false);
	struct vdev *d = &b->block.dev;

	(void)state;
	greet(d, VDEV_F_VERSION_1);
	wr(d, 0x24, 0);
	wr(d, 0x20, (uint32_t)VDEV_F_EVENT_IDX); /* too late */
	assert_int_equal(d->acked, VDEV_F_VERSION_1);
	set_queue(d, 0, SIZE, DESC, AVAIL, USED);
	wr(d, 0x70, 15);
	for (size_t i = 0; i < ARRAY_LEN(back); i++) {
		wr(d, 0x70, back[i]);
		assert_int_equal(rd(d, 0x70) & 15, 15);
		assert_int_equal(rd(d, 0x70) & VDEV_FAILED, VDEV_FAILED);
	}
	wr(d, 0x70, 0);
	assert_int_equal(rd(d, 0x70), 0);
	/* What only the device may say. */
	wr(d, 0x70, VDEV_NEEDS_RESET);
	assert_int_equal(rd(d, 0x70) & VDEV_NEEDS_RESET, 0);
	bench_free(b);
}

/* Queues that do not exist are selected, described and kicked: nothing comes of it. */
static void no_such_queue(void **state)
{
	static const uint32_t which[] = { 1, 4, 5, 64, 0x7fffffff, UINT32_MAX };
	struct bench *b = bench_make(false, false);
	struct vdev *d = &b->block.dev;

	(void)state;
	greet(d, VDEV_F_VERSION_1);
	set_queue(d, 0, SIZE, DESC, AVAIL, USED);
	for (size_t i = 0; i < ARRAY_LEN(which); i++) {
		set_queue(d, which[i], 256, MEM, MEM, MEM);
		assert_int_equal(rd(d, 0x34), 0);
		assert_int_equal(rd(d, 0x44), 0);
		wr(d, 0x50, which[i]);
	}
	wr(d, 0x50, 0); /* a kick before there is anyone */
	wr(d, 0x70, 15);
	for (size_t i = 0; i < ARRAY_LEN(which); i++)
		wr(d, 0x50, which[i]);
	assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
	bench_free(b);
}

static unsigned status_when_raised;

static void look_at_status(void *arg)
{
	status_when_raised = rd(arg, 0x60);
}

/* When the line rises the driver looks at once: what it looks for is there by then. */
static void status_before_line(void **state)
{
	struct bench *b = bench_make(false, false);

	(void)state;
	b->block.dev.raise = look_at_status;
	b->block.dev.raise_arg = &b->block.dev;
	start(b, 0);
	status_when_raised = 0;
	assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
	assert_int_equal(status_when_raised, VDEV_INT_RING);
	/* What was not raised cannot be taken back, and there are no other bits. */
	wr(&b->block.dev, 0x64, UINT32_MAX);
	assert_int_equal(rd(&b->block.dev, 0x60), 0);
	bench_free(b);
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* A ring or a buffer that begins before the gap and ends behind it is in no memory at all. */
static void across_the_gap(void **state)
{
	static const struct {
		uint64_t desc, avail, used;
		bool fine;
	} cases[] = {
		{ GMEM_GAP_START - 16 * SIZE, AVAIL, USED, true },
		{ GMEM_GAP_START - 16 * SIZE + 16, AVAIL, USED, false },
		{ DESC, GMEM_GAP_START - 8, USED, false },
		{ DESC, AVAIL, GMEM_GAP_START - 8, false },
		{ GMEM_GAP_END, GMEM_GAP_END + 0x1000, GMEM_GAP_END + 0x2000, true },
		{ GMEM_GAP_END - 16, AVAIL, USED, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench *b = bench_make_of(GMEM_GAP_START + (16 << 20), false, false);
		struct vdev *d = &b->block.dev;

		greet(d, VDEV_F_VERSION_1);
		set_queue(d, 0, SIZE, cases[i].desc, cases[i].avail, cases[i].used);
		wr(d, 0x70, 15);
		if (vdev_is_active(d) != cases[i].fine)
			fail_msg("case %zu: status %#x", i, rd(d, 0x70));
		bench_free(b);
	}
}

/* Is a byte at @at readable? Asked in a child, which dies of it if not. */
static bool is_there(const volatile uint8_t *at)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		_exit(*at == 255);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status);
}

/* On both sides of each piece of guest memory there is nothing. */
static void guards(void **state)
{
	struct gmem m;
	struct err e;

	(void)state;
	assert_int_equal(gmem_create(&m, GMEM_GAP_START + (16 << 20), GMEM_ANON, &e), 0);
	assert_int_equal(m.count, 2);
	for (unsigned i = 0; i < m.count; i++) {
		const uint8_t *host = m.regions[i].host;

		assert_true(is_there(host) && is_there(host + m.regions[i].size - 1));
		assert_false(is_there(host - 1));
		assert_false(is_there(host - GMEM_GUARD));
		assert_false(is_there(host + m.regions[i].size));
		assert_false(is_there(host + m.regions[i].size + GMEM_GUARD - 1));
	}
	gmem_done(&m);
}

static bool is_dirty(const struct bench *b, uint64_t at)
{
	return b->mem.dirty[at / GMEM_PAGE / 64] >> (at / GMEM_PAGE % 64) & 1;
}

/* What the device writes KVM does not see: the used ring, the data, the status. */
static void own_writes_are_noted(void **state)
{
	struct bench *b = bench_make(false, false);
	struct err e;

	(void)state;
	start(b, VDEV_F_EVENT_IDX);
	assert_int_equal(ask(b, 0, 0, BUF + 0x1000, 512), 0);
	assert_int_equal(gmem_track(&b->mem, &e), 0);
	assert_false(is_dirty(b, USED) || is_dirty(b, BUF + 0x5000));
	assert_int_equal(ask(b, 0, 0, BUF + 0x5000, 8192), 0);
	assert_true(is_dirty(b, USED));
	assert_true(is_dirty(b, BUF + 0x5000) && is_dirty(b, BUF + 0x6000));
	assert_true(is_dirty(b, BUF + 0x100));
	assert_false(is_dirty(b, BUF + 0x7000));
	bench_free(b);
}

/* --- Rings ------------------------------------------------------------------------------------ */

/* Parts without a byte are legal, wherever they are, and change nothing. */
static void empty_parts(void **state)
{
	struct bench *b = bench_make(false, false);
	uint8_t status = 0x77, data = 0;

	(void)state;
	start(b, 0);
	set_desc(b, 0, BUF, 16, NEXT, 3);
	set_desc(b, 3, UINT64_MAX, 0, NEXT, 4); /* nowhere, but of no length */
	set_desc(b, 4, BUF + 0x1000, 512, NEXT | WRITE, 5);
	set_desc(b, 5, MEM, 0, NEXT | WRITE, 6);
	set_desc(b, 6, BUF + 0x100, 1, NEXT | WRITE, 7);
	set_desc(b, 7, 0, 0, WRITE, 0);
	assert_true(gmem_fill(&b->mem, GPA(BUF), 0, 16));
	assert_true(gmem_write(&b->mem, GPA(BUF + 0x100), &status, 1));
	offer(b, 0);
	wr(&b->block.dev, 0x50, 0);
	assert_true(gmem_read(&b->mem, GPA(BUF + 0x100), &status, 1));
	assert_true(gmem_read(&b->mem, GPA(BUF + 0x1000), &data, 1));
	assert_int_equal(status, 0);
	assert_int_equal(data, 'b');
	assert_int_equal(get32(b, USED + 8), 513);
	bench_free(b);
}

/*
 * Rings over each other, and requests whose data is a ring. Whatever comes of that is the guest's:
 * the device answers or stops, its own counters do not come from there, and the disk is as it was.
 */
static void one_over_the_other(void **state)
{
	static const struct {
		const char *name;
		uint64_t desc, avail, used, data;
	} cases[] = {
		{ "all three at once", DESC, DESC, DESC, BUF },
		{ "used over available", DESC, AVAIL, AVAIL, BUF },
		{ "used over descriptors", DESC, AVAIL, DESC, BUF },
		{ "available inside descriptors", DESC, DESC + 32, USED, BUF },
		{ "data into the descriptors", DESC, AVAIL, USED, DESC },
		{ "data into available", DESC, AVAIL, USED, AVAIL },
		{ "data into used", DESC, AVAIL, USED, USED },
		{ "data over its own head", DESC, AVAIL, USED, BUF + 0x100 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bench *b = bench_make(true, false);
		struct vdev *d = &b->block.dev;
		uint8_t byte;

		greet(d, VDEV_F_VERSION_1 | VDEV_F_EVENT_IDX);
		set_queue(d, 0, SIZE, cases[i].desc, cases[i].avail, cases[i].used);
		wr(d, 0x70, 15);
		for (unsigned n = 0; n < 3 * SIZE; n++) {
			uint16_t before = d->queues[0].next_used;

			/* As if nothing were wrong, at the places where a driver would write. */
			put16(b, cases[i].avail + 4 + 2ull * (n % SIZE), 0);
			set_desc(b, 0, BUF, 16, NEXT, 1);
			set_desc(b, 1, cases[i].data, 512, NEXT | WRITE, 2);
			set_desc(b, 2, BUF + 0x100, 1, WRITE, 0);
			put16(b, cases[i].avail + 2, (uint16_t)(n + 1));
			wr(d, 0x50, 0);
			if ((uint16_t)(d->queues[0].next_used - before) > SIZE)
				fail_msg("%s: more answers than requests", cases[i].name);
			if (d->queues[0].next_used != d->queues[0].next_avail)
				fail_msg("%s: lost count", cases[i].name);
		}
		assert_int_equal(pread(b->disk.base, &byte, 1, 0), 1);
		assert_int_equal(byte, 'b');
		bench_free(b);
	}
}

struct racer {
	struct bench *b;
	bool stop;
	unsigned rounds;
};

/* Another CPU of the guest: turns a good request into a bad one and back, as fast as it can. */
static void *change_all_the_time(void *arg)
{
	struct racer *r = arg;
	struct bench *b = r->b;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		bool bad = r->rounds++ & 1;

		set_desc(b, 1, bad ? MEM - 256 : BUF + 0x1000, bad ? 8192 : 512, NEXT | WRITE,
			bad ? SIZE + 1 : 2);
		set_desc(b, 2, bad ? UINT64_MAX : BUF + 0x100, bad ? 0x10000 : 1, WRITE, 0);
		put16(b, AVAIL + 4, bad ? 0xffff : 0);
		put16(b, BUF, bad ? 1 : 0); /* the request's type: a write, for a moment */
		set_desc(b, 0, BUF, bad ? 0 : 16, NEXT, 1);
	}
	return NULL;
}

/* What is checked is what is used: a descriptor that changes in between is caught or harmless, and
 * a read-only disk is never written. A guard page would end this test. */
static void changed_meanwhile(void **state)
{
	struct bench *b = bench_make(true, false);
	struct racer r = { .b = b };
	unsigned served = 0, stopped = 0;
	pthread_t t;
	uint8_t byte;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, change_all_the_time, &r), 0);
	for (unsigned i = 0; i < 20000; i++) {
		b->avail = 0;
		put16(b, AVAIL + 2, 0);
		start(b, 0);
		put16(b, AVAIL + 2, 1);
		wr(&b->block.dev, 0x50, 0);
		if (vdev_is_active(&b->block.dev))
			served++;
		else
			stopped++;
		wr(&b->block.dev, 0x70, 0);
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	assert_int_equal(served + stopped, 20000);
	for (unsigned i = 0; i < DISK_BYTES; i += 512) {
		assert_int_equal(pread(b->disk.base, &byte, 1, i), 1);
		assert_int_equal(byte, 'b');
	}
	bench_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_way_back),
		cmocka_unit_test(no_such_queue),
		cmocka_unit_test(status_before_line),
		cmocka_unit_test(across_the_gap),
		cmocka_unit_test(guards),
		cmocka_unit_test(own_writes_are_noted),
		cmocka_unit_test(empty_parts),
		cmocka_unit_test(one_over_the_other),
		cmocka_unit_test(changed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
