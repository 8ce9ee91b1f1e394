/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_GIT_GIT_H
#define WARD_GIT_GIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

/*
 * git, run as a program. Its environment is cleaned of GIT_*, its messages are in English, hooks
 * and everything that a repository can make git start by itself are off, it never asks the user,
 * and it does not outlive ward.
 */
struct git_call {
	const char *dir;         /* where it runs; NULL: here */
	const char *const *args; /* NULL-terminated, without "git" */
	const char *const
		*env;     /* "K=V" on top of the clean environment, NULL-terminated; or NULL */
	int in;           /* its stdin; 0: nothing to read */
	int out;          /* its stdout when @text is NULL; 0: dropped */
	struct buf *text; /* what it prints is added here, when it succeeds */
};

struct git_proc {
	pid_t pid;
	int text, errors; /* memory files */
};

/*
 * Runs it to its end. -EIO with git's own words in @e when it fails; -EAGAIN when that is because
 * another git holds a lock; -ENOENT when there is no git.
 */
int git_run(const struct git_call *call, struct err *e);

/* The same in two halves, for whoever feeds its stdin. After git_start comes git_finish, always. */
int git_start(const struct git_call *call, struct git_proc *ret, struct err *e);
int git_finish(struct git_proc *p, const struct git_call *call, struct err *e);

enum { GIT_OID_MAX = 64 }; /* hex digits: 40, or 64 with SHA-256 */

/* The folder that all worktrees of the repository at @path share: PATH/.git, mostly. */
int git_common_dir(const char *path, char ret[WARD_PATH_MAX], struct err *e);
/* Is @path itself a repository's folder, without a checkout? */
bool git_is_bare(const char *path);
/* The commit that @ref means in the repository at @path. */
int git_resolve(const char *path, const char *ref, char ret_oid[GIT_OID_MAX + 1], struct err *e);
bool git_oid_is_valid(const char *text);
/* Folders of objects that the repository borrows from others, one per line; nothing for most. */
int git_alternates(const char *path, const char *common, struct buf *lines, struct err *e);
/* user.name and user.email as git sees them there; empty where they are not set. */
int git_identity(const char *path, char name[128], char email[128], struct err *e);

/* The name under which a repository knows the worktree at @path: it follows from the path. */
enum { GIT_WORKTREE_NAME = 5 + 16 };
void git_worktree_name(const char *path, char ret[GIT_WORKTREE_NAME + 1]);
/*
 * Checks @oid out at @path, which must not exist, as a worktree of the repository at @repo, with no
 * branch. On failure nothing is left.
 */
int git_worktree_add(const char *repo, const char *oid, const char *path, struct err *e);
/*
 * Removes it, and what @repo remembers of it; nothing that is in it is believed or run. What is
 * gone already, the whole repository included, is no error.
 */
int git_worktree_remove(const char *repo, const char *path, struct err *e);

/*
 * The same without a trace in @repo: a repository of its own at @gitdir, with all refs and settings
 * of @repo, that reads the objects of @repo and writes its own. Neither path may exist. On failure
 * part of them may be left.
 */
int git_private_add(
	const char *repo, const char *oid, const char *gitdir, const char *path, struct err *e);

#endif
