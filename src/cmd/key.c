/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/key.c - `ward key`: who may use the daemon's API.
 *
 * Owns:  the words on the screen. The daemon reads the same database, so every change holds at
 * once. Rules: the key itself is printed once, alone on standard output, and written nowhere.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/listing.h"
#include "db/db.h"
#include "hub/config.h"
#include "hub/key.h"
#include "store/audit.h"
#include "store/state.h"

struct key_request {
	const char *name, *tenant;
	struct db_tenant limits;
};

static int set_limit(struct db_tenant *t, const char *name, const char *value, struct err *e)
{
	uint64_t v = 0;
	int64_t rate = 0;
	int r = -ENOENT;

	if (str_eq(name, "sandboxes") && (r = parse_u64(value, 0, 1 << 20, &v)) == 0)
		t->sandboxes = (int64_t)v;
	if (str_eq(name, "memory") && (r = parse_size(value, 0, 1ull << 50, &v)) == 0)
		t->memory_bytes = (int64_t)v;
	if (str_eq(name, "cpus") && (r = parse_milli(value, 0, 1000000000, &v)) == 0)
		t->cpu_milli = (int64_t)v;
	if (str_eq(name, "creates") && (r = parse_rate(value, &rate)) == 0)
		t->creates_micro = rate;
	if (r == -ENOENT)
		return err_say(e, EINVAL,
			"create: --limit knows sandboxes=N, memory=SIZE, cpus=N and creates=N/s, "
			"not '%s'",
			name);
	return r < 0 ? err_say(e, EINVAL,
			       "create: --limit %s=%s is not accepted: sandboxes=N, memory=512M, "
			       "cpus=1.5, creates=10/s",
			       name, value)
		     : 0;
}

/* "k=v,k=v" */
static int read_limits(struct db_tenant *t, const char *text, struct err *e)
{
	own_mem char *copy = strdup(text);
	char *save = NULL;

	if (!copy)
		return err_set(e, ENOMEM, "reading --limit");
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(p, '=');
		int r;

		if (!eq)
			return err_say(
				e, EINVAL, "create: --limit is k=v[,k=v...], not '%s'", text);
		*eq = '\0';
		r = set_limit(t, p, eq + 1, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int audit(const char *state_dir, const char *event, const struct db_key *key, struct err *e)
{
	own_fd int fd = -1;
	struct buf b;
	int r = state_open(state_dir, &fd, e);

	if (r < 0)
		return r;
	buf_init(&b, 4096);
	json_str(&b, "key", key->id);
	json_str(&b, "name", key->name);
	json_str(&b, "tenant", key->tenant);
	json_i64(&b, "uid", getuid());
	r = audit_append(fd, event, &b, e);
	buf_done(&b);
	return r;
}

/* The audit line comes first: a key that nobody wrote down must not work. */
static int insert(const char *state_dir, struct db *db, const struct key_request *q,
	char text[KEY_TEXT + 1], struct err *e)
{
	struct db_key key = { .name = q->name, .tenant = q->tenant, .created_us = clock_now_us() };
	char id[KEY_ID_LEN + 1];
	int r = key_make(text);

	if (r < 0 || !key_parse(text, id))
		return err_set(e, EIO, "making a key");
	key.id = id;
	key_hash(text, key.hash);
	r = db_begin(db, e);
	if (r == 0)
		r = db_tenant_put(db, &q->limits, key.created_us, e);
	if (r == 0)
		r = db_key_insert(db, &key, e);
	if (r == -EEXIST)
		err_say(e, EEXIST,
			"create: there is a key '%s' already; choose another name, or revoke it",
			q->name);
	if (r == 0)
		r = audit(state_dir, "key.created", &key, e);
	if (r < 0) {
		db_rollback(db);
		return r;
	}
	return db_commit(db, e);
}

static int create(const char *state_dir, const struct key_request *q, struct err *e)
{
	own_fd int state = -1;
	char text[KEY_TEXT + 1];
	struct db *db = NULL;
	int r = state_open(state_dir, &state, e);

	if (r == 0)
		r = db_open(state_dir, DB_TOOL, &db, e);
	if (r == 0)
		r = insert(state_dir, db, q, text, e);
	db_close(db);
	if (r == 0 && (printf("%s\n", text) < 0 || fflush(stdout) != 0))
		r = err_say(e, EIO,
			"create: the key could not be written to standard output; revoke '%s' and "
			"make another",
			q->name);
	explicit_bzero(text, sizeof(text));
	return r;
}

static int key_create(int argc, char **argv, const struct globals *g)
{
	struct key_request q = { .tenant = "default", .limits = { NULL, -1, -1, -1, -1 } };
	struct err e = { 0 };
	const char *value;
	int r;

	for (int i = 1; i < argc; i++) {
		if ((r = cmd_value(argv, &i, "--tenant", &value, &e)) != 0) {
			q.tenant = value;
		} else if ((r = cmd_value(argv, &i, "--limit", &value, &e)) != 0) {
			if (r > 0)
				r = read_limits(&q.limits, value, &e);
		} else if (argv[i][0] == '-' || q.name) {
			return cmd_usage("key",
				"create: '%s' is not accepted: NAME, --tenant and --limit",
				argv[i]);
		} else {
			q.name = argv[i];
		}
		if (r < 0)
			return cmd_fail("key", &e);
	}
	if (!q.name)
		return cmd_usage("key", "create: give the key a name; see 'ward help key'");
	if (!key_name_is_valid(q.name) || !tenant_is_valid(q.tenant))
		return cmd_usage("key",
			"create: a name has up to 64 letters, digits, '-', '_' and '.'; a tenant's "
			"letters are lower-case");
	q.limits.name = q.tenant;
	return create(g->state_dir, &q, &e) < 0 ? cmd_fail("key", &e) : 0;
}

static void add_limit(struct buf *b, const char *key, int64_t v)
{
	if (v < 0)
		json_null(b, key);
	else
		json_i64(b, key, v);
}

static int list_one(void *arg, const struct db_key *key)
{
	struct listing *l = arg;
	struct db_tenant t = { key->tenant, -1, -1, -1, -1 };
	char created[CLOCK_TEXT], revoked[CLOCK_TEXT] = "";

	clock_text_at(key->created_us, created);
	if (key->revoked_us)
		clock_text_at(key->revoked_us, revoked);
	db_tenant_get(l->db, key->tenant, &t, NULL);
	if (!l->json) {
		buf_add_fmt(&l->out, "%-12s %-24s %-20s %-19.19s  %s\n", key->id, key->name,
			key->tenant, created, key->revoked_us ? "revoked" : "good");
		return 0;
	}
	json_open(&l->out, NULL);
	json_str(&l->out, "id", key->id);
	json_str(&l->out, "name", key->name);
	json_str(&l->out, "tenant", key->tenant);
	json_str(&l->out, "created", created);
	json_str(&l->out, "revoked", key->revoked_us ? revoked : NULL);
	json_open(&l->out, "limits");
	add_limit(&l->out, "sandboxes", t.sandboxes);
	add_limit(&l->out, "memory_bytes", t.memory_bytes);
	add_limit(&l->out, "cpu_milli", t.cpu_milli);
	add_limit(&l->out, "creates_per_1000000s", t.creates_micro);
	json_close(&l->out);
	json_close(&l->out);
	return 0;
}

static int each_key(struct listing *l, struct err *e)
{
	return db_key_each(l->db, list_one, l, e);
}

static int key_ls(int argc, char **argv, const struct globals *g)
{
	static const struct listing_of keys = {
		.command = "key",
		.what = "keys",
		.head = "ID           NAME                     TENANT               CREATED        "
			"      STATE",
		.each = each_key,
	};

	return listing_show(&keys, argc, argv, g);
}

static int find_key(void *arg, const struct db_key *key)
{
	struct key_request *q = arg;

	if (key->revoked_us || (!str_eq(key->id, q->name) && !str_eq(key->name, q->name)))
		return 0;
	q->tenant = strdup(key->tenant);
	return 1;
}

static int end_key(const char *state_dir, const char *word, struct err *e)
{
	struct key_request q = { .name = word };
	struct db_key key = { .id = word, .name = word };
	struct db *db = NULL;
	int r = db_open(state_dir, DB_LOOK, &db, e);

	if (r == -ENOENT)
		return err_say(e, ENOENT, "revoke: there is no key '%s'", word);
	if (r == 0)
		r = db_key_each(db, find_key, &q, e);
	if (r == 0)
		r = err_say(e, ENOENT,
			"revoke: there is no key '%s' that is still good; 'ward key ls' lists them",
			word);
	/* It stops working first; that it did is written after. */
	if (r > 0)
		r = db_key_revoke(db, word, clock_now_us(), e);
	key.tenant = q.tenant;
	if (r == 0)
		r = audit(state_dir, "key.revoked", &key, e);
	free((char *)q.tenant);
	db_close(db);
	return r;
}

static int key_revoke(int argc, char **argv, const struct globals *g)
{
	struct err e = { 0 };

	if (argc != 2 || argv[1][0] == '-')
		return cmd_usage("key", "revoke: name one key, or give its id");
	return end_key(g->state_dir, argv[1], &e) < 0 ? cmd_fail("key", &e) : 0;
}

int cmd_key(int argc, char **argv, const struct globals *g)
{
	static const struct cmd_verb verbs[] = { { "create", key_create }, { "ls", key_ls },
		{ "revoke", key_revoke } };

	return cmd_verbs("key", verbs, ARRAY_LEN(verbs), argc, argv, g);
}
