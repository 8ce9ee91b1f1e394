/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/path.c - references on a place in the tree.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock.
 */
#include "tier/kernel/vfs/vfs.h"

struct path path_ref(struct path p)
{
	if (p.dentry)
		p.dentry->refs++;
	if (p.mnt)
		p.mnt->refs++;
	return p;
}

void path_unref(struct path p)
{
	if (p.dentry)
		dentry_unref(p.dentry);
	if (p.mnt)
		mount_unref(p.mnt);
}
