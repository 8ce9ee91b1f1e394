/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/ring_test.c - the replay buffer against a plain model of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sup/ring.h"

enum { MODEL = 3 * SUP_RING_BYTES, PIECE_MAX = 5000 };

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* All that the ring has, compared with what went in. */
static void compare(const struct ring *r, const uint8_t *data, const uint8_t *kind)
{
	uint64_t at = r->tail;

	while (at < r->head) {
		const uint8_t *piece;
		bool of_stderr;
		size_t n = ring_peek(r, at, &piece, &of_stderr);

		assert_true(n > 0 && n <= r->head - at);
		assert_memory_equal(piece, data + at, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(kind[at + i], of_stderr);
		at += n;
		/* A piece ends where the kind changes or the buffer wraps, not before. */
		if (at < r->head && at % SUP_RING_BYTES)
			assert_int_not_equal(kind[at], of_stderr);
	}
}

static void test_random_pieces(void **state)
{
	uint8_t *data = malloc(MODEL + PIECE_MAX), *kind = malloc(MODEL + PIECE_MAX);
	struct ring r = { 0 };
	uint32_t seed = 7;
	uint64_t total = 0;
	unsigned turn = 0;

	(void)state;
	while (total < MODEL) {
		size_t n = 1 + next(&seed) % (turn % 3 ? PIECE_MAX : 9);
		bool of_stderr = next(&seed) & 1;

		for (size_t i = 0; i < n; i++)
			data[total + i] = (uint8_t)next(&seed);
		memset(kind + total, of_stderr, n);
		assert_int_equal(ring_put(&r, data + total, n, of_stderr), 0);
		total += n;
		assert_int_equal(r.head, total);
		assert_int_equal(r.head - r.tail, total < SUP_RING_BYTES ? total : SUP_RING_BYTES);
		if (++turn % 64 == 0)
			compare(&r, data, kind);
	}
	compare(&r, data, kind);
	ring_done(&r);
	free(data);
	free(kind);
}

static void test_one_byte_each(void **state)
{
	struct ring r = { 0 };

	(void)state;
	/* The least favourable writer: its output is kept like anybody's. */
	for (unsigned i = 0; i < 2 * SUP_RING_BYTES; i++)
		assert_int_equal(ring_put(&r, (const uint8_t *)"x", 1, i & 1), 0);
	assert_int_equal(r.head - r.tail, SUP_RING_BYTES);
	for (uint64_t at = r.tail; at < r.head; at++) {
		const uint8_t *piece;
		bool of_stderr;

		assert_int_equal(ring_peek(&r, at, &piece, &of_stderr), 1);
		assert_int_equal(of_stderr, at & 1);
	}
	ring_done(&r);
}

static void test_edges(void **state)
{
	static uint8_t large[3 * SUP_RING_BYTES];
	struct ring r = { 0 };
	const uint8_t *piece;
	bool of_stderr;

	(void)state;
	assert_int_equal(ring_peek(&r, 0, &piece, &of_stderr), 0);
	ring_done(&r);
	large[sizeof(large) - 1] = 9;
	assert_int_equal(ring_put(&r, large, sizeof(large), true), 0);
	assert_int_equal(r.head, sizeof(large));
	assert_int_equal(r.tail, sizeof(large) - SUP_RING_BYTES);
	assert_int_equal(ring_peek(&r, r.head - 1, &piece, &of_stderr), 1);
	assert_int_equal(*piece, 9);
	assert_true(of_stderr);
	assert_int_equal(ring_peek(&r, r.head, &piece, &of_stderr), 0);
	assert_int_equal(ring_peek(&r, r.tail - 1, &piece, &of_stderr), 0);
	ring_done(&r);
	assert_int_equal(r.head, sizeof(large));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_pieces),
		cmocka_unit_test(test_one_byte_each),
		cmocka_unit_test(test_edges),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
