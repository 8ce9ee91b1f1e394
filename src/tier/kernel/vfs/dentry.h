/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_DENTRY_H
#define WARD_TIER_KERNEL_VFS_DENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tier/kernel/task/wait.h"
#include "tier/kernel/vfs/inode.h"

/*
 * Names, super blocks and mounts.
 *
 * A dentry that nobody holds stays in the cache until DENTRIES_CACHED_MAX others came after it,
 * unless its file system keeps no cache (procfs, host directories). A pinned dentry is a fact and
 * not a memory of one: what was made in a tree file system has no other place than its dentry.
 */
struct kstatfs;
struct user_ns;

enum {
	DENTRY_HASHED = 1,  /* found by dentry_find() */
	DENTRY_PINNED = 2,  /* one reference of its own */
	DENTRY_DELETED = 4, /* its name is gone; whoever holds it still may use it */
	DENTRY_MOUNTED = 8, /* something is mounted here: ask mount_at() */
	DENTRY_IN_LRU = 16,
	DENTRY_WHITEOUT = 32, /* pinned and negative: hides a name of a lower layer */
	DENTRY_LOWER = 64,    /* a lower layer has something at this place */
	DENTRY_TOLD = 128,    /* whoever watches its inode knows that it is gone */
};

struct dentry {
	unsigned refs;
	uint16_t flags; /* DENTRY_* */
	uint16_t len;
	uint32_t hash;
	struct super *sb;
	struct dentry *parent; /* a reference; NULL: a root */
	struct inode *inode;   /* a reference; NULL: there is no such name */
	struct dentry *hash_next;
	struct dentry *children, *next, *prev; /* hashed ones below this; and beside it */
	struct dentry *lru_next, *lru_prev;
	char *name; /* NUL-terminated; changed by rename only */
};

enum {
	SB_NO_CACHE = 1, /* names are looked up anew each time */
	SB_READ_ONLY = 2,
	SB_NO_XATTR = 4,
	SB_PLAIN = 8,       /* its names are shown as they are: nowhere in the tree */
	SB_MOUNTED_ON = 16, /* has no names to remember, and something lies on one of them */
};

struct super_ops {
	const char *name; /* "tmpfs", "overlay", "proc", ...: as /proc/mounts shows it */
	uint32_t magic;   /* statfs' f_type */
	int (*statfs)(struct super *sb, struct kstatfs *ret); /* NULL: zeroes */
	void (*release)(struct super *sb); /* frees priv; there is no inode of it any more */
	void (*clean)(
		struct super *sb); /* nobody has it mounted: inodes of its own go; may be NULL */
};

struct kstatfs {
	uint64_t type, bsize, blocks, bfree, bavail, files, ffree, namelen;
};

struct super {
	unsigned refs;   /* one per mount */
	unsigned inodes; /* that live: it stays for the last one */
	bool over;       /* the last mount is gone */
	const struct super_ops *ops;
	struct kernel *k;
	uint64_t dev; /* st_dev */
	unsigned flags;
	struct dentry *root; /* a reference */
	uint64_t last_ino;
	void *priv;
	struct fan_mark *marks; /* io/fanotify.c */
	struct user_ns *owner;  /* reference: who may change it as a whole; NULL: the first */
	struct super *next;
};

/* As MS_RDONLY and so on. */
enum {
	MOUNT_READ_ONLY = 1,
	MOUNT_NO_SUID = 2,
	MOUNT_NO_DEV = 4,
	MOUNT_NO_EXEC = 8,
	MOUNT_NO_FOLLOW = 256, /* symbolic links in it lead nowhere */
	MOUNT_NO_ATIME = 1024,
	MOUNT_NO_DIRATIME = 2048,
	MOUNT_STRICT_ATIME = 1 << 24,
	MOUNT_LOCK_TIMES = 1 << 25, /* in mount.locked: how times are kept stays */
	MOUNT_LOCKABLE = MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEV | MOUNT_NO_EXEC,
};

/*
 * Something in the tree. Held by its place in the parent, and by every path that goes through it: a
 * mount that was taken out of the tree lives for as long as a file is open in it.
 */
struct mount {
	unsigned refs;
	uint32_t id, flags; /* MOUNT_* */
	uint32_t locked; /* flags that no guest takes away: what the host gave read-only stays so */
	bool kept;       /* made at the start: no guest takes it out of the tree */
	bool top;        /* the root of a namespace: ns/mnt.h */
	bool fixed;      /* hides something from whoever is in its namespace: it stays */
	bool expiring;   /* umount2(MNT_EXPIRE) came once, and nobody since */
	unsigned writers; /* files that are open for writing */
	struct super *sb;
	struct dentry *root;    /* a reference */
	struct mount *parent;   /* NULL: the root mount, or not in the tree */
	struct dentry *point;   /* in the parent; a reference */
	struct mount *next;     /* all, oldest first */
	char *source;           /* for /proc/mounts */
	struct fan_mark *marks; /* io/fanotify.c */
	struct mount *copy;     /* of it, while a tree of mounts is copied; no reference */
	bool is_copy;           /* and one of these */
	uint32_t group, master; /* vfs/propagate.h: whom it tells, and of whom it hears; 0: none */
	bool unbindable;        /* no copy of it is made */
	bool told, new_group, leaving; /* while something spreads */
	unsigned staying;              /* how many on it do not go, while something goes */
};

/* Its number that no other mount ever has; all are above MOUNT_ID_UNIQUE. */
#define MOUNT_ID_UNIQUE (1ULL << 31)
static inline uint64_t mount_unique(const struct mount *m)
{
	return MOUNT_ID_UNIQUE + m->id;
}

/* State of vfs/ in one kernel. */
enum { DENTRY_BUCKETS = 8192 };
struct vfs_state {
	struct dentry *buckets[DENTRY_BUCKETS];
	struct dentry lru; /* head; lru_next is the oldest */
	unsigned cached, dentries, inodes;
	uint32_t last_mount_id;
	uint64_t last_dev;
	struct mount *mounts;
	unsigned mount_count;
	uint64_t mount_changes; /* how often what is mounted where has changed: /proc/PID/mounts */
	struct wait_queue mount_wait;
	struct super *supers;
	struct tree_state *tree; /* fs/: shared by all tree file systems */
	uint32_t rename_cookie;
	struct super *memfds; /* fs/memfd.c; NULL until used */
	struct loop *loops;   /* fs/loop.c; NULL until used */
	struct mount *anon;   /* for files without a name: see anon_path() */
	struct mount *nsfs;   /* ns/nsfs.c */
	struct dentry *pts;   /* the directory /dev/pts, borrowed */
	uint32_t lock_count;
};

struct dentry *dentry_ref(struct dentry *d);
void dentry_unref(struct dentry *d);
/* The cached dentry of that name (also a negative one), with a reference; NULL: not known. */
struct dentry *dentry_find(struct dentry *parent, const char *name, size_t len);
/* A new negative one, not hashed, with one reference; takes none on @parent's owner but its own.
 * NULL: no memory, or too many. */
struct dentry *dentry_create(struct dentry *parent, const char *name, size_t len);
struct dentry *dentry_create_root(struct super *sb, struct inode *root); /* takes @root */
void dentry_hash(struct dentry *d);
void dentry_unhash(struct dentry *d);
void dentry_pin(struct dentry *d);
void dentry_unpin(struct dentry *d);
/* Other parent, other name: for rename. -ENOMEM changes nothing. */
int dentry_move(struct dentry *d, struct dentry *parent, const char *name);
/* Swaps the places of two. */
void dentry_swap(struct dentry *a, struct dentry *b);
/* The name is gone: unhashed, unpinned, marked. The inode stays for whoever holds it. */
void dentry_delete(struct dentry *d);
/* Is @d @above or below it? */
bool dentry_is_below(const struct dentry *d, const struct dentry *above);
/* Drops every cached name that nobody holds. */
void dentry_shrink(struct vfs_state *v, unsigned keep);

struct super *super_create(
	struct kernel *k, const struct super_ops *ops, unsigned flags, void *priv);
void super_unref(struct super *sb);
/* Mounts @sb (takes it) on @at (NULL: as the root); the mount belongs to the kernel's list. */
struct mount *mount_create(struct kernel *k, struct super *sb, const struct path *at,
	unsigned flags, const char *source);
/* Is @m mounted on @d, in whatever mount? */
bool mount_is_on(const struct mount *m, const struct dentry *d);
/* What is mounted on @d in @m, or NULL. */
struct mount *mount_at(const struct mount *m, const struct dentry *d);
struct mount *mount_ref(struct mount *m);
void mount_unref(struct mount *m);
/* One that is nowhere in the tree, with one reference, of what is at @root in @sb (takes neither);
 * NULL: too many, or no memory. */
struct mount *mount_new(struct kernel *k, struct super *sb, struct dentry *root, unsigned flags,
	const char *source);
void mount_attach(struct mount *m, const struct path *at); /* takes a reference of its own */
void mount_detach(struct mount *m);                        /* and all that is mounted below it */
/* It has left @point: both references of that place go. */
void mount_left(struct mount *m, struct dentry *point);
bool mount_is_below(const struct mount *m, const struct mount *above);
/* Does the way up from @m's root lead to @root? */
bool mount_is_under(const struct mount *m, struct path root);
struct super *super_ref(struct super *sb);
void super_lost_inode(struct super *sb);
void guest_mounts_done(struct vfs_state *v);
/* Everything that is pinned, at the end. */
void dentries_done(struct vfs_state *v);

#endif
