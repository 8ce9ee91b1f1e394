/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_MEMFD_H
#define WARD_TIER_KERNEL_FS_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

/* Files without a name: memfd_create. The host's own memfd stands behind each, with its seals. */
struct file;
struct kernel;
struct task;
struct inode;
struct super;

/* An open file with one reference; @name is for /proc. -EMFILE, -ENOMEM. */
int memfd_open(struct task *t, const char *name, bool sealable, bool exec, struct file **ret);
/* The file system that they are in, made on first use; NULL: no memory. Borrowed. */
struct super *memfd_super(struct kernel *k);
/* Loading: gives @i empty contents as those have; and, when they are filled, their seals. */
int memfd_contents(struct inode *i);
int memfd_seal_again(struct inode *i);
long memfd_get_seals(struct file *f); /* -EINVAL for what is no memfd */
long memfd_add_seals(struct file *f, unsigned seals);

#endif
