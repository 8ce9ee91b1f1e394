/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/notify.c - tells inotify, when there is somebody to tell.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock. kernel.notify is set by whoever makes inotify files.
 */
#include <sys/inotify.h>
#include <sys/stat.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/notify.h"

static uint32_t with_kind(const struct inode *i, uint32_t mask)
{
	return S_ISDIR(i->mode) ? mask | IN_ISDIR : mask;
}

void notify_name(
	struct kernel *k, struct inode *dir, uint32_t mask, uint32_t cookie, const char *name)
{
	if (k->notify && dir->watches)
		k->notify->event(k, dir, mask, cookie, name);
}

void notify_inode(struct kernel *k, struct inode *i, uint32_t mask)
{
	if (k->notify && i->watches)
		k->notify->event(k, i, mask, 0, NULL);
}

void notify_dentry(struct kernel *k, struct dentry *d, uint32_t mask)
{
	if (!k->notify || !d || !d->inode)
		return;
	mask = with_kind(d->inode, mask);
	/* O_TMPFILE's never had a name to tell. */
	if (d->parent && d->parent->inode && d->parent->inode->watches &&
		!((d->flags & DENTRY_DELETED) && (d->inode->flags & INODE_LINKABLE)))
		k->notify->event(k, d->parent->inode,
			mask | (d->flags & DENTRY_DELETED ? (uint32_t)NOTIFY_UNLINKED : 0), 0,
			d->name);
	if (d->inode->watches)
		k->notify->event(k, d->inode, mask, 0, NULL);
}

void notify_file(struct file *f, uint32_t mask)
{
	if (f->k->notify)
		notify_dentry(f->k, f->path.dentry, mask);
}
