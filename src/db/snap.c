/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/snap.c - which snapshots there are, and what each was taken of.
 *
 * Owns:  the table snapshots.
 */
#include <errno.h>

#include "db/db_impl.h"

int db_snap_insert(struct db *db, const struct db_snap *snap, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_SNAP_INSERT, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, snap->id);
	db_bind_text(s, 2, snap->tenant);
	db_bind_text(s, 3, snap->name);
	db_bind_text(s, 4, snap->sandbox);
	db_bind_text(s, 5, snap->template_asked);
	db_bind_text(s, 6, snap->template_used);
	sqlite3_bind_int64(s, 7, snap->state);
	sqlite3_bind_int64(s, 8, snap->tier);
	sqlite3_bind_int64(s, 9, snap->bytes);
	sqlite3_bind_int64(s, 10, snap->created_us);
	sqlite3_bind_int64(s, 11, snap->memory_bytes);
	sqlite3_bind_int64(s, 12, snap->disk_bytes);
	sqlite3_bind_int64(s, 13, snap->cpu_milli);
	sqlite3_bind_int64(s, 14, snap->pids);
	db_bind_text(s, 15, snap->run_user);
	db_bind_text(s, 16, snap->workdir);
	db_bind_blob(s, 17, snap->env);
	return db_run(db, s, "writing a snapshot", e);
}

int db_snap_state(
	struct db *db, const char *id, enum db_snap_state state, int64_t bytes, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_SNAP_STATE, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, id);
	sqlite3_bind_int64(s, 2, state);
	sqlite3_bind_int64(s, 3, bytes);
	return db_run(db, s, "writing a snapshot", e);
}

int db_snap_delete(struct db *db, const char *id, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_SNAP_DELETE, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, id);
	return db_run(db, s, "removing a snapshot", e);
}

static const char *text_or_null(sqlite3_stmt *s, int col)
{
	return sqlite3_column_type(s, col) == SQLITE_NULL ? NULL : db_text(s, col);
}

static void read_row(sqlite3_stmt *s, struct db_snap *ret)
{
	*ret = (struct db_snap){
		.id = db_text(s, 0),
		.tenant = db_text(s, 1),
		.name = db_text(s, 2),
		.sandbox = db_text(s, 3),
		.template_asked = db_text(s, 4),
		.template_used = db_text(s, 5),
		.state = (enum db_snap_state)sqlite3_column_int64(s, 6),
		.tier = sqlite3_column_int64(s, 7),
		.bytes = sqlite3_column_int64(s, 8),
		.created_us = sqlite3_column_int64(s, 9),
		.memory_bytes = sqlite3_column_int64(s, 10),
		.disk_bytes = sqlite3_column_int64(s, 11),
		.cpu_milli = sqlite3_column_int64(s, 12),
		.pids = sqlite3_column_int64(s, 13),
		.run_user = text_or_null(s, 14),
		.workdir = text_or_null(s, 15),
		.env = db_blob(s, 16),
	};
}

static int each(struct db *db, sqlite3_stmt *s, db_snap_fn *fn, void *arg, struct err *e)
{
	int r;

	while ((r = db_row(db, s, "reading snapshots", e)) > 0) {
		struct db_snap snap;

		read_row(s, &snap);
		r = fn(arg, &snap);
		if (r)
			return r;
	}
	return r;
}

int db_snap_each(struct db *db, const char *tenant, db_snap_fn *fn, void *arg, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_SNAP_EACH, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, tenant);
	return each(db, s, fn, arg, e);
}

struct first {
	db_snap_fn *fn;
	void *arg;
	bool seen;
	int r;
};

static int take_first(void *arg, const struct db_snap *snap)
{
	struct first *f = arg;

	f->seen = true;
	f->r = f->fn(f->arg, snap);
	return 1;
}

int db_snap_get(struct db *db, const char *tenant, const char *word, db_snap_fn *fn, void *arg,
	struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_SNAP_GET, e);
	struct first f = { .fn = fn, .arg = arg };
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, tenant);
	db_bind_text(s, 2, word);
	r = each(db, s, take_first, &f, e);
	if (r < 0)
		return r;
	return f.seen ? f.r : err_say(e, ENOENT, "there is no snapshot '%.60s'", word);
}

int db_snap_sum(
	struct db *db, const char *tenant, int64_t *ret_count, int64_t *ret_bytes, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_SNAP_SUM, e);
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, tenant);
	r = db_row(db, s, "counting snapshots", e);
	if (r <= 0)
		return r < 0 ? r : -EIO;
	*ret_count = sqlite3_column_int64(s, 0);
	*ret_bytes = sqlite3_column_int64(s, 1);
	return 0;
}
