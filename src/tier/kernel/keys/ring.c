/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/keys/ring.c - keyrings: what they link.
 *
 * Owns:  struct key's links.
 * Rules: a ring has one key of a type and description. No ring is in itself, however deep.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/keys/key.h"
#include "tier/kernel/kernel.h"

static uint32_t place_of(const struct key *ring, uint32_t type, const char *desc)
{
	uint32_t i = 0;

	while (i < ring->link_count &&
		(ring->links[i]->type != type || strcmp(ring->links[i]->desc, desc) != 0))
		i++;
	return i;
}

struct key *ring_find(const struct key *ring, uint32_t type, const char *desc)
{
	uint32_t i = place_of(ring, type, desc);

	return i < ring->link_count ? ring->links[i] : NULL;
}

/* Is @ring below @key? Each ring is looked at once for every depth at most. */
static int check_cycle(struct key_state *s, struct key *key, const struct key *ring, unsigned depth)
{
	int r;

	if (key == ring)
		return -EDEADLK;
	if (depth > KEY_DEPTH_MAX)
		return -ELOOP;
	if (key->mark == s->search && key->mark_depth <= depth)
		return 0;
	key->mark = s->search;
	key->mark_depth = depth;
	for (uint32_t i = 0; i < key->link_count; i++) {
		if (key->links[i]->type != KEY_TYPE_RING)
			continue;
		r = check_cycle(s, key->links[i], ring, depth + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_room(struct key *ring)
{
	uint32_t cap = ring->link_cap ? ring->link_cap * 2 : 8;
	struct key **p;

	if (ring->link_count < ring->link_cap)
		return 0;
	p = realloc(ring->links, cap * sizeof(struct key *));
	if (!p)
		return -ENOMEM;
	ring->links = p;
	ring->link_cap = cap;
	return 0;
}

int ring_link(struct kernel *k, struct key *ring, struct key *key)
{
	struct key_state *s = k->keys;
	uint32_t i = place_of(ring, key->type, key->desc);
	struct key *old;
	int r = 0;

	if (ring->restricted)
		return -EPERM;
	if (i < ring->link_count && ring->links[i] == key)
		return 0;
	if (key->type == KEY_TYPE_RING) {
		s->search++;
		r = check_cycle(s, key, ring, 0);
	}
	if (r < 0)
		return r;
	if (i < ring->link_count) {
		old = ring->links[i];
		ring->links[i] = key_ref(key);
		key_unref(k, old);
		return 0;
	}
	if (s->links >= KEY_LINKS_MAX)
		return -EDQUOT;
	r = make_room(ring);
	if (r == 0)
		r = key_charge(k, ring, KEY_LINK_BYTES);
	if (r < 0)
		return r;
	ring->links[ring->link_count++] = key_ref(key);
	s->links++;
	return 0;
}

static void unlink_at(struct kernel *k, struct key *ring, uint32_t i)
{
	struct key *key = ring->links[i];

	ring->link_count--;
	memmove(ring->links + i, ring->links + i + 1,
		(ring->link_count - i) * sizeof(struct key *));
	k->keys->links--;
	key_charge(k, ring, -KEY_LINK_BYTES);
	key_unref(k, key);
}

int ring_unlink(struct kernel *k, struct key *ring, struct key *key)
{
	uint32_t i = 0;

	while (i < ring->link_count && ring->links[i] != key)
		i++;
	if (i == ring->link_count)
		return -ENOENT;
	unlink_at(k, ring, i);
	return 0;
}

void ring_clear(struct kernel *k, struct key *ring)
{
	while (ring->link_count)
		unlink_at(k, ring, ring->link_count - 1);
}

void rings_drop(struct kernel *k, struct key *key)
{
	struct key_state *s = k->keys;

	key->refs++;
	for (unsigned i = 0; i < KEY_HASH; i++) {
		for (struct key *ring = s->hash[i]; ring; ring = ring->next)
			ring_unlink(k, ring, key);
	}
	key_unref(k, key);
}

void rings_collect(struct kernel *k)
{
	struct key_state *s = k->keys;

	s->burying = true; /* the table stays as it is while we look */
	for (unsigned i = 0; i < KEY_HASH; i++) {
		for (struct key *ring = s->hash[i]; ring; ring = ring->next) {
			for (uint32_t n = ring->link_count; n > 0; n--)
				if (key_validate(k, ring->links[n - 1]) < 0)
					unlink_at(k, ring, n - 1);
		}
	}
	keys_bury(k);
}
