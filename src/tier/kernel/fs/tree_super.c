/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/tree_super.c - tree file systems: birth, size and death.
 *
 * Owns:  struct tree, struct tree_state.
 * Rules: under the kernel lock.
 */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/limits.h"

/* The store's size is the disk limit. */
static int tree_statfs(struct super *sb, struct kstatfs *ret)
{
	struct statvfs s;

	if (sb->k->store >= 0 && fstatvfs(sb->k->store, &s) == 0) {
		ret->bsize = s.f_bsize;
		ret->blocks = s.f_blocks;
		ret->bfree = s.f_bfree;
		ret->bavail = s.f_bavail;
	}
	if (((struct tree *)sb->priv)->limit) {
		const struct tree *t = sb->priv;

		ret->bsize = 4096;
		ret->blocks = t->limit / 4096;
		ret->bfree = ret->bavail = t->limit > t->used ? (t->limit - t->used) / 4096 : 0;
	}
	ret->files = INODES_MAX;
	ret->ffree = INODES_MAX - sb->k->vfs->inodes;
	return 0;
}

/* Nothing has a name any more: files that only differed from below can go. */
static void tree_clean(struct super *sb)
{
	struct tree *t = sb->priv;

	for (unsigned b = 0; b < 1024; b++) {
		struct inode *i = t->lower_hash[b];

		while (i) {
			if (!node_of(i)->dirty) {
				i = i->hash_next;
				continue;
			}
			node_of(i)->dirty = false;
			inode_unref(i);
			i = t->lower_hash[b];
		}
	}
}

static void release(struct super *sb)
{
	struct tree *t = sb->priv;

	for (unsigned i = 0; i < t->layer_count; i++)
		close(t->layers[i].fd);
	free(t->layers);
	free(t);
}

const struct super_ops tree_tmpfs = { "tmpfs", TMPFS_MAGIC, tree_statfs, release, tree_clean };
const struct super_ops tree_overlay = { "overlay", OVERLAYFS_SUPER_MAGIC, tree_statfs, release,
	tree_clean };
const struct super_ops tree_devtmpfs = { "devtmpfs", TMPFS_MAGIC, tree_statfs, release,
	tree_clean };
const struct super_ops tree_devpts = { "devpts", DEVPTS_SUPER_MAGIC, tree_statfs, release,
	tree_clean };
const struct super_ops tree_mqueue = { "mqueue", 0x19800202, tree_statfs, release, tree_clean };
const struct super_ops tree_sysfs = { "sysfs", SYSFS_MAGIC, NULL, release, tree_clean };

static struct tree *new_tree(const int *layers, unsigned count, uint32_t id_base)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (t && count)
		t->layers = calloc(count, sizeof(*t->layers));
	if (!t || (count && !t->layers)) {
		for (unsigned i = 0; i < count; i++)
			close(layers[i]);
		free(t);
		return NULL;
	}
	for (unsigned i = 0; i < count; i++)
		t->layers[i].fd = layers[i];
	t->layer_count = count;
	t->id_base = id_base;
	return t;
}

struct super *tree_create(struct kernel *k, const struct super_ops *type, const int *layers,
	unsigned count, uint32_t id_base, uint32_t mode)
{
	struct tree *t = new_tree(layers, count, id_base);
	struct super *sb = t ? super_create(k, type, 0, t) : NULL;
	struct inode *root;

	if (!sb) {
		for (unsigned i = 0; t && i < count; i++)
			close(t->layers[i].fd);
		if (t)
			free(t->layers);
		free(t);
		return NULL;
	}
	root = tree_inode(sb, S_IFDIR | mode);
	if (root) {
		root->ino = ++sb->last_ino;
		root->nlink = 2;
	}
	if (root && count && layer_root(sb, root) < 0) {
		inode_unref(root);
		root = NULL;
	}
	sb->root = root ? dentry_create_root(sb, root) : NULL;
	if (!sb->root) {
		inode_unref(root);
		super_unref(sb);
		return NULL;
	}
	return sb;
}

int tree_init(struct kernel *k)
{
	struct tree_state *ts = calloc(1, sizeof(*ts));

	if (!ts)
		return -ENOMEM;
	ts->buffer = malloc(COPY_CHUNK);
	if (!ts->buffer) {
		free(ts);
		return -ENOMEM;
	}
	ts->open_list.open_next = ts->open_list.open_prev = &ts->open_list;
	k->vfs->tree = ts;
	return 0;
}

void tree_done(struct kernel *k)
{
	if (k->vfs->tree)
		free(k->vfs->tree->buffer);
	free(k->vfs->tree);
	k->vfs->tree = NULL;
}
