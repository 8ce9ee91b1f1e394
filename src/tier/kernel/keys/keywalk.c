/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/keys/keywalk.c - all keys, walked.
 *
 * Owns:  nothing.
 * Rules: behind the tasks, which hold rings. Who has how much is counted again, not believed. Rings
 *        that lead in circles hurt nobody: a search looks at each once, and the end of the sandbox
 *        frees by the table.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/keys/key.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/walk.h"

static void key_walk(struct key *key, struct walk *w)
{
	walk_i32(w, "serial", &key->serial);
	walk_count(w, "type", &key->type, KEY_TYPES - 1);
	walk_u32(w, "uid", &key->uid);
	walk_u32(w, "gid", &key->gid);
	walk_u32(w, "perm", &key->perm);
	walk_str(w, "desc", &key->desc);
	walk_blob(w, "data", &key->data, &key->len, KEY_PAYLOAD_MAX);
	walk_i32(w, "reject", &key->reject);
	walk_bool(w, "revoked", &key->revoked);
	walk_bool(w, "invalid", &key->invalid);
	walk_bool(w, "restricted", &key->restricted);
	walk_bool(w, "uid_ring", &key->uid_ring);
	walk_bool(w, "counted", &key->counted);
	walk_time(w, "expires", &key->expires);
}

static bool is_good(struct kernel *k, const struct key *key)
{
	return key->serial >= 3 && !key_find(k, key->serial) && key->desc &&
	       strlen(key->desc) < KEY_DESC_MAX && !(key->perm & ~KEY_PERM_BITS) &&
	       key->reject >= 0 && key->reject < 4096 &&
	       (key->type != KEY_TYPE_RING || !key->len) &&
	       k->keys->bytes + key->len <= KEY_BYTES_MAX;
}

static uint32_t quota_of(const struct key *key)
{
	size_t n = strlen(key->desc) + 1 + key->link_count * KEY_LINK_BYTES;

	if (!key->counted)
		return 0;
	return (uint32_t)(n + (key->type == KEY_TYPE_BIG && key->len ? KEY_BIG_BYTES : key->len));
}

static void drop_key(void *p)
{
	struct key *key = p;

	key->refs--; /* the table has it: nobody does, and it goes with the table */
}

static void key_load(struct kernel *k, struct walk *w)
{
	struct key *key = calloc(1, sizeof(*key));
	struct key_user *u;

	if (!key) {
		walk_fail(w, -ENOMEM);
		return;
	}
	key_walk(key, w);
	if (!w->err && !is_good(k, key))
		walk_fail(w, -EBADMSG);
	u = w->err ? NULL : key_user(k, key->uid);
	if (!u) {
		walk_fail(w, -ENOMEM);
		free(key->desc);
		free(key->data);
		free(key);
		return;
	}
	u->keys++;
	u->counted_keys += key->counted;
	key->refs = 1;
	key_insert(k->keys, key);
	walk_keep(w, key, drop_key);
	walk_number(w, WALK_KEY, key);
}

static void links_walk(struct kernel *k, struct key *key, struct walk *w)
{
	uint32_t n = key->link_count;

	walk_list(w, "links", &n, key->type == KEY_TYPE_RING ? KEY_LINKS_MAX : 0);
	if (w->err)
		return;
	if (w->mode == WALK_LOAD) {
		key->links = calloc(n ? n : 1, sizeof(struct key *));
		key->link_cap = key->links ? n : 0;
		if (!key->links)
			walk_fail(w, -ENOMEM);
	}
	for (uint32_t i = 0; i < n && !w->err; i++) {
		void *to = w->mode == WALK_SAVE ? key->links[i] : NULL;

		walk_need(w, "link", WALK_KEY, &to);
		if (w->err || w->mode == WALK_SAVE)
			continue;
		key->links[key->link_count++] = key_ref(to);
		if (++k->keys->links > KEY_LINKS_MAX)
			walk_fail(w, -EBADMSG);
	}
	if (w->mode == WALK_LOAD && key->counted) {
		struct key_user *u = key_user(k, key->uid);

		key->quota = quota_of(key);
		if (u)
			u->counted_bytes += key->quota;
	}
}

/* Loading: a reference of its own for whoever has it. */
static void held_walk(struct walk *w, const char *name, struct key **at)
{
	walk_ref(w, name, WALK_KEY, (void **)at);
	if (w->err && w->mode == WALK_LOAD)
		*at = NULL;
	else if (w->mode == WALK_LOAD && *at && (*at)->type != KEY_TYPE_RING) {
		walk_fail(w, -EBADMSG);
		*at = NULL;
	} else if (w->mode == WALK_LOAD && *at) {
		key_ref(*at);
	}
}

static void users_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = 0;

	for (struct key_user *u = k->keys->users; u; u = u->next)
		n += u->session != NULL;
	walk_list(w, "users", &n, KEYS_MAX);
	if (w->mode == WALK_SAVE) {
		for (struct key_user *u = k->keys->users; u; u = u->next) {
			if (!u->session)
				continue;
			walk_u32(w, "uid", &u->uid);
			held_walk(w, "ring", &u->ring);
			held_walk(w, "session", &u->session);
		}
		return;
	}
	for (; n > 0 && !w->err; n--) {
		struct key *ring = NULL, *session = NULL;
		struct key_user *u;
		uint32_t uid = 0;

		walk_u32(w, "uid", &uid);
		held_walk(w, "ring", &ring);
		held_walk(w, "session", &session);
		u = key_user(k, uid);
		if (!u || !ring || !session || u->session || ring->uid != uid) {
			walk_fail(w, u ? -EBADMSG : -ENOMEM);
			return;
		}
		u->ring = ring;
		u->session = session;
	}
}

static void holders_walk(struct walk *w)
{
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_TASK) && !w->err; i++) {
		struct task *t = walk_get(w, WALK_TASK, i);

		held_walk(w, "thread", &t->keys.thread);
		held_walk(w, "session", &t->keys.session);
		walk_count(w, "request_to", &t->keys.request_to, 7);
	}
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_PROC) && !w->err; i++) {
		struct proc *p = walk_get(w, WALK_PROC, i);

		held_walk(w, "process", &p->process_ring);
	}
}

void keys_walk(struct kernel *k, struct walk *w)
{
	bool any = k->keys != NULL;
	uint32_t n;

	walk_bool(w, "keys", &any);
	if (!any || w->err)
		return;
	if (!key_state(k)) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_u32(w, "maxkeys", &k->keys->maxkeys);
	walk_u32(w, "maxbytes", &k->keys->maxbytes);
	walk_u32(w, "root_maxkeys", &k->keys->root_maxkeys);
	walk_u32(w, "root_maxbytes", &k->keys->root_maxbytes);
	n = k->keys->count;
	walk_list(w, "count", &n, KEYS_MAX);
	for (unsigned i = 0; i < KEY_HASH && w->mode == WALK_SAVE; i++) {
		for (struct key *key = k->keys->hash[i]; key; key = key->next) {
			walk_number(w, WALK_KEY, key);
			key_walk(key, w);
		}
	}
	for (; n > 0 && w->mode == WALK_LOAD && !w->err; n--)
		key_load(k, w);
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_KEY) && !w->err; i++)
		links_walk(k, walk_get(w, WALK_KEY, i), w);
	users_walk(k, w);
	holders_walk(w);
}
