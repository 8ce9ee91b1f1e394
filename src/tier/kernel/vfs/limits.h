/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_LIMITS_H
#define WARD_TIER_KERNEL_VFS_LIMITS_H

/* What the files of one sandbox may make the kernel process hold. */
enum {
	GUEST_MOUNTS_MAX = 1024,       /* in the tree, or with a descriptor */
	DENTRIES_MAX = 1 << 20,        /* names that somebody holds, or that have no other place */
	DENTRIES_CACHED_MAX = 1 << 14, /* names that nobody holds */
	INODES_MAX = 3 << 16,          /* files made or changed inside, all file systems: -ENOSPC */
	LISTING_BYTES_MAX = 32 << 20,  /* one directory listing in an open file */
	XATTR_NAME_MAX_ = 255,
	XATTR_VALUE_MAX = 64 << 10,
	XATTR_INODE_MAX = 128 << 10, /* names and values of one inode */
	XATTR_TOTAL_MAX = 16 << 20,  /* of all inodes */
	LOCKS_MAX = 1 << 16,         /* record locks and flocks held */
	LOWER_DIRS_OPEN_MAX = 256,   /* host descriptors of lower directories kept open */
	STORE_OPEN_MAX = 4096,       /* host descriptors of contents kept open without a user */
	HARD_LINKS_MAX = 65000,      /* names of one inode: -EMLINK */
};

#endif
