/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/names.c - file systems, names and mounts, saved and loaded.
 *
 * Owns:  nothing.
 * Rules: what was mounted at the start is there already, in the same order. A name that can be
 * found is found again; one that was removed, or never was in a directory, is made as it was. What
 *        is loaded is input like any other: what the host locked stays locked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/fs/memfd.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/guestmount.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/names.h"

enum dentry_kind { NAME_ROOT, NAME_FOUND, NAME_LOOSE };

static void drop_super(void *p)
{
	super_unref(p);
}

static void drop_dentry(void *p)
{
	dentry_unref(p);
}

static void drop_mount(void *p)
{
	mount_unref(p);
}

static void drop_inode(void *p)
{
	inode_unref(p);
}

/* File systems */

static void super_walk(struct kernel *k, struct super *sb, struct walk *w)
{
	char *type = sb ? strdup(sb->ops->name) : NULL;
	uint32_t flags = sb ? sb->flags & SB_READ_ONLY : 0;
	uint64_t dev = sb ? sb->dev : 0;
	struct ns *owner = sb && sb->owner ? &sb->owner->ns : NULL;
	struct ns *pid = sb ? (struct ns *)proc_view(sb) : NULL;
	struct mount_options o;
	int r = 0;

	mount_options_init(&o);
	o.size = sb ? guest_fs_limit(sb) : 0;
	walk_str(w, "type", &type);
	walk_u32(w, "flags", &flags);
	walk_u64(w, "limit", &o.size);
	walk_u64(w, "dev", &dev);
	ns_ref_walk(w, "owner", NS_USER, &owner);
	o.user = owner ? user_ns_of(owner) : NULL;
	ns_ref_walk(w, "pid", NS_PID, &pid);
	o.pid = pid;
	if (w->mode == WALK_LOAD && !w->err) {
		r = type ? guest_fs_create(k, type, &o, &sb) : -EBADMSG;
		if (r < 0) {
			walk_fail(w, r);
		} else {
			sb->flags |= flags & SB_READ_ONLY;
			sb->dev = dev;
			walk_keep(w, sb, drop_super);
			if (!w->err && !walk_knows(w, WALK_SUPER, sb))
				walk_number(w, WALK_SUPER, sb);
			else
				walk_fail(w, -EBADMSG); /* the kernel's own has its number */
		}
	}
	if (w->mode == WALK_LOAD) { /* the file system has its own */
		ns_unref(owner);
		ns_unref(pid);
	}
	free(type);
}

/* Those from the start, ours, then a guest's own. */
static void supers_walk(struct kernel *k, struct walk *w)
{
	struct vfs_state *v = k->vfs;
	bool memfds = v->memfds != NULL;
	uint32_t first, n;

	for (struct mount *m = v->mounts; m; m = m->next)
		if (m->kept)
			walk_number(w, WALK_SUPER, m->sb);
	walk_number(w, WALK_SUPER, v->anon->sb);
	walk_number(w, WALK_SUPER, v->nsfs->sb);
	walk_bool(w, "memfds", &memfds);
	if (memfds && !w->err) {
		if (memfd_super(k))
			walk_number(w, WALK_SUPER, v->memfds);
		else
			walk_fail(w, -ENOMEM);
	}
	first = walk_count_of(w, WALK_SUPER);
	for (struct mount *m = v->mounts; m && w->mode == WALK_SAVE; m = m->next)
		walk_number(w, WALK_SUPER, m->sb);
	n = walk_count_of(w, WALK_SUPER) - first;
	walk_list(w, "supers", &n, GUEST_MOUNTS_MAX);
	for (uint32_t i = 1; i <= n && !w->err; i++)
		super_walk(k, w->mode == WALK_SAVE ? walk_get(w, WALK_SUPER, first + i) : NULL, w);
}

/* Names */

static bool is_loose(const struct kernel *k, const struct dentry *d)
{
	return (d->flags & DENTRY_DELETED) || d->sb == k->vfs->anon->sb;
}

/* The name below @dir, with a reference; NULL: there is none. Where names are not remembered each
 * use of one has its own. */
static struct dentry *find(struct dentry *dir, const char *name)
{
	bool remembered = !(dir->sb->flags & SB_NO_CACHE);
	size_t len = strlen(name);
	struct dentry *d;

	if (!len || len > GUEST_NAME_MAX || !dir->inode || !S_ISDIR(dir->inode->mode) ||
		!dir->inode->ops->lookup)
		return NULL;
	d = remembered ? dentry_find(dir, name, len) : NULL;
	if (!d) {
		d = dentry_create(dir, name, len);
		if (d && dir->inode->ops->lookup(dir->inode, d) == 0 && remembered)
			dentry_hash(d);
	}
	if (d && !d->inode) {
		dentry_unref(d);
		return NULL;
	}
	return d;
}

bool name_is_lost(struct kernel *k, struct dentry *d)
{
	/* Nothing else comes and goes by itself. A directory of /proc is as deep as this. */
	enum { DEEP = 16 };
	struct dentry *way[DEEP], *at;
	unsigned n = 0;

	if (is_loose(k, d) || d->sb->root->inode->ops == &tree_ops || !(d->sb->flags & SB_NO_CACHE))
		return false;
	for (at = d; at->parent; at = at->parent) {
		if (n == DEEP)
			return false;
		way[n++] = at;
	}
	at = dentry_ref(at);
	while (at && n) {
		/* A new one: what is remembered may be of somebody who is gone. */
		struct dentry *next = dentry_create(at, way[n - 1]->name, way[n - 1]->len);

		if (next && (at->inode->ops->lookup(at->inode, next) < 0 || !next->inode)) {
			dentry_unref(next);
			next = NULL;
		}
		dentry_unref(at);
		at = next;
		n--;
	}
	dentry_unref(at);
	return !at;
}

static void number_name(struct walk *w, struct dentry *d)
{
	struct dentry **way;
	uint32_t n = 0;

	if (walk_knows(w, WALK_DENTRY, d))
		return;
	for (struct dentry *at = d; at && !walk_knows(w, WALK_DENTRY, at); at = at->parent)
		n++;
	way = calloc(n, sizeof(struct dentry *));
	if (!way) {
		walk_fail(w, -ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < n; i++, d = d->parent)
		way[i] = d;
	while (n > 0)
		walk_number(w, WALK_DENTRY, way[--n]);
	free(way);
}

static struct dentry *load_loose(
	struct dentry *parent, const char *name, uint32_t flags, struct inode *i, struct walk *w)
{
	struct dentry *d;

	if (!name || strlen(name) > GUEST_NAME_MAX || !i || !parent || i == parent->inode ||
		(i->sb && i->sb != parent->sb) || (!i->sb && !(parent->sb->flags & SB_NO_CACHE)))
		return NULL;
	d = dentry_create(parent, name, strlen(name));
	if (d) {
		d->flags |= flags & DENTRY_DELETED;
		d->inode = inode_ref(i);
	}
	return d;
}

static void name_walk(struct kernel *k, struct dentry *d, struct walk *w)
{
	uint32_t kind = !d ? 0 : !d->parent ? NAME_ROOT : is_loose(k, d) ? NAME_LOOSE : NAME_FOUND;
	struct super *sb = d ? d->sb : NULL;
	struct dentry *parent = d ? d->parent : NULL;
	struct inode *i = d ? d->inode : NULL;
	char *name = d ? d->name : NULL;
	uint32_t flags = d ? d->flags & DENTRY_DELETED : 0;

	/* A removed file of the host's is nowhere but in our descriptor. */
	if (kind == NAME_LOOSE && i && i->sb && i->ops != &tree_ops)
		walk_fail(w, -EOPNOTSUPP);
	walk_count(w, "kind", &kind, NAME_LOOSE);
	if (kind == NAME_ROOT) {
		walk_need(w, "super", WALK_SUPER, (void **)&sb);
	} else {
		walk_need(w, "parent", WALK_DENTRY, (void **)&parent);
		walk_str(w, "name", &name);
	}
	if (kind == NAME_LOOSE) {
		walk_u32(w, "flags", &flags);
		walk_need(w, "inode", WALK_INODE, (void **)&i);
	}
	if (w->mode == WALK_SAVE)
		return;
	if (!w->err) {
		if (kind == NAME_ROOT)
			d = dentry_ref(sb->root);
		else if (kind == NAME_LOOSE)
			d = load_loose(parent, name, flags, i, w);
		else
			d = name ? find(parent, name) : NULL;
		if (!d || !d->inode || walk_knows(w, WALK_DENTRY, d)) {
			dentry_unref(d);
			walk_fail(w, -EBADMSG);
		} else {
			walk_keep(w, d, drop_dentry);
			walk_number(w, WALK_DENTRY, d);
		}
	}
	free(name);
}

static void names_collect(struct kernel *k, struct walk *w)
{
	for (uint32_t i = 0; w->wanted && i < w->wanted->dentry_count; i++)
		number_name(w, w->wanted->dentries[i]);
	for (struct mount *m = k->vfs->mounts; m; m = m->next) {
		number_name(w, m->root);
		if (m->point)
			number_name(w, m->point);
	}
}

static void dentries_walk(struct kernel *k, struct walk *w)
{
	uint32_t n;

	if (w->mode == WALK_SAVE)
		names_collect(k, w);
	n = walk_count_of(w, WALK_DENTRY);
	walk_list(w, "dentries", &n, DENTRIES_MAX);
	for (uint32_t i = 1; i <= n && !w->err; i++)
		name_walk(k, w->mode == WALK_SAVE ? walk_get(w, WALK_DENTRY, i) : NULL, w);
}

/* Inodes that no tree has: those without a file system, before the names; found by name, after. */

static void anon_walk(struct inode *i, struct walk *w)
{
	walk_u64(w, "ino", &i->ino);
	walk_u32(w, "mode", &i->mode);
	/* What a directory or a link can do it cannot. */
	if (S_ISDIR(i->mode) || S_ISLNK(i->mode) || S_ISBLK(i->mode)) {
		i->mode = S_IFREG;
		walk_fail(w, -EBADMSG);
	}
	walk_u32(w, "nlink", &i->nlink);
	walk_u32(w, "uid", &i->uid);
	walk_u32(w, "gid", &i->gid);
	walk_u64(w, "rdev", &i->rdev);
	walk_i64(w, "size", &i->size);
	walk_i64(w, "atime", &i->atime);
	walk_i64(w, "mtime", &i->mtime);
	walk_i64(w, "ctime", &i->ctime);
	walk_i64(w, "btime", &i->btime);
}

static struct inode *make_anon(struct kernel *k, struct walk *w)
{
	struct inode *i = inode_anon(k, S_IFREG);

	if (!i) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	walk_keep(w, i, drop_inode);
	return w->err ? NULL : i;
}

static struct inode *next_wanted(const struct walk_wanted *want, uint32_t *at, bool anon)
{
	while (want && *at < want->inode_count) {
		struct inode *i = want->inodes[(*at)++];

		if (anon ? !i->sb : i->sb && i->ops != &tree_ops)
			return i;
	}
	return NULL;
}

static uint32_t count_wanted(const struct walk_wanted *want, bool anon)
{
	uint32_t at = 0, n = 0;

	while (next_wanted(want, &at, anon))
		n++;
	return n;
}

static void anons_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = count_wanted(w->wanted, true), at = 0;

	walk_list(w, "anons", &n, GUEST_FILES_MAX + INODES_MAX);
	for (; n > 0 && !w->err; n--) {
		struct inode *i =
			w->mode == WALK_SAVE ? next_wanted(w->wanted, &at, true) : make_anon(k, w);

		if (!i)
			return;
		walk_number(w, WALK_INODE, i);
		anon_walk(i, w);
	}
}

static struct dentry *name_of(const struct walk *w, const struct inode *i)
{
	for (uint32_t n = 1; n <= walk_count_of(w, WALK_DENTRY); n++) {
		struct dentry *d = walk_get(w, WALK_DENTRY, n);

		if (d->inode == i)
			return d;
	}
	return NULL;
}

static void named_inodes_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = count_wanted(w->wanted, false), at = 0;

	walk_list(w, "named", &n, GUEST_FILES_MAX + INODES_MAX);
	for (; n > 0 && !w->err; n--) {
		struct inode *i = w->mode == WALK_SAVE ? next_wanted(w->wanted, &at, false) : NULL;
		struct dentry *d = i ? name_of(w, i) : NULL;

		if (i && !d)
			walk_fail(w, -EOPNOTSUPP); /* of the host, or of /proc, and has no name */
		walk_need(w, "dentry", WALK_DENTRY, (void **)&d);
		if (!w->err)
			walk_number(w, WALK_INODE, d->inode);
	}
}

/* Mounts */

/* The mount from the start that has the same file system, or NULL. */
static struct mount *kept_of(struct kernel *k, const struct super *sb)
{
	for (struct mount *m = k->vfs->mounts; m; m = m->next)
		if (m->sb == sb && m->kept)
			return m;
	return NULL;
}

static void kind_walk(struct mount *m, struct walk *w)
{
	walk_u32(w, "group", &m->group);
	walk_u32(w, "master", &m->master);
	walk_bool(w, "unbindable", &m->unbindable);
}

static void kept_walk(struct mount *m, struct walk *w)
{
	uint32_t flags = m->flags;

	walk_number(w, WALK_MOUNT, m);
	walk_u32(w, "flags", &flags);
	kind_walk(m, w);
	if (w->mode == WALK_LOAD && !w->err)
		m->flags = flags | (m->locked & 15);
}

static void mount_load(struct kernel *k, struct mount *r, struct walk *w)
{
	struct mount *of = r->sb ? kept_of(k, r->sb) : NULL, *m;

	if (w->err || !r->source || r->root->sb != r->sb || !r->parent != !r->point ||
		(r->parent && r->point->sb != r->parent->sb) || r->sb == k->vfs->anon->sb ||
		r->sb == k->vfs->memfds || r->parent == k->vfs->anon || r->parent == k->vfs->nsfs) {
		walk_fail(w, -EBADMSG);
		return;
	}
	/* What is locked stays so, whatever the record says. */
	m = mount_new(k, r->sb, r->root, r->flags | (of ? of->locked & 15 : 0), r->source);
	if (!m) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_keep(w, m, drop_mount);
	if (w->err)
		return;
	walk_number(w, WALK_MOUNT, m);
	m->id = r->id;
	m->locked = r->locked | (of ? of->locked : 0);
	m->expiring = r->expiring;
	m->fixed = r->fixed;
	m->group = r->group;
	m->master = r->master;
	m->unbindable = r->unbindable;
	if (r->parent)
		walk_fail(w, guest_attach(m, (struct path){ r->parent, r->point }));
}

static void mount_walk(struct kernel *k, struct mount *m, struct walk *w)
{
	struct mount r = m ? *m : (struct mount){ 0 };

	walk_need(w, "super", WALK_SUPER, (void **)&r.sb);
	walk_need(w, "root", WALK_DENTRY, (void **)&r.root);
	walk_ref(w, "parent", WALK_MOUNT, (void **)&r.parent);
	walk_ref(w, "point", WALK_DENTRY, (void **)&r.point);
	walk_u32(w, "id", &r.id);
	walk_u32(w, "flags", &r.flags);
	walk_u32(w, "locked", &r.locked);
	walk_bool(w, "expiring", &r.expiring);
	walk_bool(w, "fixed", &r.fixed);
	kind_walk(&r, w);
	walk_str(w, "source", &r.source);
	if (w->mode == WALK_LOAD) {
		mount_load(k, &r, w);
		free(r.source);
	}
}

/* The next that stands on one that has its number: a mount may have been moved onto a newer one. */
static struct mount *next_mount(struct kernel *k, struct walk *w)
{
	for (struct mount *m = k->vfs->mounts; m; m = m->next)
		if (!walk_knows(w, WALK_MOUNT, m) &&
			(!m->parent || walk_knows(w, WALK_MOUNT, m->parent)))
			return m;
	return NULL;
}

static void mounts_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = 0;

	walk_number(w, WALK_MOUNT, k->vfs->anon);
	walk_number(w, WALK_MOUNT, k->vfs->nsfs);
	for (struct mount *m = k->vfs->mounts; m && !w->err; m = m->next)
		if (m->kept)
			kept_walk(m, w);
		else
			n++;
	walk_list(w, "mounts", &n, GUEST_MOUNTS_MAX);
	for (; n > 0 && !w->err; n--) {
		struct mount *m = w->mode == WALK_SAVE ? next_mount(k, w) : NULL;

		if (m)
			walk_number(w, WALK_MOUNT, m);
		mount_walk(k, m, w);
	}
}

void path_walk(struct path *p, struct walk *w)
{
	struct mount *m = p->mnt;
	struct dentry *d = p->dentry;

	walk_ref(w, "mount", WALK_MOUNT, (void **)&m);
	walk_ref(w, "dentry", WALK_DENTRY, (void **)&d);
	if (w->mode == WALK_SAVE)
		return;
	*p = (struct path){ NULL, NULL };
	/* The root of what has no names is no place. */
	if (!w->err && (!m != !d || (d && S_ISDIR(d->inode->mode) && !d->inode->ops->lookup)))
		walk_fail(w, -EBADMSG);
	if (!w->err && m)
		*p = path_ref((struct path){ m, d });
}

void names_walk(struct kernel *k, struct walk *w)
{
	struct vfs_state *v = k->vfs;

	supers_walk(k, w);
	if (!w->err)
		trees_walk(k, w);
	anons_walk(k, w);
	dentries_walk(k, w);
	named_inodes_walk(k, w);
	mounts_walk(k, w);
	mnt_walk(k, w);
	walk_u32(w, "last_mount_id", &v->last_mount_id);
	walk_u64(w, "last_dev", &v->last_dev);
	walk_u32(w, "rename_cookie", &v->rename_cookie);
}
