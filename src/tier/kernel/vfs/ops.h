/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_OPS_H
#define WARD_TIER_KERNEL_VFS_OPS_H

#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/vfs.h"

/* What sys/ asks of files, with all checks. 0 or a negative errno for the guest. */

int mount_writable(struct path p); /* -EROFS */
bool inode_owner(struct task *t, const struct inode *i);
/* What a new file in @dir gets of the @mode that was asked for. */
uint32_t mode_for(struct task *t, const struct inode *dir, uint32_t mode);
int may_create(struct task *t, struct path dir);
int may_delete(struct task *t, struct path dir, const struct dentry *d, bool want_dir);

int vfs_mkdir(struct task *t, int dirfd, const char *path, uint32_t mode);
int vfs_rmdir(struct task *t, int dirfd, const char *path);
int vfs_unlink(struct task *t, int dirfd, const char *path);
int vfs_symlink(struct task *t, const char *target, int dirfd, const char *path);
int vfs_link(struct task *t, struct path old, int dirfd, const char *path);
/* Can the way to the last name be walked? */
int vfs_check_parent(struct task *t, int dirfd, const char *path);
int vfs_rename(
	struct task *t, int from_fd, const char *from, int to_fd, const char *to, unsigned flags);

int vfs_chmod(struct task *t, struct path p, uint32_t mode);
int vfs_chown(struct task *t, struct path p, uint32_t uid, uint32_t gid); /* ~0: leave it */
/* UTIME_NOW_NS and UTIME_OMIT_NS for the two special values. */
#define UTIME_NOW_NS INT64_MIN
#define UTIME_OMIT_NS (INT64_MIN + 1)
int vfs_utimes(struct task *t, struct path p, int64_t atime, int64_t mtime);
int vfs_truncate(struct task *t, struct path p, int64_t size);
int vfs_ftruncate(struct task *t, struct file *f, int64_t size);
int vfs_statfs(struct path p, struct kstatfs *ret);
void inode_attr(struct inode *i, struct kstat *ret); /* the fields, as a kstat */
/* Applies to the fields what @attr says; for file systems without a setattr of their own. */
void inode_apply(struct inode *i, const struct iattr *attr);
/* Write by somebody who may not keep it: setuid and setgid go. */
void inode_drop_setid(struct task *t, struct inode *i);
/* A write happened: mtime, ctime, IN_MODIFY. */
void file_modified(struct file *f);
/* @n bytes, or names, were read: its time, and IN_ACCESS unless there were none. */
void file_accessed(struct file *f, size_t n);
void file_mapped(struct file *f); /* its time as well, but who watches hears nothing */

struct open_how_guest {
	unsigned flags;
	uint32_t mode;
	unsigned lookup; /* LOOKUP_* of openat2 */
};
int vfs_open_how(struct task *t, int dirfd, const char *path, const struct open_how_guest *how,
	struct file **ret);
/* An open file of what is already found; takes nothing. @created: no permission check. */
int vfs_open_path(struct task *t, struct path p, unsigned flags, bool created, struct file **ret);
/* The same, checked, for a descriptor that tells and asks nobody: fanotify's own. */
int vfs_open_quiet(struct task *t, struct path p, unsigned flags, struct file **ret);
extern const struct file_ops path_only_ops; /* O_PATH */
/* A path for a file without one (pipe, socket): a dentry of its own on a mount that is nowhere. */
int anon_path(struct kernel *k, struct inode *i, const char *name, struct path *ret);

#endif
