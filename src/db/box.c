/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/box.c - sandboxes and the journal of their steps.
 *
 * Owns:  the tables sandboxes and journal.
 * Rules: a state changes only together with its line in the journal.
 */
#include <errno.h>

#include "db/db_impl.h"

static void bind_int(sqlite3_stmt *s, int at, int64_t v)
{
	sqlite3_bind_int64(s, at, v);
}

#define bind_TEXT db_bind_text
#define bind_INT bind_int
#define bind_BLOB db_bind_blob
#define read_TEXT(s, col) ((sqlite3_column_type(s, col) == SQLITE_NULL) ? NULL : db_text(s, col))
#define read_INT(s, col) sqlite3_column_int64(s, col)
#define read_BLOB(s, col) db_blob(s, col)

int db_box_insert(struct db *db, const struct db_box *box, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_INSERT, e);
	int at = 0;

	if (!s)
		return -EIO;
#define DB_COL(name, kind) bind_##kind(s, ++at, box->name);
#include "db/columns.def"
#undef DB_COL
	return db_run(db, s, "writing a sandbox down", e);
}

static void read_box(sqlite3_stmt *s, struct db_box *ret)
{
	int at = 0;

#define DB_COL(name, kind)                                                                         \
	ret->name = read_##kind(s, at);                                                            \
	at++;
#include "db/columns.def"
#undef DB_COL
}

int db_box_get(struct db *db, const char *id, db_box_fn *fn, void *arg, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_GET, e);
	struct db_box box;
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, id);
	r = db_row(db, s, "looking for a sandbox", e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_say(e, ENOENT, "there is no sandbox '%s'", id);
	read_box(s, &box);
	return fn(arg, &box);
}

int db_box_each(
	struct db *db, const struct db_range *range, db_box_fn *fn, void *arg, struct err *e)
{
	bool down = range->descending, first = !range->from_id || !range->from_id[0];
	own_stmt sqlite3_stmt *s = db_stmt(db, down ? DB_BOX_EACH_DOWN : DB_BOX_EACH, e);
	struct db_box box;
	int r;

	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, range->states);
	db_bind_text(s, 2, range->tenant);
	sqlite3_bind_int64(s, 3, !first ? range->from_us : down ? INT64_MAX : INT64_MIN);
	db_bind_text(s, 4, first ? "" : range->from_id);
	while ((r = db_row(db, s, "listing sandboxes", e)) > 0) {
		read_box(s, &box);
		r = fn(arg, &box);
		if (r)
			return r;
	}
	return r;
}

static int step_insert(struct db *db, const struct db_step *step, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_STEP_INSERT, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, step->id);
	sqlite3_bind_int64(s, 2, step->at_us);
	sqlite3_bind_int64(s, 3, step->from);
	sqlite3_bind_int64(s, 4, step->to);
	db_bind_text(s, 5, step->reason);
	db_bind_text(s, 6, step->trace);
	return db_run(db, s, "writing the journal", e);
}

/* The state, its reason, its time and the state it must be in now: ?@at and those behind it. */
static int run_step(
	struct db *db, sqlite3_stmt *s, int at, const struct db_step *step, struct err *e)
{
	int r;

	db_bind_text(s, 1, step->id);
	sqlite3_bind_int64(s, at, step->to);
	db_bind_text(s, at + 1, step->reason);
	sqlite3_bind_int64(s, at + 2, step->at_us);
	sqlite3_bind_int64(s, at + 3, step->from);
	r = db_run(db, s, "writing a state", e);
	if (r == 0 && sqlite3_changes(db->h) != 1)
		r = err_say(e, ESTALE, "sandbox '%s' is not in the state that it should be in",
			step->id);
	return r;
}

static int step_row(struct db *db, const struct db_step *step, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_STEP, e);

	return s ? run_step(db, s, 2, step, e) : -EIO;
}

int db_box_step_with(struct db *db, const struct db_step *step, const struct db_box *box,
	db_also_fn *also, struct err *e)
{
	int r = db_begin(db, e);

	if (r < 0)
		return r;
	/* A new one has its row from db_box_insert(), in its first state. */
	if (also)
		r = also(db, step, box, e);
	else if (step->from != step->to)
		r = step_row(db, step, e);
	if (r == 0)
		r = step_insert(db, step, e);
	if (r < 0) {
		db_rollback(db);
		return r;
	}
	return db_commit(db, e);
}

int db_box_step(struct db *db, const struct db_step *step, struct err *e)
{
	return db_box_step_with(db, step, NULL, NULL, e);
}

int db_step_each(struct db *db, const char *id, int (*fn)(void *arg, const struct db_step *step),
	void *arg, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_STEP_EACH, e);
	int r;

	if (!s)
		return -EIO;
	db_bind_text(s, 1, id);
	while ((r = db_row(db, s, "reading the journal", e)) > 0) {
		struct db_step step = {
			.id = id,
			.at_us = sqlite3_column_int64(s, 0),
			.from = sqlite3_column_int(s, 1),
			.to = sqlite3_column_int(s, 2),
			.reason = db_text(s, 3),
		};

		r = fn(arg, &step);
		if (r)
			return r;
	}
	return r;
}

/* An UPDATE of one row: it must be there. */
static int run_on_row(struct db *db, sqlite3_stmt *s, const char *id, struct err *e)
{
	int r = db_run(db, s, "changing a sandbox", e);

	if (r == 0 && sqlite3_changes(db->h) != 1)
		r = err_say(e, ENOENT, "there is no sandbox '%s' in the database", id);
	return r;
}

static void bind_limits(sqlite3_stmt *s, int at, const struct db_box *box)
{
	sqlite3_bind_int64(s, at, box->memory_bytes);
	sqlite3_bind_int64(s, at + 1, box->disk_bytes);
	sqlite3_bind_int64(s, at + 2, box->cpu_milli);
	sqlite3_bind_int64(s, at + 3, box->pids);
}

int db_also_running(
	struct db *db, const struct db_step *step, const struct db_box *box, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_RUNNING, e);

	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 2, box->tier);
	db_bind_text(s, 3, box->tier_why);
	db_bind_text(s, 4, box->warning);
	bind_limits(s, 5, box);
	sqlite3_bind_int64(s, 9, box->deadline_us);
	sqlite3_bind_int64(s, 10, box->deadline_boot_us);
	return run_step(db, s, 11, step, e);
}

int db_also_claim(
	struct db *db, const struct db_step *step, const struct db_box *box, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_CLAIM, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 2, box->tenant);
	db_bind_text(s, 3, box->template_asked);
	sqlite3_bind_int64(s, 4, box->started_us);
	sqlite3_bind_int64(s, 5, box->deadline_us);
	sqlite3_bind_int64(s, 6, box->deadline_boot_us);
	sqlite3_bind_int64(s, 7, box->on_timeout);
	sqlite3_bind_int64(s, 8, box->auto_resume);
	db_bind_blob(s, 9, box->metadata);
	db_bind_blob(s, 10, box->env);
	db_bind_text(s, 11, box->run_user);
	db_bind_text(s, 12, box->workdir);
	db_bind_blob(s, 13, box->network);
	db_bind_text(s, 14, box->envd_token);
	db_bind_text(s, 15, box->traffic_token);
	db_bind_text(s, 16, box->trace);
	bind_limits(s, 17, box);
	db_bind_text(s, 21, box->tier_by);
	sqlite3_bind_int64(s, 22, box->timeout_ms);
	return run_step(db, s, 23, step, e);
}

int db_also_deadline(
	struct db *db, const struct db_step *step, const struct db_box *box, struct err *e)
{
	int r = db_box_deadline(db, box, e);

	return r < 0 ? r : step_row(db, step, e);
}

int db_box_deadline(struct db *db, const struct db_box *box, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_DEADLINE, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, box->id);
	sqlite3_bind_int64(s, 2, box->deadline_us);
	sqlite3_bind_int64(s, 3, box->deadline_boot_us);
	sqlite3_bind_int64(s, 4, box->timeout_ms);
	return run_on_row(db, s, box->id, e);
}

int db_box_limits(struct db *db, const struct db_box *box, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_LIMITS, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, box->id);
	bind_limits(s, 2, box);
	return run_on_row(db, s, box->id, e);
}

int db_box_network(struct db *db, const struct db_box *box, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, DB_BOX_NETWORK, e);

	if (!s)
		return -EIO;
	db_bind_text(s, 1, box->id);
	db_bind_blob(s, 2, box->network);
	return run_on_row(db, s, box->id, e);
}
