/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_SYSFS_H
#define WARD_TIER_KERNEL_FS_SYSFS_H

struct dentry;
struct kernel;

/* Fills a new /sys: what programs ask about processors and memory. 0 or -ENOMEM, -ENOSPC. */
int sysfs_fill(struct dentry *sys);

/* The text at @path below /sys, made if it is not there. 0, -ENOMEM or -ENOENT: there is no /sys.
 */
int sysfs_set(struct kernel *k, const char *path, const char *text);

#endif
