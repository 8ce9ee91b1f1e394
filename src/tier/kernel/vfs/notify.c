/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/notify.c - tells inotify and fanotify, when there is somebody to tell.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock. kernel.notify is set by whoever makes inotify files, kernel.fan by
 *        whoever makes fanotify files.
 */
#include <sys/inotify.h>
#include <sys/stat.h>

#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/notify.h"

_Static_assert((int)FAN_W_OPEN == IN_OPEN && (int)FAN_W_DELETE_SELF == IN_DELETE_SELF &&
		       FAN_W_ON_DIR == IN_ISDIR,
	"one word for both");

static uint32_t with_kind(const struct inode *i, uint32_t mask)
{
	return S_ISDIR(i->mode) ? mask | IN_ISDIR : mask;
}

/* inotify's side: about @i, or about @name in it. */
static void tell_watches(
	struct kernel *k, struct inode *i, uint32_t mask, uint32_t cookie, const char *name)
{
	if (k->notify && i->watches)
		k->notify->event(k, i, mask, cookie, name);
}

void notify_name(
	struct kernel *k, struct inode *dir, struct inode *i, uint32_t mask, const char *name)
{
	if (!k->notify && !k->fan)
		return;
	mask = with_kind(i, mask);
	tell_watches(k, dir, mask, 0, name);
	if (k->fan)
		fan_tell(k, &(struct notify){ .mask = mask, .inode = i, .dir = dir, .name = name });
}

void notify_move(struct kernel *k, struct inode *i, struct notify_end from, struct notify_end to)
{
	uint32_t kind = with_kind(i, 0), cookie = ++k->vfs->rename_cookie;
	struct notify n = {
		.inode = i, .dir = from.dir, .name = from.name, .to_dir = to.dir, .to_name = to.name
	};

	tell_watches(k, from.dir, IN_MOVED_FROM | kind, cookie, from.name);
	tell_watches(k, to.dir, IN_MOVED_TO | kind, cookie, to.name);
	if (from.dir == to.dir)
		tell_watches(k, from.dir, NOTIFY_RENAMED | kind, cookie, from.name);
	tell_watches(k, i, IN_MOVE_SELF, 0, NULL);
	if (!k->fan)
		return;
	n.mask = FAN_W_RENAME | kind;
	fan_tell(k, &n);
	n.to_dir = NULL;
	n.mask = FAN_W_MOVED_FROM | kind;
	fan_tell(k, &n);
	n.mask = FAN_W_MOVED_TO | kind;
	n.dir = to.dir;
	n.name = to.name;
	fan_tell(k, &n);
	fan_tell(k, &(struct notify){ .mask = FAN_W_MOVE_SELF | kind, .inode = i });
}

void notify_inode(struct kernel *k, struct inode *i, uint32_t mask)
{
	inode_ref(i); /* the last watch may hold the last reference */
	tell_watches(k, i, mask, 0, NULL);
	if (k->fan) {
		fan_tell(k, &(struct notify){ .mask = with_kind(i, mask), .inode = i });
		if (mask & IN_DELETE_SELF)
			fan_inode_gone(i);
	}
	inode_unref(i);
}

/* @at: by which it was used, or no dentry. */
static void tell(struct kernel *k, struct dentry *d, struct path at, uint32_t mask)
{
	struct inode *dir = d->parent ? d->parent->inode : NULL;
	bool gone = d->flags & DENTRY_DELETED;
	uint32_t said = with_kind(d->inode, mask & IN_ALL_EVENTS);

	/* What is done to the inode, and not through a name that is gone, is told to all. */
	if (gone && at.dentry)
		said |= NOTIFY_UNLINKED;
	/* O_TMPFILE's never had a name to tell. */
	if (gone && (d->inode->flags & INODE_LINKABLE))
		dir = NULL;
	if (dir)
		tell_watches(k, dir, said, 0, d->name);
	tell_watches(k, d->inode, said, 0, NULL);
	if (k->fan)
		fan_tell(k, &(struct notify){ .mask = with_kind(d->inode, mask),
				    .inode = d->inode,
				    .dir = dir,
				    .name = dir ? d->name : NULL,
				    .path = at });
}

void notify_dentry(struct kernel *k, struct dentry *d, uint32_t mask)
{
	if ((k->notify || k->fan) && d && d->inode)
		tell(k, d, (struct path){ NULL, NULL }, mask);
}

void notify_file(struct file *f, uint32_t mask)
{
	struct kernel *k = f->k;

	if ((k->notify || k->fan) && !f->quiet && f->path.dentry && f->path.dentry->inode)
		tell(k, f->path.dentry, f->path, mask);
}
