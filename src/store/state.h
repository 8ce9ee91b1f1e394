/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_STATE_H
#define WARD_STORE_STATE_H

#include "base/err.h"

/*
 * Opens the state directory, and makes it when it is missing (mode 0700, parents too). One that
 * exists must belong to the caller and be writable by nobody else.
 */
int state_open(const char *state_dir, int *ret_fd, struct err *e);

/* Opens it only when it exists: -ENOENT otherwise, with nothing made. For commands that only look.
 */
int state_open_existing(const char *state_dir, int *ret_fd, struct err *e);

/*
 * Makes the sub-directories that are missing: audit, trash, boxes, layers, templates, and slots as
 * the last one, so that a state directory that has slots has them all.
 */
int state_fill(int state_fd, struct err *e);

#endif
