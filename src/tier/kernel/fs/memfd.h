/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_MEMFD_H
#define WARD_TIER_KERNEL_FS_MEMFD_H

#include <stdbool.h>
#include <stdint.h>

/* Files without a name: memfd_create. The host's own memfd stands behind each, with its seals. */
struct file;
struct kernel;
struct task;

/* An open file with one reference; @name is for /proc. -EMFILE, -ENOMEM. */
int memfd_open(struct task *t, const char *name, bool sealable, bool exec, struct file **ret);
long memfd_get_seals(struct file *f); /* -EINVAL for what is no memfd */
long memfd_add_seals(struct file *f, unsigned seals);

#endif
