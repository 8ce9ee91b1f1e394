/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PLAN_SOURCE_H
#define WARD_PLAN_SOURCE_H

#include <stddef.h>

#include "base/err.h"
#include "plan/plan.h"

/*
 * One word of --source:
 *
 *	git:PATH[@REF][=NAME]   dir:PATH[=NAME]   copy:PATH[=NAME]   link:PATH[=NAME]
 *
 * NAME follows the last '=' behind the last '/'. REF (git only) follows the last '@' behind the
 *last
 * '/' of what is left; if there is none, and what is left is no folder, then the last '@' that has
 *a folder before it, so that "repo@feature/x" works. A '/' at the end of PATH ends the search: a
 * folder called "a@b=c" is "dir:a@b=c/". PATH must be a folder; it is made absolute and its
 *symlinks are followed. NAME is the last part of PATH unless it is given.
 *
 * The strings of @ret point into @storage.
 */
int plan_source_parse(
	const char *word, struct plan_source *ret, char *storage, size_t cap, struct err *e);

/* Do all @count sources have names of their own, and does none contain @state_dir? */
int plan_sources_check(
	const struct plan_source *sources, unsigned count, const char *state_dir, struct err *e);

const char *source_kind_name(enum source_kind kind);            /* "git" */
int source_kind_parse(const char *text, enum source_kind *ret); /* -EINVAL */

/* The real path of @path (absolute), the end of which need not exist yet. */
int path_real(const char *path, char ret[WARD_PATH_MAX]);

/* Is @path @top itself or something below it? Both absolute, without "." and "..". */
bool path_is_below(const char *path, const char *top);

#endif
