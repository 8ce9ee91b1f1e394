/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_FILEFLAGS_H
#define WARD_TIER_KERNEL_SYS_FILEFLAGS_H

#include <stdint.h>

struct file;
struct task;

/* ioctl of files and directories: lsattr, chattr, clones. -ENOTTY: not one of these. */
long file_ioctl(struct task *t, struct file *f, unsigned cmd, uint64_t arg);

#endif
