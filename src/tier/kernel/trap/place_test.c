/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place_test.c - which sites may be changed, into what, and what makes answers
 * old.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/trap/place.h"

static const struct {
	const char *name;
	uint8_t bytes[SITE_BYTES];
	uint32_t nr;
	bool want;
} shapes[] = {
	{ "readlink", { 0xb8, 0x59, 0, 0, 0, 0x0f, 0x05 }, 89, true },
	{ "a number of two bytes", { 0xb8, 0x06, 0x01, 0, 0, 0x0f, 0x05 }, 262, true },
	{ "another number", { 0xb8, 0x59, 0, 0, 0, 0x0f, 0x05 }, 90, false },
	{ "another register", { 0xb9, 0x59, 0, 0, 0, 0x0f, 0x05 }, 89, false },
	{ "mov of 7 bytes", { 0xc0, 0x59, 0, 0, 0, 0x0f, 0x05 }, 89, false },
	{ "sysenter", { 0xb8, 0x59, 0, 0, 0, 0x0f, 0x34 }, 89, false },
	{ "int 0x80", { 0xb8, 0x59, 0, 0, 0, 0xcd, 0x80 }, 89, false },
	{ "changed before", { 0xff, 0x24, 0x25, 0, 0, 0x0f, 0x05 }, 89, false },
	{ "upper bits", { 0xb8, 0x59, 0, 0, 0x80, 0x0f, 0x05 }, 89, false },
};

static void knows_its_sites(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		if (place_is_site(shapes[i].bytes, shapes[i].nr) != shapes[i].want)
			fail_msg("%s", shapes[i].name);
	}
}

/* What is left of the site and what is put over it are one instruction, and its end is a syscall.
 */
static void a_jump_ends_in_a_syscall(void **state)
{
	for (unsigned i = 0; i < PLACE_SITES; i++) {
		uint8_t site[SITE_BYTES] = { 0xb8, 0x59, 0, 0, 0, 0x0f, 0x05 };
		uint32_t slot;

		place_jump(i, site);
		memcpy(&slot, site + 3, sizeof(slot));
		assert_int_equal(site[0], 0xff);
		assert_int_equal(site[1], 0x24);
		assert_int_equal(site[2], 0x25);
		assert_int_equal(slot, PLACE_BASE + i * 8);
		assert_true(slot + 8 <= PLACE_SITES_AT);
	}
}

static void makes_answers(void **state)
{
	struct place_answer a;
	char path[PLACE_PATH_MAX + 1];

	assert_false(place_answer_make(&a, 89, 0, "", 1, -2));
	assert_true(place_answer_make(&a, 89, 7, "/usr", 5, -22));
	assert_int_equal(a.age, 5);
	assert_int_equal(a.nr, 89);
	assert_int_equal(a.arg, 7);
	assert_int_equal(a.len, 4);
	assert_int_equal(a.value, -22);
	memset(path, 'x', sizeof(path));
	path[PLACE_PATH_MAX - 1] = '\0';
	assert_true(place_answer_make(&a, 89, 0, path, 1, -2));
	path[PLACE_PATH_MAX - 1] = 'x';
	path[PLACE_PATH_MAX] = '\0';
	assert_false(place_answer_make(&a, 89, 0, path, 1, -2));
}

static void only_harmless_calls(void **state)
{
	const uint64_t none[6] = { 0 }, creat[6] = { 0, 0, O_CREAT };

	for (int64_t nr = 0; nr < 600; nr++)
		if (place_kind(nr) >= 0 && !place_is_kept(nr, none))
			fail_msg("%lld is answered in place, and makes answers old", (long long)nr);
	assert_false(place_is_kept(SYS_rename, none));
	assert_false(place_is_kept(SYS_setresuid, none));
	assert_false(place_is_kept(SYS_chdir, none));
	assert_false(place_is_kept(SYS_clone, none));
	assert_false(place_is_kept(9999, none));
	assert_true(place_is_kept(SYS_openat, none));
	assert_false(place_is_kept(SYS_openat, creat));
}

static void sees_who_maps_over_it(void **state)
{
	assert_false(place_is_hit(0, PLACE_BASE));
	assert_true(place_is_hit(0, PLACE_BASE + 1));
	assert_true(place_is_hit(PLACE_BASE, 1));
	assert_true(place_is_hit(PLACE_BASE + PLACE_SIZE - 1, 1));
	assert_false(place_is_hit(PLACE_BASE + PLACE_SIZE, 1));
	assert_true(place_is_hit(0x1000, UINT64_MAX));
	assert_false(place_is_hit(UINT64_MAX, UINT64_MAX));
}

/* The age moves with whatever changes a name or who somebody is, and stays otherwise. */
static void changes_have_an_age(void **state)
{
	struct fake *g = fake_create();
	uint64_t age = 1, before;
	gva_t buf = fake_alloc(g, 256);

	g->k.age = &age;
	fake_call(g->task, SYS_getpid);
	fake_call(g->task, SYS_uname, buf.v);
	assert_int_equal(age, 1);
	fake_call(g->task, SYS_setresuid, 0, 0, 0);
	assert_true(age > 1);
	before = age;
	fake_call(g->task, SYS_setgid, 0);
	assert_true(age > before);
	before = age;
	fake_call(g->task, 9999);
	assert_int_equal(age, before);
	g->k.age = NULL;
	fake_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_its_sites),
		cmocka_unit_test(a_jump_ends_in_a_syscall),
		cmocka_unit_test(makes_answers),
		cmocka_unit_test(only_harmless_calls),
		cmocka_unit_test(sees_who_maps_over_it),
		cmocka_unit_test(changes_have_an_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
