/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/repo.c - what ward asks of a repository.
 *
 * Owns:  nothing.
 * Rules: finding a repository reads files and runs nothing, so that a sweep can do it without git.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"
#include "git/git.h"
#include "host/host.h"

enum { GIT_TEXT_MAX = 64 * 1024 };

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A file of one line that names a path, absolute or relative to @base, after @prefix. */
static int read_pointer(
	const char *file, const char *prefix, const char *base, char ret[WARD_PATH_MAX])
{
	char text[WARD_PATH_MAX], joined[WARD_PATH_MAX];
	ssize_t n = host_get(AT_FDCWD, file, text, sizeof(text));
	const char *at;
	int r;

	if (n < 0)
		return (int)n;
	text[strcspn(text, "\n")] = '\0';
	at = str_after(text, prefix);
	if (!at || !*at)
		return -EINVAL;
	r = *at == '/' ? str_copy(joined, sizeof(joined), at)
		       : str_fmt(joined, sizeof(joined), "%s/%s", base, at);
	if (r < 0)
		return r;
	return realpath(joined, ret) ? 0 : -errno;
}

bool git_is_bare(const char *path)
{
	char part[WARD_PATH_MAX];

	return str_fmt(part, sizeof(part), "%s/objects", path) == 0 && is_dir(part) &&
	       str_fmt(part, sizeof(part), "%s/refs", path) == 0 && is_dir(part) &&
	       str_fmt(part, sizeof(part), "%s/HEAD", path) == 0 && access(part, F_OK) == 0;
}

int git_common_dir(const char *path, char ret[WARD_PATH_MAX], struct err *e)
{
	char dot[WARD_PATH_MAX], gitdir[WARD_PATH_MAX], common[WARD_PATH_MAX];
	struct stat st;
	int r = str_fmt(dot, sizeof(dot), "%s/.git", path);

	if (r == 0 && stat(dot, &st) < 0)
		r = git_is_bare(path) ? str_copy(dot, sizeof(dot), path) : -ENOENT;
	else if (r == 0 && !S_ISDIR(st.st_mode)) {
		/* A linked worktree or a submodule: a file that says where the folder is. */
		r = read_pointer(dot, "gitdir: ", path, gitdir);
		if (r == 0)
			r = str_fmt(dot, sizeof(dot), "%s/commondir", gitdir);
		if (r == 0)
			r = read_pointer(dot, "", gitdir, common);
		if (r == -ENOENT)
			r = str_copy(common, sizeof(common), gitdir);
		if (r == 0)
			r = str_copy(dot, sizeof(dot), common);
	}
	if (r == 0 && !realpath(dot, ret))
		r = -errno;
	if (r == -ENOENT)
		return err_say(e, ENOENT, "'%s' is not the top of a git repository", path);
	return r < 0 ? err_set(e, -r, "finding the repository of '%s'", path) : 0;
}

bool git_oid_is_valid(const char *text)
{
	size_t n = strspn(text, "0123456789abcdef");

	return !text[n] && (n == 40 || n == 64);
}

int git_resolve(const char *path, const char *ref, char ret_oid[GIT_OID_MAX + 1], struct err *e)
{
	char want[NAME_MAX + 32];
	const char *args[] = { "rev-parse", "--verify", "--quiet", "--end-of-options", want, NULL };
	own_buf struct buf out;
	struct git_call call = { .dir = path, .args = args, .text = &out };
	struct err why = { 0 };
	int r;

	buf_init(&out, GIT_TEXT_MAX);
	r = str_fmt(want, sizeof(want), "%s^{commit}", ref ? ref : "HEAD");
	if (r == 0)
		r = git_run(&call, &why);
	if (r < 0 &&
		(strstr(why.msg, "without a word") || strstr(why.msg, "Needed a single revision")))
		return err_say(e, ENOENT,
			"repository '%s' has no commit '%s'; accepted: a branch, tag or commit",
			path, ref ? ref : "HEAD");
	if (r < 0)
		return err_say(e, -r, "repository '%s': %s", path, why.msg);
	if (out.data)
		out.data[strcspn(out.data, "\n")] = '\0';
	if (!out.data || !git_oid_is_valid(out.data))
		return err_say(e, EIO, "repository '%s': git names no commit for '%s'", path,
			ref ? ref : "HEAD");
	return str_copy(ret_oid, GIT_OID_MAX + 1, out.data);
}

int git_alternates(const char *path, const char *common, struct buf *lines, struct err *e)
{
	static const char *const args[] = { "count-objects", "-v", NULL };
	char file[WARD_PATH_MAX];
	own_buf struct buf out;
	struct git_call call = { .dir = path, .args = args, .text = &out };
	int r = str_fmt(file, sizeof(file), "%s/objects/info/alternates", common);

	buf_init(&out, GIT_TEXT_MAX);
	if (r == 0 && access(file, F_OK) < 0)
		return 0;
	if (r == 0)
		r = git_run(&call, e);
	if (r < 0)
		return r;
	for (char *line = out.data, *next; line && *line; line = next) {
		const char *at = str_after(line, "alternate: ");

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (at && *at == '/')
			buf_add_fmt(lines, "%s\n", at);
	}
	return 0;
}

static int get_setting(const char *path, const char *key, char ret[128], struct err *e)
{
	const char *args[] = { "config", "--default", "", "--get", key, NULL };
	own_buf struct buf out;
	struct git_call call = { .dir = path, .args = args, .text = &out };
	int r;

	buf_init(&out, GIT_TEXT_MAX);
	r = git_run(&call, e);
	if (r < 0)
		return r;
	ret[0] = '\0';
	if (out.data) {
		out.data[strcspn(out.data, "\n")] = '\0';
		r = str_copy(ret, 128, out.data);
	}
	return r < 0 ? err_set(e, -r, "reading %s of '%s'", key, path) : 0;
}

int git_identity(const char *path, char name[128], char email[128], struct err *e)
{
	int r = get_setting(path, "user.name", name, e);

	return r < 0 ? r : get_setting(path, "user.email", email, e);
}
