/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place_test.c - which sites may be changed, into what, and what makes answers
 * old.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/trap/vdso.h"

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

/* @before what aligns code ends at the xor, @behind it begins behind the ret. */
static const struct {
	const char *name;
	uint8_t before[10], site[13], behind[10];
	int pad; /* 0: no site */
} shorts[] = {
	{ "libc's", { 0x74, 0x17 },
		{ 0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x77, 0x5b, 0xc3 },
		{ 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 }, 13 },
	{ "the loader's", { 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 },
		{ 0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x77, 0x04, 0xc3 },
		{ 0x0f, 0x1f, 0 }, -10 },
	{ "7 bytes before it", { 0xc3, 0, 0, 0x0f, 0x1f, 0x80, 0, 0, 0, 0 },
		{ 0x31, 0xc0, 0x0f, 0x05 }, { 0 }, -7 },
	{ "one that is longer", { 0x66, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 },
		{ 0x31, 0xc0, 0x0f, 0x05 }, { 0 }, 0 },
	{ "no room", { 0 },
		{ 0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x77, 0x04, 0xc3 },
		{ 0x0f, 0x1f, 0x44, 0, 0 }, 0 },
	{ "no ret before the room", { 0 },
		{ 0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x77, 0x04, 0x90 },
		{ 0x0f, 0x1f, 0x80, 0, 0, 0, 0 }, 0 },
	{ "another register", { 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 },
		{ 0x31, 0xc9, 0x0f, 0x05 }, { 0 }, 0 },
	{ "no syscall", { 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 }, { 0x31, 0xc0, 0xc3, 0x05 },
		{ 0 }, 0 },
};

static void knows_short_sites(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shorts); i++) {
		uint8_t all[SHORT_BYTES] = { 0 };
		struct place_short s = { 0 };

		memcpy(all + SHORT_AT - 10, shorts[i].before, sizeof(shorts[i].before));
		memcpy(all + SHORT_AT, shorts[i].site, sizeof(shorts[i].site));
		memcpy(all + SHORT_AT + sizeof(shorts[i].site), shorts[i].behind,
			sizeof(shorts[i].behind));
		if (place_short(all, &s) != (shorts[i].pad != 0) || s.pad != shorts[i].pad ||
			(s.pad && s.len < SITE_BYTES))
			fail_msg("%s: %d", shorts[i].name, s.pad);
	}
}

/* Code that makes any call, up to its syscall: with one byte changed it is something else. */
static void knows_code_that_makes_any_call(void **state)
{
	static const struct {
		int shape;
		unsigned before, len;
		uint8_t code[ANY_BYTES + 1];
	} all[] = {
		{ ANY_GLIBC, 10, 10, { 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 8, 0x0f, 5 } },
		{ ANY_MUSL_CP, 25, 26,
			{ 0x48, 0x89, 0xf8, 0x4d, 0x89, 0xc2, 0x48, 0x89, 0xf7, 0x4d, 0x89, 0xc8,
				0x48, 0x89, 0xd6, 0x4c, 0x8b, 0x4c, 0x24, 8, 0x48, 0x89, 0xca, 0x0f,
				5, 0xc3 } },
		{ ANY_MUSL, 21, 21,
			{ 0x48, 0x8b, 0x7a, 8, 0xc7, 4, 0x24, 8, 0, 0, 0, 0x48, 0x8b, 0x72, 0x10,
				0x48, 0x8b, 0x52, 0x18, 0x0f, 5 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		uint8_t page[ANY_BYTES + 1] = { 0 }, *ip = page + ANY_BYTES;

		memcpy(ip - all[i].before, all[i].code, all[i].len);
		assert_int_equal(place_any(ip), all[i].shape);
		for (unsigned k = 0; k < all[i].len; k++) {
			ip[(int)k - (int)all[i].before] ^= 1;
			assert_int_equal(place_any(ip), -1);
			ip[(int)k - (int)all[i].before] ^= 1;
		}
	}
}

static void finds_the_clock(void **state)
{
	uint64_t base = getauxval(AT_SYSINFO_EHDR), at;
	struct timespec before, now;

	at = vdso_find(base, "__vdso_clock_gettime");
	if (!base) {
		assert_int_equal(at, 0);
		return;
	}
	assert_int_not_equal(at, 0);
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(((int (*)(int, struct timespec *))at)(CLOCK_MONOTONIC, &now), 0);
	assert_true(now.tv_sec >= before.tv_sec);
	assert_int_equal(vdso_find(base, "__vdso_no_such_thing"), 0);
	assert_int_equal(vdso_find(0, "__vdso_clock_gettime"), 0);
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

	assert_false(answer_make(&a, 89, 0, "", -2));
	assert_false(answer_make(&a, 89, 0, "usr", -2));
	assert_true(answer_make(&a, 89, 7, "/usr", -22));
	assert_int_equal(a.nr, 89);
	assert_int_equal(a.arg, 7);
	assert_int_equal(a.len, 4);
	assert_int_equal(a.value, -22);
	memset(path, '/', sizeof(path));
	path[PLACE_PATH_MAX - 1] = '\0';
	assert_true(answer_make(&a, 89, 0, path, -2));
	path[PLACE_PATH_MAX - 1] = '/';
	path[PLACE_PATH_MAX] = '\0';
	assert_false(answer_make(&a, 89, 0, path, -2));
}

static void only_harmless_calls(void **state)
{
	for (int64_t nr = 0; nr < 600; nr++)
		if (place_kind(nr) >= 0 && place_kind(nr) != PLACE_MADE &&
			answers_effect(nr) != EFFECT_NONE)
			fail_msg("%lld is answered in place, and makes answers old", (long long)nr);
	assert_int_equal(answers_effect(SYS_setresuid), EFFECT_CRED);
	assert_int_equal(answers_effect(SYS_chroot), EFFECT_ALL);
	assert_int_equal(answers_effect(SYS_mount), EFFECT_ALL);
	assert_int_equal(answers_effect(SYS_capset), EFFECT_ALL);
	assert_int_equal(answers_effect(9999), EFFECT_ALL);
	assert_int_equal(answers_effect(SYS_clone), EFFECT_WHO);
	assert_int_equal(answers_effect(SHIM_HELLO), EFFECT_WHO);
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

/* The ages move with whatever changes a name or who somebody is, and stay otherwise. */
static void changes_have_an_age(void **state)
{
	struct fake *g = fake_create();
	uint64_t age[AGE_COUNT] = { 1, 1, 1, 1, 1 }, before[AGE_COUNT];
	gva_t buf = fake_alloc(g, 256);

	g->k.age = age;
	fake_call(g->task, SYS_getpid);
	fake_call(g->task, SYS_gettid);
	for (int i = 0; i < AGE_COUNT; i++)
		assert_int_equal(age[i], 1);
	fake_call(g->task, SYS_uname, buf.v);
	assert_int_equal(age[AGE_WHO], 1);
	fake_call(g->task, SYS_setresuid, 0, 0, 0);
	assert_int_equal(age[AGE_NAMES], 1);
	fake_call(g->task, SYS_setresgid, 1, 1, 1);
	for (int i = 0; i < AGE_COUNT; i++)
		assert_true(age[i] > 1);
	memcpy(before, age, sizeof(age));
	fake_call(g->task, SYS_setsid);
	assert_true(age[AGE_WHO] > before[AGE_WHO]);
	assert_int_equal(age[AGE_NAMES], before[AGE_NAMES]);
	memcpy(before, age, sizeof(age));
	fake_call(g->task, 9999);
	assert_memory_equal(age, before, sizeof(age));
	g->k.age = NULL;
	fake_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_its_sites),
		cmocka_unit_test(knows_short_sites),
		cmocka_unit_test(knows_code_that_makes_any_call),
		cmocka_unit_test(finds_the_clock),
		cmocka_unit_test(a_jump_ends_in_a_syscall),
		cmocka_unit_test(makes_answers),
		cmocka_unit_test(only_harmless_calls),
		cmocka_unit_test(sees_who_maps_over_it),
		cmocka_unit_test(changes_have_an_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
