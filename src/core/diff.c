/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/diff.c - the verb `diff`: what a kept workspace changed.
 *
 * Owns:  nothing; looks only.
 * Rules: git makes every diff, out of objects and never out of files with settings in them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "core/changes.h"
#include "core/diff.h"
#include "core/gitwork.h"
#include "core/pair.h"
#include "plan/source.h"
#include "store/kept.h"
#include "store/state.h"

enum { DIFF_LIST_MAX = 64 << 20 };

int workspace_dir(const char *state_dir, const char *id, char ret[WARD_PATH_MAX], struct err *e)
{
	int r = str_fmt(ret, WARD_PATH_MAX, "%s/boxes/%s", state_dir, id);

	return r < 0 ? err_set(e, -r, "state directory '%s'", state_dir) : 0;
}

int workspace_open(
	const char *state_dir, const char *id, struct workspace_record **ret, struct err *e)
{
	own_fd int state = -1;
	struct record kept;
	char tier[32];
	int r;

	if (!id_is_valid(id))
		return err_say(
			e, EINVAL, "'%.32s' is not the id of a sandbox; 'ward ls' lists them", id);
	r = state_open_existing(state_dir, &state, e);
	if (r == 0)
		r = kept_read(state, id, &kept, e);
	if (r == -ENOENT)
		return err_say(
			e, ENOENT, "there is no kept sandbox '%s'; 'ward ls' lists them", id);
	if (r < 0)
		return r;
	if (record_get(&kept, "tier", tier, sizeof(tier)) < 0 || !str_eq(tier, "workspace"))
		return err_say(e, EINVAL,
			"sandbox %s is no workspace: it was not made with --tier workspace", id);
	return workspace_read(state_dir, id, ret, e);
}

/* One diff of @before and @after in the repository that @env names. */
struct look {
	const struct diff_request *req;
	const struct workspace_source *s;
	const char *dir;
	const char *const *env;
	const char *before, *after;
	bool many; /* the names of sources come before their paths */
};

static int print(const struct look *l, struct err *e)
{
	static const char *const forms[] = {
		[DIFF_PATCH] = "--patch",
		[DIFF_STAT] = "--stat",
		[DIFF_NAMES] = "--name-only",
	};
	char a[NAME_MAX + 32] = "--src-prefix=a/", b[NAME_MAX + 32] = "--dst-prefix=b/";
	const char *args[] = { "diff", "--no-ext-diff", "--no-textconv", "--submodule=short",
		forms[l->req->form], l->req->colour ? "--color=always" : "--color=never", a, b,
		"--end-of-options", l->before, l->after, "--", NULL };
	struct git_call call = { .dir = l->dir, .args = args, .env = l->env, .out = l->req->out };
	int r = 0;

	if (l->many) {
		r = str_fmt(a, sizeof(a), "--src-prefix=a/%s/", l->s->name);
		if (r == 0)
			r = str_fmt(b, sizeof(b), "--dst-prefix=b/%s/", l->s->name);
	}
	return r < 0 ? r : git_run(&call, e);
}

static const char *status_word(char letter)
{
	return letter == 'A'   ? "added"
	       : letter == 'D' ? "deleted"
	       : letter == 'T' ? "type-changed"
			       : "modified";
}

/* "N" or "-": a binary file has no lines. */
static void json_lines(struct buf *b, const char *key, const char *text)
{
	uint64_t n;

	if (parse_u64(text, 0, INT64_MAX, &n) == 0)
		json_u64(b, key, n);
	else
		json_null(b, key);
}

/*
 * With -z, first all of ":mode mode oid oid LETTER" NUL path NUL, then all of "added TAB deleted
 * TAB path" NUL, in the same order.
 */
static int json_files(struct buf *b, char *text, size_t len)
{
	char *end = text + len, *counts = text, *p = text;

	while (counts < end && *counts == ':')
		for (int i = 0; i < 2 && counts < end; i++)
			counts += strlen(counts) + 1;
	while (p < end && *p == ':') {
		char *letter = strrchr(p, ' '), *path = p + strlen(p) + 1, *tab, *tab2;

		tab = counts < end ? strchr(counts, '\t') : NULL;
		tab2 = tab ? strchr(tab + 1, '\t') : NULL;
		if (!letter || path >= end || !tab2 || !str_eq(tab2 + 1, path))
			return -EIO;
		*tab = *tab2 = '\0';
		json_open(b, NULL);
		json_str(b, "path", path);
		json_str(b, "status", status_word(letter[1]));
		json_lines(b, "added", counts);
		json_lines(b, "deleted", tab + 1);
		json_close(b);
		p = path + strlen(path) + 1;
		counts = tab2 + 1 + strlen(tab2 + 1) + 1;
	}
	return 0;
}

static int add_json(const struct look *l, struct err *e)
{
	const char *args[] = { "diff", "--no-ext-diff", "--no-textconv", "--no-renames",
		"--submodule=short", "--raw", "--numstat", "-z", "--end-of-options", l->before,
		l->after, "--", NULL };
	own_buf struct buf out;
	struct git_call call = { .dir = l->dir, .args = args, .env = l->env, .text = &out };
	struct buf *b = l->req->json;
	int r;

	buf_init(&out, DIFF_LIST_MAX);
	r = git_run(&call, e);
	if (r < 0)
		return r;
	json_open(b, NULL);
	json_str(b, "name", l->s->name);
	json_str(b, "kind", source_kind_name(l->s->kind));
	json_str(b, "src", l->s->src);
	json_str(b, "base", *l->s->base ? l->s->base : NULL);
	json_array(b, "files");
	r = out.data ? json_files(b, out.data, out.len) : 0;
	json_array_end(b);
	json_close(b);
	return r < 0 ? err_say(e, EIO, "git diff printed something else than it should") : 0;
}

static int show(const struct look *l, struct err *e)
{
	return l->req->form == DIFF_JSON ? add_json(l, e) : print(l, e);
}

static int diff_git(struct look *l, const char *dir, struct err *e)
{
	struct gitwork *g = malloc(sizeof(*g));
	int r;

	if (!g)
		return err_set(e, ENOMEM, "looking at '%s'", l->s->src);
	r = gitwork_open(g, l->s, dir, e);
	if (r == 0) {
		l->dir = l->s->work;
		l->env = g->env;
		l->before = l->s->base;
		l->after = g->tree;
		r = show(l, e);
	}
	gitwork_close(g);
	free(g);
	return r;
}

static int diff_folder(struct look *l, const char *dir, struct err *e)
{
	struct changes c = { 0 };
	struct pair p = { 0 };
	int r = changes_find(l->req->state_dir, l->req->id, l->s, &c, e);

	if (r == 0)
		r = pair_open(&p, l->s, &c, dir, e);
	if (r == 0) {
		l->dir = p.scratch;
		l->env = p.env;
		l->before = PAIR_BEFORE;
		l->after = PAIR_AFTER;
		r = show(l, e);
		l->dir = NULL; /* it was in @p */
		l->env = NULL;
	}
	pair_close(&p);
	changes_done(&c);
	return r;
}

int core_diff(const struct diff_request *req, struct err *e)
{
	own_mem struct workspace_record *rec = NULL;
	char dir[WARD_PATH_MAX];
	int r = workspace_open(req->state_dir, req->id, &rec, e);

	if (r == 0)
		r = workspace_dir(req->state_dir, req->id, dir, e);
	if (r == 0)
		r = workspace_view(rec, e);
	if (r == 0 && req->form == DIFF_JSON) {
		json_open(req->json, NULL);
		json_str(req->json, "id", req->id);
		json_array(req->json, "sources");
	}
	for (unsigned i = 0; r == 0 && i < rec->count; i++) {
		struct look l = { .req = req, .s = &rec->sources[i], .many = rec->count > 1 };

		if (l.s->kind == SOURCE_GIT)
			r = diff_git(&l, dir, e);
		else if (l.s->kind != SOURCE_LINK)
			r = diff_folder(&l, dir, e);
	}
	if (r == 0 && req->form == DIFF_JSON) {
		json_array_end(req->json);
		json_close(req->json);
	}
	return r;
}
