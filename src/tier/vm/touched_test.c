/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/ckd.h"
#include "tier/vm/touched.h"

enum { MIB = 1 << 20, MEMORY = 64 * MIB, BODY = 100 };

static struct snap_head head(void)
{
	static const char body[BODY] = { 1 };
	struct snap_head h;

	snapfile_head(&h, MEMORY, 1, "00112233445566778899aabbccddeeff", body, sizeof(body));
	return h;
}

static void pages_become_runs(void **state)
{
	static const uint64_t pages[] = { 0, 1, 2, 100, 101 };
	static struct touched t;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		touched_add(&t, pages[i], false);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.runs[0].first, 0);
	assert_int_equal(t.runs[0].count, 3);
	assert_int_equal(t.runs[1].first, 100);
	assert_int_equal(t.runs[1].count, 2);
	touched_add(&t, 102, true); /* what is written to is a run of its own */
	assert_int_equal(t.count, 3);
	assert_int_equal(t.runs[2].first, 102);
	assert_int_equal(t.runs[2].written, 1);
	for (uint64_t i = 1000; i < 1000 + 100 * TOUCHED_RUNS_MAX; i += 100)
		touched_add(&t, i, false);
	assert_int_equal(t.count, TOUCHED_RUNS_MAX);
}

static void there_and_back(void **state)
{
	static struct touched t, back;
	struct snap_head h = head(), other = h;
	int fd = memfd_create("state", MFD_CLOEXEC);
	struct err e = { 0 };
	off_t end;
	char byte;

	(void)state;
	assert_false(touched_read(fd, &h, &back)); /* there is none */
	touched_add(&t, 5, false);
	touched_add(&t, 500, false);
	assert_int_equal(touched_write(fd, &h, &t, &e), 0);
	assert_true(touched_read(fd, &h, &back));
	assert_int_equal(back.count, 2);
	assert_int_equal(back.runs[1].first, 500);
	other.body_sha[0] ^= 1; /* of another state */
	assert_false(touched_read(fd, &other, &back));
	/* Every byte counts, and so does the last. */
	end = lseek(fd, 0, SEEK_END);
	for (off_t at = (off_t)sizeof(h) + BODY; at < end; at++) {
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		assert_false(touched_read(fd, &h, &back));
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	assert_int_equal(ftruncate(fd, end - 1), 0);
	assert_false(touched_read(fd, &h, &back));
	close(fd);
}

static void what_makes_no_sense(void **state)
{
	static const struct {
		const char *what;
		struct touched t;
	} cases[] = {
		{ "nothing", { 0 } },
		{ "an empty run", { 1, { { 1, 0, 0 } } } },
		{ "backwards", { 2, { { 9, 1, 0 }, { 8, 1, 0 } } } },
		{ "twice", { 2, { { 8, 2, 0 }, { 9, 1, 0 } } } },
		{ "beyond the memory", { 1, { { MEMORY / 4096 - 1, 2, 0 } } } },
		{ "beyond 32 bits", { 1, { { UINT32_MAX, UINT16_MAX, 0 } } } },
		{ "written, or what", { 1, { { 1, 1, 2 } } } },
		{ "too much written", { 1, { { 0, TOUCHED_WRITTEN_MAX + 1, 1 } } } },
	};
	static struct touched back;
	struct snap_head h = head();
	struct touched t = { 1, { { 0, TOUCHED_PAGES_MAX + 1, 0 } } };
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int fd = memfd_create("state", MFD_CLOEXEC);

		/* With a good sum, as whoever means harm would have it. */
		assert_int_equal(touched_write(fd, &h, &cases[i].t, &e), 0);
		if (touched_read(fd, &h, &back))
			fail_msg("%s is taken", cases[i].what);
		close(fd);
	}
	assert_false(touched_is_sound(&t, 1ull << 40)); /* too much */
	t.runs[0].count--;
	assert_true(touched_is_sound(&t, 1ull << 40));
}

static void fetched(void **state)
{
	static struct touched t;
	int fd = memfd_create("memory", MFD_CLOEXEC);
	struct gmem mem;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(ftruncate(fd, MEMORY), 0);
	assert_int_equal(pwrite(fd, "x", 1, 3 * 4096), 1);
	assert_int_equal(gmem_map(&mem, fd, MEMORY, &e), 0);
	touched_add(&t, 2, false);
	touched_add(&t, 3, false);
	touched_add(&t, 5, true);
	assert_int_equal(pwrite(fd, "y", 1, 5 * 4096), 1);
	touched_fetch(&t, &mem);
	/* Whether it is there now is the kernel's to say, but for what is our own already. */
	assert_int_equal(mem.regions[0].host[3 * 4096], 'x');
	assert_int_equal(pwrite(fd, "z", 1, 5 * 4096), 1);
	assert_int_equal(mem.regions[0].host[5 * 4096], 'y');
	gmem_done(&mem);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_become_runs),
		cmocka_unit_test(there_and_back),
		cmocka_unit_test(what_makes_no_sense),
		cmocka_unit_test(fetched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
