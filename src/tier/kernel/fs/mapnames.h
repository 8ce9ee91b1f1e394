/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_MAPNAMES_H
#define WARD_TIER_KERNEL_FS_MAPNAMES_H

#include <stdint.h>

struct file;
struct kernel;

/* @f is being mapped: its name may be asked for. */
void map_name_note(const struct file *f);
/* Where what the host calls so was mapped from, as an absolute path of the sandbox; @dev 0: of the
 * store. NULL: not known. */
const char *map_name_find(const struct kernel *k, uint64_t dev, uint64_t number);
void map_names_done(struct kernel *k);

#endif
