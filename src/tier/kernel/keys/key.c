/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/keys/key.c - keys: made, counted, found, ended.
 *
 * Owns:  kernel.keys: the table of keys, and who has how many.
 * Rules: what a guest can make us hold is bounded twice: by its users' quotas, which it may raise,
 *        and by the limits of key.h, which it may not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tier/kernel/keys/key.h"
#include "tier/kernel/kernel.h"

const char *const key_type_names[KEY_TYPES] = { "user", "logon", "big_key", "keyring" };

struct key_state *key_state(struct kernel *k)
{
	struct key_state *s = k->keys;

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->maxkeys = 200;
	s->maxbytes = 20000;
	s->root_maxkeys = 1000000;
	s->root_maxbytes = 25000000;
	k->keys = s;
	return s;
}

static void key_free(struct key *key)
{
	free(key->desc);
	free(key->data);
	free(key->links);
	free(key);
}

void keys_done(struct kernel *k)
{
	struct key_state *s = k->keys;

	if (!s)
		return;
	for (unsigned i = 0; i < KEY_HASH; i++) {
		while (s->hash[i]) {
			struct key *key = s->hash[i];

			s->hash[i] = key->next;
			key_free(key);
		}
	}
	while (s->users) {
		struct key_user *u = s->users;

		s->users = u->next;
		free(u);
	}
	free(s);
	k->keys = NULL;
}

int key_type_of(const char *name)
{
	for (int i = 0; i < KEY_TYPES; i++)
		if (strcmp(name, key_type_names[i]) == 0)
			return i;
	return -ENODEV;
}

static struct key **bucket(struct key_state *s, int32_t serial)
{
	return &s->hash[(uint32_t)serial % KEY_HASH];
}

struct key *key_find(struct kernel *k, int32_t serial)
{
	struct key *key = k->keys ? *bucket(k->keys, serial) : NULL;

	while (key && key->serial != serial)
		key = key->next;
	return key;
}

struct key_user *key_user(struct kernel *k, uint32_t uid)
{
	struct key_state *s = key_state(k);
	struct key_user **at, *u;

	if (!s)
		return NULL;
	for (at = &s->users; *at && (*at)->uid < uid; at = &(*at)->next)
		;
	if (*at && (*at)->uid == uid)
		return *at;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	u->next = *at;
	*at = u;
	return u;
}

/* One without a key is nobody we must know. */
void key_user_tidy(struct kernel *k, struct key_user *u)
{
	struct key_user **pp = &k->keys->users;

	if (u->keys)
		return;
	while (*pp != u)
		pp = &(*pp)->next;
	*pp = u->next;
	free(u);
}

static bool has_room(
	const struct key_state *s, const struct key_user *u, uint32_t keys, int64_t bytes)
{
	uint32_t most_keys = u->uid == 0 ? s->root_maxkeys : s->maxkeys;
	uint32_t most_bytes = u->uid == 0 ? s->root_maxbytes : s->maxbytes;

	return (uint64_t)u->counted_keys + keys <= most_keys &&
	       (int64_t)u->counted_bytes + bytes <= (int64_t)most_bytes;
}

int key_charge(struct kernel *k, struct key *key, int64_t bytes)
{
	struct key_user *u = key->counted ? key_user(k, key->uid) : NULL;

	if (!u)
		return 0;
	if (bytes > 0 && !has_room(k->keys, u, 0, bytes))
		return -EDQUOT;
	u->counted_bytes = (uint32_t)((int64_t)u->counted_bytes + bytes);
	key->quota = (uint32_t)((int64_t)key->quota + bytes);
	return 0;
}

int key_give(struct kernel *k, struct key *key, uint32_t uid)
{
	struct key_user *from = key_user(k, key->uid), *to = key_user(k, uid);

	if (!from || !to)
		return -ENOMEM;
	if (key->counted && !has_room(k->keys, to, 1, key->quota)) {
		key_user_tidy(k, to);
		return -EDQUOT;
	}
	from->keys--;
	to->keys++;
	if (key->counted) {
		from->counted_keys--;
		from->counted_bytes -= key->quota;
		to->counted_keys++;
		to->counted_bytes += key->quota;
	}
	key->uid = uid;
	key_user_tidy(k, from);
	return 0;
}

static int32_t new_serial(struct kernel *k)
{
	uint32_t n;

	for (;;) {
		if (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n))
			n = (uint32_t)kernel_now(k);
		n &= INT32_MAX;
		if (n >= 3 && !key_find(k, (int32_t)n))
			return (int32_t)n;
	}
}

void key_insert(struct key_state *s, struct key *key)
{
	struct key **at = bucket(s, key->serial);

	while (*at) /* at the end: a walk finds them in the order in which it made them */
		at = &(*at)->next;
	*at = key;
	s->count++;
	s->links += key->link_count;
	s->bytes += strlen(key->desc) + key->len;
}

int key_create(struct kernel *k, const struct key_new *n, struct key **ret)
{
	struct key_user *u = key_user(k, n->uid);
	struct key_state *s = k->keys;
	size_t len = strlen(n->desc);
	struct key *key;

	if (!u)
		return -ENOMEM;
	if (s->count >= KEYS_MAX || s->bytes + len > KEY_BYTES_MAX ||
		(n->counted && !has_room(s, u, 1, (int64_t)len + 1)))
		rings_collect(k);
	u = key_user(k, n->uid); /* its last key may have gone just now */
	if (!u)
		return -ENOMEM;
	key = calloc(1, sizeof(*key));
	if (key)
		key->desc = strdup(n->desc);
	if (s->count >= KEYS_MAX || s->bytes + len > KEY_BYTES_MAX || !key || !key->desc ||
		(n->counted && !n->overrun && !has_room(s, u, 1, (int64_t)len + 1))) {
		int r = key && key->desc ? -EDQUOT : -ENOMEM;

		if (key)
			key_free(key);
		key_user_tidy(k, u);
		return r;
	}
	key->serial = new_serial(k);
	key->type = n->type;
	key->refs = 1;
	key->uid = n->uid;
	key->gid = n->gid;
	key->perm = n->perm;
	key->counted = n->counted;
	u->keys++;
	if (key->counted) {
		key->quota = (uint32_t)len + 1;
		u->counted_keys++;
		u->counted_bytes += key->quota;
	}
	key_insert(s, key);
	*ret = key;
	return 0;
}

int key_set_payload(struct kernel *k, struct key *key, const void *data, size_t len)
{
	int64_t desc = (int64_t)strlen(key->desc) + 1;
	int64_t cost = key->type == KEY_TYPE_BIG ? KEY_BIG_BYTES : (int64_t)len;
	void *copy;
	int r;

	if (k->keys->bytes - key->len + len > KEY_BYTES_MAX)
		return -EDQUOT;
	r = key_charge(k, key, desc + cost - key->quota);
	if (r < 0)
		return r;
	copy = malloc(len ? len : 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, data, len);
	free(key->data);
	k->keys->bytes += len - key->len;
	key->data = copy;
	key->len = len;
	key->reject = 0;
	key->expires = 0;
	return 0;
}

struct key *key_ref(struct key *key)
{
	key->refs++;
	return key;
}

static void bury(struct kernel *k, struct key *key)
{
	struct key_state *s = k->keys;
	struct key_user *u = key_user(k, key->uid);
	struct key **pp = bucket(s, key->serial);

	while (*pp != key)
		pp = &(*pp)->next;
	*pp = key->next;
	s->count--;
	s->bytes -= strlen(key->desc) + key->len;
	s->links -= key->link_count;
	for (uint32_t i = 0; i < key->link_count; i++)
		key_unref(k, key->links[i]);
	if (u) {
		u->keys--;
		if (key->counted) {
			u->counted_keys--;
			u->counted_bytes -= key->quota;
		}
		key_user_tidy(k, u);
	}
	key_free(key);
}

void keys_bury(struct kernel *k)
{
	struct key_state *s = k->keys;

	s->burying = true;
	while (s->dead) {
		struct key *key = s->dead;

		s->dead = key->dead_next;
		bury(k, key);
	}
	s->burying = false;
}

/* Rings in rings may be a long chain: one after the other, not one inside the other. */
void key_unref(struct kernel *k, struct key *key)
{
	struct key_state *s = k->keys;

	if (!key || --key->refs)
		return;
	key->dead_next = s->dead;
	s->dead = key;
	if (!s->burying)
		keys_bury(k);
}

int key_validate(struct kernel *k, const struct key *key)
{
	if (key->invalid)
		return -ENOKEY;
	if (key->revoked)
		return -EKEYREVOKED;
	return key->expires && kernel_now(k) >= key->expires ? -EKEYEXPIRED : 0;
}

void key_expire_in(struct kernel *k, struct key *key, uint64_t seconds)
{
	key->expires = seconds ? kernel_now(k) + (int64_t)seconds * 1000000000 : 0;
}
