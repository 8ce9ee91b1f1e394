/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_MEMORY_H
#define WARD_TIER_KERNEL_WALK_MEMORY_H

struct kernel;
struct walk;

/* Address spaces with what is in them; files are numbered. Loading leaves an image (mm/image.h)
 * that can be read and written; it becomes a host process's memory when somebody goes on. */
void memories_walk(struct kernel *k, struct walk *w);

#endif
