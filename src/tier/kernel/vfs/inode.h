/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_INODE_H
#define WARD_TIER_KERNEL_VFS_INODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Files as the file systems know them. An inode is a thing with a number and attributes; a dentry
 * is a name in a directory (the tree is kept: a dentry holds its parent); a mount puts a super
 * block's root dentry onto another dentry. All under the kernel lock, all reference-counted.
 */
struct task;
struct file;
struct kernel;
struct walk;
struct fan_mark;
struct inode;
struct dentry;
struct mount;

struct path {
	struct mount *mnt;
	struct dentry *dentry;
};

enum { STATX_ATTR_MOUNT_ROOT_ = 0x2000 }; /* newer than our headers */

struct kstat {
	uint64_t dev, ino, rdev;
	uint32_t mode, nlink, uid, gid;
	int64_t size, blocks; /* blocks of 512 */
	uint32_t blksize;
	int64_t atime, mtime, ctime, btime;           /* ns since 1970 */
	uint64_t attributes, attributes_mask, mnt_id; /* STATX_ATTR_* */
};

enum {
	ATTR_MODE = 1,
	ATTR_UID = 2,
	ATTR_GID = 4,
	ATTR_SIZE = 8,
	ATTR_ATIME = 16,
	ATTR_MTIME = 32,
	ATTR_CTIME = 64
};
struct iattr {
	unsigned valid; /* ATTR_* */
	uint32_t mode, uid, gid;
	int64_t size, atime, mtime, ctime;
};

/* Directory operations get the directory's inode and a negative dentry for the new name (dentry
 * ->name, ->parent set); on success they set dentry->inode (takes the reference). Permissions,
 * read-only mounts and existence are checked by vfs/ before; a fs checks what only it knows. */
struct inode_ops {
	/* Sets dentry->inode or leaves it NULL (no such name): 0, or a negative errno. */
	int (*lookup)(struct inode *dir, struct dentry *d);
	int (*create)(struct inode *dir, struct dentry *d, struct task *t, uint32_t mode);
	int (*mkdir)(struct inode *dir, struct dentry *d, struct task *t, uint32_t mode);
	int (*mknod)(
		struct inode *dir, struct dentry *d, struct task *t, uint32_t mode, uint64_t rdev);
	int (*symlink)(struct inode *dir, struct dentry *d, struct task *t, const char *target);
	int (*link)(struct inode *dir, struct dentry *d, struct inode *target);
	int (*unlink)(struct inode *dir, struct dentry *d);
	int (*rmdir)(struct inode *dir, struct dentry *d);
	int (*rename)(struct inode *from, struct dentry *old, struct inode *to,
		struct dentry *new_d, unsigned flags);
	/* An open O_TMPFILE inode: *ret takes a reference. */
	int (*tmpfile)(struct inode *dir, struct task *t, uint32_t mode, struct inode **ret);
	/* The target (without NUL): its length. */
	ssize_t (*readlink)(struct inode *i, struct task *t, char *buf, size_t cap);
	/* Magic links (/proc/self/fd/3, /proc/self/exe): the place itself, referenced. May be NULL.
	 */
	int (*follow)(struct inode *i, struct task *t, struct path *ret);
	int (*getattr)(struct inode *i, struct kstat *ret);        /* NULL: from the fields below */
	int (*setattr)(struct inode *i, const struct iattr *attr); /* NULL: the fields below */
	/* Prepares @f (ops, priv) for opening; flags are in f->flags. NULL: -ENXIO. */
	int (*open)(struct inode *i, struct file *f, struct task *t);
	ssize_t (*getxattr)(struct inode *i, const char *name, void *buf, size_t cap);
	int (*setxattr)(struct inode *i, const char *name, const void *v, size_t len, int flags);
	ssize_t (*listxattr)(struct inode *i, char *buf, size_t cap);
	int (*removexattr)(struct inode *i, const char *name);
	void (*release)(struct inode *i); /* last reference gone: free priv */
	void (*walk)(struct inode *i, struct walk *w);
};

enum {
	INODE_LINKABLE = 1,  /* an O_TMPFILE without O_EXCL: may get its first name */
	INODE_IMMUTABLE = 2, /* nothing about it changes */
	INODE_APPEND = 4,    /* it only grows */
	INODE_NO_DUMP = 8,   /* a word for backup programs */
	INODE_NO_ATIME = 16,
};

struct inode {
	unsigned refs;
	const struct inode_ops *ops;
	struct super *sb; /* NULL: anonymous (pipes, sockets, eventfds) */
	uint64_t ino, rdev;
	uint32_t mode, nlink, uid, gid; /* mode with the type bits */
	int64_t size, atime, mtime, ctime, btime;
	uint32_t flags;    /* INODE_* */
	bool names_change; /* a directory: some name in it has (trap/answers.h) */
	bool was_mapped;   /* somebody may still have it so: writes show at once (trap/later.h) */
	int64_t warm_to;   /* io/disk.c: known to be in the host's memory, where it cannot say */
	uint32_t opens, write_opens; /* files of it, and those that may write */
	int32_t writers;             /* open for writing; below 0: images that run (-ETXTBSY) */
	void *priv;
	/* Corners of other areas that hang on an inode; NULL until used. */
	void *locks;            /* fcntl and flock: sock/, fs/ */
	void *leases;           /* vfs/lease.c */
	void *watches;          /* inotify: io/inotify.c */
	struct fan_mark *marks; /* fanotify: io/fanotify.c */
	void *fifo;             /* the pipe of a named FIFO: sock/, fs/ */
	void *sock;             /* the bound unix socket: sock/, fs/ */
	struct inode *hash_next;
};

struct inode *inode_create(struct super *sb, const struct inode_ops *ops, uint32_t mode);
struct inode *inode_anon(struct kernel *k, uint32_t mode); /* for pipes, sockets, anon files */
struct inode *inode_ref(struct inode *i);
void inode_unref(struct inode *i);

#endif
