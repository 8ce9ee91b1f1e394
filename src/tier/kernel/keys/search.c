/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/keys/search.c - whose key is it, and which rings lead to it.
 *
 * Owns:  the rings of tasks, processes, sessions and users.
 * Rules: a task possesses what it can find from its own rings, over rings that let it search.
 */
#include <errno.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/keyctl.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/keys/key.h"
#include "tier/kernel/kernel.h"

bool key_may(struct task *t, struct key_at at, unsigned need)
{
	const struct key *key = at.key;
	uint32_t perm = key->perm;
	bool group = (perm & KEY_GRP(KEY_ALL)) && task_in_group(t, key->gid);
	uint32_t have = key->uid == t->cred->fsuid ? perm >> 16 : group ? perm >> 8 : perm;

	if (at.possessed)
		have |= perm >> 24;
	return (have & need) == need;
}

static bool matches(const struct key *key, const struct key_match *m)
{
	if (m->serial)
		return key->serial == m->serial;
	return key->type == m->type && strcmp(key->desc, m->desc) == 0;
}

struct search {
	struct task *t;
	const struct key_match *m;
	bool possessed;
	int why; /* what was in the way */
};

/* A key that matches: may it be had? */
static bool usable(struct search *s, struct key *key)
{
	int r = s->m->serial ? 0 : key_validate(s->t->k, key);

	if (r == -EKEYEXPIRED && s->m->skip_expired)
		return false;
	if (r == -ENOKEY)
		r = -EKEYREVOKED;
	if (r == 0 && !key_may(s->t, (struct key_at){ key, s->possessed }, KEY_SEARCH))
		r = -EACCES;
	if (r == 0 && !s->m->serial)
		r = -key->reject;
	if (r < 0)
		s->why = r;
	return r == 0;
}

static struct key *descend(struct search *s, struct key *ring, unsigned depth)
{
	struct key_state *state = s->t->k->keys;
	struct key *found = NULL;

	if (ring->revoked || ring->invalid || depth > KEY_DEPTH_MAX ||
		(ring->mark == state->search && ring->mark_depth <= depth))
		return NULL;
	ring->mark = state->search;
	ring->mark_depth = depth;
	for (uint32_t i = 0; i < ring->link_count; i++)
		if (matches(ring->links[i], s->m) && usable(s, ring->links[i]))
			return ring->links[i];
	for (uint32_t i = 0; i < ring->link_count && !found; i++) {
		struct key *in = ring->links[i];

		if (in->type == KEY_TYPE_RING &&
			key_may(s->t, (struct key_at){ in, s->possessed }, KEY_SEARCH))
			found = descend(s, in, depth + 1);
	}
	return found;
}

int key_search(struct task *t, struct key_at ring, const struct key_match *m, struct key_at *ret)
{
	struct search s = { .t = t, .m = m, .possessed = ring.possessed, .why = -EAGAIN };
	struct key *key = NULL;

	if (ring.key->type != KEY_TYPE_RING)
		return -ENOTDIR;
	if (!key_may(t, ring, KEY_SEARCH))
		return -EACCES;
	t->k->keys->search++;
	if (matches(ring.key, m) && usable(&s, ring.key))
		key = ring.key;
	if (!key)
		key = descend(&s, ring.key, 0);
	if (!key)
		return s.why;
	*ret = (struct key_at){ key, ring.possessed };
	return 0;
}

static struct key *session_of(struct task *t)
{
	struct key_user *u = t->k->keys ? t->k->keys->users : NULL;

	if (t->keys.session)
		return t->keys.session;
	while (u && u->uid != t->cred->uid)
		u = u->next;
	return u ? u->session : NULL;
}

int key_search_task(struct task *t, const struct key_match *m, struct key_at *ret)
{
	struct key *rings[] = { t->keys.thread, t->proc->process_ring, session_of(t) };
	int negative = 0, why = -EAGAIN;

	for (size_t i = 0; i < ARRAY_LEN(rings); i++) {
		int r = rings[i] ? key_search(t, (struct key_at){ rings[i], true }, m, ret)
				 : -EAGAIN;

		if (r == 0)
			return 0;
		if (r == -ENOKEY)
			negative = r;
		else if (r != -EAGAIN)
			why = r;
	}
	return negative ? negative : why;
}

int key_own_ring(struct task *t, struct key **at, const char *name)
{
	struct key_new n = { .type = KEY_TYPE_RING,
		.desc = name,
		.uid = t->cred->fsuid,
		.gid = t->cred->fsgid,
		.perm = KEY_POS(KEY_ALL) | KEY_USR(KEY_VIEW),
		.counted = true,
		.overrun = true };

	return *at ? 0 : key_create(t->k, &n, at);
}

static int user_ring(struct task *t, const char *form, struct key **ret)
{
	char name[32];
	struct key_new n = { .type = KEY_TYPE_RING,
		.desc = name,
		.uid = t->cred->uid,
		.gid = UINT32_MAX,
		.perm = KEY_POS(KEY_ALL & ~KEY_SETATTR) | KEY_USR(KEY_ALL),
		.counted = true };
	int r = str_fmt(name, sizeof(name), "%s.%u", form, t->cred->uid);

	if (r == 0)
		r = key_create(t->k, &n, ret);
	if (r == 0)
		(*ret)->uid_ring = true;
	return r;
}

int key_user_rings(struct task *t, struct key_user **ret)
{
	struct key_user *u = key_user(t->k, t->cred->uid);
	struct key *ring = NULL, *session = NULL;
	int r;

	if (!u)
		return -ENOMEM;
	*ret = u;
	if (u->session)
		return 0;
	r = user_ring(t, "_uid", &ring);
	if (r == 0)
		r = user_ring(t, "_uid_ses", &session);
	if (r == 0)
		r = ring_link(t->k, session, ring);
	if (r < 0) {
		key_unref(t->k, session);
		key_unref(t->k, ring); /* with the last one goes the user */
		return r;
	}
	u = key_user(t->k, t->cred->uid);
	u->ring = ring;
	u->session = session;
	*ret = u;
	return 0;
}

static void set_session(struct task *t, struct key *ring)
{
	struct key *old = t->keys.session;

	t->keys.session = ring;
	key_unref(t->k, old);
}

/* A ring of this name that the task may search; what others have made for themselves stays theirs.
 */
static struct key *named(struct task *t, const char *name)
{
	for (unsigned i = 0; i < KEY_HASH; i++) {
		for (struct key *key = t->k->keys->hash[i]; key; key = key->next)
			if (key->type == KEY_TYPE_RING && !key->revoked && !key->invalid &&
				!key->uid_ring && strcmp(key->desc, name) == 0 &&
				key_may(t, (struct key_at){ key, false }, KEY_SEARCH))
				return key;
	}
	return NULL;
}

long key_join_session(struct task *t, const char *name)
{
	struct key_new n = { .type = KEY_TYPE_RING,
		.desc = name ? name : "_ses",
		.uid = t->cred->uid,
		.gid = t->cred->gid,
		.perm = KEY_POS(KEY_ALL) | KEY_USR(KEY_VIEW | KEY_READ),
		.counted = true };
	struct key *ring = NULL;
	int r = 0;

	if (!key_state(t->k))
		return -ENOMEM;
	if (name) {
		n.perm |= KEY_USR(KEY_LINK);
		ring = named(t, name);
	} else {
		n.overrun = t->keys.session != NULL;
	}
	if (ring)
		key_ref(ring);
	else
		r = key_create(t->k, &n, &ring);
	if (r < 0)
		return r;
	set_session(t, ring);
	return ring->serial;
}

static int session_ring(struct task *t, bool create, struct key **ret)
{
	struct key_user *u;
	long r = 0;

	if (!t->keys.session) {
		r = key_user_rings(t, &u);
		if (r == 0 && create)
			r = key_join_session(t, NULL);
		else if (r == 0)
			set_session(t, key_ref(u->session));
	} else if (t->keys.session->uid_ring && create) {
		r = key_join_session(t, NULL);
	}
	*ret = t->keys.session;
	return r < 0 ? (int)r : 0;
}

static int special(struct task *t, int32_t id, bool create, struct key **ret)
{
	struct key_user *u;
	int r = 0;

	switch (id) {
	case KEY_SPEC_THREAD_KEYRING:
		if (create)
			r = key_own_ring(t, &t->keys.thread, "_tid");
		*ret = t->keys.thread;
		break;
	case KEY_SPEC_PROCESS_KEYRING:
		if (create)
			r = key_own_ring(t, &t->proc->process_ring, "_pid");
		*ret = t->proc->process_ring;
		break;
	case KEY_SPEC_SESSION_KEYRING:
		return session_ring(t, create, ret);
	case KEY_SPEC_USER_KEYRING:
	case KEY_SPEC_USER_SESSION_KEYRING:
		r = key_user_rings(t, &u);
		if (r == 0)
			*ret = id == KEY_SPEC_USER_KEYRING ? u->ring : u->session;
		break;
	case KEY_SPEC_GROUP_KEYRING:
		return -EINVAL;
	case KEY_SPEC_REQKEY_AUTH_KEY: /* nobody is asked to make keys: see sys/keys.c */
	case KEY_SPEC_REQUESTOR_KEYRING:
		return -ENOKEY;
	default:
		return -EINVAL;
	}
	return r == 0 && !*ret ? -ENOKEY : r;
}

int key_lookup(struct task *t, int32_t id, unsigned flags, unsigned need, struct key_at *ret)
{
	struct key_match m = { .serial = id };
	struct key_at at = { .possessed = true }, found;
	int r;

	if (!key_state(t->k))
		return -ENOMEM;
	if (id < 1) {
		r = special(t, id, flags & LOOKUP_CREATE, &at.key);
		if (r < 0)
			return r;
	} else {
		at.key = key_find(t->k, id);
		if (!at.key)
			return -ENOKEY;
		at.possessed = key_search_task(t, &m, &found) == 0;
	}
	if (!(flags & LOOKUP_PARTIAL) && !(flags & LOOKUP_ANY_STATE) && at.key->reject)
		return -at.key->reject;
	r = flags & LOOKUP_ANY_STATE ? 0 : key_validate(t->k, at.key);
	if (r < 0)
		return r;
	if (!key_may(t, at, need))
		return -EACCES;
	*ret = at;
	return 0;
}

void keys_task_born(struct task *child, const struct task *from)
{
	child->keys.request_to = from->keys.request_to;
	if (from->keys.session)
		child->keys.session = key_ref(from->keys.session);
}

void keys_task_gone(struct task *t)
{
	key_unref(t->k, t->keys.thread);
	key_unref(t->k, t->keys.session);
	t->keys = (struct task_keys){ .thread = NULL };
}

void keys_proc_gone(struct proc *p)
{
	key_unref(p->k, p->process_ring);
	p->process_ring = NULL;
}

void keys_execed(struct task *t)
{
	key_unref(t->k, t->keys.thread);
	t->keys.thread = NULL;
	keys_proc_gone(t->proc);
}
