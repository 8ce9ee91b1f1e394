/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/open.c - opening, closing, transactions.
 *
 * Owns:  the file <state>/ward.db and how SQLite treats it.
 * Rules: the file is made by us, mode 0600, before SQLite sees it: its log and index files take
 *        over that mode. It is never opened beside SQLite: closing such a descriptor would drop
 *        the locks of the whole process, and another process could then take away the log that
 *        this one still writes to. WAL with synchronous=NORMAL: a commit does not wait for the
 * disk; after kill -9 nothing is missing, after a power failure perhaps the last commits, and the
 *        sandboxes they speak of are gone then as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "db/db_impl.h"

static int check_file(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "looking at the database '%s'", path);
	if (S_ISLNK(st.st_mode))
		return err_set(e, ELOOP, "opening the database '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_say(e, EINVAL, "the database '%s' is not a file", path);
	if (st.st_uid != geteuid())
		return err_say(e, EPERM, "the database '%s' belongs to user %u, not to the caller",
			path, (unsigned)st.st_uid);
	if ((st.st_mode & 077) && chmod(path, 0600) < 0)
		return err_set(e, errno, "closing the database '%s' to others", path);
	return 0;
}

static int make_file(struct db *db, enum db_mode mode, struct err *e)
{
	own_fd int made = -1, fd = -1;

	/* A file that is new has no locks yet. */
	if (mode != DB_LOOK)
		made = open(db->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (mode != DB_LOOK && made < 0 && errno != EEXIST)
		return err_set(e, errno, "opening the database '%s'", db->path);
	fd = open(db->path, O_PATH | O_NOFOLLOW | O_CLOEXEC); /* not an open file: see above */
	if (fd < 0)
		return err_set(e, errno, "opening the database '%s'", db->path);
	return check_file(fd, db->path, e);
}

static int on_wal(void *arg, sqlite3 *h, const char *name, int pages)
{
	struct db *db = arg;

	db->wal_pages = pages;
	db->commits++;
	if (pages >= DB_WAL_PAGES_MAX)
		sqlite3_wal_checkpoint_v2(h, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

static int set_up(struct db *db, enum db_mode mode, struct err *e)
{
	/* Some of these read the file, so this is where a damaged one shows. */
	static const char settings[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
				       "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF;"
				       "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-1024;";
	int rc = sqlite3_exec(db->h, settings, NULL, NULL, NULL);

	if (rc != SQLITE_OK)
		return db_error(db, rc, "opening it", e);
	if (mode == DB_DAEMON) {
		sqlite3_wal_autocheckpoint(db->h, 0);
		sqlite3_wal_hook(db->h, on_wal, db);
	}
	return 0;
}

/* All pages, but not each index against its table: what a daemon can wait for. */
static int check_pages(struct db *db, struct err *e)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db->h, "PRAGMA quick_check(1)", -1, &s, NULL);
	int r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	if (rc != SQLITE_ROW)
		r = db_error(db, rc, "checking it", e);
	else if (!str_eq(db_text(s, 0), "ok"))
		r = err_say(e, EBADMSG,
			"the database '%s' is damaged (%.100s); restore it from a copy, or move it "
			"away to start anew",
			db->path, db_text(s, 0));
	for (char *p = e ? e->msg : NULL; r < 0 && p && *p; p++)
		if (*p == '\n')
			*p = ' ';
	sqlite3_finalize(s);
	return r;
}

static int open_handle(struct db *db, enum db_mode mode, struct err *e)
{
	int r = make_file(db, mode, e);
	int rc;

	if (r < 0)
		return r;
	rc = sqlite3_open_v2(db->path, &db->h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		return db_error(db, rc, "opening it", e);
	sqlite3_extended_result_codes(db->h, 1);
	sqlite3_busy_timeout(db->h, mode == DB_DAEMON ? DB_BUSY_DAEMON_MS : DB_BUSY_MS);
	return set_up(db, mode, e);
}

int db_open(const char *state_dir, enum db_mode mode, struct db **ret, struct err *e)
{
	struct db *db = calloc(1, sizeof(*db));
	int r;

	if (!db)
		return err_set(e, ENOMEM, "opening the database");
	db->version = -1;
	r = str_fmt(db->path, sizeof(db->path), "%s/ward.db", state_dir);
	if (r < 0)
		r = err_set(e, -r, "state directory '%s'", state_dir);
	if (r == 0)
		r = open_handle(db, mode, e);
	if (r == 0 && mode == DB_DAEMON)
		r = check_pages(db, e);
	if (r == 0)
		r = db_migrate(db, db_migrations, db_migration_count, e);
	if (r < 0) {
		db_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

void db_close(struct db *db)
{
	if (!db)
		return;
	for (int i = 0; i < DB_SQL_COUNT; i++)
		sqlite3_finalize(db->stmts[i]);
	sqlite3_close(db->h);
	free(db);
}

static int run_one(struct db *db, enum db_sql which, const char *doing, struct err *e)
{
	own_stmt sqlite3_stmt *s = db_stmt(db, which, e);

	return s ? db_run(db, s, doing, e) : -EIO;
}

int db_begin(struct db *db, struct err *e)
{
	int r = db->depth ? 0 : run_one(db, DB_BEGIN, "beginning a change", e);

	if (r == 0)
		db->depth++;
	return r;
}

int db_commit(struct db *db, struct err *e)
{
	int r;

	if (--db->depth)
		return 0;
	r = run_one(db, DB_COMMIT, "writing a change", e);
	if (r < 0 && !sqlite3_get_autocommit(db->h))
		run_one(db, DB_ROLLBACK, "taking a change back", NULL);
	return r;
}

/* Takes all of it back, however many begins there were: what is inside cannot stand alone. */
void db_rollback(struct db *db)
{
	if (!db->depth)
		return;
	db->depth = 0;
	if (!sqlite3_get_autocommit(db->h))
		run_one(db, DB_ROLLBACK, "taking a change back", NULL);
}

bool db_wants_checkpoint(struct db *db)
{
	if (db->wal_pages < DB_WAL_PAGES)
		return false;
	db->wal_pages = 0;
	return true;
}

int db_checkpoint(const char *state_dir, struct err *e)
{
	struct db db = { .version = -1 };
	int r = str_fmt(db.path, sizeof(db.path), "%s/ward.db", state_dir);
	int rc;

	if (r < 0)
		return err_set(e, -r, "state directory '%s'", state_dir);
	r = open_handle(&db, DB_LOOK, e);
	if (r == 0) {
		rc = sqlite3_wal_checkpoint_v2(db.h, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
		if (rc != SQLITE_OK && rc != SQLITE_BUSY)
			r = db_error(&db, rc, "emptying its log", e);
	}
	sqlite3_close(db.h);
	return r;
}
