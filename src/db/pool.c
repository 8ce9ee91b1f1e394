/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/pool.c - which pools there should be, and what they have done.
 *
 * Owns:  the table pools.
 */
#include <errno.h>

#include "db/db_impl.h"

int db_pool_put(struct db *db, const struct db_pool *pool, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_POOL_PUT, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, pool->template);
	sqlite3_bind_int64(s, 2, pool->min);
	sqlite3_bind_int64(s, 3, pool->max);
	db_bind_text(s, 4, pool->warm_up ? pool->warm_up : "");
	return db_run(db, s, "writing a pool", e);
}

int db_pool_delete(struct db *db, const char *template, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_POOL_DELETE, e);
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, template);
	r = db_run(db, s, "removing a pool", e);
	if (r == 0 && sqlite3_changes(db->h) == 0)
		r = err_say(e, ENOENT, "there is no pool of '%s'", template);
	return r;
}

int db_pool_each(
	struct db *db, int (*fn)(void *arg, const struct db_pool *pool), void *arg, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_POOL_EACH, e);
	int r;

	if (!s)
		return -EIO;
	while ((r = db_row(db, s, "listing pools", e)) > 0) {
		struct db_pool pool = {
			.template = db_text(s, 0),
			.min = sqlite3_column_int64(s, 1),
			.max = sqlite3_column_int64(s, 2),
			.warm_up = db_text(s, 3),
			.hits = sqlite3_column_int64(s, 4),
			.misses = sqlite3_column_int64(s, 5),
			.made = sqlite3_column_int64(s, 6),
			.shrunk = sqlite3_column_int64(s, 7),
			.trouble = db_text(s, 8),
		};

		r = fn(arg, &pool);
		if (r)
			return r;
	}
	return r;
}

int db_pool_count(struct db *db, const struct db_pool *add, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_POOL_COUNT, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, add->template);
	sqlite3_bind_int64(s, 2, add->hits);
	sqlite3_bind_int64(s, 3, add->misses);
	sqlite3_bind_int64(s, 4, add->made);
	sqlite3_bind_int64(s, 5, add->shrunk);
	return db_run(db, s, "counting for a pool", e);
}

int db_pool_trouble(struct db *db, const char *template, const char *trouble, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_POOL_TROUBLE, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, template);
	db_bind_text(s, 2, trouble);
	return db_run(db, s, "noting a pool's trouble", e);
}
