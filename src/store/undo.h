/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_UNDO_H
#define WARD_STORE_UNDO_H

#include <stdbool.h>

#include "base/err.h"
#include "store/record.h"

/*
 * What a sandbox makes outside itself, named before it is made. In the order in which a sweep takes
 * it down: processes first, then what holds directories, then the directories.
 */
enum undo_kind {
	UNDO_CGROUP, /* path below /sys/fs/cgroup, its last part contains the id: kill all, remove
		      */
	UNDO_MOUNT,  /* path below the state directory: unmount, lazily */
	UNDO_LOOP, /* file below the state directory: detach the loop devices behind which it is */
	UNDO_WORKTREE, /* path2 below the state directory is a git worktree of the repository at
			  path */
	UNDO_TREE, /* directory below boxes/, templates/ or layers/ of the state directory: delete
		    */
	UNDO_KEPT, /* no path: worktrees and trees stay (--keep) and become a kept box */
	UNDO_KINDS,
};

struct undo {
	enum undo_kind kind;
	const char *path;  /* absolute, without "." and ".." parts; NULL for UNDO_KEPT */
	const char *path2; /* UNDO_WORKTREE only */
};

/* What the sweep calls in layers beside it, and whom it tells. All may be NULL. */
struct slot;
struct sweep_hooks {
	/* Removes the worktree at @path and what @repo remembers of it; "already gone" is success.
	 */
	int (*worktree_remove)(const char *repo, const char *path, struct err *e);
	/* Told of each thing removed, e.g. ("tree", "/var/lib/ward/boxes/abc"). */
	void (*removed)(void *arg, const char *kind, const char *what);
	/* Told of each slot that could not be swept, and why; it stays for the next sweep. */
	void (*failed)(void *arg, const struct err *e);
	void *arg;
	/* The slot that this process itself holds: a sweep must not touch it (POSIX locks). */
	const struct slot *own;
};

const char *undo_name(enum undo_kind kind);

/* Adds "undo=" lines for @items to @r. -EINVAL for one that a sweep would refuse on sight. */
int undo_write(
	struct record *r, const char *id, const struct undo *items, unsigned count, struct err *e);

/* Does @r say that its trees are to be kept? */
bool undo_is_kept(const struct record *r);

/*
 * Does all that the "undo=" lines of @r say, tolerant of what is gone already; tries all of them
 * and returns the first error. With @keep, worktrees and trees stay.
 */
int undo_do(int state_fd, const char *id, const struct record *r, bool keep,
	const struct sweep_hooks *hooks, struct err *e);

/* Kills every process in the cgroup (v1 or v2) at @path and removes it and those below it. */
int cgroup_remove(const char *path, struct err *e);
/* Stops new processes in it and, on v2, kills those that are there; the first half of the above. */
void cgroup_choke(const char *path);
/* Detaches every loop device whose backing file is @path (absolute, resolved). */
int loop_detach(const char *path, struct err *e);

#endif
