/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/dentry.c - the tree of names and its cache.
 *
 * Owns:  every dentry, the hash table, the list of those that nobody holds.
 * Rules: under the kernel lock. Nothing here recurses: a guest may make directories as deep as it
 *        likes.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/notify.h"
#include "tier/kernel/vfs/propagate.h"

static uint32_t hash_name(const struct dentry *parent, const char *name, size_t len)
{
	uint64_t h = (uint64_t)(uintptr_t)parent * 0x9e3779b97f4a7c15u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
	return (uint32_t)(h ^ h >> 32);
}

static struct vfs_state *vfs_of(const struct dentry *d)
{
	return d->sb->k->vfs;
}

static void lru_remove(struct dentry *d)
{
	if (!(d->flags & DENTRY_IN_LRU))
		return;
	d->lru_next->lru_prev = d->lru_prev;
	d->lru_prev->lru_next = d->lru_next;
	d->flags &= (uint16_t)~DENTRY_IN_LRU;
	vfs_of(d)->cached--;
}

static void lru_add(struct dentry *d)
{
	struct dentry *head = &vfs_of(d)->lru;

	d->lru_next = head;
	d->lru_prev = head->lru_prev;
	head->lru_prev->lru_next = d;
	head->lru_prev = d;
	d->flags |= DENTRY_IN_LRU;
	vfs_of(d)->cached++;
}

struct dentry *dentry_ref(struct dentry *d)
{
	if (d->refs++ == 0)
		lru_remove(d);
	return d;
}

static void unlink_child(struct dentry *d)
{
	if (d->next)
		d->next->prev = d->prev;
	if (d->prev)
		d->prev->next = d->next;
	else if (d->parent)
		d->parent->children = d->next;
	d->next = d->prev = NULL;
}

void dentry_unhash(struct dentry *d)
{
	struct dentry **at;

	if (!(d->flags & DENTRY_HASHED))
		return;
	at = &vfs_of(d)->buckets[d->hash % DENTRY_BUCKETS];
	while (*at != d)
		at = &(*at)->hash_next;
	*at = d->hash_next;
	d->hash_next = NULL;
	d->flags &= (uint16_t)~DENTRY_HASHED;
	unlink_child(d);
}

void dentry_hash(struct dentry *d)
{
	struct dentry **at;

	assert(!(d->flags & DENTRY_HASHED) && d->parent);
	d->hash = hash_name(d->parent, d->name, d->len);
	at = &vfs_of(d)->buckets[d->hash % DENTRY_BUCKETS];
	d->hash_next = *at;
	*at = d;
	d->flags |= DENTRY_HASHED;
	d->prev = NULL;
	d->next = d->parent->children;
	if (d->next)
		d->next->prev = d;
	d->parent->children = d;
}

/* Frees @d, which nobody holds, and returns the parent, which has lost a reference. */
static struct dentry *dentry_free(struct dentry *d)
{
	struct dentry *parent = d->parent;

	lru_remove(d);
	dentry_unhash(d);
	if (d->inode && d->inode->nlink == 0 && !(d->flags & DENTRY_TOLD))
		notify_inode(d->sb->k, d->inode, IN_DELETE_SELF);
	inode_unref(d->inode);
	vfs_of(d)->dentries--;
	free(d->name);
	free(d);
	return parent;
}

void dentry_unref(struct dentry *d)
{
	while (d && --d->refs == 0) {
		if ((d->flags & DENTRY_HASHED) && !(d->sb->flags & SB_NO_CACHE)) {
			struct vfs_state *v = vfs_of(d);

			lru_add(d);
			if (v->cached > DENTRIES_CACHED_MAX)
				dentry_shrink(v, DENTRIES_CACHED_MAX * 7 / 8);
			return;
		}
		d = dentry_free(d);
	}
}

void dentry_shrink(struct vfs_state *v, unsigned keep)
{
	while (v->cached > keep) {
		struct dentry *parent = dentry_free(v->lru.lru_next);

		/* One that nobody holds any more joins the end of the list, so this ends. */
		if (parent && --parent->refs == 0) {
			if (parent->flags & DENTRY_HASHED) {
				lru_add(parent);
			} else {
				parent->refs = 1;
				dentry_unref(parent);
			}
		}
	}
}

struct dentry *dentry_find(struct dentry *parent, const char *name, size_t len)
{
	uint32_t hash = hash_name(parent, name, len);
	struct dentry *d = vfs_of(parent)->buckets[hash % DENTRY_BUCKETS];

	for (; d; d = d->hash_next)
		if (d->hash == hash && d->parent == parent && d->len == len &&
			memcmp(d->name, name, len) == 0)
			return dentry_ref(d);
	return NULL;
}

static struct dentry *dentry_new(struct super *sb, const char *name, size_t len)
{
	struct vfs_state *v = sb->k->vfs;
	struct dentry *d = NULL;

	if (v->dentries - v->cached >= DENTRIES_MAX)
		return NULL;
	d = calloc(1, sizeof(*d));
	if (d)
		d->name = malloc(len + 1);
	if (!d || !d->name) {
		free(d);
		return NULL;
	}
	memcpy(d->name, name, len);
	d->name[len] = '\0';
	d->len = (uint16_t)len;
	d->refs = 1;
	d->sb = sb;
	v->dentries++;
	return d;
}

struct dentry *dentry_create(struct dentry *parent, const char *name, size_t len)
{
	struct dentry *d = dentry_new(parent->sb, name, len);

	if (d)
		d->parent = dentry_ref(parent);
	return d;
}

struct dentry *dentry_create_root(struct super *sb, struct inode *root)
{
	struct dentry *d = dentry_new(sb, "", 0);

	if (d)
		d->inode = root;
	return d;
}

void dentry_pin(struct dentry *d)
{
	answers_names(d->parent);
	if (d->flags & DENTRY_PINNED)
		return;
	dentry_ref(d);
	d->flags |= DENTRY_PINNED;
}

void dentry_unpin(struct dentry *d)
{
	if (!(d->flags & DENTRY_PINNED))
		return;
	d->flags &= (uint16_t) ~(DENTRY_PINNED | DENTRY_WHITEOUT);
	dentry_unref(d);
}

int dentry_move(struct dentry *d, struct dentry *parent, const char *name)
{
	bool hashed = d->flags & DENTRY_HASHED;
	struct dentry *old = d->parent;
	size_t len = strlen(name);
	char *copy = malloc(len + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, len + 1);
	answers_names(old);
	answers_names(parent);
	dentry_unhash(d);
	free(d->name);
	d->name = copy;
	d->len = (uint16_t)len;
	d->parent = dentry_ref(parent);
	if (hashed)
		dentry_hash(d);
	dentry_unref(old);
	return 0;
}

void dentry_swap(struct dentry *a, struct dentry *b)
{
	struct dentry *parent = a->parent;
	bool ha = a->flags & DENTRY_HASHED, hb = b->flags & DENTRY_HASHED;
	char *name = a->name;
	uint16_t len = a->len;

	answers_names(parent);
	answers_names(b->parent);
	dentry_unhash(a);
	dentry_unhash(b);
	a->name = b->name;
	a->len = b->len;
	a->parent = b->parent;
	b->name = name;
	b->len = len;
	b->parent = parent;
	if (ha)
		dentry_hash(a);
	if (hb)
		dentry_hash(b);
}

void dentry_delete(struct dentry *d)
{
	answers_names(d->parent);
	d->flags |= DENTRY_DELETED;
	dentry_unhash(d);
	dentry_unpin(d);
}

bool dentry_is_below(const struct dentry *d, const struct dentry *above)
{
	for (; d; d = d->parent)
		if (d == above)
			return true;
	return false;
}

struct super *super_create(
	struct kernel *k, const struct super_ops *ops, unsigned flags, void *priv)
{
	struct super *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	sb->refs = 1;
	sb->ops = ops;
	sb->k = k;
	sb->flags = flags;
	sb->priv = priv;
	sb->dev = ++k->vfs->last_dev;
	sb->next = k->vfs->supers;
	k->vfs->supers = sb;
	return sb;
}

struct super *super_ref(struct super *sb)
{
	sb->refs++;
	return sb;
}

static void super_free(struct super *sb)
{
	struct super **at = &sb->k->vfs->supers;

	while (*at != sb)
		at = &(*at)->next;
	*at = sb->next;
	if (sb->ops->release)
		sb->ops->release(sb);
	free(sb);
}

void super_lost_inode(struct super *sb)
{
	if (--sb->inodes == 0 && sb->over)
		super_free(sb);
}

/* What was made in it has no other place: its names go, and what nobody holds with them. */
static void drop_names(struct super *sb)
{
	struct vfs_state *v = sb->k->vfs;

	for (unsigned b = 0; b < DENTRY_BUCKETS; b++) {
		struct dentry *d = v->buckets[b];

		while (d) {
			if (d->sb != sb || !(d->flags & DENTRY_PINNED)) {
				d = d->hash_next;
				continue;
			}
			dentry_unpin(d);
			d = v->buckets[b]; /* others may have gone with it */
		}
	}
	dentry_shrink(v, 0);
}

static void tell_inode(struct kernel *k, struct inode *i)
{
	inode_ref(i);
	if (i->watches)
		k->notify->unmount(i);
	if (i->marks)
		fan_inode_gone(i);
	inode_unref(i);
}

/* inotify hears that it is over, and marks end. */
static void tell_watches(struct super *sb)
{
	struct kernel *k = sb->k;

	if (sb->marks)
		fan_super_gone(sb);
	if (!k->notify && !k->fan)
		return;
	for (unsigned b = 0; b < DENTRY_BUCKETS; b++)
		for (struct dentry *d = k->vfs->buckets[b]; d; d = d->hash_next)
			if (d->sb == sb && d->inode)
				tell_inode(k, d->inode);
	if (sb->root && sb->root->inode)
		tell_inode(k, sb->root->inode);
}

void super_unref(struct super *sb)
{
	if (!sb || --sb->refs)
		return;
	tell_watches(sb);
	drop_names(sb);
	sb->inodes++; /* until we are through */
	dentry_unref(sb->root);
	sb->root = NULL;
	dentry_shrink(sb->k->vfs, 0);
	if (sb->ops->clean)
		sb->ops->clean(sb);
	ns_unref(sb->owner ? &sb->owner->ns : NULL);
	sb->owner = NULL;
	sb->over = true;
	super_lost_inode(sb);
}

struct mount *mount_ref(struct mount *m)
{
	m->refs++;
	return m;
}

static struct mount *child_of(const struct mount *m)
{
	struct mount *c = m->sb->k->vfs->mounts;

	while (c && c->parent != m)
		c = c->next;
	return c;
}

static struct mount *leaf_below(struct mount *m)
{
	struct mount *leaf = NULL;

	while ((m = child_of(m)))
		leaf = m;
	return leaf;
}

void mount_left(struct mount *m, struct dentry *point)
{
	bool more = false;

	for (struct mount *o = m->sb->k->vfs->mounts; o; o = o->next)
		more |= o->point == point;
	if (!more)
		point->flags &= (uint16_t)~DENTRY_MOUNTED;
	dentry_unref(point);
	mount_unref(m);
}

static void mounts_changed(struct vfs_state *v)
{
	v->mount_changes++;
	wait_wake(&v->mount_wait, POLLERR | POLLPRI);
}

static void take_out(struct mount *m)
{
	struct dentry *point = m->point;

	mounts_changed(m->sb->k->vfs);
	m->parent = NULL;
	m->point = NULL;
	mount_leave(m);
	mount_left(m, point);
}

void mount_detach(struct mount *m)
{
	struct mount *leaf;

	mount_ref(m);
	while ((leaf = leaf_below(m)))
		take_out(leaf);
	if (m->point)
		take_out(m);
	mount_unref(m);
}

void mount_unref(struct mount *m)
{
	struct vfs_state *v;
	struct mount **at;

	if (!m || --m->refs)
		return;
	v = m->sb->k->vfs;
	m->refs = 1;
	mount_detach(m); /* what was mounted in a tree that nobody has any more */
	mount_leave(m);
	if (m->marks)
		fan_mount_gone(m);
	for (at = &v->mounts; *at && *at != m; at = &(*at)->next)
		;
	if (*at) {
		*at = m->next;
		v->mount_count--;
	}
	dentry_unref(m->root);
	super_unref(m->sb);
	free(m->source);
	free(m);
}

struct mount *mount_new(
	struct kernel *k, struct super *sb, struct dentry *root, unsigned flags, const char *source)
{
	struct mount *m = k->vfs->mount_count < GUEST_MOUNTS_MAX ? calloc(1, sizeof(*m)) : NULL,
		     **last = &k->vfs->mounts;

	if (m)
		m->source = strdup(source);
	if (!m || !m->source) {
		free(m);
		return NULL;
	}
	m->refs = 1;
	m->id = ++k->vfs->last_mount_id;
	m->flags = flags;
	m->sb = super_ref(sb);
	m->root = dentry_ref(root);
	while (*last)
		last = &(*last)->next;
	*last = m;
	k->vfs->mount_count++;
	return m;
}

void mount_attach(struct mount *m, const struct path *at)
{
	struct mount **from = &m->sb->k->vfs->mounts;

	mount_ref(m);
	m->parent = at->mnt;
	m->point = dentry_ref(at->dentry);
	m->point->flags |= DENTRY_MOUNTED;
	if ((m->point->sb->flags & SB_NO_CACHE) && m->point->parent)
		m->point->sb->flags |= SB_MOUNTED_ON;
	/* The newest hides those before it: to the end of the list. */
	while (*from != m)
		from = &(*from)->next;
	*from = m->next;
	m->next = NULL;
	while (*from)
		from = &(*from)->next;
	*from = m;
	mounts_changed(m->sb->k->vfs);
}

bool mount_is_below(const struct mount *m, const struct mount *above)
{
	for (; m; m = m->parent)
		if (m == above)
			return true;
	return false;
}

bool mount_is_under(const struct mount *m, struct path root)
{
	const struct dentry *d = m->root;

	while (m != root.mnt && m->parent) {
		d = m->point;
		m = m->parent;
	}
	return m == root.mnt && dentry_is_below(d, root.dentry);
}

struct mount *mount_create(struct kernel *k, struct super *sb, const struct path *at,
	unsigned flags, const char *source)
{
	struct mount *m = mount_new(k, sb, sb->root, flags, source);

	super_unref(sb);
	if (!m)
		return NULL;
	m->kept = true;
	m->locked = flags;
	if (at) {
		mount_attach(m, at);
		mount_unref(m);
	}
	return m;
}

static bool same_inode(const struct dentry *a, const struct dentry *b)
{
	return a->inode && b->inode && a->inode->sb == b->inode->sb &&
	       a->inode->ino == b->inode->ino;
}

/* Names that are not remembered are the same when they say so: in the same folder, of the same
 * file. */
static bool is_point(const struct dentry *point, const struct dentry *d)
{
	if (point == d || !(d->sb->flags & SB_MOUNTED_ON))
		return point == d;
	return point->parent && d->parent && same_inode(point, d) &&
	       same_inode(point->parent, d->parent) && strcmp(point->name, d->name) == 0;
}

bool mount_is_on(const struct mount *m, const struct dentry *d)
{
	return m->point && is_point(m->point, d);
}

struct mount *mount_at(const struct mount *m, const struct dentry *d)
{
	struct mount *found = NULL;

	if (!(d->flags & DENTRY_MOUNTED) && !(d->sb->flags & SB_MOUNTED_ON))
		return NULL;
	for (struct mount *at = d->sb->k->vfs->mounts; at; at = at->next)
		if (at->parent == m && is_point(at->point, d))
			found = at; /* the newest hides those below */
	return found;
}

void guest_mounts_done(struct vfs_state *v)
{
	while (v->mounts) {
		struct mount *m = v->mounts;

		m->refs++;
		mount_detach(m);
		m->refs = 1;
		mount_unref(m);
	}
}

void dentries_done(struct vfs_state *v)
{
	for (unsigned b = 0; b < DENTRY_BUCKETS; b++) {
		struct dentry *d = v->buckets[b];

		while (d) {
			if (!(d->flags & DENTRY_PINNED)) {
				d = d->hash_next;
				continue;
			}
			dentry_unpin(d);
			d = v->buckets[b]; /* others may have gone with it */
		}
	}
	dentry_shrink(v, 0);
}
