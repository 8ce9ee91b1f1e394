/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/tree_walk.c - the tree file systems, saved and loaded.
 *
 * Owns:  nothing.
 * Rules: what was found below and never changed is not saved: it is found again. Loading needs a
 *        kernel with the same mounts over the same layers and store, and trusts nothing that it
 *        reads: a wrong number or name is -EBADMSG.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/fs/memfd.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/walk.h"

enum { KEPT_FLAGS = DENTRY_WHITEOUT | DENTRY_LOWER };

/* A pinned name and its path from the root of its file system. */
struct place {
	struct dentry *d;
	char *path;
};

struct survey {
	struct place *places;
	struct inode **inodes;
	uint32_t place_count, inode_count;
};

static void drop_inode(void *i)
{
	inode_unref(i);
}

static void xattrs_walk(struct inode *i, struct walk *w)
{
	uint32_t n = 0;

	/* What is saved is all there is: nothing is looked for below when it is loaded. */
	if (w->mode == WALK_SAVE)
		tree_load_xattrs(i);
	else
		node_of(i)->xattrs_known = true;
	for (struct xattr *x = node_of(i)->xattrs; x; x = x->next)
		n++;
	walk_list(w, "xattrs", &n, XATTR_INODE_MAX);
	for (struct xattr *x = node_of(i)->xattrs; w->mode == WALK_SAVE && x; x = x->next) {
		char *name = x->name;

		walk_str(w, "name", &name);
		walk_blob(w, "value", &x->value, &x->len, XATTR_VALUE_MAX);
	}
	for (; w->mode == WALK_LOAD && n && !w->err; n--) {
		char *name = NULL;
		void *value = NULL;
		size_t len = 0;

		walk_str(w, "name", &name);
		walk_blob(w, "value", &value, &len, XATTR_VALUE_MAX);
		if (!w->err && (!name || tree_setxattr(i, name, value, len, 0) < 0))
			walk_fail(w, -EBADMSG);
		free(name);
		free(value);
	}
}

/* The root has its members from the start, others get theirs here. */
static void members_walk(struct inode *i, struct walk *w)
{
	struct node *n = node_of(i);
	uint32_t count = n->member_count;

	walk_count(w, "members", &count, n->lower ? tree_of(i)->layer_count : 0);
	if (w->err)
		return;
	if (count != n->member_count) {
		if (n->member_count) {
			walk_fail(w, -EBADMSG);
			return;
		}
		n->members = calloc(count, sizeof(*n->members));
		if (!n->members) {
			walk_fail(w, -ENOMEM);
			return;
		}
		n->member_count = count;
		for (uint32_t m = 0; m < count; m++)
			n->members[m].fd = -1;
	}
	for (uint32_t m = 0; m < count && !w->err; m++) {
		walk_u32(w, "layer", &n->members[m].layer);
		if (n->members[m].layer >= tree_of(i)->layer_count)
			walk_fail(w, -EBADMSG);
	}
}

/* Empty ones of our own, whatever it had. */
static int contents_new(struct inode *i, bool memfd)
{
	struct node *n = node_of(i);

	if (n->content == CONTENT_STORE || n->opens)
		return -EBADMSG;
	store_close(i);
	n->content = CONTENT_NONE;
	return memfd ? memfd_contents(i) : store_open(i, true);
}

static void contents_walk(struct inode *i, struct walk *w)
{
	struct node *n = node_of(i);
	bool memfd = n->is_memfd;
	int r;

	walk_bool(w, "memfd", &memfd);
	if (w->err)
		return;
	if (w->mode == WALK_SAVE)
		r = store_open(i, false);
	else
		r = contents_new(i, memfd);
	if (r < 0) {
		walk_fail(w, r);
		return;
	}
	walk_sparse(w, "contents", n->fd, (uint64_t)i->size);
	if (w->mode == WALK_LOAD && memfd && !w->err)
		walk_fail(w, memfd_seal_again(i));
	if (w->mode == WALK_LOAD)
		store_charge(i);
	if (!n->opens)
		store_close(i);
}

static void inode_walk(struct inode *i, struct walk *w)
{
	struct node *n = node_of(i);
	uint8_t content = (uint8_t)n->content;
	char *target = n->target;

	walk_u64(w, "ino", &i->ino);
	walk_u64(w, "rdev", &i->rdev);
	walk_u32(w, "mode", &i->mode);
	walk_u32(w, "nlink", &i->nlink);
	walk_u32(w, "uid", &i->uid);
	walk_u32(w, "gid", &i->gid);
	walk_u32(w, "flags", &i->flags);
	walk_i64(w, "size", &i->size);
	walk_i64(w, "atime", &i->atime);
	walk_i64(w, "mtime", &i->mtime);
	walk_i64(w, "btime", &i->btime);
	walk_u8(w, "content", &content);
	walk_u32(w, "seals", &n->seals);
	walk_str(w, "target", &target);
	if (w->mode == WALK_LOAD) {
		i->was_mapped = true; /* by a memory that comes along, perhaps */
		free(n->target);
		n->target = target;
	}
	members_walk(i, w);
	xattrs_walk(i, w);
	if (content > CONTENT_TEXT || i->size < 0 ||
		(content == CONTENT_TEXT && (!n->target || (size_t)i->size > strlen(n->target))) ||
		(content == CONTENT_STORE && !S_ISREG(i->mode)) ||
		(content == CONTENT_LOWER && !n->lower))
		walk_fail(w, -EBADMSG);
	if (w->err)
		return;
	/* Our own are found by their number, in the same store, or come along. */
	if (!w->contents)
		walk_u64(w, "store_id", &n->store_id);
	if (w->contents && content == CONTENT_STORE)
		contents_walk(i, w);
	else
		n->content = content;
	walk_i64(w, "ctime", &i->ctime); /* after what would change it */
}

static char *path_of(const struct dentry *d)
{
	size_t len = 0, at;
	char *s;

	for (const struct dentry *up = d; up->parent; up = up->parent)
		len += up->len + 1u;
	s = malloc(len + 1);
	if (!s)
		return NULL;
	s[len] = '\0';
	at = len;
	for (const struct dentry *up = d; up->parent; up = up->parent) {
		at -= up->len;
		memcpy(s + at, up->name, up->len);
		s[--at] = '/';
	}
	return s;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct place *)a)->path, ((const struct place *)b)->path);
}

static int by_ino(const void *a, const void *b)
{
	const struct inode *x = *(struct inode *const *)a, *y = *(struct inode *const *)b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void add_inode(struct survey *s, struct inode *i)
{
	if (!i || node_of(i)->walked)
		return;
	node_of(i)->walked = true;
	s->inodes[s->inode_count++] = i;
}

/* Every pinned name by path, so that a directory comes before what is in it; and every inode that
 * must survive, the root first. */
static int survey(struct super *sb, const struct walk_wanted *wanted, struct survey *s)
{
	struct vfs_state *v = sb->k->vfs;
	struct tree *t = sb->priv;
	uint32_t sorted;

	s->places = calloc(v->dentries + 1, sizeof(*s->places));
	s->inodes = calloc(v->inodes + 1, sizeof(*s->inodes));
	if (!s->places || !s->inodes)
		return -ENOMEM;
	for (unsigned b = 0; b < DENTRY_BUCKETS; b++)
		for (struct dentry *d = v->buckets[b]; d; d = d->hash_next) {
			if (d->sb != sb || !(d->flags & DENTRY_PINNED))
				continue;
			s->places[s->place_count] = (struct place){ d, path_of(d) };
			if (!s->places[s->place_count++].path)
				return -ENOMEM;
		}
	qsort(s->places, s->place_count, sizeof(*s->places), by_path);
	add_inode(s, sb->root->inode);
	for (uint32_t n = 0; n < s->place_count; n++)
		add_inode(s, s->places[n].d->inode);
	sorted = s->inode_count;
	for (uint32_t n = 0; wanted && n < wanted->inode_count; n++)
		if (wanted->inodes[n]->sb == sb)
			add_inode(s, wanted->inodes[n]);
	for (unsigned b = 0; b < 1024; b++)
		for (struct inode *i = t->lower_hash[b]; i; i = i->hash_next)
			if (node_of(i)->dirty)
				add_inode(s, i);
	qsort(s->inodes + sorted, s->inode_count - sorted, sizeof(*s->inodes), by_ino);
	return 0;
}

static void survey_done(struct survey *s)
{
	for (uint32_t n = 0; s->inodes && n < s->inode_count; n++)
		node_of(s->inodes[n])->walked = false;
	for (uint32_t n = 0; s->places && n < s->place_count; n++)
		free(s->places[n].path);
	free(s->places);
	free(s->inodes);
}

/* An inode to be filled, with a reference: the root, what this kernel has found below already, or a
 * new one. @lower is taken. */
static struct inode *load_inode(
	struct super *sb, uint32_t n, char *lower, uint32_t layer, struct walk *w)
{
	struct inode *i = NULL;
	int r = 0;

	if (n == 0) {
		free(lower);
		return inode_ref(sb->root->inode);
	}
	if (lower)
		i = layer_find(sb, layer, lower);
	if (i) {
		free(lower);
		node_dirty(i);
		return inode_ref(i);
	}
	i = tree_inode(sb, S_IFREG);
	if (i && lower)
		r = layer_restore(i, layer, lower);
	if (!i || r < 0) {
		walk_fail(w, i ? r : -ENOMEM);
		free(lower);
		inode_unref(i);
		return NULL;
	}
	return i;
}

/* What lies below and differs is held for that, while it has a name. */
static void settle(struct inode *i)
{
	if (i != i->sb->root->inode && i->nlink)
		node_dirty(i);
}

static void inodes_walk(struct super *sb, struct survey *s, struct walk *w)
{
	walk_list(w, "inodes", &s->inode_count, INODES_MAX);
	if (w->mode == WALK_LOAD && !w->err) {
		s->inodes = calloc(s->inode_count + 1, sizeof(*s->inodes));
		if (!s->inodes)
			walk_fail(w, -ENOMEM);
	}
	for (uint32_t n = 0; n < s->inode_count && !w->err; n++) {
		struct node *at = w->mode == WALK_SAVE ? node_of(s->inodes[n]) : NULL;
		char *lower = at ? at->lower : NULL;
		uint32_t layer = at ? at->layer : 0;

		walk_str(w, "lower", &lower);
		walk_u32(w, "layer", &layer);
		if (w->mode == WALK_LOAD) {
			s->inodes[n] = load_inode(sb, n, lower, layer, w);
			if (!s->inodes[n])
				return;
			walk_keep(w, s->inodes[n], drop_inode);
			if (w->err)
				return;
		}
		walk_number(w, WALK_INODE, s->inodes[n]);
		inode_walk(s->inodes[n], w);
		if (w->mode == WALK_LOAD && !w->err)
			settle(s->inodes[n]);
	}
}

/* The directory of @path and its last name. */
static struct dentry *find_parent(struct super *sb, char *path, char **ret_name)
{
	struct dentry *at = dentry_ref(sb->root);
	char *name = path + 1, *slash;

	while ((slash = strchr(name, '/'))) {
		struct dentry *d;

		*slash = '\0';
		d = dentry_find(at, name, strlen(name));
		if (!d) {
			d = dentry_create(at, name, strlen(name));
			if (d && at->inode->ops->lookup(at->inode, d) == 0)
				dentry_hash(d);
		}
		dentry_unref(at);
		if (!d || !d->inode || !S_ISDIR(d->inode->mode)) {
			dentry_unref(d);
			return NULL;
		}
		at = d;
		name = slash + 1;
	}
	*ret_name = name;
	return at;
}

static void load_place(
	struct super *sb, char *path, struct inode *i, uint32_t flags, struct walk *w)
{
	struct dentry *dir = path && path[0] == '/' ? find_parent(sb, path, &path) : NULL,
		      *d = NULL;

	if (dir && path[0] && strlen(path) <= GUEST_NAME_MAX)
		d = dentry_find(dir, path, strlen(path));
	if (dir && !d && path[0] && strlen(path) <= GUEST_NAME_MAX) {
		d = dentry_create(dir, path, strlen(path));
		if (d)
			dentry_hash(d);
	}
	if (!d) {
		walk_fail(w, -EBADMSG);
	} else {
		/* What this kernel made at its own start has the name already. */
		inode_unref(d->inode);
		d->inode = i ? inode_ref(i) : NULL;
		dentry_pin(d);
		d->flags = (uint16_t)((d->flags & ~KEPT_FLAGS) | (flags & KEPT_FLAGS));
		dentry_unref(d);
	}
	dentry_unref(dir);
}

static void places_walk(struct super *sb, struct survey *s, struct walk *w)
{
	walk_list(w, "names", &s->place_count, DENTRIES_MAX);
	for (uint32_t n = 0; n < s->place_count && !w->err; n++) {
		struct place p = w->mode == WALK_SAVE ? s->places[n] : (struct place){ 0 };
		struct inode *i = p.d ? p.d->inode : NULL;
		uint32_t flags = p.d ? p.d->flags & KEPT_FLAGS : 0;

		walk_str(w, "path", &p.path);
		walk_ref(w, "inode", WALK_INODE, (void **)&i);
		walk_u32(w, "flags", &flags);
		if (w->mode == WALK_LOAD && !w->err)
			load_place(sb, p.path, i, flags, w);
		if (w->mode == WALK_LOAD)
			free(p.path);
	}
}

static void tree_walk(struct super *sb, struct walk *w)
{
	struct survey s = { 0 };
	int r = w->mode == WALK_SAVE ? survey(sb, w->wanted, &s) : 0;

	if (r < 0)
		walk_fail(w, r);
	walk_u64(w, "last_ino", &sb->last_ino);
	inodes_walk(sb, &s, w);
	places_walk(sb, &s, w);
	if (w->mode == WALK_LOAD)
		free(s.inodes);
	else
		survey_done(&s);
}

void trees_walk(struct kernel *k, struct walk *w)
{
	walk_u64(w, "last_store_id", &k->vfs->tree->last_store_id);
	for (uint32_t n = 1; n <= walk_count_of(w, WALK_SUPER) && !w->err; n++) {
		struct super *sb = walk_get(w, WALK_SUPER, n);

		if (sb->root->inode->ops == &tree_ops)
			tree_walk(sb, w);
	}
}
