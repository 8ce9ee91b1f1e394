/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan/source.c - the word after --source.
 *
 * Owns:  the names of the kinds of source.
 * Rules: everything that a later layer puts into a path, a record or a git command is checked here.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/str.h"
#include "plan/source.h"

#define ACCEPTED "accepted: git:PATH[@REF][=NAME], dir:PATH, copy:PATH, link:PATH"

static const char *const kinds[] = {
	[SOURCE_GIT] = "git",
	[SOURCE_DIR] = "dir",
	[SOURCE_COPY] = "copy",
	[SOURCE_LINK] = "link",
};

const char *source_kind_name(enum source_kind kind)
{
	return kinds[kind];
}

int source_kind_parse(const char *text, enum source_kind *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (str_eq(text, kinds[i])) {
			*ret = (enum source_kind)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool path_is_below(const char *path, const char *top)
{
	const char *rest = str_after(path, top);

	return rest && (*rest == '/' || !*rest || str_eq(top, "/"));
}

int path_real(const char *path, char ret[WARD_PATH_MAX])
{
	char lead[WARD_PATH_MAX], real[PATH_MAX];
	size_t n = strlen(path);
	int r = str_copy(lead, sizeof(lead), path);

	while (r == 0 && !realpath(n ? lead : "/", real)) {
		if (errno != ENOENT || n == 0)
			return -errno;
		while (n > 0 && lead[n - 1] != '/')
			n--;
		while (n > 0 && lead[n - 1] == '/')
			n--;
		lead[n] = '\0';
	}
	return r < 0 ? r
		     : str_fmt(ret, WARD_PATH_MAX, "%s%s", str_eq(real, "/") && path[n] ? "" : real,
			       path + n);
}

static bool is_dir(const char *path)
{
	struct stat st;

	return *path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Records are lines of text, and refs become arguments of git. */
static bool has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return true;
	return false;
}

/* Cuts "@REF" off @path; NULL when there is none. */
static char *cut_ref(char *path)
{
	char *slash = strrchr(path, '/'), *at = strrchr(slash ? slash : path, '@');

	if (!at && slash && !is_dir(path)) {
		for (char *p = slash; p > path && !at; p--) {
			if (*p != '@')
				continue;
			*p = '\0';
			if (is_dir(path))
				at = p;
			*p = '@';
		}
	}
	if (!at)
		return NULL;
	*at = '\0';
	return at + 1;
}

static int check_name(const char *word, const char *name, struct err *e)
{
	if (!*name || str_eq(name, ".") || str_eq(name, "..") || str_eq(name, ".git") ||
		strlen(name) > NAME_MAX)
		return err_say(e, EINVAL,
			"--source '%s': '%s' cannot be a folder's name in the workspace; add =NAME",
			word, name);
	return 0;
}

static int check_ref(const char *word, const char *ref, struct err *e)
{
	if (!*ref || *ref == '-' || strlen(ref) > NAME_MAX)
		return err_say(
			e, EINVAL, "--source '%s': '%s' is not a branch, tag or commit", word, ref);
	return 0;
}

/* Adds @s to @storage, and moves @storage behind it. */
static const char *keep(char **storage, size_t *cap, const char *s)
{
	size_t n = strlen(s) + 1;
	char *at = *storage;

	if (n > *cap)
		return NULL;
	memcpy(at, s, n);
	*storage += n;
	*cap -= n;
	return at;
}

int plan_source_parse(
	const char *word, struct plan_source *ret, char *storage, size_t cap, struct err *e)
{
	char text[WARD_PATH_MAX], path[PATH_MAX], *colon, *slash, *name, *ref = NULL;
	struct plan_source s = { 0 };
	int r;

	if (str_copy(text, sizeof(text), word) < 0)
		return err_say(
			e, ENAMETOOLONG, "--source is longer than %d bytes", WARD_PATH_MAX - 1);
	if (has_control(text))
		return err_say(
			e, EINVAL, "--source has a control character in it; rename the folder");
	colon = strchr(text, ':');
	if (!colon)
		return err_say(e, EINVAL, "--source '%s' names no kind; " ACCEPTED, word);
	*colon = '\0';
	if (source_kind_parse(text, &s.kind) < 0)
		return err_say(
			e, EINVAL, "--source '%s': '%s' is not a kind; " ACCEPTED, word, text);
	slash = strrchr(colon + 1, '/');
	name = strrchr(slash ? slash : colon + 1, '=');
	if (name)
		*name++ = '\0';
	if (s.kind == SOURCE_GIT)
		ref = cut_ref(colon + 1);
	if (!colon[1])
		return err_say(e, EINVAL, "--source '%s' names no folder; " ACCEPTED, word);
	if (!realpath(colon + 1, path))
		return err_set(e, errno, "--source '%s': folder '%s'", word, colon + 1);
	if (!is_dir(path))
		return err_say(e, ENOTDIR, "--source '%s': '%s' is not a folder", word, path);
	if (has_control(path))
		return err_say(e, EINVAL,
			"--source '%s': its real path has a control character in it", word);
	if (!name)
		name = strrchr(path, '/') + 1;
	r = check_name(word, name, e);
	if (r == 0 && ref)
		r = check_ref(word, ref, e);
	if (r < 0)
		return r;
	s.src = keep(&storage, &cap, path);
	s.name = keep(&storage, &cap, name);
	s.ref = ref ? keep(&storage, &cap, ref) : NULL;
	if (!s.src || !s.name || (ref && !s.ref))
		return err_say(e, ENAMETOOLONG, "--source '%s' is too long", word);
	*ret = s;
	return 0;
}

int plan_sources_check(
	const struct plan_source *sources, unsigned count, const char *state_dir, struct err *e)
{
	char real[WARD_PATH_MAX];
	int r = path_real(state_dir, real);

	if (r < 0)
		return err_set(e, -r, "state folder '%s'", state_dir);
	for (unsigned i = 0; i < count; i++) {
		for (unsigned k = 0; k < i; k++)
			if (str_eq(sources[i].name, sources[k].name))
				return err_say(e, EEXIST,
					"--source: two are called '%s' in the workspace; add =NAME "
					"to one",
					sources[i].name);
		if (sources[i].kind != SOURCE_GIT && path_is_below(real, sources[i].src))
			return err_say(e, EINVAL,
				"--source '%s' contains ward's own state in '%s'; give --state-dir "
				"outside of it",
				sources[i].src, real);
	}
	return 0;
}
