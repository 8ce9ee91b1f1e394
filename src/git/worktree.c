/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/worktree.c - worktrees that ward can always find again.
 *
 * Owns:  their names: ward-<hash of the path>, so that two runs never want the same one and a sweep
 *        knows what to remove from the path alone.
 * Rules: what a repository remembers of a worktree (gitrepository-layout(5): HEAD, commondir and
 *        gitdir below worktrees/<name>) comes and goes by one rename. `git worktree add` writes
 * these files in place, and any other git that looks at that moment fails. Removal believes nothing
 *        that a sandbox could have written: `git worktree remove` believes the .git file, and `git
 *        worktree prune` would also forget the user's worktrees on a disk that is not there today.
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "base/sha256.h"
#include "base/str.h"
#include "git/git.h"
#include "host/host.h"
#include "host/tree.h"

enum { RENAME_TRIES = 16, LOCK_TRIES = 8, LOCK_WAIT_MS = 10 };

void git_worktree_name(const char *path, char ret[GIT_WORKTREE_NAME + 1])
{
	char hex[SHA256_HEX + 1];

	sha256_hex(path, strlen(path), hex);
	hex[GIT_WORKTREE_NAME - 5] = '\0';
	str_fmt(ret, GIT_WORKTREE_NAME + 1, "ward-%s", hex);
}

/* Where the repository's side of the worktree at @path is, and where it is on its way in or out. */
struct places {
	char list[WARD_PATH_MAX], admin[WARD_PATH_MAX], coming[WARD_PATH_MAX], going[WARD_PATH_MAX];
};

static int find_places(const char *common, const char *path, struct places *p)
{
	char name[GIT_WORKTREE_NAME + 1];
	int r = str_fmt(p->list, sizeof(p->list), "%s/worktrees", common);

	git_worktree_name(path, name);
	if (r == 0)
		r = str_fmt(p->admin, sizeof(p->admin), "%s/worktrees/%s", common, name);
	if (r == 0)
		r = str_fmt(p->coming, sizeof(p->coming), "%s/%s.new", common, name);
	if (r == 0)
		r = str_fmt(p->going, sizeof(p->going), "%s/%s.old", common, name);
	return r;
}

/* A file of one line: @before @text, newline. */
static int put_line(const char *dir, const char *name, const char *before, const char *text)
{
	char path[WARD_PATH_MAX], line[WARD_PATH_MAX];
	own_fd int fd = -1;
	int r = str_fmt(path, sizeof(path), "%s/%s", dir, name);

	if (r == 0)
		r = str_fmt(line, sizeof(line), "%s%s\n", before, text);
	if (r < 0)
		return r;
	fd = host_open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
	return fd < 0 ? fd : host_write_all(fd, line, strlen(line));
}

static int register_worktree(const struct places *p, const char *oid, const char *path)
{
	char dot_git[WARD_PATH_MAX];
	int r = str_fmt(dot_git, sizeof(dot_git), "%s/.git", path);

	if (r == 0)
		r = host_mkdirat(AT_FDCWD, p->coming, 0777);
	if (r == 0)
		r = put_line(p->coming, "HEAD", "", oid);
	if (r == 0)
		r = put_line(p->coming, "commondir", "", "../..");
	if (r == 0)
		r = put_line(p->coming, "gitdir", "", dot_git);
	/* Whoever removes the last worktree also removes the list: make it again then. */
	for (unsigned i = 0; r == 0 && i < RENAME_TRIES; i++) {
		r = host_mkdirat(AT_FDCWD, p->list, 0777);
		if (r == 0 || r == -EEXIST)
			r = host_renameat(AT_FDCWD, p->coming, AT_FDCWD, p->admin);
		if (r != -ENOENT)
			break;
		r = i + 1 < RENAME_TRIES ? 0 : r;
	}
	return r;
}

/* Another git that holds a lock of this worktree is waited for, for about two seconds. */
static int run_patiently(const struct git_call *call, struct err *e)
{
	int r = -EAGAIN;

	for (unsigned i = 0; r == -EAGAIN && i < LOCK_TRIES; i++) {
		struct timespec wait = { 0, (LOCK_WAIT_MS * 1000000L) << i };

		if (wait.tv_nsec > 999999999L)
			wait = (struct timespec){ 1, 0 };
		if (i)
			nanosleep(&wait, NULL);
		r = git_run(call, e);
	}
	return r;
}

static int add(
	const char *repo, const char *common, const char *oid, const char *path, struct err *e)
{
	static const char *const fill[] = { "reset", "--hard", "--quiet", NULL };
	struct git_call call = { .dir = path, .args = fill };
	char tables[WARD_PATH_MAX];
	struct places p;
	int r = find_places(common, path, &p);

	if (r == 0)
		r = str_fmt(tables, sizeof(tables), "%s/reftable", common);
	if (r < 0)
		return err_set(e, -r, "worktree '%s'", path);
	if (access(tables, F_OK) == 0)
		return err_say(e, EOPNOTSUPP,
			"'%s' keeps its refs in tables, which ward cannot write; use copy:%s", repo,
			repo);
	r = host_mkdirat(AT_FDCWD, path, 0777);
	if (r == 0)
		r = put_line(path, ".git", "gitdir: ", p.admin);
	if (r < 0)
		return err_set(e, -r, "making '%s'", path);
	r = register_worktree(&p, oid, path);
	if (r < 0)
		return err_set(e, -r, "registering '%s' in '%s'", path, p.list);
	return run_patiently(&call, e);
}

int git_worktree_add(const char *repo, const char *oid, const char *path, struct err *e)
{
	char common[WARD_PATH_MAX];
	int r = git_common_dir(repo, common, e);

	if (r < 0)
		return r;
	r = add(repo, common, oid, path, e);
	if (r < 0 && r != -EEXIST)
		git_worktree_remove(repo, path, NULL);
	return r < 0 ? err_wrap(e, r, "worktree of '%s'", repo) : 0;
}

static int unregister(const char *common, const char *path, struct err *e)
{
	struct places p;
	int r = find_places(common, path, &p), r2;

	if (r < 0)
		return err_set(e, -r, "worktree '%s'", path);
	r = host_renameat(AT_FDCWD, p.admin, AT_FDCWD, p.going);
	if (r == -ENOENT || r == -ENOTDIR)
		r = 0;
	if (r < 0)
		err_set(e, -r, "removing '%s'", p.admin);
	r2 = tree_remove(p.going, r < 0 ? NULL : e);
	if (r == 0)
		r = r2;
	r2 = tree_remove(p.coming, r < 0 ? NULL : e);
	/* As git does; it fails when others are left, and that is right. */
	host_unlinkat(AT_FDCWD, p.list, AT_REMOVEDIR);
	return r < 0 ? r : r2;
}

int git_worktree_remove(const char *repo, const char *path, struct err *e)
{
	char common[WARD_PATH_MAX];
	int r = tree_remove(path, e), r2;

	if (git_common_dir(repo, common, NULL) < 0)
		return r; /* the repository is gone, and with it what it remembered */
	r2 = unregister(common, path, r < 0 ? NULL : e);
	return r < 0 ? r : r2;
}
