/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_FANOTIFY_H
#define WARD_TIER_KERNEL_IO_FANOTIFY_H

#include <stdint.h>

#include "tier/kernel/vfs/inode.h"

/*
 * fanotify: marks hang on inodes, mounts and file systems; vfs/ tells them through vfs/notify.h.
 * Its words for changes are inotify's where both have them, so that one bit says it to both.
 */
struct buf;
struct dentry;
struct fan_ask;
struct file;
struct file_ops;
struct kernel;
struct mount;
struct notify;
struct super;
struct task;

enum {
	FAN_W_ACCESS = 0x1,
	FAN_W_MODIFY = 0x2,
	FAN_W_ATTRIB = 0x4,
	FAN_W_CLOSE_WRITE = 0x8,
	FAN_W_CLOSE_NOWRITE = 0x10,
	FAN_W_OPEN = 0x20,
	FAN_W_MOVED_FROM = 0x40,
	FAN_W_MOVED_TO = 0x80,
	FAN_W_CREATE = 0x100,
	FAN_W_DELETE = 0x200,
	FAN_W_DELETE_SELF = 0x400,
	FAN_W_MOVE_SELF = 0x800,
	FAN_W_OPEN_EXEC = 0x1000,
	FAN_W_OVERFLOW = 0x4000,
	FAN_W_OPEN_PERM = 0x10000,
	FAN_W_ACCESS_PERM = 0x20000,
	FAN_W_EXEC_PERM = 0x40000,
	FAN_W_PRE_ACCESS = 0x100000, /* known, and nowhere to be had */
	FAN_W_ON_CHILD = 0x08000000,
	FAN_W_RENAME = 0x10000000,
	FAN_W_ON_DIR = 0x40000000,
	FAN_W_FLAGS = FAN_W_ON_CHILD | FAN_W_ON_DIR,
	FAN_W_ENTRY =
		FAN_W_CREATE | FAN_W_DELETE | FAN_W_MOVED_FROM | FAN_W_MOVED_TO | FAN_W_RENAME,
	FAN_W_PATH = FAN_W_ACCESS | FAN_W_MODIFY | FAN_W_CLOSE_WRITE | FAN_W_CLOSE_NOWRITE |
		     FAN_W_OPEN | FAN_W_OPEN_EXEC,
	FAN_W_PERM = FAN_W_OPEN_PERM | FAN_W_ACCESS_PERM | FAN_W_EXEC_PERM,
	FAN_W_ALL = FAN_W_PATH | FAN_W_PERM | FAN_W_ENTRY | FAN_W_ATTRIB | FAN_W_DELETE_SELF |
		    FAN_W_MOVE_SELF,
};

/* fanotify_init's flags. */
enum {
	FAN_I_CLOEXEC = 1,
	FAN_I_NONBLOCK = 2,
	FAN_I_CONTENT = 4,
	FAN_I_PRE_CONTENT = 8,
	FAN_I_CLASS = FAN_I_CONTENT | FAN_I_PRE_CONTENT,
	FAN_I_UNLIMITED_QUEUE = 0x10,
	FAN_I_UNLIMITED_MARKS = 0x20,
	FAN_I_AUDIT = 0x40,
	FAN_I_PIDFD = 0x80,
	FAN_I_TID = 0x100,
	FAN_I_FID = 0x200,
	FAN_I_DIR_FID = 0x400,
	FAN_I_NAME = 0x800,
	FAN_I_TARGET_FID = 0x1000,
	FAN_I_FD_ERROR = 0x2000,
	FAN_I_FIDS = FAN_I_FID | FAN_I_DIR_FID | FAN_I_NAME | FAN_I_TARGET_FID,
	FAN_I_ADMIN = FAN_I_CLASS | FAN_I_UNLIMITED_QUEUE | FAN_I_UNLIMITED_MARKS | FAN_I_PIDFD |
		      FAN_I_TID | FAN_I_FD_ERROR,
	FAN_I_KNOWN = FAN_I_CLOEXEC | FAN_I_NONBLOCK | FAN_I_ADMIN | FAN_I_FIDS | FAN_I_AUDIT,
	FAN_I_UNPRIVILEGED = 1 << 30, /* ours: made by somebody who may not see who did it */
};

/* fanotify_mark's. */
enum {
	FAN_M_ADD = 1,
	FAN_M_REMOVE = 2,
	FAN_M_DONT_FOLLOW = 4,
	FAN_M_ONLYDIR = 8,
	FAN_M_MOUNT = 0x10,
	FAN_M_IGNORED = 0x20,
	FAN_M_SURVIVES = 0x40,
	FAN_M_FLUSH = 0x80,
	FAN_M_SUPER = 0x100,
	FAN_M_EVICTABLE = 0x200,
	FAN_M_IGNORE = 0x400,
	FAN_M_CMD = FAN_M_ADD | FAN_M_REMOVE | FAN_M_FLUSH,
	FAN_M_TYPE = FAN_M_MOUNT | FAN_M_SUPER,
	FAN_M_IGNORES = FAN_M_IGNORED | FAN_M_IGNORE,
	FAN_M_KNOWN = FAN_M_CMD | FAN_M_TYPE | FAN_M_IGNORES | FAN_M_DONT_FOLLOW | FAN_M_ONLYDIR |
		      FAN_M_SURVIVES | FAN_M_EVICTABLE,
};

extern const struct file_ops fanotify_ops;

/* @flags: FAN_I_*, checked; @event_flags: open's, for the descriptors in events. */
struct file *fanotify_create(struct kernel *k, unsigned flags, unsigned event_flags, int *ret_err);
unsigned fanotify_flags(const struct file *f);
/* @flags: FAN_M_* with one command; @mask: FAN_W_*. 0 or a negative errno. */
int fanotify_mark_at(struct file *f, unsigned flags, uint32_t mask, struct path at);
void fanotify_flush(struct file *f, unsigned type);
/* Lines of /proc/PID/fdinfo; nothing when @f is another kind of file. */
void fanotify_show_marks(const struct file *f, struct buf *out);
/* All inodes that @f has marks on, and names that its events hold. */
void fanotify_each(const struct file *f, void (*inode)(void *arg, struct inode *i),
	void (*name)(void *arg, struct dentry *d), void *arg);

/* For vfs/notify.c, when kernel.fan is there. */
void fan_tell(struct kernel *k, const struct notify *n);
/* May @t go on with @mask (FAN_W_PERM) at @p? 0, an errno or SYS_BLOCK: somebody is asked. */
long fan_ask(struct task *t, struct path p, uint32_t mask);
void fan_asks_drop(struct fan_ask *asks); /* the call is over */
/* It goes away, and its marks with it. */
void fan_inode_gone(struct inode *i);
void fan_mount_gone(struct mount *m);
void fan_super_gone(struct super *sb);

#endif
