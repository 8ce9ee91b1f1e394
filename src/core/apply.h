/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_APPLY_H
#define WARD_CORE_APPLY_H

#include <stdbool.h>

#include "base/err.h"
#include "core/changes.h"
#include "git/git.h"
#include "tier/workspace/workspace.h"

/* The verb `apply`: brings what a kept workspace changed back to where it came from. */
struct apply_request {
	const char *state_dir, *id;
	const char *branch; /* NULL: into the source's own files */
	bool check;         /* only say whether it would work */
	bool force;         /* folders: also over what others changed since */
};

struct apply_result {
	enum source_kind kind;
	char name[NAME_MAX + 1], src[WARD_PATH_MAX];
	size_t files;                 /* paths that were changed */
	char commit[GIT_OID_MAX + 1]; /* --branch: what it points to; empty: nothing to bring */
};

/*
 * All sources are checked before the first is changed, and one that does not take the changes
 * refuses them all. Fills @ret, room for SOURCES_MAX; returns how many.
 */
int core_apply(const struct apply_request *req, struct apply_result *ret, struct err *e);

/* apply_folder.c: may the changes go in, and putting them there. */
int apply_folder_check(
	const struct workspace_source *s, const struct changes *c, bool force, struct err *e);
int apply_folder(
	const struct workspace_source *s, const struct changes *c, const char *id, struct err *e);

#endif
