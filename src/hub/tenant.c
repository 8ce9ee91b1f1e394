/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/tenant.c - tenants, what they hold, and the keys that speak for them.
 *
 * Owns:  the sums of each tenant; a small memory of keys and limits, which is thrown away whenever
 *        another program has written to the database.
 * Rules: a key's text is hashed and forgotten; it is in no struct that outlives the call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "hub/hub_impl.h"
#include "hub/key.h"

/* What a sandbox is charged for that has no limit of memory: what its supervisor gives it. */
#define MEMORY_DEFAULT (2ll << 30)

enum { KEYS_KEPT = 64 };

struct key_slot {
	char id[KEY_ID_LEN + 1]; /* "": free */
	uint8_t hash[SHA256_BYTES];
	char tenant[HUB_TENANT_MAX + 1];
	bool good, noted; /* noted: its first use is in the audit log */
};

struct tenant *tenant_get(struct hub *hub, const char *name)
{
	struct tenant *t;

	for (t = hub->tenants; t; t = t->next)
		if (str_eq(t->name, name))
			return t;
	t = calloc(1, sizeof(*t));
	if (!t || str_copy(t->name, sizeof(t->name), name) < 0) {
		free(t);
		return NULL;
	}
	t->next = hub->tenants;
	hub->tenants = t;
	return t;
}

/* In the database 0 is "none at all"; in ward.toml it is "no limit". */
static int64_t pick(int64_t said, int64_t from_config)
{
	return said > 0 ? said : said == 0 ? -1 : from_config;
}

void tenant_limits(struct hub *hub, struct tenant *t)
{
	const struct config *c = hub->config;
	struct db_tenant said = { t->name, -1, -1, -1, -1 };
	struct err e = { 0 };
	int r;

	if (db_changed(hub->db))
		tenant_refresh(hub);
	if (t->known)
		return;
	r = db_tenant_get(hub->db, t->name, &said, &e);
	if (r < 0 && r != -ENOENT) {
		hub_log(hub, HUB_ERROR, "tenant.read", NULL, "", "msg=\"%s\"", e.msg);
		return; /* what was known before still holds */
	}
	t->max = (struct quota_limits){ pick(said.sandboxes, c->quota_sandboxes),
		pick(said.memory_bytes, c->quota_memory), pick(said.cpu_milli, c->quota_cpu_milli),
		pick(said.creates_micro, c->quota_creates_micro) };
	t->known = true;
}

void tenant_want(const struct hub *hub, const struct plan_limits *l, struct quota_use *ret)
{
	ret->sandboxes = 1;
	ret->memory_bytes = l->memory_bytes ? (int64_t)l->memory_bytes : MEMORY_DEFAULT;
	ret->cpu_milli = l->cpu_milli ? l->cpu_milli : hub->cpus * 1000;
}

static void add(struct quota_use *to, const struct quota_use *what, int sign)
{
	to->sandboxes += sign * what->sandboxes;
	to->memory_bytes += sign * what->memory_bytes;
	to->cpu_milli += sign * what->cpu_milli;
}

void tenant_release(struct sandbox *sb)
{
	if (sb->tenant)
		add(&sb->tenant->use, &sb->counted, -1);
	sb->counted = (struct quota_use){ 0 };
}

void tenant_charge(struct sandbox *sb)
{
	tenant_release(sb);
	if (!sb->tenant)
		return;
	tenant_want(sb->hub, &sb->limits, &sb->counted);
	add(&sb->tenant->use, &sb->counted, 1);
}

struct tally {
	char first[HUB_TENANT_MAX + 1];
	bool many;
};

static int tally_key(void *arg, const struct db_key *key)
{
	struct tally *t = arg;

	if (key->revoked_us)
		return 0;
	if (!t->first[0])
		str_copy(t->first, sizeof(t->first), key->tenant);
	else if (!str_eq(t->first, key->tenant))
		t->many = true;
	return 0;
}

void tenant_refresh(struct hub *hub)
{
	struct tally tally = { 0 };

	for (struct tenant *t = hub->tenants; t; t = t->next)
		t->known = false;
	if (hub->keys)
		memset(hub->keys, 0, KEYS_KEPT * sizeof(*hub->keys));
	/* More than one tenant has a key: they share this host, and policy must know. */
	if (db_key_each(hub->db, tally_key, &tally, NULL) == 0)
		hub->tenants_many = tally.many;
	pool_load(hub);
}

void tenants_done(struct hub *hub)
{
	while (hub->tenants) {
		struct tenant *t = hub->tenants;

		hub->tenants = t->next;
		free(t);
	}
	free(hub->keys);
	hub->keys = NULL;
}

/* --- keys --- */

static int take_key(void *arg, const struct db_key *key)
{
	struct key_slot *s = arg;

	memcpy(s->hash, key->hash, sizeof(s->hash));
	s->good = key->revoked_us == 0 && str_copy(s->tenant, sizeof(s->tenant), key->tenant) == 0;
	return 0;
}

static struct key_slot *look_up(struct hub *hub, const char *id, struct key_slot *room)
{
	struct key_slot *s;
	unsigned h = 0;

	for (const char *p = id; *p; p++)
		h = h * 31 + (unsigned char)*p;
	if (!hub->keys)
		hub->keys = calloc(KEYS_KEPT, sizeof(*hub->keys));
	s = hub->keys ? &hub->keys[h % KEYS_KEPT] : room;
	if (str_eq(s->id, id))
		return s;
	*room = (struct key_slot){ 0 };
	str_copy(room->id, sizeof(room->id), id);
	if (db_key_get(hub->db, id, take_key, room, NULL) < 0)
		return NULL;
	*s = *room;
	return s;
}

static void note_use(struct hub *hub, struct key_slot *s, const struct hub_caller *who)
{
	if (s->noted)
		return;
	s->noted = true;
	record_audit(hub, who, "key.used", NULL, NULL);
}

/* At most one line a second: whoever guesses must not fill the disk. */
static int reject(struct hub *hub, struct hub_fail *f)
{
	uint64_t now = loop_now_ms(hub->loop);

	hub->n.keys_refused++;
	if (now - hub->refused_ms > 1000) {
		struct buf b;

		hub->refused_ms = now;
		buf_init(&b, 256);
		json_u64(&b, "count", hub->n.keys_refused);
		record_audit(hub, NULL, "key.refused", NULL, &b);
		buf_done(&b);
		hub_log(hub, HUB_WARN, "key.refused", NULL, "", "count=%llu",
			(unsigned long long)hub->n.keys_refused);
	}
	return hub_fail(f, HUB_UNAUTHENTICATED,
		"this request needs an API key that is good here: 'ward key create' makes one");
}

int hub_authenticate(struct hub *hub, const char *key, struct hub_caller *ret, struct hub_fail *f)
{
	struct key_slot room = { 0 }, *s;
	uint8_t hash[SHA256_BYTES];
	char id[KEY_ID_LEN + 1];

	if (db_changed(hub->db))
		tenant_refresh(hub);
	if (!key || !key_parse(key, id))
		return reject(hub, f);
	key_hash(key, hash);
	s = look_up(hub, id, &room);
	if (!s || !key_hash_eq(s->hash, hash) || !s->good)
		return reject(hub, f);
	ret->is_operator = ret->is_plane = false;
	str_copy(ret->tenant, sizeof(ret->tenant), s->tenant);
	str_copy(ret->key_id, sizeof(ret->key_id), id);
	note_use(hub, s, ret);
	return 0;
}

int hub_operator(const char *tenant, struct hub_caller *ret, struct hub_fail *f)
{
	if (!tenant || !*tenant)
		tenant = "default";
	if (!tenant_is_valid(tenant))
		return hub_fail(f, HUB_INVALID,
			"a tenant's name has up to %d characters of a-z, 0-9, '-', '_' and '.'",
			HUB_TENANT_MAX);
	ret->is_operator = true;
	ret->is_plane = false;
	ret->key_id[0] = '\0';
	return str_copy(ret->tenant, sizeof(ret->tenant), tenant);
}

void hub_caller_trace(struct hub_caller *caller, const char *traceparent)
{
	static const char hex[] = "0123456789abcdef";
	static const char zeros[] = "00000000000000000000000000000000";

	caller->trace[0] = '\0';
	if (!traceparent || strlen(traceparent) < 55 || strspn(traceparent, hex) != 2 ||
		str_after(traceparent, "ff") || traceparent[2] != '-' ||
		strspn(traceparent + 3, hex) != 32 || traceparent[35] != '-' ||
		strspn(traceparent + 36, hex) != 16 || traceparent[52] != '-' ||
		strspn(traceparent + 53, hex) != 2 || strncmp(traceparent + 3, zeros, 32) == 0 ||
		(traceparent[55] && traceparent[55] != '-'))
		return;
	str_fmt(caller->trace, sizeof(caller->trace), "%.32s", traceparent + 3);
}
