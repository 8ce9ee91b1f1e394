/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_TREE_H
#define WARD_TEMPLATE_TREE_H

#include "base/err.h"

/*
 * Removes @name in @dir and all below it, following no link and entering no other file system.
 * What is not there is not an error. A folder that its owner may not enter is opened up first.
 */
int tree_remove_at(int dir, const char *name, struct err *e);

#endif
