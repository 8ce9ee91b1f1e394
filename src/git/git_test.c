/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/git_test.c - worktrees of real repositories, with the real git.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "git/git.h"
#include "host/tree.h"

static char top[] = "/tmp/git-test-XXXXXX";
static char repo[64], bare[64], first[GIT_OID_MAX + 1];

/* Runs "git WORDS" in @dir; what it printed in @out, without the newline. */
static int git(const char *dir, const char *words, char *out, size_t cap)
{
	char text[512], *save = NULL;
	const char *args[32];
	size_t n = 0;
	struct buf b;
	struct err e = { 0 };
	int r;

	str_copy(text, sizeof(text), words);
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		args[n++] = w;
	args[n] = NULL;
	buf_init(&b, 1 << 20);
	r = git_run(&(struct git_call){ .dir = dir, .args = args, .text = &b }, &e);
	if (r < 0)
		print_message("git %s: %s\n", words, e.msg);
	if (out) {
		str_copy(out, cap, b.data ? b.data : "");
		out[strcspn(out, "\n")] = '\0';
	}
	buf_done(&b);
	return r;
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[256];
	int fd;

	str_fmt(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(top))
		return -1;
	/* What the user's shell may hold must not reach the git that ward runs. */
	setenv("GIT_DIR", "/nowhere", 1);
	setenv("GIT_WORK_TREE", "/nowhere", 1);
	setenv("HOME", top, 1);
	str_fmt(repo, sizeof(repo), "%s/repo", top);
	str_fmt(bare, sizeof(bare), "%s/bare.git", top);
	mkdir(repo, 0755);
	assert_int_equal(git(repo, "init -q -b main", NULL, 0), 0);
	assert_int_equal(git(repo, "config user.name Ann", NULL, 0), 0);
	assert_int_equal(git(repo, "config user.email ann@example.org", NULL, 0), 0);
	put(repo, "a", "one\n");
	assert_int_equal(git(repo, "add a", NULL, 0), 0);
	assert_int_equal(git(repo, "commit -q -m one", NULL, 0), 0);
	assert_int_equal(git(repo, "tag v1", NULL, 0), 0);
	assert_int_equal(git(repo, "rev-parse HEAD", first, sizeof(first)), 0);
	put(repo, "a", "two\n");
	assert_int_equal(git(repo, "commit -q -a -m two", NULL, 0), 0);
	assert_int_equal(git(top, "clone -q --bare --shared repo bare.git", NULL, 0), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return tree_remove(top, NULL);
}

static void refs_are_resolved(void **state)
{
	char oid[GIT_OID_MAX + 1];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(git_resolve(repo, "v1", oid, &e), 0);
	assert_string_equal(oid, first);
	assert_int_equal(git_resolve(repo, "HEAD~1", oid, &e), 0);
	assert_string_equal(oid, first);
	assert_int_equal(git_resolve(repo, NULL, oid, &e), 0);
	assert_string_not_equal(oid, first);
	assert_int_equal(git_resolve(repo, "nope", oid, &e), -ENOENT);
	assert_non_null(strstr(e.msg, "'nope'"));
	assert_int_equal(git_resolve(repo, "--help", oid, &e), -ENOENT);
	assert_int_equal(git_resolve(top, "v1", oid, &e), -EIO);
	assert_non_null(strstr(e.msg, "not a git repository"));
}

static void repositories_are_found(void **state)
{
	char common[WARD_PATH_MAX], want[WARD_PATH_MAX], name[128], email[128];
	struct err e = { 0 };
	struct buf lines;

	(void)state;
	str_fmt(want, sizeof(want), "%s/.git", repo);
	assert_int_equal(git_common_dir(repo, common, &e), 0);
	assert_string_equal(common, want);
	assert_int_equal(git_common_dir(bare, common, &e), 0);
	assert_string_equal(common, bare);
	assert_true(git_is_bare(bare));
	assert_false(git_is_bare(repo));
	assert_int_equal(git_common_dir(top, common, &e), -ENOENT);
	buf_init(&lines, 4096);
	assert_int_equal(git_alternates(repo, want, &lines, &e), 0);
	assert_int_equal(lines.len, 0);
	assert_int_equal(git_alternates(bare, bare, &lines, &e), 0);
	str_fmt(want, sizeof(want), "%s/.git/objects\n", repo);
	assert_string_equal(lines.data, want);
	buf_done(&lines);
	assert_int_equal(git_identity(repo, name, email, &e), 0);
	assert_string_equal(name, "Ann");
	assert_string_equal(email, "ann@example.org");
}

static void a_worktree_comes_and_goes(void **state)
{
	char path[128], admin[256], name[GIT_WORKTREE_NAME + 1], out[256], common[WARD_PATH_MAX];
	struct err e = { 0 };

	(void)state;
	put(repo, ".git/hooks/post-checkout", "#!/bin/sh\ntouch hook-ran\n");
	str_fmt(path, sizeof(path), "%s/.git/hooks/post-checkout", repo);
	assert_int_equal(chmod(path, 0755), 0);
	str_fmt(path, sizeof(path), "%s/tree one", top);
	git_worktree_name(path, name);
	str_fmt(admin, sizeof(admin), "%s/.git/worktrees/%s", repo, name);
	if (git_worktree_add(repo, first, path, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(access(admin, F_OK), 0);
	assert_int_equal(git_common_dir(path, common, &e), 0);
	assert_int_equal(git(path, "status --porcelain", out, sizeof(out)), 0);
	assert_string_equal(out, "");
	assert_int_equal(git(path, "rev-parse HEAD", out, sizeof(out)), 0);
	assert_string_equal(out, first);
	put(path, "b", "new\n");
	assert_int_equal(git(path, "add b", NULL, 0), 0);
	assert_int_equal(git(path, "commit -q -m inside", NULL, 0), 0);
	/* A sandbox may have left anything in the place of .git. */
	put(path, ".git", "gitdir: /etc\n");
	assert_int_equal(git_worktree_remove(repo, path, &e), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(access(admin, F_OK), -1);
	assert_int_equal(git_worktree_remove(repo, path, &e), 0);
	assert_int_equal(git(repo, "worktree list --porcelain", out, sizeof(out)), 0);
	assert_int_equal(git(repo, "fsck --no-dangling", NULL, 0), 0);
}

static void a_bad_start_leaves_nothing(void **state)
{
	char path[128], out[512], before[512];
	struct err e = { 0 };

	(void)state;
	str_fmt(path, sizeof(path), "%s/bad", top);
	git(repo, "worktree list", before, sizeof(before));
	assert_true(
		git_worktree_add(repo, "0123456789012345678901234567890123456789", path, &e) < 0);
	assert_non_null(strstr(e.msg, repo));
	assert_int_equal(access(path, F_OK), -1);
	git(repo, "worktree list", out, sizeof(out));
	assert_string_equal(out, before);
	assert_int_equal(git_worktree_add(top, first, path, &e), -ENOENT);
}

static void the_repository_may_vanish(void **state)
{
	char path[128], gone[128], oid[GIT_OID_MAX + 1];
	struct err e = { 0 };

	(void)state;
	str_fmt(gone, sizeof(gone), "%s/gone", top);
	str_fmt(path, sizeof(path), "%s/orphan", top);
	assert_int_equal(git(top, "clone -q repo gone", NULL, 0), 0);
	assert_int_equal(git_resolve(gone, NULL, oid, &e), 0);
	assert_int_equal(git_worktree_add(gone, oid, path, &e), 0);
	assert_int_equal(tree_remove(gone, &e), 0);
	assert_int_equal(git_worktree_remove(gone, path, &e), 0);
	assert_int_equal(access(path, F_OK), -1);
}

static void a_private_repository_only_borrows(void **state)
{
	char path[128], gitdir[128], out[256], count[256], before[4096], after[4096];
	struct err e = { 0 };

	(void)state;
	str_fmt(path, sizeof(path), "%s/own", top);
	str_fmt(gitdir, sizeof(gitdir), "%s/own.git", top);
	assert_int_equal(git(repo, "for-each-ref", before, sizeof(before)), 0);
	assert_int_equal(git(repo, "count-objects -v", count, sizeof(count)), 0);
	if (git_private_add(repo, first, gitdir, path, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(git(path, "status --porcelain", out, sizeof(out)), 0);
	assert_string_equal(out, "");
	assert_int_equal(git(path, "show main:a", out, sizeof(out)), 0);
	assert_string_equal(out, "two");
	put(path, "b", "new\n");
	assert_int_equal(git(path, "checkout -q -b topic", NULL, 0), 0);
	assert_int_equal(git(path, "add b", NULL, 0), 0);
	assert_int_equal(git(path, "commit -q -m inside", NULL, 0), 0);
	assert_int_equal(git(path, "log -1 --format=%an", out, sizeof(out)), 0);
	assert_string_equal(out, "Ann");
	assert_int_equal(git(repo, "for-each-ref", after, sizeof(after)), 0);
	assert_string_equal(after, before);
	assert_int_equal(git(repo, "count-objects -v", out, sizeof(out)), 0);
	assert_string_equal(out, count);
	/* Borrowing from one that borrows, and from one without a checkout. */
	assert_int_equal(tree_remove(path, &e), 0);
	assert_int_equal(tree_remove(gitdir, &e), 0);
	assert_int_equal(git_private_add(bare, first, gitdir, path, &e), 0);
	assert_int_equal(git(path, "log --format=%s", out, sizeof(out)), 0);
	assert_string_equal(out, "one");
	assert_true(git_private_add(top, first, gitdir, path, &e) < 0);
}

static void many_at_once_do_not_disturb_each_other(void **state)
{
	enum { MANY = 8 };
	pid_t pids[MANY];
	int status;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char path[128], out[GIT_OID_MAX + 1];
			struct err e = { 0 };

			str_fmt(path, sizeof(path), "%s/at-once-%d", top, i);
			for (int round = 0; round < 3; round++) {
				if (git_worktree_add(repo, first, path, &e) < 0 ||
					git(path, "rev-parse HEAD", out, sizeof(out)) < 0 ||
					!str_eq(out, first) ||
					git_worktree_remove(repo, path, &e) < 0) {
					print_message("%s\n", e.msg);
					_exit(1);
				}
			}
			_exit(0);
		}
		assert_true(pids[i] > 0);
	}
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(refs_are_resolved),
		cmocka_unit_test(repositories_are_found),
		cmocka_unit_test(a_worktree_comes_and_goes),
		cmocka_unit_test(a_bad_start_leaves_nothing),
		cmocka_unit_test(the_repository_may_vanish),
		cmocka_unit_test(a_private_repository_only_borrows),
		cmocka_unit_test(many_at_once_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
