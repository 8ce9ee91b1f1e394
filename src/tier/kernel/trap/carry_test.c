/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/carry_test.c - what goes with a call: what is served from it, what is not, and
 * that a page with anything in it does no harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tier/kernel/fake.h"
#include "tier/kernel/trap/carry.h"

enum { AT = 8192 /* bytes of the fake guest's memory */ };

struct carry_test {
	struct fake *g;
	struct place_carry *page;
	struct carried c;
	uint64_t base;
};

static int begin(void **state)
{
	struct carry_test *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->g = fake_create();
	w->page = aligned_alloc(4096, sizeof(*w->page));
	assert_non_null(w->page);
	memset(w->page, 0, sizeof(*w->page));
	w->base = fake_alloc(w->g, AT).v;
	w->g->task->mm->carry = w->page;
	*state = w;
	return 0;
}

static int end(void **state)
{
	struct carry_test *w = *state;

	w->g->task->mm->carry = NULL; /* not a mapping */
	w->g->task->mm->carried = NULL;
	fake_destroy(w->g);
	free(w->page);
	free(w);
	return 0;
}

static void bring(struct carry_test *w, const char *path, uint32_t room)
{
	w->page->ip = 0x401007;
	w->page->in_at = w->base;
	w->page->in_len = (uint32_t)strlen(path) + 1;
	memcpy(w->page->in, path, w->page->in_len);
	w->page->room_at = w->base + 64;
	w->page->room_len = room;
	assert_int_equal(carry_begin(&w->c, w->g->task), 0x401007);
}

static bool leave(struct carry_test *w, uint64_t at, const char *text)
{
	struct iovec from = { (void *)(uintptr_t)text, strlen(text) };
	struct iovec to = { (void *)(uintptr_t)at, from.iov_len };

	return carry_write(&w->c, &to, &from, 1);
}

static void reads_what_came(void **state)
{
	struct carry_test *w = *state;
	char b[16] = "";

	bring(w, "/etc", 0);
	memcpy(w->page->in, "/tmp", 4); /* too late */
	assert_int_equal(carry_read(&w->c, b, w->base, 16, true), 5);
	assert_string_equal(b, "/etc");
	assert_int_equal(carry_read(&w->c, b, w->base, 16, false), 0);
	assert_int_equal(carry_read(&w->c, b, w->base + 1, 4, false), 4);
	assert_string_equal(b, "etc");
	assert_int_equal(carry_read(&w->c, b, w->base + 5, 1, true), 0);
	assert_int_equal(carry_read(&w->c, b, w->base - 1, 1, true), 0);
	assert_int_equal(carry_read(&w->c, b, UINT64_MAX, 16, true), 0);
	carry_end(&w->c);
	assert_null(w->g->task->mm->carried);
	assert_null(w->c.mm);
}

static void leaves_what_fits(void **state)
{
	struct carry_test *w = *state;

	bring(w, "/etc", 8);
	assert_true(leave(w, w->base + 64, "12345678"));
	assert_false(leave(w, w->base + 65, "12345678"));
	assert_int_equal(w->c.outs, 0); /* that one touched the first: it is where it belongs */
	assert_memory_equal(fake_ptr(w->g, GVA(w->base + 64)), "12345678", 8);
	assert_false(leave(w, w->base + 63, "1"));
	assert_false(leave(w, PLACE_BASE - 1, "12"));
	assert_false(leave(w, PLACE_AGE - 1, "12"));
	assert_true(leave(w, PLACE_BASE, "12"));
	assert_true(leave(w, w->base + 70, "xy"));
	carry_end(&w->c);
	assert_int_equal(w->page->outs, 2);
	assert_int_equal(w->page->out[1].at, w->base + 70);
	assert_int_equal(w->page->out[1].len, 2);
	assert_memory_equal(w->page->data + w->page->out[1].from, "xy", 2);
}

/* What is written is what is read, wherever it lies meanwhile. */
static void stays_in_order(void **state)
{
	struct carry_test *w = *state;
	char b[8] = "";

	bring(w, "/etc", 64);
	assert_true(leave(w, w->base + 64, "new"));
	assert_int_equal(carry_read(&w->c, b, w->base + 65, 2, false), 0);
	assert_memory_equal(fake_ptr(w->g, GVA(w->base + 64)), "new", 3);
	assert_false(leave(w, w->base + 1, "tmp")); /* over what came */
	assert_int_equal(carry_read(&w->c, b, w->base, 5, true), 0);
}

static void has_an_end(void **state)
{
	struct carry_test *w = *state;
	char most[CARRY_ROOM + 1];
	int n = 0;

	memset(most, 'm', sizeof(most));
	most[CARRY_ROOM] = 0;
	bring(w, "/etc", CARRY_ROOM);
	while (n < 100 && leave(w, w->base + 64, "1"))
		n++;
	assert_int_equal(n, CARRY_OUTS);
	assert_int_equal(w->c.outs, 0);
	for (n = 0; n < 100 && leave(w, w->base + 64, most);)
		n++;
	assert_int_equal(n, CARRY_DATA / CARRY_ROOM);
}

static void refuses_a_bad_page(void **state)
{
	struct carry_test *w = *state;
	struct task *t = w->g->task;

	bring(w, "/etc", 8);
	carry_end(&w->c);
	w->page->in_len = CARRY_IN + 1;
	assert_int_equal(carry_begin(&w->c, t), 0);
	w->page->in_len = 0;
	w->page->room_len = CARRY_ROOM + 1;
	assert_int_equal(carry_begin(&w->c, t), 0);
	w->page->room_len = UINT32_MAX;
	assert_int_equal(carry_begin(&w->c, t), 0);
	w->page->room_len = 0;
	w->page->lent = 0x1ff;
	assert_int_equal(carry_begin(&w->c, t), 0);
	w->page->lent = 0;
	t->seccomp_strict = true; /* who watches sees where a call really comes from */
	assert_int_equal(carry_begin(&w->c, t), 0);
	t->seccomp_strict = false;
	t->mm->carry = NULL;
	assert_int_equal(carry_begin(&w->c, t), 0);
	assert_null(t->mm->carried);
}

static void tells_what_was_done_with_files(void **state)
{
	struct carry_test *w = *state;
	int64_t pos = 0;
	bool closed = false;

	w->page->lent = 1ULL << 3 | 1ULL << 63;
	w->page->files[0].pos = 7;
	w->page->files[1].closed = 1;
	bring(w, "/etc", 0);
	assert_true(carry_lent(&w->c, 3, &pos, &closed));
	assert_int_equal(pos, 7);
	assert_false(closed);
	assert_true(carry_lent(&w->c, 63, &pos, &closed));
	assert_true(closed);
	assert_false(carry_lent(&w->c, 4, &pos, &closed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_what_came, begin, end),
		cmocka_unit_test_setup_teardown(leaves_what_fits, begin, end),
		cmocka_unit_test_setup_teardown(stays_in_order, begin, end),
		cmocka_unit_test_setup_teardown(has_an_end, begin, end),
		cmocka_unit_test_setup_teardown(refuses_a_bad_page, begin, end),
		cmocka_unit_test_setup_teardown(tells_what_was_done_with_files, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
