/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/gitwork.c - what a command did to a repository.
 *
 * Owns:  the scratch folder of one look.
 * Rules: the .git file of the working copy, and what the command could write of the repository's
 *        own files, are data: read with our own eyes, never by git as its settings.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
#include <linux/openat2.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "core/gitwork.h"
#include "core/nested.h"
#include "host/host.h"
#include "host/tree.h"

enum { REFS_BYTES_MAX = 4 << 20, INDEX_BYTES_MAX = 512 << 20 };

/* A path in a list separated by ':': quoted, since it may hold one. */
static int quote(char *ret, size_t cap, const char *path)
{
	size_t n = 0;

	if (cap < 3)
		return -ENAMETOOLONG;
	ret[n++] = '"';
	for (; *path; path++) {
		if (n + 4 > cap)
			return -ENAMETOOLONG;
		if (*path == '"' || *path == '\\')
			ret[n++] = '\\';
		ret[n++] = *path;
	}
	ret[n++] = '"';
	ret[n] = '\0';
	return 0;
}

/* Where the command's own refs and objects are: above the source's repository, or beside it. */
static const char *written_dir(const struct workspace_source *s)
{
	return *s->upper ? s->upper : s->gitdir;
}

static int set_env(struct gitwork *g)
{
	char own[WARD_PATH_MAX], theirs[WARD_PATH_MAX], a[WARD_PATH_MAX * 2] = "",
									  b[WARD_PATH_MAX * 2] = "";
	size_t cap = sizeof(g->text[0]);
	int r = str_fmt(own, sizeof(own), "%s/objects", g->s->common);

	if (r == 0)
		r = quote(a, sizeof(a) / 2, own);
	if (r == 0)
		r = str_fmt(theirs, sizeof(theirs), "%s/objects", written_dir(g->s));
	if (r == 0)
		r = quote(b, sizeof(b) / 2, theirs);
	if (r == 0)
		r = str_fmt(g->text[0], cap, "GIT_DIR=%s", g->s->common);
	if (r == 0)
		r = str_fmt(g->text[1], cap, "GIT_WORK_TREE=%s", g->s->work);
	if (r == 0)
		r = str_fmt(g->text[2], cap, "GIT_INDEX_FILE=%s/index", g->scratch);
	if (r == 0)
		r = str_fmt(g->text[3], cap, "GIT_OBJECT_DIRECTORY=%s/objects", g->scratch);
	if (r == 0)
		r = str_fmt(g->text[4], cap, "GIT_ALTERNATE_OBJECT_DIRECTORIES=%s%s%s", a,
			*b ? ":" : "", b);
	for (size_t i = 0; r == 0 && i < 5; i++)
		g->env[i] = g->text[i];
	return r;
}

/* Runs git for the one object that it prints. */
static int ask_with(struct gitwork *g, const char *const *args, const char *const *env,
	char ret[GIT_OID_MAX + 1], struct err *e)
{
	own_buf struct buf out;
	struct git_call call = { .dir = g->s->work, .args = args, .env = env, .text = &out };
	int r;

	buf_init(&out, 64 * 1024);
	r = git_run(&call, e);
	if (r < 0)
		return r;
	if (out.data)
		out.data[strcspn(out.data, "\n")] = '\0';
	if (!out.data || !git_oid_is_valid(out.data))
		return err_say(e, EIO, "git %s names no object", args[0]);
	return str_copy(ret, GIT_OID_MAX + 1, out.data);
}

static int ask(struct gitwork *g, const char *const *args, char ret[GIT_OID_MAX + 1], struct err *e)
{
	return ask_with(g, args, g->env, ret, e);
}

/*
 * The index of the start knows the files' times, so that only what was touched is read again; times
 * of change cannot be forged. Where the command could write to it, it starts from nothing.
 */
static int seed_index(struct gitwork *g, struct err *e)
{
	const char *args[] = { "read-tree", g->s->base, NULL };
	char name[GIT_WORKTREE_NAME + 1], path[WARD_PATH_MAX], to[WARD_PATH_MAX];
	struct git_call call = { .dir = g->s->work, .args = args, .env = g->env };
	int r;

	git_worktree_name(g->s->work, name);
	r = str_fmt(path, sizeof(path), "%s/worktrees/%s/index", g->s->common, name);
	if (r == 0)
		r = str_fmt(to, sizeof(to), "%s/index", g->scratch);
	if (r == 0 && *g->s->upper && tree_copy_file(AT_FDCWD, path, AT_FDCWD, to, NULL) == 0)
		return 0;
	return r < 0 ? err_set(e, -r, "workspace '%s'", g->s->work) : git_run(&call, e);
}

/* A list as a file that git can read. */
static int put_list(struct gitwork *g, const struct buf *list, struct err *e)
{
	char path[WARD_PATH_MAX];
	own_fd int fd = -1;
	int r = list->bad ? -ENOMEM : str_fmt(path, sizeof(path), "%s/list", g->scratch);

	if (r == 0)
		r = fd = host_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (r >= 0)
		r = host_write_all(fd, list->data, list->len);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	return r < 0 ? err_set(e, -r, "writing a list for git") : take_fd(&fd);
}

/* Changes the index by lines of "MODE OID STAGE", a tab and a path. */
static int feed_index(struct gitwork *g, const struct buf *lines, struct err *e)
{
	static const char *const args[] = { "update-index", "-z", "--index-info", NULL };
	own_fd int fd = lines->len ? put_list(g, lines, e) : -1;
	struct git_call call = { .dir = g->s->work, .args = args, .env = g->env, .in = fd };

	if (!lines->len && !lines->bad)
		return 0;
	return fd < 0 ? fd : git_run(&call, e);
}

/* Does @path lie below one of the submodules in @lines? */
static bool is_below(const char *path, const struct buf *lines)
{
	for (const char *p = lines->data; p && p < lines->data + lines->len; p += strlen(p) + 1) {
		const char *rest = str_after(path, strchr(p, '\t') + 1);

		if (rest && *rest == '/')
			return true;
	}
	return false;
}

/* Lines that take every submodule, and what lies below @known ones, out; lines that put it back. */
static int list_submodules(struct gitwork *g, const struct buf *known, struct buf *out,
	struct buf *back, struct err *e)
{
	static const char *const args[] = { "ls-files", "--stage", "-z", NULL };
	own_buf struct buf text;
	struct git_call call = { .dir = g->s->work, .args = args, .env = g->env, .text = &text };
	int r;

	buf_init(&text, INDEX_BYTES_MAX);
	r = git_run(&call, e);
	for (char *p = text.data; r == 0 && p && p < text.data + text.len; p += strlen(p) + 1) {
		const char *tab = strchr(p, '\t');
		bool is_link = str_after(p, "160000 ") != NULL;

		if (!tab || !(is_link || (known && is_below(tab + 1, known))))
			continue;
		buf_add_fmt(out, "0 %0*d%s", (int)strlen(g->s->base), 0, tab);
		buf_add(out, "", 1);
		if (is_link && back)
			buf_add(back, p, strlen(p) + 1);
	}
	return r;
}

/* Everything, but for the repositories inside: a list of what to add. */
static int list_paths(struct gitwork *g, struct buf *paths, struct err *e)
{
	own_buf struct buf nested;
	int r;

	buf_init(&nested, INDEX_BYTES_MAX);
	r = nested_repositories(g->s->work, &nested, e);
	buf_add(paths, ".", 2);
	for (const char *p = nested.data; r == 0 && p && p < nested.data + nested.len;
		p += strlen(p) + 1) {
		buf_add_fmt(paths, ":(exclude,literal)%s", p);
		buf_add(paths, "", 1);
	}
	return r;
}

/*
 * For each submodule that it knows, `git add` starts a git in that folder, which would obey the
 * settings that the command left there. So it is told of none, and kept away from repositories that
 * the command made. Submodules are put back as they were at the start.
 */
static int add_all(struct gitwork *g, struct err *e)
{
	static const char *const args[] = { "add", "--all", "--pathspec-from-file=-",
		"--pathspec-file-nul", NULL };
	struct git_call call = { .dir = g->s->work, .args = args, .env = g->env };
	struct buf lists[4]; /* take out; put back; what to add; below what is put back */
	own_fd int fd = -1;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		buf_init(&lists[i], INDEX_BYTES_MAX);
	r = list_submodules(g, NULL, &lists[0], &lists[1], e);
	if (r == 0)
		r = feed_index(g, &lists[0], e);
	if (r == 0)
		r = list_paths(g, &lists[2], e);
	if (r == 0)
		r = fd = put_list(g, &lists[2], e);
	if (r >= 0) {
		call.in = fd;
		r = git_run(&call, e);
	}
	if (r == 0 && lists[1].len)
		r = list_submodules(g, &lists[1], &lists[3], NULL, e);
	if (r == 0)
		r = feed_index(g, &lists[3], e);
	if (r == 0)
		r = feed_index(g, &lists[1], e);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		buf_done(&lists[i]);
	return r;
}

int gitwork_open(
	struct gitwork *g, const struct workspace_source *s, const char *dir, struct err *e)
{
	static const char *const tree[] = { "write-tree", NULL };
	char objects[WARD_PATH_MAX];
	struct stat st;
	int r;

	memset(g, 0, sizeof(*g));
	g->s = s;
	/* The command may have put a link to anywhere in its place. */
	if (lstat(s->work, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_say(e, ENOTDIR,
			"the command removed the folder '%s' itself; nothing can be shown",
			s->work);
	if (access(s->common, F_OK) < 0)
		return err_set(e, errno, "the repository '%s' of this workspace", s->common);
	r = str_fmt(g->scratch, sizeof(g->scratch), "%s/look-XXXXXX", dir);
	if (r == 0 && !mkdtemp(g->scratch))
		r = -errno;
	if (r < 0) {
		g->scratch[0] = '\0';
		return err_set(e, -r, "making a scratch folder in '%s'", dir);
	}
	r = set_env(g);
	if (r == 0)
		r = str_fmt(objects, sizeof(objects), "%s/objects", g->scratch);
	if (r < 0)
		return err_set(e, -r, "workspace '%s'", s->work);
	r = host_mkdirat(AT_FDCWD, objects, 0700);
	if (r < 0)
		return err_set(e, -r, "making '%s'", objects);
	r = seed_index(g, e);
	if (r == 0)
		r = add_all(g, e);
	return r < 0 ? r : ask(g, tree, g->tree, e);
}

void gitwork_close(struct gitwork *g)
{
	if (*g->scratch)
		tree_remove(g->scratch, NULL);
	*g->scratch = '\0';
}

/* A small file that the command may have written, below @dir; its first line. */
static int read_line(const char *dir, const char *path, char *ret, size_t cap)
{
	own_fd int top = host_open(dir, O_PATH | O_DIRECTORY, 0);
	own_fd int fd = -1;
	ssize_t n;

	if (top < 0)
		return top;
	fd = host_openat2(top, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return fd;
	n = host_read(fd, ret, cap - 1);
	if (n < 0)
		return (int)n;
	ret[n] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	return 0;
}

/* "OID REF" in the list of packed refs. */
static int find_packed(const char *dir, const char *ref, char ret[GIT_OID_MAX + 1])
{
	own_mem char *text = malloc(REFS_BYTES_MAX);
	own_fd int top = host_open(dir, O_PATH | O_DIRECTORY, 0);
	own_fd int fd = -1;
	size_t len = 0;
	ssize_t n;

	if (!text || top < 0)
		return text ? top : -ENOMEM;
	fd = host_openat2(top, "packed-refs", O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return fd;
	while (len < REFS_BYTES_MAX - 1 &&
		(n = host_read(fd, text + len, REFS_BYTES_MAX - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	for (char *line = text, *next; *line; line = next) {
		char *space;

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		space = strchr(line, ' ');
		if (!space || !str_eq(space + 1, ref))
			continue;
		*space = '\0';
		return git_oid_is_valid(line) ? str_copy(ret, GIT_OID_MAX + 1, line) : -EINVAL;
	}
	return -ENOENT;
}

/* Where the branch that the command left checked out points to, as it saw it. */
static int find_branch(struct gitwork *g, const char *ref, char ret[GIT_OID_MAX + 1], struct err *e)
{
	const char *args[] = { "rev-parse", "--verify", "--quiet", "--end-of-options", ref, NULL };
	char line[NAME_MAX];
	int r = read_line(written_dir(g->s), ref, line, sizeof(line));

	if (r == 0 && git_oid_is_valid(line))
		return str_copy(ret, GIT_OID_MAX + 1, line);
	if (find_packed(written_dir(g->s), ref, ret) == 0)
		return 0;
	r = ask(g, args, ret, e); /* one of the source's, that it did not move */
	return r < 0 ? err_say(e, ENOENT, "the workspace is on branch '%s', which has no commit",
			       ref)
		     : 0;
}

int gitwork_head(struct gitwork *g, char ret_oid[GIT_OID_MAX + 1], struct err *e)
{
	const char *args[] = { "rev-parse", "--verify", "--quiet", "--end-of-options", NULL, NULL };
	char name[GIT_WORKTREE_NAME + 1], path[128], line[NAME_MAX], oid[GIT_OID_MAX + 1],
		commit[GIT_OID_MAX + 16];
	const char *ref;
	int r;

	git_worktree_name(g->s->work, name);
	r = *g->s->upper ? str_fmt(path, sizeof(path), "worktrees/%s/HEAD", name)
			 : str_copy(path, sizeof(path), "HEAD");
	if (r == 0)
		r = read_line(written_dir(g->s), path, line, sizeof(line));
	if (r == -ENOENT) /* never moved */
		return str_copy(ret_oid, GIT_OID_MAX + 1, g->s->base);
	if (r < 0)
		return err_set(e, -r, "reading where the workspace '%s' stands", g->s->work);
	ref = str_after(line, "ref: ");
	if (ref && (!str_after(ref, "refs/heads/") || strstr(ref, "..")))
		return err_say(e, EINVAL, "the workspace stands on '%s', which is no branch", ref);
	if (ref)
		r = find_branch(g, ref, oid, e);
	else if (git_oid_is_valid(line))
		r = str_copy(oid, sizeof(oid), line);
	else
		return err_say(e, EINVAL, "the workspace's HEAD is not a commit");
	if (r == 0)
		r = str_fmt(commit, sizeof(commit), "%s^{commit}", oid);
	args[4] = commit;
	return r < 0 ? r : ask(g, args, ret_oid, e);
}

/* Brings a commit, and what it needs beyond the base, from the scratch folder into the source. */
static int import(struct gitwork *g, const char *oid, struct err *e)
{
	static const char *const pack[] = { "pack-objects", "--revs", "--stdout", "--quiet", NULL };
	static const char *const unpack[] = { "index-pack", "--stdin", "--strict", "--fix-thin",
		NULL };
	const char *const env[] = { g->text[0], NULL }; /* into the repository itself */
	char path[WARD_PATH_MAX], revs[2 * GIT_OID_MAX + 8];
	own_fd int file = -1, list = -1;
	struct git_call call = { .dir = g->s->common, .args = pack, .env = g->env };
	int r = str_fmt(path, sizeof(path), "%s/pack", g->scratch);

	if (r == 0)
		r = file = host_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (r >= 0)
		r = str_fmt(path, sizeof(path), "%s/revs", g->scratch);
	if (r == 0)
		r = list = host_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (r >= 0)
		r = str_fmt(revs, sizeof(revs), "%s\n^%s\n", oid, g->s->base);
	if (r == 0)
		r = host_write_all(list, revs, strlen(revs));
	if (r == 0 && lseek(list, 0, SEEK_SET) < 0)
		r = -errno;
	if (r < 0)
		return err_set(e, -r, "packing the workspace's commits");
	call.in = list;
	call.out = file;
	r = git_run(&call, e);
	if (r < 0 || lseek(file, 0, SEEK_SET) < 0)
		return r < 0 ? r : err_set(e, errno, "packing the workspace's commits");
	call = (struct git_call){ .dir = g->s->common, .args = unpack, .env = env, .in = file };
	return git_run(&call, e);
}

/* What was not committed becomes a commit, written by the user, or else by ward. */
static int commit_rest(struct gitwork *g, const char *head, const char *message,
	char ret[GIT_OID_MAX + 1], struct err *e)
{
	static const char *const keys[] = { "AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME",
		"COMMITTER_EMAIL" };
	const char *args[] = { "commit-tree", g->tree, "-p", head, "-m", message, NULL };
	const char *env[ARRAY_LEN(g->env) + ARRAY_LEN(keys)] = { 0 };
	char name[128], email[128], text[ARRAY_LEN(keys)][192];
	int r = git_identity(g->s->src, name, email, e);
	size_t n = 0;

	for (; g->env[n]; n++)
		env[n] = g->env[n];
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(keys); i++) {
		const char *value =
			i % 2 ? (*email ? email : "ward@localhost") : (*name ? name : "ward");

		r = str_fmt(text[i], sizeof(text[i]), "GIT_%s=%s", keys[i], value);
		env[n++] = text[i];
	}
	return r < 0 ? r : ask_with(g, args, env, ret, e);
}

static int check_name(struct gitwork *g, const char *name, struct err *e)
{
	const char *form[] = { "check-ref-format", "--branch", name, NULL };
	char ref[NAME_MAX + 16], oid[GIT_OID_MAX + 1];
	struct git_call call = { .dir = g->s->src, .args = form };

	if (*name == '-' || strlen(name) > NAME_MAX || git_run(&call, NULL) < 0)
		return err_say(e, EINVAL, "'%.64s' is not a name for a branch", name);
	if (str_fmt(ref, sizeof(ref), "refs/heads/%s", name) == 0 &&
		git_resolve(g->s->src, ref, oid, NULL) == 0)
		return err_say(e, EEXIST, "'%s' has a branch '%s' already; give another name",
			g->s->src, name);
	return 0;
}

int gitwork_branch(struct gitwork *g, const char *name, const char *message,
	char ret_oid[GIT_OID_MAX + 1], struct err *e)
{
	char head[GIT_OID_MAX + 1], tree[GIT_OID_MAX + 1], ref[NAME_MAX + 16],
		rev[GIT_OID_MAX + 16];
	char none[GIT_OID_MAX + 1] = { 0 };
	const char *tree_of[] = { "rev-parse", "--verify", "--quiet", "--end-of-options", rev,
		NULL };
	const char *put[] = { "update-ref", "-m", "ward apply", ref, ret_oid, none, NULL };
	struct git_call call = { .dir = g->s->src, .args = put };
	int r = check_name(g, name, e);

	if (r == 0)
		r = gitwork_head(g, head, e);
	if (r == 0)
		r = str_fmt(rev, sizeof(rev), "%s^{tree}", head);
	if (r == 0)
		r = ask(g, tree_of, tree, e);
	if (r == 0)
		r = str_fmt(ref, sizeof(ref), "refs/heads/%s", name);
	if (r < 0)
		return r;
	if (str_eq(head, g->s->base) && str_eq(tree, g->tree)) {
		ret_oid[0] = '\0';
		return 0;
	}
	r = str_eq(tree, g->tree) ? str_copy(ret_oid, GIT_OID_MAX + 1, head)
				  : commit_rest(g, head, message, ret_oid, e);
	if (r == 0)
		r = import(g, ret_oid, e);
	memset(none, '0', strlen(head)); /* "only if it does not exist" */
	return r < 0 ? r : git_run(&call, e);
}
