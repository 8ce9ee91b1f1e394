/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/tree.c - names of the tree file system.
 *
 * Owns:  nodes, and what pins and hides names.
 * Rules: under the kernel lock. Allocate first, change afterwards: a change is whole or not there.
 */
#include <errno.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/kernel/fs/listing.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/ops.h"

struct inode *tree_inode(struct super *sb, uint32_t mode)
{
	struct vfs_state *v = sb->k->vfs;
	struct inode *i = v->inodes < INODES_MAX ? inode_create(sb, &tree_ops, mode) : NULL;
	struct node *n = i ? calloc(1, sizeof(*n)) : NULL;

	if (!n) {
		free(i);
		sb->inodes -= i != NULL;
		return NULL;
	}
	v->inodes++;
	n->inode = i;
	n->fd = -1;
	i->priv = n;
	i->atime = i->mtime = i->ctime = i->btime = kernel_realtime(sb->k);
	return i;
}

static void release(struct inode *i)
{
	struct node *n = node_of(i);

	if (n->lower)
		layer_forget(i);
	else
		free(n->members);
	store_free(i);
	tree_free_xattrs(i);
	free(n->target);
	free(n->lower);
	free(n);
	i->sb->k->vfs->inodes--;
}

void node_dirty(struct inode *i)
{
	struct node *n = node_of(i);

	if (!n->lower || n->dirty)
		return;
	n->dirty = true;
	inode_ref(i);
}

/* The last name is gone: what it differed in is of no use any more, unless another name of the same
 * file may still be down there. */
static void forget_dirt(struct inode *i)
{
	struct node *n = node_of(i);

	if (!n->dirty || i->nlink)
		return;
	n->dirty = false;
	inode_unref(i);
}

static void touch_dir(struct inode *dir)
{
	dir->mtime = dir->ctime = kernel_realtime(dir->sb->k);
	node_dirty(dir);
}

static struct inode *new_inode(struct inode *dir, struct task *t, uint32_t mode)
{
	struct inode *i = tree_inode(dir->sb, mode);

	if (!i)
		return NULL;
	i->ino = ++dir->sb->last_ino;
	i->uid = t->cred->fsuid;
	i->gid = t->cred->fsgid;
	if (dir->mode & S_ISGID) {
		i->gid = dir->gid;
		if (S_ISDIR(mode))
			i->mode |= S_ISGID;
	}
	if (S_ISDIR(mode))
		i->nlink = 2;
	return i;
}

void tree_attach(struct inode *dir, struct dentry *d, struct inode *i)
{
	d->inode = i;
	d->flags &= (uint16_t)~DENTRY_WHITEOUT;
	if (!(d->flags & DENTRY_HASHED))
		dentry_hash(d);
	dentry_pin(d);
	if (S_ISDIR(i->mode))
		dir->nlink++;
	touch_dir(dir);
}

static int make(struct inode *dir, struct dentry *d, struct task *t, uint32_t mode, uint64_t rdev)
{
	struct inode *i = new_inode(dir, t, mode);

	if (!i)
		return -ENOSPC;
	i->rdev = rdev;
	tree_attach(dir, d, i);
	return 0;
}

static int tree_create_file(struct inode *dir, struct dentry *d, struct task *t, uint32_t mode)
{
	return make(dir, d, t, mode, 0);
}

static int tree_mkdir(struct inode *dir, struct dentry *d, struct task *t, uint32_t mode)
{
	return make(dir, d, t, mode, 0);
}

static int tree_mknod(
	struct inode *dir, struct dentry *d, struct task *t, uint32_t mode, uint64_t rdev)
{
	return make(dir, d, t, mode, rdev);
}

static int tree_symlink(struct inode *dir, struct dentry *d, struct task *t, const char *target)
{
	struct inode *i = new_inode(dir, t, S_IFLNK | 0777);
	char *copy = i ? strdup(target) : NULL;

	if (!copy) {
		inode_unref(i);
		return -ENOSPC;
	}
	node_of(i)->target = copy;
	i->size = (int64_t)strlen(copy);
	tree_attach(dir, d, i);
	return 0;
}

static int tree_link(struct inode *dir, struct dentry *d, struct inode *i)
{
	i->nlink++;
	i->ctime = kernel_realtime(dir->sb->k);
	i->flags &= ~(uint32_t)INODE_LINKABLE;
	node_dirty(i);
	tree_attach(dir, d, inode_ref(i));
	return 0;
}

static int tree_tmpfile(struct inode *dir, struct task *t, uint32_t mode, struct inode **ret)
{
	struct inode *i = new_inode(dir, t, mode);

	if (!i)
		return -ENOSPC;
	i->nlink = 0;
	*ret = i;
	return 0;
}

/* What is to stand where @d is now, so that a lower name does not show again. */
static int prepare_whiteout(struct dentry *d, struct dentry **ret)
{
	*ret = NULL;
	if (!(d->flags & DENTRY_LOWER))
		return 0;
	*ret = dentry_create(d->parent, d->name, d->len);
	return *ret ? 0 : -ENOSPC;
}

static void place_whiteout(struct dentry *w)
{
	if (!w)
		return;
	w->flags |= DENTRY_WHITEOUT | DENTRY_LOWER;
	dentry_hash(w);
	dentry_pin(w);
	dentry_unref(w);
}

static void lost_name(struct inode *dir, struct inode *i)
{
	i->ctime = kernel_realtime(dir->sb->k);
	if (S_ISDIR(i->mode)) {
		i->nlink = 0;
		dir->nlink -= dir->nlink > 2;
	} else if (i->nlink) {
		i->nlink--;
	}
	touch_dir(dir);
}

static int tree_unlink(struct inode *dir, struct dentry *d)
{
	struct inode *i = inode_ref(d->inode);
	struct dentry *w;
	int r = prepare_whiteout(d, &w);

	if (r == 0) {
		node_dirty(i);
		lost_name(dir, i);
		dentry_delete(d);
		place_whiteout(w);
		forget_dirt(i);
	}
	inode_unref(i);
	return r;
}

/* 0 when nothing but hidden names is in it. */
static int check_empty(struct dentry *d)
{
	struct listing l = { 0 };
	uint32_t hidden = 0;
	int r = 0;

	for (struct dentry *c = d->children; c; c = c->next)
		if (c->inode)
			return -ENOTEMPTY;
	if (!node_of(d->inode)->member_count)
		return 0;
	r = layer_list(d->inode, &l);
	for (struct dentry *c = d->children; r == 0 && c; c = c->next)
		hidden += listing_has(&l, c->name, c->len);
	if (r == 0 && l.count > hidden)
		r = -ENOTEMPTY;
	listing_done(&l);
	return r;
}

/* A directory that is going away holds nothing but names that say "not here". */
static void drop_children(struct dentry *d)
{
	dentry_ref(d);
	while (d->children) {
		struct dentry *c = dentry_ref(d->children);

		dentry_delete(c);
		dentry_unref(c);
	}
	dentry_unref(d);
}

static int tree_rmdir(struct inode *dir, struct dentry *d)
{
	struct dentry *w = NULL;
	struct inode *i;
	int r = check_empty(d);

	if (r == 0)
		r = prepare_whiteout(d, &w);
	if (r < 0)
		return r;
	i = inode_ref(d->inode);
	drop_children(d);
	node_dirty(i);
	lost_name(dir, i);
	dentry_delete(d);
	place_whiteout(w);
	forget_dirt(i);
	inode_unref(i);
	return 0;
}

static void swap_places(struct inode *from, struct dentry *a, struct inode *to, struct dentry *b)
{
	uint16_t la = a->flags & DENTRY_LOWER, lb = b->flags & DENTRY_LOWER;

	dentry_pin(a);
	dentry_pin(b);
	dentry_swap(a, b);
	a->flags = (uint16_t)((a->flags & ~DENTRY_LOWER) | lb);
	b->flags = (uint16_t)((b->flags & ~DENTRY_LOWER) | la);
	if (from != to && S_ISDIR(a->inode->mode) != S_ISDIR(b->inode->mode)) {
		struct inode *gains = S_ISDIR(a->inode->mode) ? to : from;
		struct inode *loses = gains == to ? from : to;

		gains->nlink++;
		loses->nlink -= loses->nlink > 2;
	}
	a->inode->ctime = b->inode->ctime = kernel_realtime(from->sb->k);
	node_dirty(a->inode);
	node_dirty(b->inode);
	touch_dir(from);
	touch_dir(to);
}

static int tree_rename(struct inode *from, struct dentry *old, struct inode *to,
	struct dentry *over, unsigned flags)
{
	struct dentry *w = NULL, *parent = over->parent;
	struct inode *lost = over->inode;
	bool is_dir = S_ISDIR(old->inode->mode);
	uint16_t lower = over->flags & DENTRY_LOWER;
	int r = 0;

	if (flags & RENAME_EXCHANGE) {
		swap_places(from, old, to, over);
		return 0;
	}
	if (lost && S_ISDIR(lost->mode))
		r = check_empty(over);
	if (r == 0)
		r = prepare_whiteout(old, &w);
	if (r < 0)
		return r;
	dentry_ref(parent);
	dentry_ref(over);
	if (lost)
		inode_ref(lost);
	dentry_ref(old);
	r = dentry_move(old, parent, over->name);
	if (r < 0) {
		dentry_unref(w);
	} else {
		if (lost) {
			if (S_ISDIR(lost->mode))
				drop_children(over);
			node_dirty(lost);
			lost_name(to, lost);
			forget_dirt(lost);
		}
		dentry_delete(over);
		place_whiteout(w);
		old->flags = (uint16_t)((old->flags & ~DENTRY_LOWER) | lower);
		dentry_pin(old);
		if (is_dir && from != to) {
			from->nlink -= from->nlink > 2;
			to->nlink++;
		}
		old->inode->ctime = kernel_realtime(from->sb->k);
		node_dirty(old->inode);
		touch_dir(from);
		touch_dir(to);
	}
	dentry_unref(old);
	dentry_unref(over);
	dentry_unref(parent);
	inode_unref(lost);
	return r;
}

static int tree_lookup(struct inode *dir, struct dentry *d)
{
	return node_of(dir)->member_count ? layer_lookup(dir, d) : 0;
}

static ssize_t tree_readlink(struct inode *i, struct task *t, char *buf, size_t cap)
{
	const char *target = node_of(i)->target;
	size_t n = target ? strlen(target) : 0;

	if (!target)
		return -EINVAL;
	memcpy(buf, target, n < cap ? n : cap);
	return (ssize_t)n;
}

static int tree_getattr(struct inode *i, struct kstat *ret)
{
	inode_attr(i, ret);
	ret->attributes_mask = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_NODUMP;
	ret->attributes = (i->flags & INODE_IMMUTABLE ? STATX_ATTR_IMMUTABLE : 0u) |
			  (i->flags & INODE_APPEND ? STATX_ATTR_APPEND : 0u) |
			  (i->flags & INODE_NO_DUMP ? STATX_ATTR_NODUMP : 0u);
	if (S_ISREG(i->mode))
		ret->blocks = store_blocks(i);
	else if (S_ISDIR(i->mode))
		ret->size = 4096;
	return 0;
}

static int tree_setattr(struct inode *i, const struct iattr *a)
{
	int r = a->valid & ATTR_SIZE ? store_resize(i, a->size) : 0;

	if (r < 0)
		return r;
	inode_apply(i, a);
	node_dirty(i);
	return 0;
}

const struct inode_ops tree_ops = {
	.lookup = tree_lookup,
	.create = tree_create_file,
	.mkdir = tree_mkdir,
	.mknod = tree_mknod,
	.symlink = tree_symlink,
	.link = tree_link,
	.unlink = tree_unlink,
	.rmdir = tree_rmdir,
	.rename = tree_rename,
	.tmpfile = tree_tmpfile,
	.readlink = tree_readlink,
	.getattr = tree_getattr,
	.setattr = tree_setattr,
	.open = tree_open,
	.getxattr = tree_getxattr,
	.setxattr = tree_setxattr,
	.listxattr = tree_listxattr,
	.removexattr = tree_removexattr,
	.release = release,
};

struct dentry *tree_child(struct dentry *dir, const char *name, uint32_t mode, uint64_t rdev)
{
	struct dentry *d = dentry_find(dir, name, strlen(name));
	struct inode *i;

	if (d && d->inode) {
		dentry_unref(d); /* pinned, so it stays */
		return d;
	}
	if (!d)
		d = dentry_create(dir, name, strlen(name));
	i = d ? tree_inode(dir->sb, mode) : NULL;
	if (!i) {
		dentry_unref(d);
		return NULL;
	}
	i->ino = ++dir->sb->last_ino;
	i->rdev = rdev;
	if (S_ISDIR(mode))
		i->nlink = 2;
	tree_attach(dir->inode, d, i);
	dentry_unref(d);
	return d;
}
