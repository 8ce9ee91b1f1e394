/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SYS_PATH_H
#define WARD_TIER_KERNEL_SYS_PATH_H

#include "tier/kernel/mm/copy.h"
#include "tier/kernel/vfs/inode.h"

/* What the calls that take paths share. */
struct task;

/* The path at @upath, walked. @flags: AT_SYMLINK_NOFOLLOW and AT_EMPTY_PATH count; the caller has
 * refused the others. An empty path with a descriptor of a pipe or socket: anon_path(). */
int path_at(struct task *t, int dirfd, gva_t upath, unsigned at_flags, struct path *ret);
/* A struct that grows with the kernels: @size is the caller's; what we do not know must be zero
 * (-E2BIG). */
int guest_read_struct(struct task *t, void *dst, size_t known, gva_t src, uint64_t size);
/* The place of an open file, referenced, also when it has no name. */
struct file;
int file_path(struct file *f, struct path *ret);

#endif
