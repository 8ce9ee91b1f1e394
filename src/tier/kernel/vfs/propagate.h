/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_PROPAGATE_H
#define WARD_TIER_KERNEL_VFS_PROPAGATE_H

#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/vfs.h"

/*
 * Mounts that tell each other what is mounted on them. Those of one group (mount.group) are peers:
 * what comes and goes on one does so on all. Who has a master (mount.master) hears of that group
 * and tells it nothing.
 */

/* What a copy of a mount hears and tells. */
enum copy_kind {
	COPY_PEER,  /* the same as what it is a copy of */
	COPY_HEARS, /* it hears of a group that it was to be in: for another user's namespace */
	COPY_SLAVE, /* it hears of the group of what it is a copy of */
	COPY_SLAVE_GROUP, /* and has a group of its own */
};
void mount_copy_kind(struct mount *copy, const struct mount *of, enum copy_kind kind);

/* MS_SHARED, MS_SLAVE, MS_PRIVATE or MS_UNBINDABLE for @top, and with @all for what is below. */
void mount_set_kind(struct mount *top, unsigned long kind, bool all);
/* It is taken away: the group goes on without it. */
void mount_leave(struct mount *m);
/* @to, which is in no group, hears and tells what @from does. 0 or a negative errno. */
int mount_join(struct mount *from, struct mount *to);
/* The nearest group above @m's that has a mount below @root; 0: none. */
uint32_t mount_hears_from(const struct mount *m, struct path root);

/* What comes to another user's namespace stays as it is there, and hides what it hides. */
void mount_lock_tree(struct mount *top);
/* Is there a mount of @top's tree that no copy may be made of? */
bool mount_has_unbindable(const struct mount *top);

/* The copies that a mount makes elsewhere, not yet in their places. */
struct spread {
	struct mount *from, *at;
	struct dentry *point;
	unsigned count;
	struct spread_copy *copies;
};
/* For @m, which is to come to @at. -ENOSPC, -ENOMEM: nothing has changed. */
int spread_begin(struct spread *s, struct mount *m, struct path at);
/* @m is there: so are the copies. */
void spread_end(struct spread *s);
/* It did not get there. */
void spread_drop(struct spread *s);

/* Is something that would go with @m in use elsewhere? */
bool spread_busy(const struct mount *m);
/* @m and all below it are taken away, here and wherever that is heard. -ENOMEM: nothing is. */
int spread_detach(struct mount *m);

#endif
