/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/sources.c - makes the working copies.
 *
 * Owns:  the choice between overlay and copy.
 * Rules: a source is written to by nobody: not by the command, not by us, but for the line of text
 *        with which a repository remembers its worktree.
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "tier/workspace/manifest.h"
#include "tier/workspace/ws.h"

enum { TICK_TRIES = 100 };

static int add_env(struct ws_box *b, const char *text, struct err *e)
{
	if (!text || b->env_count >= WS_ENV_MAX)
		return err_say(e, ENOMEM, "too many variables for the workspace");
	b->env[b->env_count++] = text;
	return 0;
}

/* Lays @lower under the source's own upper folder, if this host can; no error if it cannot. */
static int try_overlay(
	struct ws_box *b, struct workspace_source *s, const char *lower, struct err *e)
{
	struct ws_overlay *o = &b->overlays[b->overlay_count];
	struct stat st;
	int r;

	if (b->mode == WORKSPACE_PLAIN)
		return 0;
	*o = (struct ws_overlay){ .lower = lower,
		.upper = ws_text(&b->text, "%s/upper/%s", b->dir, s->name),
		.work = ws_text(&b->text, "%s/scratch/%s", b->dir, s->name) };
	if (!o->upper || !o->work)
		return err_say(e, ENAMETOOLONG, "source '%s': its path is too long", s->src);
	if (stat(lower, &st) < 0)
		return err_set(e, errno, "source '%s'", lower);
	r = host_mkdirat(AT_FDCWD, o->work, 0700);
	if (r == 0)
		r = host_mkdirat(AT_FDCWD, o->upper, 0700);
	/* The top of the view has the marks of the upper folder. */
	if (r == 0 && geteuid() == 0)
		r = host_fchownat(AT_FDCWD, o->upper, st.st_uid, st.st_gid, 0);
	if (r == 0 && chmod(o->upper, st.st_mode & 07777) < 0)
		r = -errno;
	if (r < 0)
		return err_set(e, -r, "making '%s'", o->upper);
	if (!ws_overlay_works(b->mode, o)) {
		r = tree_remove(o->upper, e);
		return r < 0 ? r : tree_remove(o->work, e);
	}
	b->overlay_count++;
	return str_copy(s->upper, sizeof(s->upper), o->upper);
}

/* A commit needs a name, and the file that holds it is not on the list of what may be read. */
static int add_identity(struct ws_box *b, const struct workspace_source *s, struct err *e)
{
	static const char *const who[] = { "AUTHOR", "COMMITTER" };
	char name[128], email[128];
	struct stat st;
	int r;

	if (b->env_count > 0)
		return 0; /* the first repository's */
	r = git_identity(s->src, name, email, e);
	for (unsigned i = 0; r == 0 && i < 2; i++) {
		if (*name)
			r = add_env(b, ws_text(&b->text, "GIT_%s_NAME=%s", who[i], name), e);
		if (r == 0 && *email)
			r = add_env(b, ws_text(&b->text, "GIT_%s_EMAIL=%s", who[i], email), e);
	}
	/* We were allowed to use it (git checks that for us); so is the command. */
	if (r == 0 && stat(s->common, &st) == 0 && st.st_uid != geteuid()) {
		r = add_env(b, "GIT_CONFIG_COUNT=1", e);
		if (r == 0)
			r = add_env(b, "GIT_CONFIG_KEY_0=safe.directory", e);
		if (r == 0)
			r = add_env(b, "GIT_CONFIG_VALUE_0=*", e);
	}
	return r;
}

/*
 * Over an overlay of the repository the command may do all that git can, seen by nobody. Where
 * there is none, it gets a repository of its own that borrows the objects of the source.
 */
static int make_git(
	struct ws_box *b, const struct plan_source *from, struct workspace_source *s, struct err *e)
{
	int r = git_common_dir(from->src, s->common, e);

	if (r == 0)
		r = git_resolve(from->src, from->ref, s->base, e);
	if (r == 0)
		r = add_identity(b, s, e);
	if (r == 0)
		r = try_overlay(b, s, s->common, e);
	if (r < 0)
		return r;
	if (*s->upper)
		return git_worktree_add(from->src, s->base, s->work, e);
	r = str_fmt(s->gitdir, sizeof(s->gitdir), "%s/git/%s", b->dir, s->name);
	if (r < 0)
		return err_set(e, -r, "source '%s'", s->src);
	return git_private_add(from->src, s->base, s->gitdir, s->work, e);
}

/*
 * File times move in steps of some milliseconds, and by no clock that can be read. Once one that is
 * made now is later than the last of the copy, whatever the command changes is later too, and `ward
 * apply` can tell the two apart.
 */
static int wait_for_tick(const char *copy, const char *dir)
{
	const struct timespec nap = { 0, 1000000 };
	struct stat last, now;

	if (stat(copy, &last) < 0)
		return -errno;
	/* A clock that was set back is not waited for: then more is taken for a conflict than is
	 * one. */
	for (unsigned i = 0; i < TICK_TRIES; i++) {
		if (utimensat(AT_FDCWD, dir, NULL, 0) < 0 || stat(dir, &now) < 0)
			return -errno;
		if (now.st_ctim.tv_sec > last.st_ctim.tv_sec ||
			(now.st_ctim.tv_sec == last.st_ctim.tv_sec &&
				now.st_ctim.tv_nsec > last.st_ctim.tv_nsec))
			break;
		nanosleep(&nap, NULL);
	}
	return 0;
}

static int make_folder(
	struct ws_box *b, const struct plan_source *from, struct workspace_source *s, struct err *e)
{
	int r = 0;

	if (b->box.plan->keep)
		r = manifest_write(s->src, ws_text(&b->text, "%s/base/%s", b->dir, s->name), e);
	if (r == 0 && from->kind == SOURCE_DIR)
		r = try_overlay(b, s, s->src, e);
	if (r < 0)
		return r;
	if (!*s->upper) {
		r = tree_copy(s->src, s->work, e);
		if (r < 0 || !b->box.plan->keep)
			return r;
		r = wait_for_tick(s->work, b->dir);
		return r < 0 ? err_set(e, -r, "looking at the copy '%s'", s->work) : 0;
	}
	r = host_mkdirat(AT_FDCWD, s->work, 0755);
	return r < 0 ? err_set(e, -r, "making '%s'", s->work) : 0;
}

static int make_one(struct ws_box *b, const struct plan_source *from, struct err *e)
{
	/* Counted before it is made, so that whoever cleans up looks for it. */
	struct workspace_source *s = &b->rec.sources[b->rec.count];
	int r;

	s->kind = from->kind;
	r = str_copy(s->name, sizeof(s->name), from->name);
	if (r == 0)
		r = str_copy(s->src, sizeof(s->src), from->src);
	if (r == 0)
		r = str_fmt(s->work, sizeof(s->work), "%s/work/%s", b->dir, from->name);
	if (r < 0)
		return err_set(e, -r, "source '%s'", from->src);
	b->rec.count++;
	switch (from->kind) {
	case SOURCE_GIT:
		return make_git(b, from, s, e);
	case SOURCE_DIR:
	case SOURCE_COPY:
		return make_folder(b, from, s, e);
	case SOURCE_LINK:
		r = host_symlinkat(s->src, AT_FDCWD, s->work);
		return r < 0 ? err_set(e, -r, "linking '%s'", s->work) : 0;
	}
	return err_say(e, EINVAL, "source '%s' is of no known kind", from->src);
}

/* plan->workdir, from the only source's folder or from work/. */
static int find_workdir(struct ws_box *b, struct err *e)
{
	const struct plan *plan = b->box.plan;
	const char *base =
		b->rec.count == 1 ? b->rec.sources[0].work : ws_text(&b->text, "%s/work", b->dir);

	if (!base)
		return err_say(e, ENAMETOOLONG, "the workspace's path is too long");
	if (!plan->workdir)
		b->workdir = base;
	else if (plan->workdir[0] == '/')
		b->workdir = plan->workdir;
	else
		b->workdir = ws_text(&b->text, "%s/%s", base, plan->workdir);
	return b->workdir ? 0
			  : err_say(e, ENAMETOOLONG, "--workdir '%s' is too long", plan->workdir);
}

int ws_sources_make(struct ws_box *b, struct err *e)
{
	const struct plan *plan = b->box.plan;
	int r = 0;

	b->rec.mode = b->mode;
	for (unsigned i = 0; r == 0 && i < plan->source_count; i++)
		r = make_one(b, &plan->sources[i], e);
	if (r == 0)
		r = add_env(b, ws_text(&b->text, "TMPDIR=%s/tmp", b->dir), e);
	if (r == 0)
		r = add_env(b, ws_text(&b->text, "HOME=%s/home", b->dir), e);
	/* A workspace may lie below a repository that is none of its business. */
	if (r == 0)
		r = add_env(b, ws_text(&b->text, "GIT_CEILING_DIRECTORIES=%s/work", b->dir), e);
	return r < 0 ? r : find_workdir(b, e);
}
