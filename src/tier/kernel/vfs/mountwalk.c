/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/mountwalk.c - saving and loading the mounts that a guest made.
 *
 * Owns:  nothing.
 * Rules: what was mounted at the start is there already, in the same order. A place is a path in
 * its file system; what is loaded is input like any other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/guestmount.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/walk.h"

static void fail(struct walk *w, int err)
{
	if (!w->err)
		w->err = err;
}

static bool in_tree(struct kernel *k, const struct mount *m)
{
	return mount_is_below(m, k->root_mount);
}

static bool has_kept(struct kernel *k, const struct super *sb)
{
	for (struct mount *m = k->vfs->mounts; m; m = m->next)
		if (m->sb == sb && m->kept)
			return true;
	return false;
}

static int index_of(const struct guest_supers *s, const struct super *sb)
{
	for (uint32_t n = 0; n < s->count; n++)
		if (s->sb[n] == sb)
			return (int)n;
	return -1;
}

void guest_supers_walk(struct kernel *k, struct guest_supers *s, struct walk *w)
{
	s->sb = calloc(GUEST_MOUNTS_MAX, sizeof(*s->sb));
	if (!s->sb) {
		fail(w, -ENOMEM);
		return;
	}
	for (struct mount *m = k->vfs->mounts; w->mode == WALK_SAVE && m; m = m->next)
		if (in_tree(k, m) && !has_kept(k, m->sb) && index_of(s, m->sb) < 0)
			s->sb[s->count++] = super_ref(m->sb);
	walk_count(w, "supers", &s->count, GUEST_MOUNTS_MAX);
	for (uint32_t n = 0; n < s->count; n++) {
		char *type = w->mode == WALK_SAVE ? strdup(s->sb[n]->ops->name) : NULL;
		uint32_t flags = w->mode == WALK_SAVE ? s->sb[n]->flags & SB_READ_ONLY : 0;
		struct mount_options o;

		walk_str(w, "type", &type);
		walk_u32(w, "flags", &flags);
		mount_options_init(&o);
		o.size = w->mode == WALK_SAVE ? guest_fs_limit(s->sb[n]) : 0;
		walk_u64(w, "limit", &o.size);
		if (w->mode == WALK_LOAD) {
			int r = w->err || !type ? -EBADMSG
						: guest_fs_create(k, type, &o, &s->sb[n]);

			if (r < 0) {
				fail(w, r);
				s->count = n;
			} else {
				s->sb[n]->flags |= flags & SB_READ_ONLY;
			}
		}
		free(type);
	}
}

void guest_supers_done(struct guest_supers *s)
{
	for (uint32_t n = 0; n < s->count; n++)
		super_unref(s->sb[n]);
	free(s->sb);
}

/* "/a/b" of a dentry in its own file system; "": its root. */
static char *place_of(const struct dentry *d)
{
	size_t len = 0;
	char *text, *end;

	for (const struct dentry *p = d; p->parent; p = p->parent)
		len += p->len + 1u;
	text = malloc(len + 1);
	if (!text)
		return NULL;
	end = text + len;
	*end = '\0';
	for (; d->parent; d = d->parent) {
		end -= d->len;
		memcpy(end, d->name, d->len);
		*--end = '/';
	}
	return text;
}

static struct dentry *find(struct super *sb, const char *place)
{
	struct dentry *at = dentry_ref(sb->root);

	while (at && *place == '/') {
		const char *end = strchrnul(place + 1, '/');
		size_t len = (size_t)(end - place - 1);
		struct dentry *d = NULL;

		if (len && len <= GUEST_NAME_MAX && at->inode && S_ISDIR(at->inode->mode) &&
			at->inode->ops->lookup)
			d = dentry_find(at, place + 1, len);
		if (!d && len && len <= GUEST_NAME_MAX && at->inode && S_ISDIR(at->inode->mode) &&
			at->inode->ops->lookup) {
			d = dentry_create(at, place + 1, len);
			if (d && at->inode->ops->lookup(at->inode, d) == 0)
				dentry_hash(d);
		}
		dentry_unref(at);
		at = d;
		place = end;
	}
	if (at && (!at->inode || *place)) {
		dentry_unref(at);
		return NULL;
	}
	return at;
}

/* The n-th mount in the order in which they were saved. */
static struct mount *mount_number(struct kernel *k, uint32_t n)
{
	for (struct mount *m = k->vfs->mounts; m; m = m->next)
		if ((m->kept || in_tree(k, m)) && n-- == 0)
			return m;
	return NULL;
}

static uint32_t number_of(struct kernel *k, const struct mount *which)
{
	uint32_t n = 0;

	for (struct mount *m = k->vfs->mounts; m && m != which; m = m->next)
		n += m->kept || in_tree(k, m);
	return n;
}

struct record {
	char *root, *point, *source;
	uint32_t super, parent, flags, locked;
};

enum { OF_KEPT = 1u << 31 }; /* in record.super: the number of a mount that has it */

static void record_walk(struct record *r, struct walk *w)
{
	walk_u32(w, "super", &r->super);
	walk_str(w, "root", &r->root);
	walk_u32(w, "parent", &r->parent);
	walk_str(w, "point", &r->point);
	walk_u32(w, "flags", &r->flags);
	walk_u32(w, "locked", &r->locked);
	walk_str(w, "source", &r->source);
}

static void record_done(struct record *r)
{
	free(r->root);
	free(r->point);
	free(r->source);
}

static int record_make(
	struct kernel *k, const struct guest_supers *s, struct mount *m, struct record *r)
{
	int own = index_of(s, m->sb);
	struct mount *kept = k->vfs->mounts;

	while (own < 0 && kept && !(kept->kept && kept->sb == m->sb))
		kept = kept->next;
	*r = (struct record){ .super = own >= 0 ? (uint32_t)own : OF_KEPT | number_of(k, kept),
		.parent = number_of(k, m->parent),
		.flags = m->flags,
		.locked = m->locked,
		.root = place_of(m->root),
		.point = place_of(m->point),
		.source = strdup(m->source) };
	return r->root && r->point && r->source ? 0 : -ENOMEM;
}

static int record_apply(struct kernel *k, const struct guest_supers *s, const struct record *r)
{
	struct mount *parent = mount_number(k, r->parent), *of = NULL, *m = NULL;
	struct dentry *root = NULL, *point = NULL;
	struct super *sb = NULL;
	int err = -EBADMSG;

	if (r->super & OF_KEPT)
		of = mount_number(k, r->super & ~OF_KEPT);
	if (of && of->kept)
		sb = of->sb;
	else if (!(r->super & OF_KEPT) && r->super < s->count)
		sb = s->sb[r->super];
	if (!sb || !parent || !r->root || !r->point || !r->source)
		return -EBADMSG;
	root = find(sb, r->root);
	point = find(parent->sb, r->point);
	/* What is locked stays so, whatever the record says. */
	if (root && point)
		m = mount_new(k, sb, root, r->flags | (of ? of->locked & 15 : 0), r->source);
	if (m) {
		m->locked = r->locked | (of ? of->locked : 0);
		err = guest_attach(m, (struct path){ parent, point });
		mount_unref(m);
	}
	dentry_unref(root);
	dentry_unref(point);
	return err;
}

void guest_mounts_walk(struct kernel *k, struct guest_supers *s, struct walk *w)
{
	uint32_t count = 0, done = 0;

	for (struct mount *m = k->vfs->mounts; m; m = m->next)
		count += !m->kept && in_tree(k, m);
	walk_count(w, "mounts", &count, GUEST_MOUNTS_MAX);
	for (struct mount *m = k->vfs->mounts; w->mode == WALK_SAVE && m && !w->err; m = m->next) {
		struct record r;

		if (m->kept || !in_tree(k, m))
			continue;
		if (record_make(k, s, m, &r) < 0)
			fail(w, -ENOMEM);
		record_walk(&r, w);
		record_done(&r);
	}
	for (; w->mode == WALK_LOAD && !w->err && done < count; done++) {
		struct record r = { 0 };
		int err;

		record_walk(&r, w);
		err = w->err ? 0 : record_apply(k, s, &r);
		if (err < 0)
			fail(w, err);
		record_done(&r);
	}
}
