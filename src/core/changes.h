/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_CHANGES_H
#define WARD_CORE_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"
#include "tier/workspace/workspace.h"

/* What a command did to one path of a folder. */
enum change_kind { CHANGE_ADDED, CHANGE_EDITED, CHANGE_DELETED };

struct change {
	char *path; /* relative to the folder */
	enum change_kind kind;
	mode_t mode;     /* what it is in the workspace; deleted: what it is in the source */
	mode_t old_mode; /* edited: what it is in the source */
	bool conflict;   /* somebody else changed it in the source since */
};

struct changes {
	struct change *list; /* by path; a folder before what is in it */
	size_t count, cap;
};

/*
 * Compares the workspace's view of source @s (see workspace_view()) with the source as it is now
 * and as it was. What the command did not touch is no change, whatever happened to the source
 * since. A file counts as changed in the source when its type, permissions, size or time of change
 * are not those of the start, unless it already is what the workspace has.
 */
int changes_find(const char *state_dir, const char *id, const struct workspace_source *s,
	struct changes *ret, struct err *e);
void changes_done(struct changes *c);

/* Is there a regular file or a symlink at that mode: something that a diff can show? */
bool change_has_text(mode_t mode);

#endif
