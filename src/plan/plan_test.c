/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan/plan_test.c - walls and trails.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/str.h"
#include "plan/paths.h"
#include "plan/trail.h"
#include "plan/wall.h"

static void walls_have_names(void **state)
{
	enum wall w = WALL_NONE;

	(void)state;
	for (int i = WALL_WORKSPACE; i < WALL_COUNT; i++) {
		assert_int_equal(wall_parse(wall_name((enum wall)i), &w), 0);
		assert_int_equal(w, i);
	}
	assert_int_equal(wall_parse("docker", &w), -EINVAL);
	assert_int_equal(wall_parse("", &w), -EINVAL);
}

static void paths_are_clean_or_not(void **state)
{
	static const char *const clean[] = { "/", "/a", "/a/.b/..c/d...", "/a/" };
	static const char *const not [] = { "", "a", "//", "/a//b", "/.", "/./a", "/..", "/a/..",
		"/a/../b" };
	static const char *const reserved[] = { "/", "/proc", "/proc/self", "/dev/",
		"/sys/kernel" };
	static const char *const free_to_use[] = { "/process", "/devel", "/a/proc", "/home" };
	char longest[WARD_PATH_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(clean); i++)
		assert_true(path_is_clean(clean[i]));
	for (size_t i = 0; i < ARRAY_LEN(not ); i++)
		assert_false(path_is_clean(not [i]));
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		assert_true(path_is_reserved(reserved[i]));
	for (size_t i = 0; i < ARRAY_LEN(free_to_use); i++)
		assert_false(path_is_reserved(free_to_use[i]));
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	longest[WARD_PATH_MAX] = 0;
	assert_false(path_is_clean(longest));
	longest[WARD_PATH_MAX - 1] = 0;
	assert_true(path_is_clean(longest));
}

static void a_hostile_trail_is_tamed(void **state)
{
	struct trail bad, good;

	(void)state;
	memset(&bad, 0xff, sizeof(bad));
	trail_copy(&good, &bad);
	assert_int_equal(good.count, 0);
	assert_int_equal(good.failed, 0);
	assert_int_equal(good.code, 0);
	assert_true(strlen(good.msg) < sizeof(good.msg));
	bad.count = 2;
	trail_copy(&good, &bad);
	assert_int_equal(good.count, 0);
}

static void the_first_failure_stays(void **state)
{
	struct trail t = { 0 };
	struct err e = { 0 };

	(void)state;
	trail_begin(&t, STEP_CGROUP);
	err_set(&e, EPERM, "one");
	trail_fail(&t, &e);
	trail_begin(&t, STEP_CLEANUP);
	err_set(&e, EIO, "two");
	trail_fail(&t, &e);
	assert_int_equal(t.failed, 1 + STEP_CGROUP);
	assert_int_equal(t.code, EPERM);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(walls_have_names),
		cmocka_unit_test(paths_are_clean_or_not),
		cmocka_unit_test(a_hostile_trail_is_tamed),
		cmocka_unit_test(the_first_failure_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
