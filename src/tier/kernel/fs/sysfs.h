/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_SYSFS_H
#define WARD_TIER_KERNEL_FS_SYSFS_H

struct dentry;

/* Fills a new /sys: what programs ask about processors and memory. 0 or -ENOMEM, -ENOSPC. */
int sysfs_fill(struct dentry *sys);

#endif
