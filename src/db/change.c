/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/change.c - has anybody else written?
 *
 * Owns:  what was known of the log's index when that was last asked.
 * Rules: the index begins with a number that grows by one with each commit, whoever makes it
 *        (https://www.sqlite.org/walformat.html). When it has grown by as many as we have made
 *        ourselves, nobody else has: that is a look into memory which SQLite has mapped, where the
 *        question put to SQLite takes and drops its locks. Whenever it is another number, SQLite is
 *        asked.
 */
#include "db/db_impl.h"

enum { INDEX_BYTES = 32 * 1024, CHANGE_AT = 2 }; /* of the first region; in numbers of 32 bits */

/* False: there is no log, or it is not mapped. */
static bool read_counter(struct db *db, uint32_t *ret)
{
	volatile void *index = NULL;
	sqlite3_file *file = NULL;

	/* Without a commit of ours to the log, asking for its index might make one. */
	if (!db->commits ||
		sqlite3_file_control(db->h, "main", SQLITE_FCNTL_FILE_POINTER, &file) !=
			SQLITE_OK ||
		!file || !file->pMethods || file->pMethods->iVersion < 2 ||
		!file->pMethods->xShmMap ||
		file->pMethods->xShmMap(file, 0, INDEX_BYTES, 0, &index) != SQLITE_OK || !index)
		return false;
	*ret = __atomic_load_n((volatile uint32_t *)index + CHANGE_AT, __ATOMIC_ACQUIRE);
	return true;
}

bool db_changed(struct db *db)
{
	own_stmt sqlite3_stmt *s = NULL;
	int64_t was = db->version;
	uint32_t counter = 0;
	bool counted = read_counter(db, &counter);

	if (counted && db->counted && counter - db->counter == db->commits - db->counter_commits)
		return false;
	/* Read before SQLite is asked: a commit in between is found again, not lost. */
	db->counted = counted;
	db->counter = counter;
	db->counter_commits = db->commits;
	s = db_stmt(db, DB_DATA_VERSION, NULL);
	if (!s || db_row(db, s, "looking for changes", NULL) <= 0) {
		db->counted = false;
		return true;
	}
	db->version = sqlite3_column_int64(s, 0);
	return db->version != was;
}
