/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/tree_test.c - trees are copied as they are and removed whatever they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/tree.h"

static char top[] = "/tmp/tree-test-XXXXXX";

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(top) ? chdir(top) : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return chdir("/") || tree_remove(top, NULL);
}

static void put(const char *path, mode_t mode, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void get(const char *path, char *out, size_t cap)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, out, cap - 1);

	assert_true(n >= 0);
	out[n] = '\0';
	close(fd);
}

static void age(const char *path, time_t when)
{
	struct timespec t[2] = { { when, 5 }, { when, 7 } };

	assert_int_equal(utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW), 0);
}

static const struct {
	const char *path;
	mode_t type, mode;
} entries[] = {
	{ "to", S_IFDIR, 0750 },
	{ "to/plain", S_IFREG, 0640 },
	{ "to/tool", S_IFREG, 0755 }, /* set-id in the source */
	{ "to/sub", S_IFDIR, 01711 },
	{ "to/sub/locked", S_IFREG, 0400 },
	{ "to/link", S_IFLNK, 0777 },
	{ "to/fifo", S_IFIFO, 0600 },
};

static void make_source(void)
{
	struct stat st;
	int fd;

	assert_int_equal(mkdir("from", 0700), 0);
	assert_int_equal(mkdir("from/sub", 0700), 0);
	put("from/plain", 0640, "hello");
	put("from/tool", 04755, "#!/bin/sh\n");
	put("from/sub/locked", 0400, "locked");
	assert_int_equal(symlink("/nowhere", "from/link"), 0);
	assert_int_equal(mkfifo("from/fifo", 0600), 0);
	fd = open("from/holes", O_WRONLY | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	assert_int_equal(pwrite(fd, "end", 3, (1 << 30) - 3), 3);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_blocks < 1024);
	close(fd);
	assert_int_equal(setxattr("from/plain", "user.note", "kept", 4, 0), 0);
	age("from/link", 1000);
	age("from/plain", 2000);
	assert_int_equal(chmod("from/sub", 01711), 0);
	age("from/sub", 3000);
	assert_int_equal(chmod("from", 0750), 0);
}

static void a_copy_is_the_same(void **state)
{
	char text[64] = { 0 };
	struct err e = { 0 };
	struct stat st;

	(void)state;
	make_source();
	assert_int_equal(tree_copy("from", "to", &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
		assert_int_equal(lstat(entries[i].path, &st), 0);
		assert_int_equal(st.st_mode & S_IFMT, entries[i].type);
		assert_int_equal(st.st_mode & 07777, entries[i].mode);
	}
	get("to/plain", text, sizeof(text));
	assert_string_equal(text, "hello");
	assert_int_equal(getxattr("to/plain", "user.note", text, sizeof(text)), 4);
	assert_int_equal(lstat("to/plain", &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(st.st_mtim.tv_nsec, 7);
	assert_int_equal(lstat("to/sub", &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 3000);
	assert_int_equal(lstat("to/link", &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000);
	assert_int_equal(lstat("to/holes", &st), 0);
	assert_int_equal(st.st_size, 1 << 30);
	assert_true(st.st_blocks < 1024);
}

static void a_copy_replaces_nothing(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(mkdir("there", 0700), 0);
	assert_int_equal(tree_copy("from", "there", &e), -EEXIST);
	assert_int_equal(tree_copy("nowhere", "new", &e), -ENOENT);
	assert_int_equal(access("new", F_OK), -1);
}

static void deep_and_closed_trees_go(void **state)
{
	struct err e = { 0 };
	int dir;

	(void)state;
	assert_int_equal(mkdir("deep", 0700), 0);
	dir = open("deep", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 3000; i++) {
		int next;

		assert_int_equal(mkdirat(dir, "a-folder", 0700), 0);
		assert_int_equal(symlinkat("/etc", dir, "out"), 0);
		next = openat(dir, "a-folder", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		if (i % 100 == 99)
			assert_int_equal(fchmod(dir, 0), 0);
		close(dir);
		dir = next;
	}
	close(dir);
	assert_int_equal(mkdir("deep/.ward-removed-0", 0), 0);
	if (tree_remove("deep", &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(access("deep", F_OK), -1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void removing_nothing_is_fine(void **state)
{
	(void)state;
	assert_int_equal(tree_remove("nowhere/at/all", NULL), 0);
	put("file", 0600, "x");
	assert_int_equal(tree_remove("file", NULL), 0);
	assert_int_equal(access("file", F_OK), -1);
	assert_int_equal(symlink("from", "link"), 0);
	assert_int_equal(tree_remove("link", NULL), 0);
	assert_int_equal(access("from/plain", F_OK), 0);
	assert_int_equal(tree_make("m/n/o", 0700, NULL), 0);
	assert_int_equal(tree_make("m/n/o", 0700, NULL), 0);
	assert_int_equal(access("m/n/o", F_OK), 0);
}

static void a_size_is_all_of_it(void **state)
{
	char data[65536], path[32] = "size/a/b/f";
	uint64_t none, some, more;

	(void)state;
	memset(data, 'x', sizeof(data) - 1);
	data[sizeof(data) - 1] = '\0';
	assert_int_equal(tree_make("size/a/b", 0700, NULL), 0);
	assert_int_equal(tree_size("size", &none), 0);
	put(path, 0600, data);
	assert_int_equal(tree_size("size", &some), 0);
	assert_true(some >= none + sizeof(data) - 1);
	/* A link to something large is small, and leads nowhere. */
	assert_int_equal(symlink("/usr", "size/link"), 0);
	put("size/a/g", 0600, data);
	assert_int_equal(tree_size("size", &more), 0);
	assert_true(more >= some + sizeof(data) - 1 && more < some + 2 * sizeof(data));
	assert_int_equal(tree_size("size/a/g", &none), -ENOTDIR);
	assert_int_equal(tree_size("nowhere", &none), -ENOENT);
	assert_int_equal(chdir("size"), 0);
	for (int i = 0; i < 300; i++)
		assert_int_equal(mkdir("d", 0700) || chdir("d"), 0);
	assert_int_equal(chdir(top), 0);
	assert_int_equal(tree_size("size", &more), -ELOOP);
	assert_int_equal(tree_remove("size", NULL), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_the_same),
		cmocka_unit_test(a_copy_replaces_nothing),
		cmocka_unit_test(deep_and_closed_trees_go),
		cmocka_unit_test(removing_nothing_is_fine),
		cmocka_unit_test(a_size_is_all_of_it),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
