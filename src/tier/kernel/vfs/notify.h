/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_NOTIFY_H
#define WARD_TIER_KERNEL_VFS_NOTIFY_H

#include <stdint.h>

#include "tier/kernel/vfs/inode.h"

/*
 * What inotify hears. vfs/ calls these at every change; the inotify files hang their watches on
 * inode->watches and answer through the table, so that vfs/ does not know them. Without a table
 * (kernel.notify NULL) nothing happens, and without watches on the inode or its parent the calls
 * cost two loads.
 */
struct dentry;
struct file;
struct kernel;

/* Beside IN_*: */
enum {
	NOTIFY_RENAMED = 0x1000, /* a name in the same directory; for F_NOTIFY */
	NOTIFY_UNLINKED =
		0x2000, /* the name is gone, who has it open goes on; see IN_EXCL_UNLINK */
};

struct notify_ops {
	/* @mask: one IN_* bit, with IN_ISDIR where it applies. @name: the entry below @i that it is
	 * about, or NULL when it is about @i itself. @cookie joins the two halves of a rename. */
	void (*event)(struct kernel *k, struct inode *i, uint32_t mask, uint32_t cookie,
		const char *name);
	/* The file system of @i is gone: its watches end. */
	void (*unmount)(struct inode *i);
};

/* @d itself changed (IN_ATTRIB, IN_MODIFY, IN_OPEN, ...): told to its inode and its parent's. */
void notify_dentry(struct kernel *k, struct dentry *d, uint32_t mask);
void notify_file(struct file *f, uint32_t mask);
/* A name in @dir: IN_CREATE, IN_DELETE, IN_MOVED_*. */
void notify_name(
	struct kernel *k, struct inode *dir, uint32_t mask, uint32_t cookie, const char *name);
/* About the inode alone: IN_MOVE_SELF, IN_ATTRIB of a link count; IN_DELETE_SELF once the last name
 * is gone and nobody has it open (then the watch ends, with IN_IGNORED). */
void notify_inode(struct kernel *k, struct inode *i, uint32_t mask);

#endif
