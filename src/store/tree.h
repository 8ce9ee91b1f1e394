/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_TREE_H
#define WARD_STORE_TREE_H

#include <stddef.h>

#include "base/err.h"

/*
 * Deletes @name below @dir, file or directory tree; a missing one is success. Follows no symlink,
 * enters no mount point, opens up directories without permission bits where it may, and goes as
 * deep as the tree does with a bounded stack. Goes on past what it cannot delete and returns the
 * first error.
 */
int rm_tree(int dir, const char *name, struct err *e);

/*
 * Moves @path (relative to the state directory) into trash/ under a new name: one rename, after
 * which its old name is free. A missing one is success. tree_discard() also deletes it.
 */
int tree_to_trash(int state_fd, const char *path, char *ret_name, size_t cap, struct err *e);
int tree_discard(int state_fd, const char *path, struct err *e);

/* Deletes all that is in trash/; @each (may be NULL) is told the name of each thing deleted. */
int trash_empty(int state_fd, void (*each)(void *arg, const char *name), void *arg, struct err *e);

/* Makes a directory deletable for its owner: u+rwx. Follows no symlink. */
int tree_unlock(int dir, const char *name);

#endif
