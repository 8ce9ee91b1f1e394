/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/end.c - how sandboxes ended, and when they are forgotten.
 *
 * Owns:  the table ends; removing rows.
 */
#include <errno.h>

#include "base/id.h"
#include "base/str.h"
#include "db/db_impl.h"

static int run_with_id(struct db *db, enum db_sql which, const char *id, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, which, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, id);
	return db_run(db, s, "forgetting a sandbox", e);
}

static int end_write(struct db *db, const struct db_end *end, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_END_INSERT, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, end->id);
	db_bind_text(s, 2, end->cause);
	db_bind_text(s, 3, end->detail);
	db_bind_text(s, 4, end->step);
	sqlite3_bind_int64(s, 5, end->status);
	sqlite3_bind_int64(s, 6, end->at_us);
	db_bind_text(s, 7, end->report);
	db_bind_blob(s, 8, end->output);
	db_bind_blob(s, 9, end->samples);
	return db_run(db, s, "writing an end down", e);
}

int db_end_insert(struct db *db, const struct db_end *end, struct err *e)
{
	int r = db_begin(db, e);

	if (r < 0)
		return r;
	r = end_write(db, end, e);
	if (r == 0)
		r = run_with_id(db, DB_BOX_FORGET, end->id, e);
	if (r < 0) {
		db_rollback(db);
		return r;
	}
	return db_commit(db, e);
}

int db_end_get(struct db *db, const char *id, int (*fn)(void *arg, const struct db_end *end),
	void *arg, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_END_GET, e);
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, id);
	r = db_row(db, s, "looking for an end", e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_say(e, ENOENT, "sandbox '%s' has no end yet", id);

	struct db_end end = {
		.id = id,
		.cause = db_text(s, 0),
		.detail = db_text(s, 1),
		.step = db_text(s, 2),
		.status = sqlite3_column_int(s, 3),
		.at_us = sqlite3_column_int64(s, 4),
		.report = db_text(s, 5),
		.output = db_blob(s, 6),
		.samples = db_blob(s, 7),
	};

	return fn(arg, &end);
}

static int delete_box(struct db *db, const char *id, struct err *e)
{
	int r = run_with_id(db, DB_END_DELETE, id, e);

	if (r == 0)
		r = run_with_id(db, DB_STEP_DELETE, id, e);
	if (r == 0)
		r = run_with_id(db, DB_BOX_DELETE, id, e);
	return r;
}

static int prune(struct db *db, sqlite3_stmt *s, struct err *e)
{
	int r, count = 0;

	while ((r = db_row(db, s, "looking for what is old", e)) > 0) {
		char id[ID_LEN + 1];

		if (str_copy(id, sizeof(id), db_text(s, 0)) < 0)
			continue; /* not one of ours; it shows in `ward ls`, and harms nobody */
		r = delete_box(db, id, e);
		if (r < 0)
			return r;
		count++;
	}
	return r < 0 ? r : count;
}

int db_prune(struct db *db, unsigned states, int64_t before_us, unsigned keep, unsigned max,
	struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_OLD, e);
	int r, count;

	if (!s)
		return -EIO;
	r = db_begin(db, e);
	if (r < 0)
		return r;
	sqlite3_bind_int64(s, 1, states);
	sqlite3_bind_int64(s, 2, before_us);
	sqlite3_bind_int64(s, 3, keep);
	sqlite3_bind_int64(s, 4, max);
	count = prune(db, s, e);
	sqlite3_reset(s);
	if (count < 0) {
		db_rollback(db);
		return count;
	}
	r = db_commit(db, e);
	return r < 0 ? r : count;
}

int db_trim_journal(struct db *db, unsigned keep, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_STEP_TRIM, e);

	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, keep);
	return db_run(db, s, "shortening the journal", e);
}
