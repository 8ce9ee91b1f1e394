/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/private.c - a checkout whose repository only borrows.
 *
 * Owns:  what such a repository is made of.
 * Rules: nothing is written to the repository that it borrows from.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "git/git.h"
#include "host/host.h"
#include "host/tree.h"

/* Puts @text into a file of @dir, in the place of what was there. */
static int put(const char *dir, const char *name, const char *text)
{
	char path[WARD_PATH_MAX];
	own_fd int fd = -1;
	int r = str_fmt(path, sizeof(path), "%s/%s", dir, name);

	if (r < 0)
		return r;
	fd = host_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	return fd < 0 ? fd : host_write_all(fd, text, strlen(text));
}

/* A file of the lender, if it has one. */
static int take_over(const char *common, const char *gitdir, const char *name)
{
	char from[WARD_PATH_MAX], to[WARD_PATH_MAX];
	int r = str_fmt(from, sizeof(from), "%s/%s", common, name);

	if (r == 0)
		r = str_fmt(to, sizeof(to), "%s/%s", gitdir, name);
	if (r < 0 || access(from, F_OK) < 0)
		return r;
	r = host_unlinkat(AT_FDCWD, to, 0);
	if (r < 0 && r != -ENOENT)
		return r;
	return tree_copy_file(AT_FDCWD, from, AT_FDCWD, to, NULL);
}

static int run(const char *dir, const char *const *args, int out, struct err *e)
{
	struct git_call call = { .dir = dir, .args = args, .out = out };

	return git_run(&call, e);
}

/* All refs, as one list: as they are now, whatever they are kept in. */
static int copy_refs(const char *repo, const char *gitdir, struct err *e)
{
	static const char *const list[] = { "for-each-ref", "--format=%(objectname) %(refname)",
		NULL };
	char path[WARD_PATH_MAX];
	own_fd int fd = -1;
	int r = str_fmt(path, sizeof(path), "%s/packed-refs", gitdir);

	if (r == 0)
		r = fd = host_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	return r < 0 ? err_set(e, -r, "making '%s'", path) : run(repo, list, fd, e);
}

static int fill(const char *common, const char *oid, const char *gitdir, struct err *e)
{
	char line[WARD_PATH_MAX];
	/* A path that starts with a quote would be read as a quoted one; real paths start with '/'.
	 */
	int r = str_fmt(line, sizeof(line), "%s/objects\n", common);

	if (r == 0)
		r = put(gitdir, "objects/info/alternates", line);
	if (r == 0)
		r = take_over(common, gitdir, "config");
	if (r == 0)
		r = take_over(common, gitdir, "shallow");
	if (r == 0)
		r = str_fmt(line, sizeof(line), "%s\n", oid);
	if (r == 0)
		r = put(gitdir, "HEAD", line);
	return r < 0 ? err_set(e, -r, "filling '%s'", gitdir) : 0;
}

int git_private_add(
	const char *repo, const char *oid, const char *gitdir, const char *path, struct err *e)
{
	char common[WARD_PATH_MAX], separate[WARD_PATH_MAX + 32];
	const char *format = strlen(oid) == 64 ? "--object-format=sha256" : "--object-format=sha1";
	const char *init[] = { "init", "--quiet", "--template=", format, separate, path, NULL };
	static const char *const fill_tree[] = { "reset", "--hard", "--quiet", NULL };
	/* Settings that were about the lender's own checkouts. In the folder itself: git looks at
	 * where it is, and the caller may stand where it may not. */
	static const char *const not_bare[] = { "config", "--file", "config", "core.bare", "false",
		NULL };
	static const char *const own_tree[] = { "config", "--file", "config", "--unset-all",
		"core.worktree", NULL };
	static const char *const no_trees[] = { "config", "--file", "config", "--unset-all",
		"extensions.worktreeConfig", NULL };
	int r = git_common_dir(repo, common, e);

	if (r < 0)
		return r;
	r = str_fmt(separate, sizeof(separate), "--separate-git-dir=%s", gitdir);
	if (r < 0)
		return err_set(e, -r, "repository '%s'", gitdir);
	r = run(NULL, init, 0, e);
	if (r == 0)
		r = fill(common, oid, gitdir, e);
	if (r == 0)
		r = copy_refs(repo, gitdir, e);
	if (r == 0)
		r = run(gitdir, not_bare, 0, e);
	if (r < 0)
		return r;
	run(gitdir, own_tree, 0, NULL); /* both fail where there is nothing to unset */
	run(gitdir, no_trees, 0, NULL);
	return run(path, fill_tree, 0, e);
}
