/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/stmt.c - prepared statements, and what SQLite's answers mean here.
 *
 * Owns:  the texts of the statements.
 * Rules: a statement is reset before its function returns (own_stmt), so that no read lock outlives
 *        it and the log of writes can be emptied.
 */
#include <errno.h>

#include "base/str.h"
#include "db/db_impl.h"

/* "id, tenant, ..." and "?, ?, ..." without a comma too many. */
#define DB_COL(name, kind) ", " #name
static const char box_names[] =
#include "db/columns.def"
	;
#undef DB_COL
#define DB_COL(name, kind) ", ?"
static const char box_marks[] =
#include "db/columns.def"
	;
#undef DB_COL

/* Stand-ins that make_sql() fills. */
#define DB_BOX_NAMES "\001"
#define DB_BOX_MARKS "\002"
#define DB_SNAP_NAMES                                                                              \
	"id, tenant, name, sandbox, template_asked, template_used, state, tier, bytes, "           \
	"created_us, memory_bytes, disk_bytes, cpu_milli, pids, run_user, workdir, env"
static const char *const texts[] = {
#define DB_SQL(name, text) text,
#include "db/statements.def"
#undef DB_SQL
};

int db_error(struct db *db, int rc, const char *doing, struct err *e)
{
	const char *path = db->path;

	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_say(
			e, EBUSY, "the database '%s' is held by another program: %s", path, doing);
	case SQLITE_FULL:
		return err_say(e, ENOSPC, "the database '%s': the disk is full: %s", path, doing);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return err_say(e, EBADMSG,
			"the database '%s' is damaged (%s); restore it from a copy, or move it "
			"away "
			"to start anew",
			path, db->h ? sqlite3_errmsg(db->h) : sqlite3_errstr(rc));
	case SQLITE_CONSTRAINT:
		return err_say(e, EEXIST, "the database '%s': %s: there already", path, doing);
	case SQLITE_NOMEM:
		return err_set(e, ENOMEM, "the database '%s'", path);
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return err_say(e, EACCES, "the database '%s' cannot be written: %s", path, doing);
	default:
		return err_say(e, EIO, "the database '%s': %s: %s", path, doing,
			db->h ? sqlite3_errmsg(db->h) : sqlite3_errstr(rc));
	}
}

static void put(char *out, size_t cap, size_t *at, const char *text)
{
	for (; *text && *at + 1 < cap; text++)
		out[(*at)++] = *text;
	out[*at] = '\0';
}

static void make_sql(const char *text, char *out, size_t cap)
{
	size_t at = 0;

	for (; *text; text++) {
		const char one[2] = { *text, '\0' };

		put(out, cap, &at,
			*text == DB_BOX_NAMES[0]   ? box_names + 2
			: *text == DB_BOX_MARKS[0] ? box_marks + 2
						   : one);
	}
}

sqlite3_stmt *db_stmt(struct db *db, enum db_sql which, struct err *e)
{
	char sql[2048];
	int rc;

	if (db->stmts[which])
		return db->stmts[which];
	make_sql(texts[which], sql, sizeof(sql));
	rc = sqlite3_prepare_v3(db->h, sql, -1, SQLITE_PREPARE_PERSISTENT, &db->stmts[which], NULL);
	if (rc != SQLITE_OK) {
		db_error(db, rc, "preparing a statement", e);
		return NULL;
	}
	return db->stmts[which];
}

void db_stmt_done(sqlite3_stmt **s)
{
	if (!*s)
		return;
	sqlite3_reset(*s);
	sqlite3_clear_bindings(*s);
}

/* The caller's text outlives the statement's use: it is reset in the same function. */
void db_bind_text(sqlite3_stmt *s, int at, const char *text)
{
	if (text)
		sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
	else
		sqlite3_bind_null(s, at);
}

void db_bind_blob(sqlite3_stmt *s, int at, struct db_blob blob)
{
	if (blob.data)
		sqlite3_bind_blob64(s, at, blob.data, blob.len, SQLITE_STATIC);
	else
		sqlite3_bind_null(s, at);
}

const char *db_text(sqlite3_stmt *s, int col)
{
	const char *text = (const char *)sqlite3_column_text(s, col);

	return text ? text : "";
}

struct db_blob db_blob(sqlite3_stmt *s, int col)
{
	struct db_blob b = { .data = sqlite3_column_blob(s, col) };

	b.len = (size_t)sqlite3_column_bytes(s, col);
	return b;
}

int db_row(struct db *db, sqlite3_stmt *s, const char *doing, struct err *e)
{
	int rc = sqlite3_step(s);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : db_error(db, rc, doing, e);
}

int db_run(struct db *db, sqlite3_stmt *s, const char *doing, struct err *e)
{
	int r;

	while ((r = db_row(db, s, doing, e)) > 0)
		;
	return r;
}
