/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/key.c - keys and the tenants that they speak for.
 *
 * Owns:  the tables keys and tenants.
 * Rules: a key itself never gets here: its hash does.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "db/db_impl.h"

static void bind_said(sqlite3_stmt *s, int at, int64_t v)
{
	if (v < 0)
		sqlite3_bind_null(s, at);
	else
		sqlite3_bind_int64(s, at, v);
}

static int64_t read_said(sqlite3_stmt *s, int col)
{
	return sqlite3_column_type(s, col) == SQLITE_NULL ? -1 : sqlite3_column_int64(s, col);
}

int db_tenant_put(struct db *db, const struct db_tenant *t, int64_t now_us, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_TENANT_PUT, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, t->name);
	bind_said(s, 2, t->sandboxes);
	bind_said(s, 3, t->memory_bytes);
	bind_said(s, 4, t->cpu_milli);
	bind_said(s, 5, t->creates_micro);
	sqlite3_bind_int64(s, 6, now_us);
	return db_run(db, s, "writing a tenant", e);
}

int db_tenant_get(struct db *db, const char *name, struct db_tenant *ret, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_TENANT_GET, e);
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, name);
	r = db_row(db, s, "looking for a tenant", e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_say(e, ENOENT, "nothing is known about tenant '%s'", name);
	*ret = (struct db_tenant){ name, read_said(s, 1), read_said(s, 2), read_said(s, 3),
		read_said(s, 4) };
	return 0;
}

int db_key_insert(struct db *db, const struct db_key *key, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_KEY_INSERT, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, key->id);
	db_bind_text(s, 2, key->name);
	db_bind_text(s, 3, key->tenant);
	db_bind_blob(s, 4, (struct db_blob){ key->hash, sizeof(key->hash) });
	sqlite3_bind_int64(s, 5, key->created_us);
	return db_run(db, s, "writing a key", e);
}

/* False: the row is not one that db_key_insert() wrote. */
static bool read_key(sqlite3_stmt *s, struct db_key *ret)
{
	struct db_blob hash = db_blob(s, 3);

	if (hash.len != sizeof(ret->hash))
		return false;
	memcpy(ret->hash, hash.data, hash.len);
	ret->id = db_text(s, 0);
	ret->name = db_text(s, 1);
	ret->tenant = db_text(s, 2);
	ret->created_us = sqlite3_column_int64(s, 4);
	ret->revoked_us = sqlite3_column_int64(s, 5);
	return true;
}

int db_key_get(struct db *db, const char *id, db_key_fn *fn, void *arg, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_KEY_GET, e);
	struct db_key key;
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, id);
	r = db_row(db, s, "looking for a key", e);
	if (r < 0)
		return r;
	if (r == 0 || !read_key(s, &key))
		return err_say(e, ENOENT, "there is no such key");
	return fn(arg, &key);
}

int db_key_each(struct db *db, db_key_fn *fn, void *arg, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_KEY_EACH, e);
	struct db_key key;
	int r;

	if (!s)
		return -EIO;
	while ((r = db_row(db, s, "listing keys", e)) > 0) {
		r = read_key(s, &key) ? fn(arg, &key) : 0;
		if (r)
			return r;
	}
	return r;
}

int db_key_revoke(struct db *db, const char *word, int64_t now_us, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_KEY_REVOKE, e);
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, word);
	sqlite3_bind_int64(s, 2, now_us);
	r = db_run(db, s, "revoking a key", e);
	if (r == 0 && sqlite3_changes(db->h) == 0)
		r = err_say(e, ENOENT, "there is no key '%s' that is still good", word);
	return r;
}
