/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_NAMES_H
#define WARD_TIER_KERNEL_WALK_NAMES_H

#include <stdbool.h>

/*
 * File systems, what was made in them, names and mounts: WALK_SUPER, WALK_INODE, WALK_DENTRY and
 * WALK_MOUNT are numbered then. Loading needs a kernel with the same mounts from its start, and its
 * processes (for /proc). w->wanted has the names and inodes that somebody outside points at.
 */
struct dentry;
struct kernel;
struct path;
struct walk;

void names_walk(struct kernel *k, struct walk *w);
/* A place: a mount and a name in it. Loading: with references, which are the caller's; on an error
 * and for no place at all { NULL, NULL }. */
void path_walk(struct path *p, struct walk *w);
/* Can the name be found again? Of a process that is gone it cannot. */
bool name_is_lost(struct kernel *k, struct dentry *d);

#endif
