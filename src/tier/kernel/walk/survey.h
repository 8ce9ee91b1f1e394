/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_SURVEY_H
#define WARD_TIER_KERNEL_WALK_SURVEY_H

#include "tier/kernel/walk.h"

/*
 * Before saving: who is there. Numbers every open file, table, place and address space in an order
 * that does not depend on where they lie in memory (WALK_FILE, WALK_FILES, WALK_FS, WALK_MM,
 * WALK_BACKING), and lists the names, inodes and credentials that they point at.
 */
struct kernel;

struct survey {
	struct walk_wanted wanted;
	uint32_t inode_cap, dentry_cap, cred_cap;
	struct walk seen; /* by pointer: what is on the lists already */
};

int survey_make(struct survey *s, struct kernel *k, struct walk *w);
void survey_done(struct survey *s);

#endif
