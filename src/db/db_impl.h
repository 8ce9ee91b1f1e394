/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_DB_DB_IMPL_H
#define WARD_DB_DB_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sqlite3.h>

#include "db/db.h"

/* What the files of db/ share. */
enum db_sql {
#define DB_SQL(name, text) DB_##name,
#include "db/statements.def"
#undef DB_SQL
	DB_SQL_COUNT,
};

struct db {
	sqlite3 *h;
	sqlite3_stmt *stmts[DB_SQL_COUNT];
	char path[4096];
	int depth;       /* in a transaction of db_begin() */
	int64_t version; /* PRAGMA data_version at the last db_changed() */
	int wal_pages;   /* after the last commit */
	/* change.c: our commits to the log, and what its index said after so many of them. */
	uint32_t commits, counter, counter_commits;
	bool counted;
};

/* The negative errno for what SQLite said, with the message in @e. */
int db_error(struct db *db, int rc, const char *doing, struct err *e);

/* A statement, reset and without bindings; NULL with @e filled. */
sqlite3_stmt *db_stmt(struct db *db, enum db_sql which, struct err *e);
void db_stmt_done(sqlite3_stmt **s); /* resets it; NULL is fine */
#define own_stmt __attribute__((cleanup(db_stmt_done)))

void db_bind_text(sqlite3_stmt *s, int at, const char *text);
void db_bind_blob(sqlite3_stmt *s, int at, struct db_blob blob);
const char *db_text(sqlite3_stmt *s, int col); /* never NULL */
struct db_blob db_blob(sqlite3_stmt *s, int col);

/* Runs a statement that gives no rows. 0 or a negative errno. */
int db_run(struct db *db, sqlite3_stmt *s, const char *doing, struct err *e);
/* 1: a row. 0: no more. Negative: an error. */
int db_row(struct db *db, sqlite3_stmt *s, const char *doing, struct err *e);

/* One step of the schema: from version @n (its index) to @n + 1. */
struct db_migration {
	const char *sql;
};
extern const struct db_migration db_migrations[];
extern const unsigned db_migration_count;
/* Brings the file to version @count, one step and one transaction at a time. */
int db_migrate(struct db *db, const struct db_migration *steps, unsigned count, struct err *e);

#endif
