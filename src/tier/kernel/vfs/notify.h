/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_NOTIFY_H
#define WARD_TIER_KERNEL_VFS_NOTIFY_H

#include <stdint.h>

#include "tier/kernel/vfs/inode.h"

/*
 * What inotify, F_NOTIFY and fanotify hear. vfs/ calls these at every change. inotify's watches
 * hang on inode->watches and are told through the table, so that vfs/ does not know them;
 * fanotify's marks hang on inodes, mounts and file systems (io/fanotify.h). Without a table
 * (kernel.notify NULL) and without groups (kernel.fan NULL) nothing happens, and without watches on
 * the inode or its parent the calls cost two loads.
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

/* A change as fanotify hears it, all of it at once; everything is borrowed. */
struct notify {
	uint32_t mask;        /* FAN_W_* */
	struct inode *inode;  /* what it is about */
	struct inode *dir;    /* where that has a name; NULL: not known */
	const char *name;     /* there */
	struct inode *to_dir; /* FAN_W_RENAME: the new place */
	const char *to_name;
	struct path path; /* by which it was used; dentry NULL: by none */
};

/* @d itself changed (IN_ATTRIB, IN_MODIFY, ...): told to its inode and its parent's. */
void notify_dentry(struct kernel *k, struct dentry *d, uint32_t mask);
/* Used through an open file: IN_OPEN, IN_ACCESS, IN_MODIFY, IN_CLOSE_*. */
void notify_file(struct file *f, uint32_t mask);
/* @i has or had @name in @dir: IN_CREATE, IN_DELETE. */
void notify_name(
	struct kernel *k, struct inode *dir, struct inode *i, uint32_t mask, const char *name);
struct notify_end {
	struct inode *dir;
	const char *name;
};
/* @i has another name: both halves of IN_MOVE, and IN_MOVE_SELF. */
void notify_move(struct kernel *k, struct inode *i, struct notify_end from, struct notify_end to);
/* About the inode alone: IN_ATTRIB of a link count; IN_DELETE_SELF once the last name is gone and
 * nobody has it open (then watches and marks end). */
void notify_inode(struct kernel *k, struct inode *i, uint32_t mask);

#endif
