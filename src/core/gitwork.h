/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_GITWORK_H
#define WARD_CORE_GITWORK_H

#include "base/err.h"
#include "tier/workspace/workspace.h"

/*
 * git at work on a kept workspace, from outside. Nothing in the workspace decides what git does:
 * the repository is the source's own, the index and new objects go to a scratch folder.
 */
struct gitwork {
	const struct workspace_source *s;
	char scratch[WARD_PATH_MAX];
	char text[6][WARD_PATH_MAX * 2];
	const char *env[8];
	char tree[GIT_OID_MAX + 1]; /* what the working copy holds, as a tree */
};

/*
 * Makes the scratch folder below @dir and writes the tree of the working copy: base, commits made
 * inside, changes that were not committed, new files that are not ignored.
 */
int gitwork_open(
	struct gitwork *g, const struct workspace_source *s, const char *dir, struct err *e);
void gitwork_close(struct gitwork *g);

/* The commit that the command left checked out: the base, unless it made commits. */
int gitwork_head(struct gitwork *g, char ret_oid[GIT_OID_MAX + 1], struct err *e);

/*
 * The head, and one commit more for what was not committed, as branch @name of the source. The
 * source's checkout is not touched. @ret_oid is empty when there is nothing to bring.
 */
int gitwork_branch(struct gitwork *g, const char *name, const char *message,
	char ret_oid[GIT_OID_MAX + 1], struct err *e);

#endif
