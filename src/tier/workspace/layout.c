/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/layout.c - the folders of a workspace, and the record of a kept one.
 *
 * Owns:  the names below boxes/<id>, and the lines of the record.
 * Rules: all paths are real ones: the same names are used outside and in the private root, and what
 *        a repository remembers of a worktree follows from its path.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "plan/source.h"
#include "tier/workspace/ws.h"

enum { WS_RECORD_MAX = 1 << 20 };

static const struct {
	const char *name;
	bool keep; /* stays with --keep */
} folders[] = {
	{ "work", true },
	{ "upper", true },
	{ "git", true },
	{ "base", true },
	{ "scratch", false },
	{ "tmp", false },
	{ "home", false },
	{ "root", false },
};

static const char *const modes[] = {
	[WORKSPACE_PLAIN] = "plain",
	[WORKSPACE_ROOT] = "root",
	[WORKSPACE_USER] = "user",
};

const char *ws_text(struct ws_text *t, const char *fmt, ...)
{
	char *at = t->data + t->used;
	size_t room = sizeof(t->data) - t->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(at, room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= room)
		return NULL;
	t->used += (size_t)n + 1;
	return at;
}

static int box_dir(const char *state_dir, const char *id, char ret[WARD_PATH_MAX], struct err *e)
{
	char real[WARD_PATH_MAX];
	int r = path_real(state_dir, real);

	if (r == 0)
		r = str_fmt(ret, WARD_PATH_MAX, "%s/boxes/%s", real, id);
	return r < 0 ? err_set(e, -r, "state folder '%s'", state_dir) : 0;
}

int ws_layout_find(struct ws_box *b, struct err *e)
{
	return box_dir(b->box.plan->state_dir, b->box.plan->id, b->dir, e);
}

int ws_layout_make(struct ws_box *b, struct err *e)
{
	char path[WARD_PATH_MAX];
	int r = tree_make(b->dir, 0700, e);

	b->made = r == 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(folders); i++) {
		r = str_fmt(path, sizeof(path), "%s/%s", b->dir, folders[i].name);
		if (r == 0)
			r = host_mkdirat(AT_FDCWD, path, 0755);
		if (r < 0)
			err_set(e, -r, "making '%s'", path);
	}
	return r;
}

int ws_layout_remove(struct ws_box *b, bool keep, struct err *e)
{
	char path[WARD_PATH_MAX];
	int first = 0, r;

	if (!b->made)
		return 0;
	for (unsigned i = 0; !keep && i < b->rec.count; i++) {
		const struct workspace_source *s = &b->rec.sources[i];

		if (s->kind != SOURCE_GIT)
			continue;
		r = git_worktree_remove(s->src, s->work, first < 0 ? NULL : e);
		first = first < 0 ? first : r;
	}
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		if ((keep && folders[i].keep) ||
			str_fmt(path, sizeof(path), "%s/%s", b->dir, folders[i].name) < 0)
			continue;
		r = tree_remove(path, first < 0 ? NULL : e);
		first = first < 0 ? first : r;
	}
	if (!keep && str_fmt(path, sizeof(path), "%s/workspace", b->dir) == 0) {
		r = tree_remove(path, first < 0 ? NULL : e);
		first = first < 0 ? first : r;
		/* Others may keep files of theirs in it. */
		host_unlinkat(AT_FDCWD, b->dir, AT_REMOVEDIR);
	}
	return first;
}

int ws_record_write(const struct ws_box *b, struct err *e)
{
	char path[WARD_PATH_MAX];
	own_buf struct buf text;
	own_fd int fd = -1;
	int r;

	buf_init(&text, WS_RECORD_MAX);
	buf_add_fmt(&text, "version=1\nmode=%s\n", modes[b->mode]);
	for (unsigned i = 0; i < b->rec.count; i++) {
		const struct workspace_source *s = &b->rec.sources[i];
		const char *ref = b->box.plan->sources[i].ref;

		buf_add_fmt(&text, "source=%s\nname=%s\nsrc=%s\nwork=%s\n",
			source_kind_name(s->kind), s->name, s->src, s->work);
		if (*s->upper)
			buf_add_fmt(&text, "upper=%s\n", s->upper);
		if (*s->gitdir)
			buf_add_fmt(&text, "gitdir=%s\n", s->gitdir);
		if (s->kind == SOURCE_GIT)
			buf_add_fmt(&text, "ref=%s\nbase=%s\ncommon=%s\n", ref ? ref : "HEAD",
				s->base, s->common);
	}
	r = text.bad ? -ENOMEM : str_fmt(path, sizeof(path), "%s/workspace", b->dir);
	if (r == 0) {
		fd = host_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		r = fd < 0 ? fd : host_write_all(fd, text.data, text.len);
	}
	return r < 0 ? err_set(e, -r, "writing the record of workspace %s", b->box.plan->id) : 0;
}

/* One line of the record; unknown keys are for newer versions and say nothing to this one. */
static int read_line(struct workspace_record *rec, const char *key, const char *value)
{
	struct workspace_source *s = rec->count ? &rec->sources[rec->count - 1] : NULL;

	if (str_eq(key, "version"))
		return str_eq(value, "1") ? 0 : -EINVAL;
	if (str_eq(key, "mode")) {
		for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
			if (str_eq(value, modes[i])) {
				rec->mode = (enum workspace_mode)i;
				return 0;
			}
		}
		return -EINVAL;
	}
	if (str_eq(key, "source")) {
		if (rec->count == SOURCES_MAX)
			return -E2BIG;
		return source_kind_parse(value, &rec->sources[rec->count++].kind);
	}
	if (!s)
		return -EINVAL;
	if (str_eq(key, "name"))
		return str_copy(s->name, sizeof(s->name), value);
	if (str_eq(key, "src"))
		return str_copy(s->src, sizeof(s->src), value);
	if (str_eq(key, "work"))
		return str_copy(s->work, sizeof(s->work), value);
	if (str_eq(key, "upper"))
		return str_copy(s->upper, sizeof(s->upper), value);
	if (str_eq(key, "gitdir"))
		return str_copy(s->gitdir, sizeof(s->gitdir), value);
	if (str_eq(key, "common"))
		return str_copy(s->common, sizeof(s->common), value);
	if (str_eq(key, "base"))
		return git_oid_is_valid(value) ? str_copy(s->base, sizeof(s->base), value)
					       : -EINVAL;
	return 0;
}

static int read_text(struct workspace_record *rec, char *text)
{
	int r = 0;

	for (char *line = text, *next; r == 0 && *line; line = next) {
		char *eq;

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		eq = strchr(line, '=');
		if (!eq)
			return -EINVAL;
		*eq = '\0';
		r = read_line(rec, line, eq + 1);
	}
	for (unsigned i = 0; r == 0 && i < rec->count; i++) {
		const struct workspace_source *s = &rec->sources[i];

		if (!*s->name || *s->src != '/' || *s->work != '/' ||
			(s->kind == SOURCE_GIT && (!*s->base || *s->common != '/' ||
							  (*s->upper != '/' && *s->gitdir != '/'))))
			r = -EINVAL;
	}
	return r;
}

int workspace_read(
	const char *state_dir, const char *id, struct workspace_record **ret, struct err *e)
{
	own_mem struct workspace_record *rec = calloc(1, sizeof(*rec));
	own_mem char *text = malloc(WS_RECORD_MAX);
	char path[WARD_PATH_MAX];
	ssize_t n;
	int r;

	if (!rec || !text)
		return err_set(e, ENOMEM, "reading workspace %s", id);
	r = str_fmt(path, sizeof(path), "%s/boxes/%s/workspace", state_dir, id);
	if (r < 0)
		return err_set(e, -r, "state folder '%s'", state_dir);
	n = host_get(AT_FDCWD, path, text, WS_RECORD_MAX);
	if (n == -ENOENT || n == -ENOTDIR)
		return err_say(e, ENOENT,
			"there is no kept workspace '%s'; 'ward ls' lists what is kept", id);
	if (n < 0)
		return err_set(e, (int)-n, "reading '%s'", path);
	r = read_text(rec, text);
	if (r < 0)
		return err_set(e, -r, "'%s' is not a workspace's record", path);
	*ret = take_ptr(&rec);
	return 0;
}
