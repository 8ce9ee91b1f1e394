/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_FILES_H
#define WARD_TIER_KERNEL_WALK_FILES_H

#include <stdbool.h>

struct file;
struct kernel;
struct walk;

/* Open files: made and numbered; then what is behind each; then, when there are tables, who watches
 * whom. Names, sockets, terminals and queues have their numbers. */
void files_make_walk(struct kernel *k, struct walk *w);
void files_fill_walk(struct kernel *k, struct walk *w);
void files_watch_walk(struct kernel *k, struct walk *w);
/* Tables, places, and who has which. */
void tables_walk(struct kernel *k, struct walk *w);
/* Record locks, flocks and leases. */
void files_lock_walk(struct kernel *k, struct walk *w);

/* Its name leads nowhere any more (a process that is gone): reading it would say so. */
bool file_is_lost(const struct file *f);
/* How many kinds there are, and whether each can be walked: for the test. */
unsigned file_kinds(void);
const char *file_kind_name(unsigned n);
bool file_kind_walks(unsigned n);

#endif
