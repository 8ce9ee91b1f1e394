/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_GUESTMOUNT_H
#define WARD_TIER_KERNEL_VFS_GUESTMOUNT_H

#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/propagate.h"
#include "tier/kernel/vfs/vfs.h"

/* Mounts of a guest's own. 0 or a negative errno; who may is the caller's question. */

/* What mount(2)'s data and fsconfig(2) say about a new file system. */
struct mount_options {
	uint32_t mode; /* of the root; 07777 + 1: the type's own */
	uint32_t uid, gid;
	uint64_t size; /* bytes; 0: no limit of its own */
	bool read_only;
	struct user_ns *user; /* borrowed: whose ids these are, and who owns it */
	struct ns *pid;       /* the same: whose numbers a /proc has */
};
void mount_options_init(struct mount_options *o);
/* One "key" or "key=value" (@value NULL: none). -EINVAL: not known. */
int mount_option(const char *type, struct mount_options *o, const char *key, const char *value);
/* Does every file system know @key? */
bool mount_option_is_common(const char *key);
int mount_option_text(const char *type, struct mount_options *o, char *text); /* "a=b,c" */

/* Is there such a type? -ENODEV. */
/* The @n-th type that can be mounted, or NULL: there are fewer. */
const char *guest_fs_name(unsigned n);
int guest_fs_check(const char *type);
/* May @t mount that type? -EPERM. */
int guest_fs_may(const struct task *t, const char *type);
/* A new one, or the kernel's own of that type, with a reference. */
int guest_fs_create(
	struct kernel *k, const char *type, const struct mount_options *o, struct super **ret);

uint64_t guest_fs_limit(const struct super *sb);

int guest_mount(struct kernel *k, struct path at, const char *type, unsigned flags,
	const char *source, const struct mount_options *o);
/* @m to @at, if it may be there. */
int guest_attach(struct mount *m, struct path at);
/* The same for one that has been nowhere, with copies wherever that is heard. */
int guest_graft(struct mount *m, struct path at);
/* A copy of the mount that @from is in, from @from down; @all: with the mounts below. Nowhere yet.
 */
int guest_clone(struct path from, bool all, struct mount **ret);
/* All mounts of a tree; each copy knows what it is one of until guest_copied(). */
int guest_copy_tree(struct mount *root, enum copy_kind kind, struct mount **ret);
void guest_copied(struct vfs_state *v);
int guest_bind(struct path from, struct path at, bool all);
int guest_move(struct path from, struct path at);
/* @from's mount goes below the one that @at is the root of. */
int guest_move_beneath(struct path from, struct path at);
/* @flags: MOUNT_* instead of those it has. */
int guest_change(struct mount *m, unsigned flags);
int guest_reconfigure(struct path at, unsigned flags, bool read_only);
int guest_umount(struct task *t, struct path at, unsigned flags);

extern const struct file_ops fs_context_ops; /* sys/mountfd.c: fsopen */

#endif
