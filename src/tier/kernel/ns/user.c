/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/user.c - user namespaces: made, entered, and what capabilities count for in them.
 *
 * Owns:  struct user_ns.
 * Rules: a namespace holds its parent (ns.owner). Capabilities are over what a namespace owns and
 *        over all below it; whoever made one has them all in it from outside.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/vfs.h"

enum { LEVEL_MAX = 32 }; /* of one that may have another below it, as on Linux */

static uint32_t level_of(const struct user_ns *u)
{
	return u ? u->level : 0;
}

bool cred_capable_in(const struct cred *c, const struct user_ns *u, int cap)
{
	for (;;) {
		if (u == c->user)
			return c->cap_effective >> cap & 1;
		if (level_of(u) <= level_of(c->user))
			return false;
		if (u->ns.owner == c->user && u->uid == c->euid)
			return true;
		u = u->ns.owner;
	}
}

bool user_ns_is_below(const struct user_ns *u, const struct user_ns *above)
{
	while (u && u != above)
		u = u->ns.owner;
	return u == above;
}

static const struct id_extent *by_first(const struct id_map *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (id >= m->extents[i].first && id - m->extents[i].first < m->extents[i].count)
			return &m->extents[i];
	return NULL;
}

static const struct id_extent *by_lower(const struct id_map *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (id >= m->extents[i].lower && id - m->extents[i].lower < m->extents[i].count)
			return &m->extents[i];
	return NULL;
}

uint32_t id_shown(const struct user_ns *u, enum id_kind kind, uint32_t id)
{
	const struct id_extent *e;

	if (!u)
		return id;
	e = by_lower(&u->maps[kind], id);
	return e ? e->first + (id - e->lower) : ID_NONE;
}

uint32_t id_taken(const struct user_ns *u, enum id_kind kind, uint32_t id)
{
	const struct id_extent *e;

	if (!u)
		return id;
	e = by_first(&u->maps[kind], id);
	return e ? e->lower + (id - e->first) : ID_NONE;
}

void user_ns_move(struct cred *c, struct user_ns *to)
{
	struct user_ns *was = c->user;

	c->user = to ? user_ns_of(ns_ref(&to->ns)) : NULL;
	c->securebits = 0;
	c->cap_inheritable = c->cap_ambient = 0;
	c->cap_permitted = c->cap_effective = c->cap_bounding = CAPS_ALL;
	ns_unref(was ? &was->ns : NULL);
}

int user_ns_create(struct task *t, struct cred *c)
{
	struct user_ns *up = c->user, *u;
	int err;

	if (level_of(up) > LEVEL_MAX)
		return -ENOSPC;
	/* From a root of its own nobody is let into what could lead out of it. */
	if (t->fs && !vfs_at_top(t))
		return -EPERM;
	if (id_shown(up, ID_UID, c->euid) == ID_NONE || id_shown(up, ID_GID, c->egid) == ID_NONE)
		return -EPERM;
	u = ns_create(t->k, NS_USER, sizeof(*u), up, &err);
	if (!u)
		return err;
	u->level = level_of(up) + 1;
	u->uid = c->euid;
	u->gid = c->egid;
	u->no_setgroups = up && up->no_setgroups;
	u->had_setfcap = c->cap_effective >> CAP_SETFCAP & 1;
	user_ns_move(c, u);
	ns_unref(&u->ns);
	return 0;
}

bool user_ns_setgroups(const struct user_ns *u)
{
	return !u || (u->maps[ID_GID].count && !u->no_setgroups);
}

void user_ns_free_maps(struct user_ns *u)
{
	for (int i = 0; i < ID_KINDS; i++)
		free(u->maps[i].extents);
}
