/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_DB_DB_H
#define WARD_DB_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"

/*
 * What the daemon must not forget: sandboxes, each step of their lives, how they ended, keys,
 * tenants, pools. One SQLite file, <state>/ward.db, shared with `ward key`, `ward pool` and
 * `ward why`: what one of them writes the daemon sees at its next look (db_changed()).
 *
 * Everything returns 0 or a negative errno: -EBUSY when somebody else held the file for too
 * long, -ENOSPC, -EIO, -EBADMSG when the file is damaged. Texts that a callback gets are
 * good until it returns. A callback must not use the same query again.
 */
struct db;

enum {
	DB_BUSY_MS = 5000,        /* a command waits so long for the file, */
	DB_BUSY_DAEMON_MS = 1000, /* and the daemon, whose loop stands still meanwhile */
	DB_WAL_PAGES = 1000,      /* then db_wants_checkpoint() */
	DB_WAL_PAGES_MAX = 20000, /* then the next write does it itself */
};

enum db_mode {
	DB_DAEMON, /* makes it, checks it, leaves checkpoints to db_checkpoint() */
	DB_TOOL,   /* makes it; for commands that write */
	DB_LOOK,   /* -ENOENT when there is none; for commands that only read */
};

int db_open(const char *state_dir, enum db_mode mode, struct db **ret, struct err *e);
void db_close(struct db *db);

/* Several writes as one; none of them is there unless commit says 0. */
int db_begin(struct db *db, struct err *e);
int db_commit(struct db *db, struct err *e);
void db_rollback(struct db *db);

/* Has another connection written since the last call? True the first time. */
bool db_changed(struct db *db);

/* The log of writes is long: run db_checkpoint() soon, on any thread. */
bool db_wants_checkpoint(struct db *db);
int db_checkpoint(const char *state_dir, struct err *e);

/* --- Sandboxes --- */
struct db_blob {
	const void *data; /* NULL: none */
	size_t len;
};

#define DB_TYPE_TEXT const char *
#define DB_TYPE_INT int64_t
#define DB_TYPE_BLOB struct db_blob
struct db_box {
#define DB_COL(name, kind) DB_TYPE_##kind name;
#include "db/columns.def"
#undef DB_COL
};

int db_box_insert(struct db *db, const struct db_box *box, struct err *e);
typedef int db_box_fn(void *arg, const struct db_box *box);
/* -ENOENT when there is none; else what @fn returned. */
int db_box_get(struct db *db, const char *id, db_box_fn *fn, void *arg, struct err *e);

struct db_range {
	unsigned states;    /* bits of 1 << state */
	const char *tenant; /* NULL: any */
	bool descending;
	int64_t from_us; /* start after (descending: before) this place; 0 and "": from the end */
	const char *from_id;
};
/* Ordered by (started_us, id), until @fn returns non-zero; returns that. */
int db_box_each(
	struct db *db, const struct db_range *range, db_box_fn *fn, void *arg, struct err *e);

struct db_step {
	const char *id;
	int64_t at_us;
	int from, to;
	const char *reason, *trace;
};
/* The row and its line in the journal, in one transaction (or in the one that is open). -ESTALE
 * when the row is not in state @from. */
int db_box_step(struct db *db, const struct db_step *step, struct err *e);
/* The same with what changes along with the state: one of these, and from @box what its name says.
 * NULL: nothing does. */
typedef int db_also_fn(
	struct db *db, const struct db_step *step, const struct db_box *box, struct err *e);
db_also_fn db_also_running, db_also_claim, db_also_deadline;
int db_box_step_with(struct db *db, const struct db_step *step, const struct db_box *box,
	db_also_fn *also, struct err *e);
int db_step_each(struct db *db, const char *id, int (*fn)(void *arg, const struct db_step *step),
	void *arg, struct err *e);

/* Parts of a row; from @box the id and what the name says. */
int db_box_deadline(struct db *db, const struct db_box *box, struct err *e);
int db_box_limits(struct db *db, const struct db_box *box, struct err *e);
int db_box_network(struct db *db, const struct db_box *box, struct err *e);

struct db_end {
	const char *id, *cause, *detail, *step;
	int status;
	int64_t at_us;
	const char *report;
	struct db_blob output, samples;
};
/* Also forgets what was secret: the environment and the tokens. */
int db_end_insert(struct db *db, const struct db_end *end, struct err *e);
int db_end_get(struct db *db, const char *id, int (*fn)(void *arg, const struct db_end *end),
	void *arg, struct err *e);

/* Removes ended sandboxes (states in @states) that are older than @before_us or more than @keep,
 * at most @max of them; the number removed, or negative. */
int db_prune(struct db *db, unsigned states, int64_t before_us, unsigned keep, unsigned max,
	struct err *e);
/* Forgets all but the newest @keep lines of the journal, of whatever sandbox. */
int db_trim_journal(struct db *db, unsigned keep, struct err *e);

/* --- Tenants and keys --- */
struct db_tenant {
	const char *name;
	/* -1: not said (the daemon's default holds); 0: none at all */
	int64_t sandboxes, memory_bytes, cpu_milli, creates_micro; /* creates per 1,000,000 s */
};
/* Makes it, or changes what is said (not -1). */
int db_tenant_put(struct db *db, const struct db_tenant *t, int64_t now_us, struct err *e);
/* -ENOENT when nothing was ever said about it. ret->name is @name. */
int db_tenant_get(struct db *db, const char *name, struct db_tenant *ret, struct err *e);

struct db_key {
	const char *id, *name, *tenant;
	uint8_t hash[SHA256_BYTES];
	int64_t created_us, revoked_us; /* 0: good */
};
/* -EEXIST when the id, or the name of a key that is still good, is taken. */
int db_key_insert(struct db *db, const struct db_key *key, struct err *e);
typedef int db_key_fn(void *arg, const struct db_key *key);
int db_key_get(struct db *db, const char *id, db_key_fn *fn, void *arg, struct err *e);
int db_key_each(struct db *db, db_key_fn *fn, void *arg, struct err *e);
/* By id or name; -ENOENT when there is no good one. */
int db_key_revoke(struct db *db, const char *word, int64_t now_us, struct err *e);

/* --- Pools --- */
struct db_pool {
	const char *template;
	int64_t min, max;
	const char *warm_up;
	int64_t hits, misses, made, shrunk; /* db_pool_count(): what to add */
	const char *trouble;
};
int db_pool_put(struct db *db, const struct db_pool *pool, struct err *e);
int db_pool_delete(struct db *db, const char *template, struct err *e); /* -ENOENT */
int db_pool_each(
	struct db *db, int (*fn)(void *arg, const struct db_pool *pool), void *arg, struct err *e);
int db_pool_count(struct db *db, const struct db_pool *add, struct err *e);
int db_pool_trouble(struct db *db, const char *template, const char *trouble, struct err *e);

/* --- Snapshots --- */
enum db_snap_state {
	DB_SNAP_MAKING,   /* written down before there is a file */
	DB_SNAP_READY,    /* whole */
	DB_SNAP_DELETING, /* written down before a file goes */
};
struct db_snap {
	const char *id, *tenant;
	const char *name; /* "": none; several may have one, the newest is meant */
	const char *sandbox, *template_asked, *template_used;
	enum db_snap_state state;
	int64_t tier, bytes, created_us;
	int64_t memory_bytes, disk_bytes, cpu_milli, pids;
	const char *run_user, *workdir; /* NULL: the template's */
	struct db_blob env;
};
typedef int db_snap_fn(void *arg, const struct db_snap *snap);
int db_snap_insert(struct db *db, const struct db_snap *snap, struct err *e);
int db_snap_state(
	struct db *db, const char *id, enum db_snap_state state, int64_t bytes, struct err *e);
int db_snap_delete(struct db *db, const char *id, struct err *e);
/* Newest first, in whatever state; @tenant NULL: of all. */
int db_snap_each(struct db *db, const char *tenant, db_snap_fn *fn, void *arg, struct err *e);
/* The one that is ready, by id or name; -ENOENT, else what @fn returned. */
int db_snap_get(struct db *db, const char *tenant, const char *word, db_snap_fn *fn, void *arg,
	struct err *e);
int db_snap_sum(
	struct db *db, const char *tenant, int64_t *ret_count, int64_t *ret_bytes, struct err *e);

#endif
