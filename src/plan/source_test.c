/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan/source_test.c - the words of --source, good and bad.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "plan/source.h"

static char top[] = "/tmp/source-test-XXXXXX";

static const char *const folders[] = { "repo", "a@b", "a@b/in", "x=y", "p@q=r", "a" };

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(top) || chdir(top) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (mkdir(folders[i], 0700) < 0)
			return -1;
	return symlink("repo", "link");
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = ARRAY_LEN(folders); i > 0; i--)
		if (rmdir(folders[i - 1]) < 0)
			return -1;
	if (unlink("link") < 0 || chdir("/") < 0)
		return -1;
	return rmdir(top);
}

/* clang-format off */
static const struct {
	const char *word;
	int want;
	enum source_kind kind;
	const char *src, *ref, *name; /* src is below the test's folder */
} cases[] = {
	{ "git:repo",              0, SOURCE_GIT,  "repo",   NULL,        "repo" },
	{ "git:repo@v1",           0, SOURCE_GIT,  "repo",   "v1",        "repo" },
	{ "git:./repo@v1=w",       0, SOURCE_GIT,  "repo",   "v1",        "w" },
	{ "git:repo=w",            0, SOURCE_GIT,  "repo",   NULL,        "w" },
	{ "git:repo@feature/x",    0, SOURCE_GIT,  "repo",   "feature/x", "repo" },
	{ "git:repo@feature/x=w",  0, SOURCE_GIT,  "repo",   "feature/x", "w" },
	{ "git:link@v1",           0, SOURCE_GIT,  "repo",   "v1",        "repo" },
	{ "git:a@b/in",            0, SOURCE_GIT,  "a@b/in", NULL,        "in" },
	{ "git:a@b/in@v1",         0, SOURCE_GIT,  "a@b/in", "v1",        "in" },
	{ "git:a@b/in@f/x",        0, SOURCE_GIT,  "a@b/in", "f/x",       "in" },
	{ "git:a@b",               0, SOURCE_GIT,  "a",      "b",         "a" },
	{ "git:a@b/",              0, SOURCE_GIT,  "a@b",    NULL,        "a@b" },
	{ "git:repo@HEAD~2",       0, SOURCE_GIT,  "repo",   "HEAD~2",    "repo" },
	{ "git:repo@{u}",          0, SOURCE_GIT,  "repo",   "{u}",       "repo" },
	{ "dir:a@b",               0, SOURCE_DIR,  "a@b",    NULL,        "a@b" },
	{ "dir:x=y/",              0, SOURCE_DIR,  "x=y",    NULL,        "x=y" },
	{ "dir:x=y/=z",            0, SOURCE_DIR,  "x=y",    NULL,        "z" },
	{ "copy:p@q=r/",           0, SOURCE_COPY, "p@q=r",  NULL,        "p@q=r" },
	{ "link:repo/../a",        0, SOURCE_LINK, "a",      NULL,        "a" },
	{ "dir:.=w",               0, SOURCE_DIR,  "",       NULL,        "w" },
	{ .word = "repo", .want = -EINVAL },
	{ .word = "zip:repo", .want = -EINVAL },
	{ .word = "git:", .want = -EINVAL },
	{ .word = "git:@v1", .want = -EINVAL },
	{ .word = "git:repo@", .want = -EINVAL },
	{ .word = "git:repo@--upload-pack=x", .want = -EINVAL },
	{ .word = "git:repo@-x", .want = -EINVAL },
	{ .word = "git:repo=", .want = -EINVAL },
	{ .word = "git:repo=..", .want = -EINVAL },
	{ .word = "git:repo=.git", .want = -EINVAL },
	{ .word = "dir:repo=a\nb", .want = -EINVAL },
	{ .word = "dir:nowhere", .want = -ENOENT },
	{ .word = "dir:x=y", .want = -ENOENT },
	{ .word = "dir:/", .want = -EINVAL },
	{ .word = "dir:/etc/passwd", .want = -ENOTDIR },
};
/* clang-format on */

static void words_are_read(void **state)
{
	char want[PATH_MAX], storage[WARD_PATH_MAX], real[PATH_MAX];

	(void)state;
	assert_non_null(realpath(top, real));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct plan_source s = { 0 };
		struct err e = { 0 };
		int r = plan_source_parse(cases[i].word, &s, storage, sizeof(storage), &e);

		if (r != cases[i].want)
			fail_msg("%s: got %d (%s)", cases[i].word, r, e.msg);
		if (r < 0) {
			assert_non_null(strstr(e.msg, "--source"));
			assert_null(s.src);
			continue;
		}
		str_fmt(want, sizeof(want), "%s%s%s", real, *cases[i].src ? "/" : "", cases[i].src);
		assert_string_equal(s.src, want);
		assert_int_equal(s.kind, cases[i].kind);
		assert_string_equal(s.name, cases[i].name);
		if (!s.ref || !cases[i].ref)
			assert_ptr_equal(s.ref, cases[i].ref);
		else
			assert_string_equal(s.ref, cases[i].ref);
	}
}

static void small_storage_is_an_error(void **state)
{
	char storage[8];
	struct plan_source s;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(
		plan_source_parse("git:repo", &s, storage, sizeof(storage), &e), -ENAMETOOLONG);
}

static void paths_that_do_not_exist_yet(void **state)
{
	char got[WARD_PATH_MAX], want[WARD_PATH_MAX], path[WARD_PATH_MAX], real[PATH_MAX];

	(void)state;
	assert_non_null(realpath(top, real));
	str_fmt(path, sizeof(path), "%s/link/not/there", top);
	str_fmt(want, sizeof(want), "%s/repo/not/there", real);
	assert_int_equal(path_real(path, got), 0);
	assert_string_equal(got, want);
	assert_int_equal(path_real("/no-such/x", got), 0);
	assert_string_equal(got, "/no-such/x");
	assert_int_equal(path_real("/", got), 0);
	assert_string_equal(got, "/");
	assert_int_equal(path_real("/etc/passwd/x", got), -ENOTDIR);
}

static void sources_are_checked_together(void **state)
{
	static const struct plan_source two[] = {
		{ SOURCE_DIR, "/srv/a", NULL, "a" },
		{ SOURCE_COPY, "/srv/b", NULL, "a" },
	};
	struct err e = { 0 };

	(void)state;
	assert_int_equal(plan_sources_check(two, 1, "/nowhere/state", &e), 0);
	assert_int_equal(plan_sources_check(two, 2, "/nowhere/state", &e), -EEXIST);
	assert_int_equal(plan_sources_check(two, 1, "/srv/a/state", &e), -EINVAL);
	assert_int_equal(plan_sources_check(two, 1, "/srv/a", &e), -EINVAL);
	assert_int_equal(plan_sources_check(two, 1, "/srv/ab", &e), 0);
	assert_true(path_is_below("/x", "/"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_read),
		cmocka_unit_test(small_storage_is_an_error),
		cmocka_unit_test(paths_that_do_not_exist_yet),
		cmocka_unit_test(sources_are_checked_together),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
