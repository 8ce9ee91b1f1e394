/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_PAIR_H
#define WARD_CORE_PAIR_H

#include "base/err.h"
#include "core/changes.h"
#include "tier/workspace/workspace.h"

/*
 * The changes of a folder as two commits of a throw-away repository, so that git can show them:
 * only the paths that changed are in it.
 */
struct pair {
	char scratch[WARD_PATH_MAX];
	char git_dir[WARD_PATH_MAX + 16]; /* "GIT_DIR=..." */
	const char *env[2];
};

#define PAIR_BEFORE "refs/heads/before"
#define PAIR_AFTER "refs/heads/after"

int pair_open(struct pair *p, const struct workspace_source *s, const struct changes *c,
	const char *dir, struct err *e);
void pair_close(struct pair *p);

#endif
