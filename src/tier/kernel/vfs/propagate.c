/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/propagate.c - who hears of a mount: peers, and those that only listen.
 *
 * Owns:  what struct mount has about groups.
 * Rules: groups are numbers; a group without members is forgotten by those that heard of it. A
 * mount that is in no namespace hears nothing. Whatever a loaded sandbox says about groups, each
 *        mount is told once.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mount.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/vfs/guestmount.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/propagate.h"

struct spread_copy {
	struct mount *copy, *where; /* the first a reference */
};

static struct vfs_state *state_of(const struct mount *m)
{
	return m->sb->k->vfs;
}

static bool has_members(const struct vfs_state *v, uint32_t group)
{
	for (const struct mount *m = v->mounts; m; m = m->next)
		if (m->group == group)
			return true;
	return false;
}

/* The smallest that nobody has: there are fewer groups than mounts. */
static uint32_t new_group(const struct vfs_state *v)
{
	bool taken[GUEST_MOUNTS_MAX + 2] = { [0] = true };
	uint32_t group = 0;

	for (const struct mount *m = v->mounts; m; m = m->next)
		if (m->group < GUEST_MOUNTS_MAX + 2)
			taken[m->group] = true;
	while (taken[group])
		group++;
	return group;
}

/* Out of its group; returns the group that it may listen to from now on, or 0. */
static uint32_t leave_group(struct mount *m)
{
	struct vfs_state *v = state_of(m);
	uint32_t group = m->group;

	m->group = 0;
	if (!group)
		return m->master;
	if (has_members(v, group))
		return group;
	for (struct mount *o = v->mounts; o; o = o->next)
		if (o->master == group)
			o->master = m->master;
	return m->master;
}

void mount_leave(struct mount *m)
{
	leave_group(m);
	m->master = 0;
}

static void set_one(struct mount *m, unsigned long kind)
{
	uint32_t heard;

	if (kind == MS_SHARED) {
		if (!m->group)
			m->group = new_group(state_of(m));
		m->unbindable = false;
		return;
	}
	heard = leave_group(m);
	m->master = kind == MS_SLAVE ? heard : 0;
	if (kind != MS_SLAVE)
		m->unbindable = kind == MS_UNBINDABLE;
}

void mount_set_kind(struct mount *top, unsigned long kind, bool all)
{
	for (struct mount *m = state_of(top)->mounts; m; m = m->next)
		if (m == top || (all && mount_is_below(m, top)))
			set_one(m, kind);
}

int mount_join(struct mount *from, struct mount *to)
{
	if (to->group || to->master || (!from->group && !from->master))
		return -EINVAL;
	if (from->sb != to->sb || !dentry_is_below(to->root, from->root))
		return -EINVAL;
	to->group = from->group;
	to->master = from->master;
	return 0;
}

bool mount_has_unbindable(const struct mount *top)
{
	for (const struct mount *m = state_of(top)->mounts; m; m = m->next)
		if (m->unbindable && mount_is_below(m, top))
			return true;
	return false;
}

static const struct mount *member_below(const struct vfs_state *v, uint32_t group, struct path root)
{
	for (const struct mount *m = v->mounts; m; m = m->next)
		if (m->group == group && mount_is_under(m, root))
			return m;
	return NULL;
}

uint32_t mount_hears_from(const struct mount *m, struct path root)
{
	const struct vfs_state *v = state_of(m);
	uint32_t group = m->master;

	/* No more steps than there are groups. */
	for (unsigned n = 0; group && n < GUEST_MOUNTS_MAX; n++) {
		const struct mount *o;

		if (member_below(v, group, root))
			return group;
		for (o = v->mounts; o && o->group != group; o = o->next)
			;
		group = o ? o->master : 0;
	}
	return 0;
}

void mount_copy_kind(struct mount *copy, const struct mount *of, enum copy_kind kind)
{
	copy->unbindable = of->unbindable;
	copy->group = kind == COPY_PEER ? of->group : 0;
	copy->master = of->master;
	if (kind == COPY_SLAVE || kind == COPY_SLAVE_GROUP || (kind == COPY_HEARS && of->group))
		copy->master = of->group;
	if (kind == COPY_SLAVE_GROUP)
		copy->group = new_group(state_of(copy));
}

/* @where is to have a copy of @like's tree; NULL in @ret: it does not have the place. */
static int copy_to(struct spread *s, struct mount *like, struct mount *where, enum copy_kind kind,
	struct mount **ret)
{
	int r;

	*ret = NULL;
	where->told = true;
	if (where == s->at || !mnt_has(where) || !dentry_is_below(s->point, where->root))
		return 0;
	r = guest_copy_tree(like, kind, ret);
	if (r < 0)
		return r;
	guest_copied(state_of(like));
	s->copies[s->count++] = (struct spread_copy){ *ret, where };
	return 0;
}

/* All that are in @group, and those that hear of it. @like is what peers are to be peers of, or,
 * for COPY_SLAVE_GROUP, what they hear of: the first copy is then the others'. Copies come to the
 * list meanwhile; they are in no tree yet, and get none. */
static int copy_to_group(struct spread *s, uint32_t group, struct mount *like, enum copy_kind kind)
{
	struct mount *made, *mounts = state_of(like)->mounts;
	int r = 0;

	for (struct mount *m = mounts; m && r == 0; m = m->next) {
		if (m->group != group || m->told)
			continue;
		r = copy_to(s, like, m, kind, &made);
		if (made) {
			like = made;
			kind = COPY_PEER;
		}
	}
	for (struct mount *m = mounts; m && r == 0; m = m->next) {
		if (m->master != group || m->told)
			continue;
		r = m->group ? copy_to_group(s, m->group, like, COPY_SLAVE_GROUP)
			     : copy_to(s, like, m, COPY_SLAVE, &made);
	}
	return r;
}

static void forget_told(struct vfs_state *v)
{
	for (struct mount *m = v->mounts; m; m = m->next)
		m->told = false;
}

int spread_begin(struct spread *s, struct mount *m, struct path at)
{
	struct vfs_state *v = state_of(m);
	int r;

	*s = (struct spread){ .from = m, .at = at.mnt, .point = at.dentry };
	if (!at.mnt->group)
		return 0;
	s->copies = calloc(v->mount_count, sizeof(s->copies[0]));
	if (!s->copies)
		return -ENOMEM;
	for (struct mount *o = v->mounts; o; o = o->next)
		if (!o->group && mount_is_below(o, m)) {
			o->group = new_group(v);
			o->new_group = true;
		}
	forget_told(v);
	r = copy_to_group(s, at.mnt->group, m, COPY_PEER);
	if (r < 0)
		spread_drop(s);
	return r;
}

static void spread_done(struct spread *s, bool keep)
{
	for (struct mount *m = state_of(s->from)->mounts; m; m = m->next) {
		if (m->new_group && !keep)
			m->group = 0;
		m->new_group = false;
	}
	free(s->copies);
	s->copies = NULL;
	s->count = 0;
}

void spread_drop(struct spread *s)
{
	while (s->count > 0)
		mount_unref(s->copies[--s->count].copy);
	spread_done(s, false);
}

void mount_lock_tree(struct mount *top)
{
	for (struct mount *m = state_of(top)->mounts; m; m = m->next)
		if (mount_is_below(m, top)) {
			m->locked |= (m->flags & MOUNT_LOCKABLE) | MOUNT_LOCK_TIMES;
			m->fixed = m != top;
		}
}

/* From where it is to @at. */
static void take_place(struct mount *m, struct path at)
{
	struct dentry *point = m->point;

	mount_attach(m, &at);
	mount_left(m, point);
}

void spread_end(struct spread *s)
{
	for (unsigned i = 0; i < s->count; i++) {
		struct mount *copy = s->copies[i].copy, *where = s->copies[i].where;
		struct mount *above = mount_at(where, s->point);

		if (mnt_owner(where) != mnt_owner(s->at))
			mount_lock_tree(copy);
		mount_attach(copy, &(struct path){ where, s->point });
		if (above) /* what somebody put there alone stays on top */
			take_place(above, (struct path){ copy, copy->root });
		mount_unref(copy);
	}
	spread_done(s, true);
}

/* Marks all that hear of what comes to @group. */
static void tell(struct vfs_state *v, uint32_t group)
{
	for (struct mount *m = v->mounts; m; m = m->next)
		if (!m->told && (m->group == group || m->master == group)) {
			m->told = true;
			if (m->group && m->group != group)
				tell(v, m->group);
		}
}

static bool tell_place_of(const struct mount *m)
{
	if (!m->parent || !m->parent->group)
		return false;
	forget_told(state_of(m));
	tell(state_of(m), m->parent->group);
	return true;
}

/* Is @there in the place of @m, where it is heard that @m goes? What was mounted at the start, or
 * hides something, stays. */
static bool in_place_of(const struct mount *there, const struct mount *m)
{
	return there->parent && there->parent->told && there->parent != m->parent && !there->kept &&
	       !there->fixed && mount_is_on(there, m->point);
}

/* Does nothing stay on it, but for what lies on all of it? */
static bool is_bare(const struct mount *m)
{
	return m->staying == 0 || (m->staying == 1 && mount_at(m, m->root));
}

/* @top: what is below it does not stay; NULL: all do. */
static void count_staying(struct vfs_state *v, const struct mount *top)
{
	for (struct mount *m = v->mounts; m; m = m->next)
		m->staying = 0;
	for (struct mount *m = v->mounts; m; m = m->next)
		if (m->parent && !(top && mount_is_below(m, top)))
			m->parent->staying++;
}

bool spread_busy(const struct mount *m)
{
	if (!tell_place_of(m))
		return false;
	count_staying(state_of(m), NULL);
	for (struct mount *o = state_of(m)->mounts; o; o = o->next)
		if (in_place_of(o, m) && is_bare(o) && o->refs > 1)
			return true;
	return false;
}

/* Adds what goes with @m to @chosen; returns how many there are. */
static unsigned choose(
	const struct mount *m, const struct mount *top, struct mount **chosen, unsigned n)
{
	if (!tell_place_of(m))
		return n;
	for (struct mount *o = state_of(m)->mounts; o; o = o->next) {
		if (o->leaving || !in_place_of(o, m) || !is_bare(o) || mount_is_below(o, top))
			continue;
		o->leaving = true;
		o->parent->staying--;
		chosen[n++] = mount_ref(o);
	}
	return n;
}

static void take_chosen(struct mount *m)
{
	struct mount *above = mount_at(m, m->root);

	if (above && m->parent)
		take_place(above, (struct path){ m->parent, m->point });
	mount_detach(m);
	m->leaving = false;
	mount_unref(m);
}

int spread_detach(struct mount *m)
{
	struct vfs_state *v = state_of(m);
	struct mount **going = calloc(2ul * v->mount_count, sizeof(struct mount *)), **chosen;
	unsigned count = 0, n = 0, before;

	if (!going)
		return -ENOMEM;
	chosen = going + v->mount_count;
	for (struct mount *o = v->mounts; o; o = o->next)
		if (mount_is_below(o, m))
			going[count++] = o;
	count_staying(v, m);
	do { /* what lies on another is mostly newer, and has to go first; until nothing more goes
	      */
		before = n;
		for (unsigned i = count; i > 0; i--)
			n = choose(going[i - 1], m, chosen, n);
	} while (n != before);
	mount_detach(m);
	for (unsigned i = 0; i < n; i++)
		take_chosen(chosen[i]);
	free(going);
	return 0;
}
