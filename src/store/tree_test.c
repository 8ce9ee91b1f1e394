/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/tree_test.c - deletion of trees that want to be trouble.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mount.h>

#include "base/ckd.h"
#include "store/testdir.h"

enum { DEEP = 3000, WIDE = 3000 };

static void make_file(int dir, const char *path)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void assert_gone(int dir, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(errno, ENOENT);
}

static void assert_there(int dir, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW), 0);
}

static void remove_it(int dir, const char *path)
{
	struct err e = { 0 };

	if (rm_tree(dir, path, &e) < 0)
		fail_msg("%s", e.msg);
	assert_gone(dir, path);
}

static void plain_things(void **state)
{
	const struct testdir *t = *state;

	remove_it(t->fd, "boxes/missing");
	make_file(t->fd, "boxes/file");
	remove_it(t->fd, "boxes/file");
	assert_int_equal(mkdirat(t->fd, "boxes/empty", 0700), 0);
	remove_it(t->fd, "boxes/empty");
	assert_int_equal(symlinkat("/nowhere", t->fd, "boxes/link"), 0);
	remove_it(t->fd, "boxes/link");
	assert_int_equal(mknodat(t->fd, "boxes/fifo", S_IFIFO | 0600, 0), 0);
	remove_it(t->fd, "boxes/fifo");
}

static void links_are_not_followed(void **state)
{
	const struct testdir *t = *state;

	assert_int_equal(mkdirat(t->fd, "layers/precious", 0700), 0);
	make_file(t->fd, "layers/precious/file");
	assert_int_equal(mkdirat(t->fd, "boxes/b", 0700), 0);
	assert_int_equal(symlinkat("../../layers/precious", t->fd, "boxes/b/link"), 0);
	assert_int_equal(symlinkat("/", t->fd, "boxes/b/root"), 0);
	assert_int_equal(symlinkat("../layers/precious", t->fd, "boxes/top"), 0);
	remove_it(t->fd, "boxes/b");
	remove_it(t->fd, "boxes/top");
	assert_there(t->fd, "layers/precious/file");
}

static void deep(void **state)
{
	const struct testdir *t = *state;
	int fd = openat(t->fd, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < DEEP; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0700), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		/* Every level keeps something else, some of it named as the deleter names things.
		 */
		make_file(next, i % 2 ? "file" : "ward-deep-3");
		close(fd);
		fd = next;
	}
	close(fd);
	remove_it(t->fd, "boxes/d");
}

static void wide(void **state)
{
	const struct testdir *t = *state;
	char name[32];

	assert_int_equal(mkdirat(t->fd, "boxes/w", 0700), 0);
	for (unsigned i = 0; i < WIDE; i++) {
		assert_int_equal(str_fmt(name, sizeof(name), "boxes/w/%u", i), 0);
		if (i % 3)
			make_file(t->fd, name);
		else
			assert_int_equal(mkdirat(t->fd, name, 0700), 0);
		if (i % 6 == 0) {
			assert_int_equal(str_fmt(name, sizeof(name), "boxes/w/%u/x", i), 0);
			make_file(t->fd, name);
		}
	}
	remove_it(t->fd, "boxes/w");
}

/* As somebody whom permission bits stop: 000 directories on the way, and inside others. */
static int remove_locked(const char *root)
{
	static const char *const dirs[] = { "l", "l/a", "l/a/b", "l/a/b/c", "l/e" };
	int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(dir, dirs[i], 0700) < 0)
			return 1;
	close(openat(dir, "l/a/b/c/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0));
	for (size_t i = ARRAY_LEN(dirs); i--;)
		if (fchmodat(dir, dirs[i], i % 2 ? 0 : 0500, 0) < 0)
			return 2;
	if (rm_tree(dir, "l", &e) < 0) {
		print_message("%s\n", e.msg);
		return 3;
	}
	return fstatat(dir, "l", &st, 0) == 0 ? 4 : 0;
}

static void locked_directories(void **state)
{
	const struct testdir *t = *state;
	char root[128];
	pid_t pid;

	assert_int_equal(str_fmt(root, sizeof(root), "%s/other", t->root), 0);
	assert_int_equal(mkdir(root, 0777), 0);
	assert_int_equal(chmod(root, 0777), 0);
	assert_int_equal(chmod(t->root, 0755), 0);
	pid = fork();
	if (pid == 0) {
		if (getuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(9);
		_exit(remove_locked(root));
	}
	assert_true(child_ok(pid));
}

/* Files of others in a directory of others stay, with an error; the rest goes. */
static void foreign_files(void **state)
{
	const struct testdir *t = *state;
	char root[128];
	pid_t pid;
	int dir;

	if (getuid() != 0)
		skip(); /* only root can make files of another user */
	assert_int_equal(str_fmt(root, sizeof(root), "%s/other", t->root), 0);
	assert_int_equal(mkdir(root, 0777), 0);
	assert_int_equal(chmod(root, 0777), 0);
	assert_int_equal(chmod(t->root, 0755), 0);
	dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(dir, "m", 0700), 0);
	assert_int_equal(mkdirat(dir, "m/theirs", 0755), 0);
	make_file(dir, "m/theirs/file");
	make_file(dir, "m/mine");
	assert_int_equal(fchownat(dir, "m", 65534, 65534, 0), 0);
	pid = fork();
	if (pid == 0) {
		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(9);
		_exit(rm_tree(dir, "m", NULL) == -EACCES || rm_tree(dir, "m", NULL) == -EPERM ? 0
											      : 1);
	}
	assert_true(child_ok(pid));
	assert_there(dir, "m/theirs/file");
	assert_gone(dir, "m/mine");
	close(dir);
}

static int mounted_inside(const char *state_dir)
{
	struct err e = { 0 };
	struct stat st;
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 10;
	/* Opened here: a descriptor from before would lead back into the old namespace. */
	fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(fd, "boxes/m", 0700) < 0 || mkdirat(fd, "boxes/m/tmp", 0700) < 0 ||
		mkdirat(fd, "boxes/m/bind", 0700) < 0 || mkdirat(fd, "layers/l", 0700) < 0)
		return 11;
	make_file(fd, "layers/l/file");
	make_file(fd, "boxes/m/plain");
	if (fchdir(fd) < 0 || mount("tmpfs", "boxes/m/tmp", "tmpfs", 0, NULL) < 0 ||
		mount("layers/l", "boxes/m/bind", NULL, MS_BIND, NULL) < 0)
		return 12;
	make_file(fd, "boxes/m/tmp/file");
	if (rm_tree(fd, "boxes/m", &e) != -EBUSY)
		return 13;
	if (fstatat(fd, "boxes/m/plain", &st, 0) == 0)
		return 14; /* what can go has gone */
	/* The bind mount is of the same file system: st_dev would not have shown it. */
	if (fstatat(fd, "layers/l/file", &st, 0) < 0 || fstatat(fd, "boxes/m/tmp/file", &st, 0) < 0)
		return 15;
	return 0;
}

static void mounts_are_not_entered(void **state)
{
	const struct testdir *t = *state;
	pid_t pid;

	if (getuid() != 0)
		skip(); /* mounting needs root */
	pid = fork();
	if (pid == 0)
		_exit(mounted_inside(t->path));
	assert_true(child_ok(pid));
	remove_it(t->fd, "boxes/m"); /* the mounts went with the child */
}

static void two_at_once(void **state)
{
	const struct testdir *t = *state;
	char name[48];
	pid_t pid;

	assert_int_equal(mkdirat(t->fd, "boxes/r", 0700), 0);
	for (unsigned i = 0; i < 400; i++) {
		assert_int_equal(str_fmt(name, sizeof(name), "boxes/r/%u", i), 0);
		assert_int_equal(mkdirat(t->fd, name, 0700), 0);
		assert_int_equal(str_fmt(name, sizeof(name), "boxes/r/%u/f", i), 0);
		make_file(t->fd, name);
	}
	pid = fork();
	if (pid == 0)
		_exit(rm_tree(t->fd, "boxes/r", NULL) < 0);
	remove_it(t->fd, "boxes/r");
	assert_true(child_ok(pid));
}

static void count_one(void *arg, const char *name)
{
	(void)name;
	++*(unsigned *)arg;
}

static void trash(void **state)
{
	const struct testdir *t = *state;
	struct err e = { 0 };
	unsigned n = 0;
	char name[128];

	assert_int_equal(mkdirat(t->fd, "boxes/x", 0), 0);
	assert_int_equal(tree_to_trash(t->fd, "boxes/x", name, sizeof(name), &e), 0);
	assert_gone(t->fd, "boxes/x");
	assert_there(t->fd, name);
	assert_int_equal(tree_to_trash(t->fd, "boxes/x", name, sizeof(name), &e), 0);
	assert_string_equal(name, ""); /* there was nothing to move */
	assert_int_equal(mkdirat(t->fd, "boxes/x", 0700), 0);
	assert_int_equal(tree_discard(t->fd, "boxes/x", &e), 0);
	assert_gone(t->fd, "boxes/x");
	assert_int_equal(trash_empty(t->fd, count_one, &n, &e), 0);
	assert_int_equal(n, 1);
	assert_int_equal(trash_empty(t->fd, count_one, &n, &e), 0);
	assert_int_equal(n, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, testdir_setup, testdir_teardown)
	const struct CMUnitTest tests[] = {
		T(plain_things),
		T(links_are_not_followed),
		T(deep),
		T(wide),
		T(locked_directories),
		T(foreign_files),
		T(mounts_are_not_entered),
		T(two_at_once),
		T(trash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
