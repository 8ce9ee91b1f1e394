/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/mm/copy_test.c - peeking: across pages, off the end, what was fetched before.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tier/kernel/fake.h"

enum { END = FAKE_START + FAKE_BYTES };

static void reads_across_pages(void **state)
{
	struct fake *g = fake_create();
	struct peek *w = calloc(1, sizeof(*w));
	uint64_t want = 0x1122334455667788, got = 0;
	gva_t at = GVA(FAKE_START + 5 * PEEK_PAGE - 3);
	char s[16];

	assert_non_null(w);
	memcpy(fake_ptr(g, at), &want, sizeof(want));
	assert_int_equal(peek_read(g->task, w, &got, at, sizeof(got)), 0);
	assert_true(got == want);
	memcpy(fake_ptr(g, at), "over pages", 11);
	memset(w, 0, sizeof(*w));
	assert_int_equal(peek_string(g->task, w, at, s, sizeof(s)), 10);
	assert_string_equal(s, "over pages");
	assert_int_equal(peek_string(g->task, w, at, s, 10), -ENAMETOOLONG);
	assert_int_equal(peek_string(g->task, w, at, s, 11), 10);
	free(w);
	fake_destroy(g);
}

static void ends_where_memory_ends(void **state)
{
	struct fake *g = fake_create();
	struct peek *w = calloc(1, sizeof(*w));
	uint64_t v;
	char s[16];

	assert_non_null(w);
	memset(fake_ptr(g, GVA(END - 4)), 'x', 4);
	assert_int_equal(peek_read(g->task, w, &v, GVA(END - 4), 8), -EFAULT);
	assert_int_equal(peek_read(g->task, w, &v, GVA(END - 8), 8), 0);
	assert_int_equal(peek_string(g->task, w, GVA(END - 4), s, sizeof(s)), -EFAULT);
	assert_int_equal(peek_read(g->task, w, &v, GVA(UINT64_MAX - 3), 8), -EFAULT);
	assert_int_equal(peek_read(g->task, w, &v, GVA(0), 8), -EFAULT);
	free(w);
	fake_destroy(g);
}

/* More pages than are kept, again and again: each is what the guest has there. */
static void keeps_a_few_pages(void **state)
{
	struct fake *g = fake_create();
	struct peek *w = calloc(1, sizeof(*w));
	uint64_t v;

	assert_non_null(w);
	for (uint64_t i = 0; i < 2 * PEEK_PAGES; i++)
		memcpy(fake_ptr(g, GVA(FAKE_START + i * PEEK_PAGE)), &i, sizeof(i));
	for (uint64_t n = 0; n < 6 * PEEK_PAGES; n++) {
		uint64_t i = n * 7 % (2 * PEEK_PAGES);

		assert_int_equal(peek_read(g->task, w, &v, GVA(FAKE_START + i * PEEK_PAGE), 8), 0);
		assert_int_equal(v, i);
	}
	free(w);
	fake_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_across_pages),
		cmocka_unit_test(ends_where_memory_ends),
		cmocka_unit_test(keeps_a_few_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
