/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/schema.c - what the tables look like, and how an older file becomes a newer one.
 *
 * Owns:  the version of the schema (SQLite's user_version), and each step to it.
 * Rules: a step that has been released never changes; a new file goes through all of them. A step
 *        is one transaction: it is done, version included, or it has not happened.
 */
#include <errno.h>

#include "base/ckd.h"
#include "base/own.h"
#include "db/db_impl.h"

const struct db_migration db_migrations[] = {
	/* clang-format off */
	{ "CREATE TABLE sandboxes("
		"id TEXT PRIMARY KEY NOT NULL, tenant TEXT NOT NULL, template_asked TEXT NOT NULL,"
		"template_used TEXT NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL,"
		"state_us INTEGER NOT NULL, tier INTEGER NOT NULL, tier_why TEXT NOT NULL,"
		"warning TEXT NOT NULL, tier_by TEXT NOT NULL, from_pool INTEGER NOT NULL,"
		"created_us INTEGER NOT NULL, started_us INTEGER NOT NULL,"
		"deadline_us INTEGER NOT NULL, deadline_boot_us INTEGER NOT NULL,"
		"boot_id TEXT NOT NULL, timeout_ms INTEGER NOT NULL,"
		"on_timeout INTEGER NOT NULL, auto_resume INTEGER NOT NULL,"
		"memory_bytes INTEGER NOT NULL, disk_bytes INTEGER NOT NULL,"
		"cpu_milli INTEGER NOT NULL, pids INTEGER NOT NULL, metadata BLOB, env BLOB,"
		"run_user TEXT, workdir TEXT, network BLOB, envd_token TEXT, traffic_token TEXT,"
		"trace TEXT) STRICT;"
	  "CREATE INDEX sandboxes_by_start ON sandboxes(started_us, id);"
	  "CREATE TABLE journal("
		"seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, at_us INTEGER NOT NULL,"
		"from_state INTEGER NOT NULL, to_state INTEGER NOT NULL, reason TEXT NOT NULL,"
		"trace TEXT) STRICT;"
	  "CREATE INDEX journal_by_id ON journal(id, seq);"
	  "CREATE TABLE ends("
		"id TEXT PRIMARY KEY NOT NULL, cause TEXT NOT NULL, detail TEXT NOT NULL,"
		"step TEXT NOT NULL, status INTEGER NOT NULL, at_us INTEGER NOT NULL,"
		"report TEXT NOT NULL, output BLOB, samples BLOB) STRICT;"
	  "CREATE TABLE tenants("
		"name TEXT PRIMARY KEY NOT NULL, sandboxes INTEGER, memory_bytes INTEGER,"
		"cpu_milli INTEGER, creates_micro INTEGER, created_us INTEGER NOT NULL) STRICT;"
	  "CREATE TABLE keys("
		"id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, tenant TEXT NOT NULL,"
		"hash BLOB NOT NULL, created_us INTEGER NOT NULL,"
		"revoked_us INTEGER NOT NULL DEFAULT 0) STRICT;"
	  "CREATE UNIQUE INDEX keys_by_name ON keys(name) WHERE revoked_us = 0;"
	  "CREATE TABLE pools("
		"template TEXT PRIMARY KEY NOT NULL, min INTEGER NOT NULL, max INTEGER NOT NULL,"
		"warm_up TEXT NOT NULL, hits INTEGER NOT NULL DEFAULT 0,"
		"misses INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0,"
		"shrunk INTEGER NOT NULL DEFAULT 0, trouble TEXT NOT NULL DEFAULT '') STRICT;" },
	{ "CREATE TABLE snapshots("
		"id TEXT PRIMARY KEY NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL,"
		"sandbox TEXT NOT NULL, template_asked TEXT NOT NULL, template_used TEXT NOT NULL,"
		"state INTEGER NOT NULL, tier INTEGER NOT NULL, bytes INTEGER NOT NULL,"
		"created_us INTEGER NOT NULL, memory_bytes INTEGER NOT NULL,"
		"disk_bytes INTEGER NOT NULL, cpu_milli INTEGER NOT NULL, pids INTEGER NOT NULL,"
		"run_user TEXT, workdir TEXT, env BLOB) STRICT;"
	  "CREATE INDEX snapshots_by_tenant ON snapshots(tenant, created_us);" },
	/* AUTOINCREMENT cost each step of each sandbox one more page; a number that is given out again
	 * after its line is gone hurts nobody. */
	{ "CREATE TABLE steps(seq INTEGER PRIMARY KEY, id TEXT NOT NULL, at_us INTEGER NOT NULL,"
		"from_state INTEGER NOT NULL, to_state INTEGER NOT NULL, reason TEXT NOT NULL,"
		"trace TEXT) STRICT;"
	  "INSERT INTO steps SELECT seq, id, at_us, from_state, to_state, reason, trace FROM journal;"
	  "DROP TABLE journal; ALTER TABLE steps RENAME TO journal;"
	  "CREATE INDEX journal_by_id ON journal(id, seq);" },
	/* One more page of each create and claim, for lists of what has ended: these sort instead. */
	{ "DROP INDEX sandboxes_by_start;" },
	/* clang-format on */
};
const unsigned db_migration_count = ARRAY_LEN(db_migrations);

static int read_version(struct db *db, int64_t *ret, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db->h, "PRAGMA user_version", -1, &s, NULL);
	int r = 0;

	if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW)
		*ret = sqlite3_column_int64(s, 0);
	else
		r = db_error(db, rc, "reading its version", e);
	sqlite3_finalize(s);
	return r;
}

static int exec(struct db *db, const char *sql, const char *doing, struct err *e)
{
	int rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_error(db, rc, doing, e);
}

/* The lock first, then the version: two wards may open an old file at the same time. */
static int one_step(struct db *db, const struct db_migration *steps, unsigned count, bool *ret_done,
	struct err *e)
{
	char set[64];
	int64_t version = 0;
	int r = exec(db, "BEGIN IMMEDIATE", "locking it for a change of its tables", e);

	if (r < 0)
		return r;
	r = read_version(db, &version, e);
	if (r == 0 && version > count)
		r = err_say(e, EPROTONOSUPPORT,
			"the database '%s' is of version %lld and this ward knows %u; use the "
			"newer ward, or another --state-dir",
			db->path, (long long)version, count);
	*ret_done = r == 0 && version == count;
	if (r == 0 && !*ret_done) {
		snprintf(set, sizeof(set), "PRAGMA user_version = %lld", (long long)version + 1);
		r = exec(db, steps[version].sql, "changing its tables", e);
		if (r == 0)
			r = exec(db, set, "changing its version", e);
	}
	if (r == 0)
		r = exec(db, "COMMIT", "changing its tables", e);
	if (r < 0)
		sqlite3_exec(db->h, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

int db_migrate(struct db *db, const struct db_migration *steps, unsigned count, struct err *e)
{
	int64_t version = -1;
	bool done = false;
	int r = read_version(db, &version, e);

	if (r < 0 || version == count)
		return r;
	while (r == 0 && !done)
		r = one_step(db, steps, count, &done, e);
	return r;
}
