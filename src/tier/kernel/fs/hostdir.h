/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_HOSTDIR_H
#define WARD_TIER_KERNEL_FS_HOSTDIR_H

#include <stdbool.h>
#include <stdint.h>

struct kernel;
struct super;

/*
 * A host directory (or file) that the guest may change: names and contents are the host's own, and
 * are looked up anew each time, since the host changes them too. Takes @fd. @ids: the host lets us
 * give files to any of the guest's ids. NULL: no memory, or not to be had.
 */
struct super *hostdir_create(struct kernel *k, int fd, uint32_t id_base, bool ids);

#endif
