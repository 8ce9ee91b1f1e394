/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/dentry.c - names and mounts: the end of them.
 *
 * Owns:  struct dentry, struct mount.
 * Rules: under the kernel lock.
 */
#include <stdlib.h>

#include "tier/kernel/vfs/vfs.h"

void dentry_unref(struct dentry *d)
{
	while (d && --d->refs == 0) {
		struct dentry *up = d->parent == d ? NULL : d->parent;

		inode_unref(d->inode);
		free(d->name);
		free(d);
		d = up;
	}
}

void mount_unref(struct mount *m)
{
	if (!m || --m->refs)
		return;
	dentry_unref(m->root);
	dentry_unref(m->at);
	free(m->source);
	free(m);
}
