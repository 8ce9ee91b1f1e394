/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_NESTED_H
#define WARD_CORE_NESTED_H

#include "base/buf.h"
#include "base/err.h"

/*
 * Adds the folders below @top that have a .git of their own to @list: relative paths, each ended by
 * a NUL. Does not look into them. Follows no symlink.
 */
int nested_repositories(const char *top, struct buf *list, struct err *e);

#endif
