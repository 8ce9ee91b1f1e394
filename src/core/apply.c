/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/apply.c - the verb `apply`: brings a workspace's changes back.
 *
 * Owns:  the order: look at all sources, check all, then change one after the other.
 * Rules: a repository takes a patch whole or not at all (git apply), and a branch without its
 *        checkout being touched. The workspace stays as it is until `ward rm`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/str.h"
#include "core/apply.h"
#include "core/diff.h"
#include "core/gitwork.h"
#include "host/host.h"

enum { NAMES_MAX = 64 << 20 };

/* One source on its way. */
struct job {
	const struct workspace_source *s;
	struct gitwork *git;    /* git sources */
	struct changes changes; /* folders */
	char patch[WARD_PATH_MAX];
	size_t files;
};

static int count_files(struct job *j, struct err *e)
{
	const char *args[] = { "diff", "--no-ext-diff", "--no-renames", "--submodule=short",
		"--name-only", "-z", "--end-of-options", j->s->base, j->git->tree, "--", NULL };
	own_buf struct buf out;
	struct git_call call = {
		.dir = j->s->work, .args = args, .env = j->git->env, .text = &out
	};
	int r;

	buf_init(&out, NAMES_MAX);
	r = git_run(&call, e);
	for (size_t i = 0; r == 0 && i < out.len; i++)
		j->files += out.data[i] == '\0';
	return r;
}

static int write_patch(struct job *j, struct err *e)
{
	const char *args[] = { "diff", "--no-ext-diff", "--no-textconv", "--no-renames",
		"--submodule=short", "--no-color", "--binary", "--full-index", "--src-prefix=a/",
		"--dst-prefix=b/", "--end-of-options", j->s->base, j->git->tree, "--", NULL };
	struct git_call call = { .dir = j->s->work, .args = args, .env = j->git->env };
	own_fd int fd = -1;
	int r = str_fmt(j->patch, sizeof(j->patch), "%s/patch", j->git->scratch);

	if (r == 0)
		r = fd = host_open(j->patch, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (r < 0)
		return err_set(e, -r, "writing the patch for '%s'", j->s->src);
	call.out = fd;
	return git_run(&call, e);
}

static int run_apply(const struct job *j, bool check, struct err *e)
{
	const char *args[] = { "apply", "--whitespace=nowarn", check ? "--check" : "--apply",
		j->patch, NULL };
	struct git_call call = { .dir = j->s->src, .args = args };
	int r = git_run(&call, e);

	return r < 0 ? err_wrap(e, r,
			       "'%s' does not take the changes as it is now (commit or stash "
			       "there, or use --branch)",
			       j->s->src)
		     : 0;
}

static int prepare_git(
	struct job *j, const struct apply_request *req, const char *dir, struct err *e)
{
	int r;

	if (!req->branch && git_is_bare(j->s->src))
		return err_say(e, EINVAL, "'%s' has no checkout to apply to; use --branch NAME",
			j->s->src);
	j->git = calloc(1, sizeof(*j->git));
	if (!j->git)
		return err_set(e, ENOMEM, "looking at '%s'", j->s->src);
	r = gitwork_open(j->git, j->s, dir, e);
	if (r == 0)
		r = count_files(j, e);
	if (r < 0 || req->branch || !j->files)
		return r;
	r = write_patch(j, e);
	return r < 0 ? r : run_apply(j, true, e);
}

static int prepare(struct job *j, const struct apply_request *req, const char *dir, struct err *e)
{
	int r;

	if (j->s->kind == SOURCE_GIT)
		return prepare_git(j, req, dir, e);
	if (req->branch)
		return err_say(e, EINVAL,
			"source '%s' is a folder and has no branches; apply without --branch",
			j->s->name);
	r = changes_find(req->state_dir, req->id, j->s, &j->changes, e);
	j->files = j->changes.count;
	return r < 0 ? r : apply_folder_check(j->s, &j->changes, req->force, e);
}

static int act(
	struct job *j, const struct apply_request *req, struct apply_result *ret, struct err *e)
{
	char message[64];
	int r;

	ret->kind = j->s->kind;
	ret->files = j->files;
	r = str_copy(ret->name, sizeof(ret->name), j->s->name);
	if (r == 0)
		r = str_copy(ret->src, sizeof(ret->src), j->s->src);
	if (r < 0 || req->check)
		return r;
	if (req->branch) {
		r = str_fmt(message, sizeof(message), "Changes of workspace %s", req->id);
		return r < 0 ? r : gitwork_branch(j->git, req->branch, message, ret->commit, e);
	}
	if (!j->files)
		return 0;
	return j->git ? run_apply(j, false, e) : apply_folder(j->s, &j->changes, req->id, e);
}

static int run_jobs(const struct apply_request *req, struct job *jobs, unsigned count,
	const char *dir, struct apply_result *ret, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < count; i++)
		r = prepare(&jobs[i], req, dir, e);
	for (unsigned i = 0; r == 0 && i < count; i++)
		r = act(&jobs[i], req, &ret[i], e);
	for (unsigned i = 0; i < count; i++) {
		if (jobs[i].git)
			gitwork_close(jobs[i].git);
		free(jobs[i].git);
		changes_done(&jobs[i].changes);
	}
	return r;
}

int core_apply(const struct apply_request *req, struct apply_result *ret, struct err *e)
{
	own_mem struct workspace_record *rec = NULL;
	own_mem struct job *jobs = calloc(SOURCES_MAX, sizeof(*jobs));
	char dir[WARD_PATH_MAX];
	unsigned count = 0;
	int r = jobs ? workspace_open(req->state_dir, req->id, &rec, e)
		     : err_set(e, ENOMEM, "applying");

	if (r == 0)
		r = workspace_dir(req->state_dir, req->id, dir, e);
	if (r == 0)
		r = workspace_view(rec, e);
	for (unsigned i = 0; r == 0 && i < rec->count; i++)
		if (rec->sources[i].kind != SOURCE_LINK)
			jobs[count++].s = &rec->sources[i];
	if (r == 0 && !count)
		return err_say(e, EINVAL,
			"workspace %s was made from nothing: there is nowhere to apply it to",
			req->id);
	memset(ret, 0, SOURCES_MAX * sizeof(*ret));
	if (r == 0)
		r = run_jobs(req, jobs, count, dir, ret, e);
	return r < 0 ? r : (int)count;
}
