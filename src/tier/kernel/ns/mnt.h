/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_NS_MNT_H
#define WARD_TIER_KERNEL_NS_MNT_H

#include "tier/kernel/ns/ns.h"
#include "tier/kernel/vfs/vfs.h"

/* Mount namespaces: a tree of mounts of its own, in the kernel's one list. */
struct mnt_ns {
	struct ns ns;
	struct mount *root; /* reference */
};

/* As statmount(2) and NS_GET_MNTNS_ID call it; NULL: the first. */
static inline uint64_t mnt_id(const struct ns *n)
{
	return n ? n->number : 1;
}
/* The top of @t's tree. */
struct mount *mnt_root(const struct task *t);
/* May @t mount at all? */
bool mnt_may(const struct task *t);
/* Is @m in somebody else's tree? What is in none is nobody's. */
bool mnt_is_foreign(const struct task *t, const struct mount *m);
/* Is @m in anybody's tree, and whose (NULL: the first's)? */
bool mnt_has(const struct mount *m);
struct user_ns *mnt_owner(const struct mount *m);
/* A copy of @t's tree; @fs, which is nobody else's, moves into it. */
struct ns *mnt_create(struct task *t, struct fs_ctx *fs, struct user_ns *owner, int *ret_err);
void mnt_gone(struct mnt_ns *n);
void mnt_done(struct kernel *k); /* all of them, at the end */
/* @fs moves to the top of @n's tree (NULL: the first). */
void mnt_go(struct kernel *k, struct fs_ctx *fs, const struct mnt_ns *n);
/* Down to what is mounted on @p last; keeps the references right. */
void mnt_down(struct path *p);
/* pivot_root(2), both already found. */
int mnt_pivot(struct task *t, struct path new_root, struct path put_old);
/* The roots, when there are mounts. */
void mnt_walk(struct kernel *k, struct walk *w);

#endif
