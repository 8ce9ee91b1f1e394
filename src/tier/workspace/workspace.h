/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_WORKSPACE_WORKSPACE_H
#define WARD_TIER_WORKSPACE_WORKSPACE_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"
#include "git/git.h"
#include "plan/plan.h"

/*
 * What others may know about workspaces: what a kept one holds.
 *
 *	boxes/<id>/work/<name>    each source, as the command sees it (overlays: only while it runs)
 *	boxes/<id>/upper/<name>   what the command changed in a source that is overlaid
 *	boxes/<id>/git/<name>     the repository of a git source where nothing can be overlaid
 *	boxes/<id>/base/<name>    what a folder held at the start (kept workspaces only)
 *	boxes/<id>/workspace      the record below
 */

/* How the overlays of a workspace were mounted; the same is needed to look at them again. */
enum workspace_mode {
	WORKSPACE_PLAIN, /* no namespaces: nothing can be mounted */
	WORKSPACE_ROOT,  /* as root */
	WORKSPACE_USER,  /* as an ordinary user, in a user namespace */
};

struct workspace_source {
	enum source_kind kind;
	char name[NAME_MAX + 1];
	char src[WARD_PATH_MAX];
	char work[WARD_PATH_MAX];
	char upper[WARD_PATH_MAX];  /* the overlay's; empty: @work itself was written to */
	char common[WARD_PATH_MAX]; /* git: the folder that all worktrees share */
	char gitdir[WARD_PATH_MAX]; /* git without an overlay: the repository of its own */
	char base[GIT_OID_MAX + 1]; /* git: the commit that it started from */
};

struct workspace_record {
	enum workspace_mode mode;
	unsigned count;
	struct workspace_source sources[SOURCES_MAX];
};

/* The record of workspace @id; -ENOENT when there is none. Free it with free(). */
int workspace_read(
	const char *state_dir, const char *id, struct workspace_record **ret, struct err *e);

/*
 * Makes the overlays of @rec visible at their work folders, read-only, for this process alone:
 * calls unshare(2). For a process that ends when it has looked.
 */
int workspace_view(const struct workspace_record *rec, struct err *e);

#endif
