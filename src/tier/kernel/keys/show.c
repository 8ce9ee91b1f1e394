/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/keys/show.c - what /proc says about keys.
 *
 * Owns:  nothing.
 */
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "tier/kernel/keys/key.h"
#include "tier/kernel/kernel.h"

static void time_left(struct kernel *k, const struct key *key, char *out, size_t cap)
{
	static const struct {
		uint64_t seconds;
		char unit;
	} units[] = { { 60, 's' }, { 3600, 'm' }, { 86400, 'h' }, { 604800, 'd' },
		{ UINT64_MAX, 'w' } };
	uint64_t left, one = 1;

	if (!key->expires) {
		str_fmt(out, cap, "perm");
		return;
	}
	if (kernel_now(k) >= key->expires) {
		str_fmt(out, cap, "expd");
		return;
	}
	left = (uint64_t)(key->expires - kernel_now(k)) / 1000000000;
	for (unsigned i = 0;; i++) {
		if (left < units[i].seconds) {
			str_fmt(out, cap, "%llu%c", (unsigned long long)(left / one),
				units[i].unit);
			return;
		}
		one = units[i].seconds;
	}
}

static void show_one(struct kernel *k, const struct key *key, struct buf *out)
{
	char left[24];

	time_left(k, key, left, sizeof(left));
	buf_add_fmt(out, "%08x I%c%c%c-%c%c %5u %4s %08x %5u %5d %-9.9s ", (uint32_t)key->serial,
		key->revoked ? 'R' : '-', '-', key->counted ? 'Q' : '-', key->reject ? 'N' : '-',
		key->invalid ? 'i' : '-', key->refs, left, key->perm, key->uid, (int)key->gid,
		key_type_names[key->type]);
	buf_add_fmt(out, "%s", key->desc);
	if (key->type == KEY_TYPE_RING && !key->link_count)
		buf_add_str(out, ": empty");
	else if (key->type == KEY_TYPE_RING)
		buf_add_fmt(out, ": %u", key->link_count);
	else if (!key->reject)
		buf_add_fmt(out, ": %zu", key->len);
	buf_add_str(out, "\n");
}

enum { SEARCHES_MAX = 512 }; /* of one listing: each may go through every ring */

void keys_show(struct task *reader, struct kernel *k, struct buf *out)
{
	unsigned searches = 0;

	for (unsigned i = 0; k->keys && i < KEY_HASH; i++) {
		for (struct key *key = k->keys->hash[i]; key; key = key->next) {
			struct key_match m = { .serial = key->serial };
			struct key_at at = { .key = key }, found;

			/* Who has the right as anybody need not have it as its possessor. */
			if (!key_may(reader, at, KEY_VIEW)) {
				if (searches++ == SEARCHES_MAX)
					return;
				at.possessed = key_search_task(reader, &m, &found) == 0;
				if (!key_may(reader, at, KEY_VIEW))
					continue;
			}
			show_one(k, key, out);
		}
	}
}

void keys_show_users(struct kernel *k, struct buf *out)
{
	for (struct key_user *u = k->keys ? k->keys->users : NULL; u; u = u->next)
		buf_add_fmt(out, "%5u: %5u %u/%u %u/%u %u/%u\n", u->uid, u->keys, u->keys, u->keys,
			u->counted_keys, u->uid ? k->keys->maxkeys : k->keys->root_maxkeys,
			u->counted_bytes, u->uid ? k->keys->maxbytes : k->keys->root_maxbytes);
}

uint32_t keys_knob(struct kernel *k, enum key_knob which, int64_t set)
{
	struct key_state *s = key_state(k);
	uint32_t *at[] = { [KNOB_MAXKEYS] = s ? &s->maxkeys : NULL,
		[KNOB_MAXBYTES] = s ? &s->maxbytes : NULL,
		[KNOB_ROOT_MAXKEYS] = s ? &s->root_maxkeys : NULL,
		[KNOB_ROOT_MAXBYTES] = s ? &s->root_maxbytes : NULL };

	if (!s)
		return 0;
	if (set >= 0 && set <= INT32_MAX)
		*at[which] = (uint32_t)set;
	return *at[which];
}
