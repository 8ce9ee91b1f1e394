/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_TRASH_H
#define WARD_STORE_TRASH_H

#include <stddef.h>

#include <stddef.h>

#include "base/err.h"

/*
 * Moves @path (relative to the state directory) into trash/ under a new name: one rename, after
 * which its old name is free. A missing one is success. tree_discard() also deletes it.
 */
int tree_to_trash(int state_fd, const char *path, char *ret_name, size_t cap, struct err *e);
int tree_discard(int state_fd, const char *path, struct err *e);

/* Deletes all that is in trash/; @each (may be NULL) is told the name of each thing deleted. */
int trash_empty(int state_fd, void (*each)(void *arg, const char *name), void *arg, struct err *e);

#endif
