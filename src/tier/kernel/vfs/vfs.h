/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_VFS_H
#define WARD_TIER_KERNEL_VFS_VFS_H

#include "base/err.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/inode.h"

/*
 * Paths. Walked by our own code from our own dentries; a host path is never built from a guest's.
 * What is here is what other areas call.
 */
struct task;

/* cwd, root, umask: shared by CLONE_FS. */
struct fs_ctx {
	unsigned refs;
	struct path root, cwd;
	uint32_t umask;
};
struct fs_ctx *fs_ctx_copy(struct fs_ctx *fs); /* NULL: no memory */
struct fs_ctx *fs_ctx_ref(struct fs_ctx *fs);
void fs_ctx_unref(struct fs_ctx *fs);

struct path path_ref(struct path p);
void path_unref(struct path p);
/* "/usr/bin/x" as seen from @root ("(unreachable)/..." when outside); its length or -ENAMETOOLONG.
 * " (deleted)" is appended when it is. */
ssize_t path_show(struct path p, struct path root, char *buf, size_t cap);

/* Where in its file system @m begins, in the same way. */
ssize_t mount_root_show(const struct mount *m, char *buf, size_t cap);

enum {
	LOOKUP_FOLLOW = 1,
	LOOKUP_PARENT = 2,
	LOOKUP_DIRECTORY = 4,
	LOOKUP_EMPTY = 8,
	LOOKUP_NO_MAGIC = 16,
	LOOKUP_NO_SYMLINKS = 32,
	LOOKUP_BENEATH = 64,
	LOOKUP_IN_ROOT = 128,
	LOOKUP_NO_XDEV = 256,
	LOOKUP_UMOUNT = 512 /* looking at a mount is no use of it */
};

/* Resolves; *ret has references. @dirfd: AT_FDCWD or a guest descriptor. */
int vfs_walk(struct task *t, int dirfd, const char *path, unsigned flags, struct path *ret);
/* Up to the last component, which comes back in @name (GUEST_NAME_MAX + 1); for create, bind... */
int vfs_walk_parent(struct task *t, int dirfd, const char *path, struct path *ret, char *name,
	unsigned *ret_trailing_slash);
/* An open file with one reference, not yet in a table: 0 or -errno. Blocks never; opening a FIFO
 * that must wait goes through sys_openat. */
int vfs_open(struct task *t, int dirfd, const char *path, unsigned flags, uint32_t mode,
	struct file **ret);
/* For execve: regular, executable by @t, not on a noexec mount. */
int vfs_open_exec(
	struct task *t, int dirfd, const char *path, unsigned at_flags, struct file **ret);
int vfs_stat(struct path p, struct kstat *ret);
int vfs_fstat(struct file *f, struct kstat *ret);
/* May @t do @want (R_OK|W_OK|X_OK bits) with @i? 0 or -EACCES. Uses fsuid and capabilities. */
int inode_permission(struct task *t, struct inode *i, int want);
/* Makes a node of type S_IFSOCK for bind(2): *ret referenced. */
int vfs_mknod(struct task *t, int dirfd, const char *path, uint32_t mode, uint64_t rdev,
	struct path *ret);

/* Builds the sandbox's tree: overlay of the layers, /proc, /dev, /sys, /tmp, /dev/shm, /dev/pts. */
struct vfs_setup {
	const int *layers; /* host directories, uppermost first; taken */
	unsigned layer_count;
	struct vfs_bind {
		int fd;          /* host directory, or a readable file; taken */
		const char *src; /* what to call it when it fails */
		const char *dst; /* absolute guest path */
		bool read_only, overlay;
		bool ids;        /* writable: files can be given to other ids of the guest's */
		bool host_owned; /* not seen through the id map: nobody's is the host's root's */
	} * binds;
	unsigned bind_count;
	uint32_t id_base; /* host ids from here on are the guest's 0.. in layers and binds */
};
int vfs_init(struct kernel *k, struct vfs_setup *setup, struct err *e);
void vfs_done(struct kernel *k);
/* Is @t's root that of its whole tree? */
bool vfs_at_top(const struct task *t);
/* For the first task: root and cwd "/". */
struct fs_ctx *vfs_first_ctx(struct kernel *k);

#endif
