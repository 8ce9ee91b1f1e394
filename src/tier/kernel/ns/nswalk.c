/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/ns/nswalk.c - namespaces, saved and loaded.
 *
 * Owns:  nothing.
 * Rules: oldest first, so that what one points at has its number. What is loaded is as hostile as
 *        anything: an owner is a user namespace, and a level is one more than its parent's.
 */
#include <errno.h>
#include <stdlib.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/ns/net.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/walk.h"

static void drop_ns(void *p)
{
	ns_unref(p);
}

void ns_ref_walk(struct walk *w, const char *name, enum ns_kind kind, struct ns **n)
{
	walk_ref(w, name, WALK_NS, (void **)n);
	if (w->mode == WALK_SAVE)
		return;
	if (!w->err && *n && (*n)->kind != kind)
		walk_fail(w, -EBADMSG);
	*n = w->err ? NULL : ns_ref(*n);
}

static void map_walk(struct id_map *m, struct walk *w)
{
	void *extents = m->extents;
	size_t len = m->count * sizeof(*m->extents);

	walk_blob(w, "extents", &extents, &len, ID_EXTENTS_MAX * sizeof(*m->extents));
	if (w->mode == WALK_SAVE)
		return;
	m->extents = extents;
	m->count = (uint32_t)(len / sizeof(*m->extents));
	if (len % sizeof(*m->extents))
		walk_fail(w, -EBADMSG);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct id_extent *x = &m->extents[i];

		if (!x->count || (uint64_t)x->first + x->count > UINT32_MAX ||
			(uint64_t)x->lower + x->count > UINT32_MAX)
			walk_fail(w, -EBADMSG);
	}
}

static void user_walk(struct user_ns *u, struct walk *w)
{
	if (w->mode == WALK_LOAD)
		u->level = u->ns.owner ? u->ns.owner->level + 1 : 1;
	walk_u32(w, "uid", &u->uid);
	walk_u32(w, "gid", &u->gid);
	walk_bool(w, "no_setgroups", &u->no_setgroups);
	walk_bool(w, "had_setfcap", &u->had_setfcap);
	for (int i = 0; i < ID_KINDS; i++)
		map_walk(&u->maps[i], w);
}

static void uts_walk(struct uts_ns *u, struct walk *w)
{
	walk_bytes(w, "hostname", u->hostname, sizeof(u->hostname));
	walk_bytes(w, "domainname", u->domainname, sizeof(u->domainname));
	u->hostname[sizeof(u->hostname) - 1] = u->domainname[sizeof(u->domainname) - 1] = '\0';
}

/* Its first process is known when there are processes. */
static void pid_walk(struct pid_ns *p, struct walk *w)
{
	struct ns *up = p->parent ? &p->parent->ns : NULL;

	ns_ref_walk(w, "parent", NS_PID, &up);
	if (w->mode == WALK_LOAD) {
		p->parent = (struct pid_ns *)up;
		p->level = p->parent ? p->parent->level + 1 : 1;
	}
	walk_i32(w, "last", &p->last);
	walk_bool(w, "over", &p->over);
	if (p->last < 0 || p->last > GUEST_TASKS_MAX) {
		p->last = 0;
		walk_fail(w, -EBADMSG);
	}
}

static size_t size_of(uint32_t kind)
{
	return kind == NS_USER  ? sizeof(struct user_ns)
	       : kind == NS_UTS ? sizeof(struct uts_ns)
	       : kind == NS_MNT ? sizeof(struct mnt_ns)
	       : kind == NS_PID ? sizeof(struct pid_ns)
	       : kind == NS_NET ? sizeof(struct net_ns)
				: sizeof(struct ns);
}

static void ns_walk(struct kernel *k, struct ns *n, struct walk *w)
{
	uint32_t kind = n ? n->kind : 0, number = n ? n->number : 0;
	struct ns *owner = n && n->owner ? &n->owner->ns : NULL;
	int err;

	walk_count(w, "kind", &kind, NS_KINDS - 1);
	walk_u32(w, "number", &number);
	ns_ref_walk(w, "owner", NS_USER, &owner);
	if (w->mode == WALK_LOAD && !w->err) {
		n = ns_make(k, kind, size_of(kind), owner ? user_ns_of(owner) : NULL, &err);
		if (n)
			walk_keep(w, n, drop_ns);
		else
			walk_fail(w, err);
	}
	if (w->mode == WALK_LOAD)
		ns_unref(owner); /* the new one has its own */
	if (w->err)
		return;
	walk_number(w, WALK_NS, n);
	if (w->mode == WALK_LOAD) {
		n->number = 0; /* not what it was made with */
		if (ns_find(k, kind, number))
			walk_fail(w, -EBADMSG);
		n->number = number;
	}
	if (kind == NS_USER)
		user_walk(user_ns_of(n), w);
	if (kind == NS_UTS)
		uts_walk((struct uts_ns *)n, w);
	if (kind == NS_PID)
		pid_walk((struct pid_ns *)n, w);
	if (kind == NS_NET) {
		walk_bool(w, "up", &((struct net_ns *)n)->up);
		walk_u32(w, "mtu", &((struct net_ns *)n)->mtu);
	}
}

void namespaces_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = k->namespace_count;
	struct ns *at = k->namespaces;

	walk_list(w, "namespaces", &n, GUEST_NAMESPACES_MAX);
	for (; n > 0 && !w->err; n--) {
		ns_walk(k, w->mode == WALK_SAVE ? at : NULL, w);
		at = at ? at->next : NULL;
	}
	walk_u32(w, "last_namespace", &k->last_namespace);
}

void ns_set_walk(struct ns_set **s, struct walk *w)
{
	bool any = *s != NULL;

	walk_bool(w, "namespaces", &any);
	if (!any || w->err)
		return;
	if (w->mode == WALK_LOAD) {
		*s = calloc(1, sizeof(**s));
		if (!*s) {
			walk_fail(w, -ENOMEM);
			return;
		}
		(*s)->refs = 1;
	}
	for (int i = 0; i < NS_KINDS; i++)
		ns_ref_walk(w, "ns", i, &(*s)->of[i]);
}
