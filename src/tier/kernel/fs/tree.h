/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_TREE_H
#define WARD_TIER_KERNEL_FS_TREE_H

#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/file.h"

/*
 * The tree file system: overlay, tmpfs and /dev are one thing. Names, attributes, links and nodes
 * live in our own tables. A directory may have read-only host directories under it (the layers of a
 * template, or a host directory that was given): what nobody changed is looked up there. The
 * contents of a regular file are
 *
 *	NONE    empty, so far no host file
 *	LOWER   a host file of a layer, read-only
 *	STORE   a host file of ours in kernel.store, named by number
 *	TEXT    node.target: a text that never changes (sysfs)
 *
 * and go from LOWER to STORE on the first write. A chmod or rename needs no copy.
 */
struct kernel;
struct task;

enum content { CONTENT_NONE, CONTENT_LOWER, CONTENT_STORE, CONTENT_TEXT };

struct layer {
	int fd; /* host directory, or a file for a bind of one */
};

struct tree {
	struct layer *layers; /* uppermost first */
	unsigned layer_count;
	bool nobody_is_root;  /* see tree_nobody_is_root() */
	uint64_t limit, used; /* bytes of contents; limit 0: the store's size is enough of one */
	uint32_t id_base;     /* host ids [id_base, id_base + 65536) are the guest's 0.. */
	struct inode *lower_hash[1024];
};

struct xattr {
	struct xattr *next;
	size_t len;
	void *value;
	char name[];
};

/* One layer's directory behind a merged one. */
struct member {
	unsigned layer;
	int fd; /* -1: closed */
};

struct node {
	struct inode *inode; /* back */
	/* what is below */
	char *lower; /* path in its layers; NULL: nothing below. "" is the layer itself */
	unsigned layer;
	uint64_t host_dev, host_ino;
	bool dirty;             /* differs from below: one reference of its own while it lives */
	struct member *members; /* directories */
	unsigned member_count;
	struct node *open_next, *open_prev; /* those with open member descriptors, oldest first */
	bool in_open;
	/* contents */
	enum content content;
	uint64_t store_id;
	int fd;           /* LOWER: read-only, STORE: read-write; -1: closed */
	unsigned opens;   /* files that use it */
	uint64_t charged; /* of tree.used, where that has a limit */
	void *map;        /* all of it, for large reads; NULL: not mapped */
	size_t map_len;
	char *target; /* symbolic links, TEXT */
	struct xattr *xattrs;
	bool xattrs_known; /* those from below are among them */
	uint32_t seals;    /* memfd */
	bool is_memfd;
	bool walked; /* tree_walk.c, while it saves */
};

/* All tree file systems of a kernel share these. */
struct tree_state {
	uint64_t last_store_id;
	unsigned open_dirs;
	struct node open_list; /* head */
	size_t xattr_bytes;
	char *buffer; /* COPY_CHUNK, for transfers under the lock */
};

int tree_init(struct kernel *k);
void tree_done(struct kernel *k);
/* A file system over @layers (descriptors taken, also on failure); none: a tmpfs. */
struct super *tree_create(struct kernel *k, const struct super_ops *type, const int *layers,
	unsigned count, uint32_t id_base, uint32_t mode);
/* Its layers were not mapped for us: what the host's root owns looks like nobody's, and is shown as
 * root's. Before the first lookup. */
void tree_nobody_is_root(struct super *sb);
extern const struct super_ops tree_tmpfs, tree_overlay, tree_devtmpfs, tree_devpts, tree_mqueue,
	tree_sysfs;

static inline struct node *node_of(const struct inode *i)
{
	return i->priv;
}
static inline struct tree *tree_of(const struct inode *i)
{
	return i->sb->priv;
}

/* tree.c */
struct inode *tree_inode(struct super *sb, uint32_t mode); /* with its node; NULL: none left */
void node_dirty(struct inode *i);                          /* it now differs from below */
extern const struct inode_ops tree_ops;
/* Puts a finished inode at @d (takes it): for /dev and sysfs at start. */
void tree_attach(struct inode *dir, struct dentry *d, struct inode *i);
/* A child of @dir, made by the kernel itself (root's); NULL: no memory. Borrowed. */
struct dentry *tree_child(struct dentry *dir, const char *name, uint32_t mode, uint64_t rdev);

/* layer.c: the host side of layers */
int layer_lookup(struct inode *dir, struct dentry *d);
int layer_root(struct super *sb, struct inode *i); /* fills the root from the layers */
int layer_open_file(struct inode *i);              /* a read-only host descriptor, or -errno */
int layer_open_any(struct inode *i);               /* the same of a directory, the uppermost, too */
void layer_forget(struct inode *i);                /* out of the hash, descriptors closed */
struct listing;
/* Every name below @dir, into @l; and without those in @hidden, which grows by whiteouts. */
int layer_list(struct inode *dir, struct listing *l);
int layer_merge(struct inode *dir, struct listing *hidden, struct listing *l);

/* Loading: what is known of a place below, borrowed; or a new inode into the hash, at that place
 * (taken on success). */
struct inode *layer_find(struct super *sb, uint32_t layer, const char *lower);
int layer_restore(struct inode *i, uint32_t layer, char *lower);

/* tree_walk.c: everything that was made or changed, in all file systems that have a number. */
struct walk;
void trees_walk(struct kernel *k, struct walk *w);

/* store.c: contents */
int store_open(struct inode *i, bool write); /* node.fd is there; @write: it is ours */
void store_close(struct inode *i);
int store_resize(struct inode *i, int64_t size);
void store_free(struct inode *i);
int store_reopen(struct inode *i); /* a read-only descriptor of STORE contents */
ssize_t store_read(struct file *f, struct uio *io, int64_t *pos);
ssize_t store_write(struct file *f, struct uio *io, int64_t *pos);
/* Bytes of a regular file's contents, without a file that is open: zeros where there are none; and
 * into those that are ours, up to its end. 0 or -errno. */
int store_peek(struct inode *i, void *buf, size_t len, int64_t off);
int store_poke(struct inode *i, const void *buf, size_t len, int64_t off);
int64_t store_blocks(struct inode *i);
/* May [@off, @off + @len) be filled? -ENOSPC. */
int store_room(struct inode *i, int64_t off, int64_t len);
void store_charge(struct inode *i); /* what it takes has changed */

/* tree_file.c */
extern const struct file_ops tree_file_ops, tree_dir_ops;
int tree_open(struct inode *i, struct file *f, struct task *t);
/* A descriptor of the contents that can only be read, borrowed from @f; -ENODEV: there is none. */
int tree_read_fd(struct file *f);

/* xattr.c */
ssize_t tree_getxattr(struct inode *i, const char *name, void *buf, size_t cap);
int tree_setxattr(struct inode *i, const char *name, const void *v, size_t len, int flags);
ssize_t tree_listxattr(struct inode *i, char *buf, size_t cap);
int tree_removexattr(struct inode *i, const char *name);
/* Those that the host's file has become the inode's own. */
void tree_load_xattrs(struct inode *i);
void tree_free_xattrs(struct inode *i);

#endif
