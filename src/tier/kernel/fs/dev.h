/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_DEV_H
#define WARD_TIER_KERNEL_FS_DEV_H

#include <stdint.h>

struct dentry;
struct file;
struct inode;
struct kernel;
struct task;

/* inode_ops.open of what is no file and no directory: devices by number, FIFOs; sockets -ENXIO. */
int special_open(struct inode *i, struct file *f, struct task *t);
/* Fills a new /dev; 0 or -ENOMEM. */
int dev_fill(struct dentry *dev);

/* The node /dev/pts/@n comes and goes with its terminal. */
int pts_add(struct kernel *k, unsigned n, uint32_t uid, uint32_t gid, uint32_t mode);
void pts_remove(struct kernel *k, unsigned n);

#endif
