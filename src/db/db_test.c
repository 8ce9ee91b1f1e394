/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db/db_test.c - the database: what comes back, what a kill leaves, what is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "db/db_impl.h"
#include "host/tree.h"

struct fixture {
	char dir[64];
	struct db *db;
};

static struct db *open_db(const struct fixture *f, enum db_mode mode)
{
	struct err e = { 0 };
	struct db *db = NULL;

	if (db_open(f->dir, mode, &db, &e) < 0)
		fail_msg("%s", e.msg);
	return db;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	str_copy(f->dir, sizeof(f->dir), "/tmp/ward-db-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->db = open_db(f, DB_DAEMON);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	db_close(f->db);
	assert_int_equal(rm_tree(fd, f->dir + strlen("/tmp/"), NULL), 0);
	close(fd);
	free(f);
	return 0;
}

static struct db_box sample(const char *id, int64_t started_us, int state)
{
	return (struct db_box){
		.id = id,
		.tenant = "acme",
		.template_asked = "base",
		.template_used = "host",
		.state = state,
		.reason = "asked for",
		.tier_why = "",
		.warning = "",
		.tier_by = "",
		.boot_id = "b",
		.created_us = started_us,
		.started_us = started_us,
		.state_us = started_us,
		.metadata = { "k\0v", 4 },
		.env = { "A\0secret", 9 },
		.envd_token = "tok",
	};
}

static void insert(struct db *db, const char *id, int64_t started_us, int state)
{
	struct db_box box = sample(id, started_us, state);
	struct err e = { 0 };

	if (db_box_insert(db, &box, &e) < 0)
		fail_msg("%s", e.msg);
}

static int same_box(void *arg, const struct db_box *box)
{
	const struct db_box *want = arg;

	assert_string_equal(box->id, want->id);
	assert_string_equal(box->tenant, want->tenant);
	assert_int_equal(box->state, want->state);
	assert_int_equal(box->started_us, want->started_us);
	assert_int_equal(box->metadata.len, want->metadata.len);
	assert_memory_equal(box->metadata.data, want->metadata.data, want->metadata.len);
	assert_null(box->run_user);
	assert_string_equal(box->envd_token, "tok");
	assert_null(box->traffic_token);
	return 7;
}

static void box_comes_back(void **state)
{
	struct fixture *f = *state;
	struct db_box want = sample("aaaaaaaaaaaa", 5, 2);
	struct err e = { 0 };

	assert_int_equal(db_box_insert(f->db, &want, &e), 0);
	assert_int_equal(db_box_insert(f->db, &want, &e), -EEXIST);
	db_close(f->db);
	f->db = open_db(f, DB_DAEMON);
	assert_int_equal(db_box_get(f->db, want.id, same_box, &want, &e), 7);
	assert_int_equal(db_box_get(f->db, "bbbbbbbbbbbb", same_box, &want, &e), -ENOENT);
}

struct names {
	char text[256];
	int stop_after;
};

static int collect(void *arg, const struct db_box *box)
{
	struct names *n = arg;
	size_t len = strlen(n->text);

	str_fmt(n->text + len, sizeof(n->text) - len, "%s ", box->id);
	return --n->stop_after == 0;
}

static void lists_in_order(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *name;
		struct db_range range;
		const char *want;
	} cases[] = {
		{ "up", { .states = 6 }, "a b c d " },
		{ "down", { .states = 6, .descending = true }, "d c b a " },
		{ "one state", { .states = 4 }, "b d " },
		{ "another tenant", { .states = 6, .tenant = "other" }, "" },
		{ "own", { .states = 6, .tenant = "acme" }, "a b c d " },
		{ "after", { .states = 6, .from_us = 20, .from_id = "b" }, "c d " },
		{ "before", { .states = 6, .descending = true, .from_us = 20, .from_id = "c" },
			"b a " },
	};

	insert(f->db, "d", 30, 2);
	insert(f->db, "b", 20, 2);
	insert(f->db, "c", 20, 1);
	insert(f->db, "a", 10, 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct names n = { .stop_after = -1 };

		assert_int_equal(db_box_each(f->db, &cases[i].range, collect, &n, NULL), 0);
		if (!str_eq(n.text, cases[i].want))
			fail_msg("%s: '%s', not '%s'", cases[i].name, n.text, cases[i].want);
	}
}

static int count_steps(void *arg, const struct db_step *step)
{
	int *count = arg;

	assert_int_equal(step->from, *count == 0 ? 0 : 2);
	assert_string_equal(step->reason, "because");
	++*count;
	return 0;
}

static void steps_go_with_the_state(void **state)
{
	struct fixture *f = *state;
	struct db_step step = { "a", 11, 0, 2, "because", NULL };
	struct err e = { 0 };
	int count = 0;

	insert(f->db, "a", 10, 0);
	assert_int_equal(db_box_step(f->db, &step, &e), 0);
	assert_int_equal(db_box_step(f->db, &step, &e), -ESTALE); /* not in state 0 any more */
	step.from = 2;
	step.to = 3;
	assert_int_equal(db_box_step(f->db, &step, &e), 0);
	assert_int_equal(db_step_each(f->db, "a", count_steps, &count, &e), 0);
	assert_int_equal(count, 2);
	step.id = "nobody";
	assert_int_equal(db_box_step(f->db, &step, &e), -ESTALE);
	assert_int_equal(db_trim_journal(f->db, 2, &e), 0);
	assert_int_equal(db_trim_journal(f->db, 0, &e), 0);
	assert_int_equal(db_step_each(f->db, "a", count_steps, &count, &e), 0);
	assert_int_equal(count, 2); /* none were left to count */
}

static int check_end(void *arg, const struct db_end *end)
{
	assert_string_equal(end->cause, "time-limit");
	assert_int_equal(end->output.len, 3);
	assert_memory_equal(end->output.data, "o\0k", 3);
	return 0;
}

static int no_secrets(void *arg, const struct db_box *box)
{
	assert_null(box->env.data);
	assert_null(box->envd_token);
	assert_non_null(box->metadata.data);
	return 0;
}

static void end_forgets_secrets(void **state)
{
	struct fixture *f = *state;
	struct db_end end = { .id = "a",
		.cause = "time-limit",
		.detail = "",
		.step = "",
		.report = "{}",
		.output = { "o\0k", 3 } };

	insert(f->db, "a", 10, 2);
	assert_int_equal(db_end_get(f->db, "a", check_end, NULL, NULL), -ENOENT);
	assert_int_equal(db_end_insert(f->db, &end, NULL), 0);
	assert_int_equal(db_end_get(f->db, "a", check_end, NULL, NULL), 0);
	assert_int_equal(db_box_get(f->db, "a", no_secrets, NULL, NULL), 0);
}

static void prunes_by_age_and_count(void **state)
{
	struct fixture *f = *state;
	struct names n = { .stop_after = -1 };
	struct db_range all = { .states = ~0u };
	char id[4];

	for (int i = 0; i < 20; i++) {
		str_fmt(id, sizeof(id), "x%02d", i);
		insert(f->db, id, i, i == 0 ? 2 : 7);
	}
	/* x00 lives: however old, it stays. */
	assert_int_equal(db_prune(f->db, 1 << 7, 5, 100, 100, NULL), 4);
	assert_int_equal(db_prune(f->db, 1 << 7, 5, 3, 10, NULL), 10);
	assert_int_equal(db_prune(f->db, 1 << 7, 5, 3, 10, NULL), 2);
	assert_int_equal(db_prune(f->db, 1 << 7, 5, 3, 10, NULL), 0);
	assert_int_equal(db_box_each(f->db, &all, collect, &n, NULL), 0);
	assert_string_equal(n.text, "x00 x17 x18 x19 ");
}

static int see_key(void *arg, const struct db_key *key)
{
	*(int64_t *)arg = key->revoked_us;
	return 0;
}

static void keys_and_tenants(void **state)
{
	struct fixture *f = *state;
	struct db_key key = { .id = "12345678", .name = "ci", .tenant = "acme", .created_us = 1 };
	struct db_tenant t = { "acme", 5, -1, -1, -1 };
	int64_t revoked = -1;

	memset(key.hash, 7, sizeof(key.hash));
	assert_int_equal(db_key_insert(f->db, &key, NULL), 0);
	key.id = "87654321";
	assert_int_equal(db_key_insert(f->db, &key, NULL), -EEXIST); /* the name */
	assert_int_equal(db_key_get(f->db, "12345678", see_key, &revoked, NULL), 0);
	assert_int_equal(revoked, 0);
	assert_int_equal(db_key_revoke(f->db, "ci", 9, NULL), 0);
	assert_int_equal(db_key_revoke(f->db, "ci", 9, NULL), -ENOENT);
	assert_int_equal(db_key_get(f->db, "12345678", see_key, &revoked, NULL), 0);
	assert_int_equal(revoked, 9);
	assert_int_equal(db_key_insert(f->db, &key, NULL), 0); /* the name is free again */

	assert_int_equal(db_tenant_get(f->db, "acme", &t, NULL), -ENOENT);
	assert_int_equal(db_tenant_put(f->db, &t, 1, NULL), 0);
	t = (struct db_tenant){ "acme", -1, 99, -1, 0 };
	assert_int_equal(db_tenant_put(f->db, &t, 1, NULL), 0);
	assert_int_equal(db_tenant_get(f->db, "acme", &t, NULL), 0);
	assert_int_equal(t.sandboxes, 5);
	assert_int_equal(t.memory_bytes, 99);
	assert_int_equal(t.cpu_milli, -1);
	assert_int_equal(t.creates_micro, 0);
}

static int see_pool(void *arg, const struct db_pool *pool)
{
	struct db_pool *ret = arg;

	ret->min = pool->min;
	ret->hits = pool->hits;
	return 0;
}

static void pools(void **state)
{
	struct fixture *f = *state;
	struct db_pool pool = { .template = "host", .min = 2, .max = 4 }, seen = { 0 };

	assert_int_equal(db_pool_put(f->db, &pool, NULL), 0);
	pool.hits = 3;
	assert_int_equal(db_pool_count(f->db, &pool, NULL), 0);
	pool.min = 1;
	assert_int_equal(db_pool_put(f->db, &pool, NULL), 0);
	assert_int_equal(db_pool_each(f->db, see_pool, &seen, NULL), 0);
	assert_int_equal(seen.min, 1);
	assert_int_equal(seen.hits, 3); /* what it has done stays */
	assert_int_equal(db_pool_delete(f->db, "host", NULL), 0);
	assert_int_equal(db_pool_delete(f->db, "host", NULL), -ENOENT);
}

static int see_snap(void *arg, const struct db_snap *snap)
{
	str_fmt(arg, 64, "%s/%s/%d/%lld", snap->id, snap->name, (int)snap->state,
		(long long)snap->bytes);
	return 0;
}

static int count_snap(void *arg, const struct db_snap *snap)
{
	(void)snap;
	++*(unsigned *)arg;
	return 0;
}

static void snapshots(void **state)
{
	struct fixture *f = *state;
	struct db_snap snap = { .id = "a1",
		.tenant = "acme",
		.name = "nightly",
		.sandbox = "box",
		.template_asked = "base",
		.template_used = "host",
		.created_us = 1,
		.env = { "K\0V", 4 } };
	int64_t count = 0, bytes = 0;
	unsigned all = 0, mine = 0;
	char seen[64];

	assert_int_equal(db_snap_insert(f->db, &snap, NULL), 0);
	assert_int_equal(db_snap_insert(f->db, &snap, NULL), -EEXIST);
	/* One that is being made is on record, and cannot be used. */
	assert_int_equal(db_snap_get(f->db, "acme", "a1", see_snap, seen, NULL), -ENOENT);
	assert_int_equal(db_snap_state(f->db, "a1", DB_SNAP_READY, 100, NULL), 0);
	assert_int_equal(db_snap_get(f->db, "acme", "nightly", see_snap, seen, NULL), 0);
	assert_string_equal(seen, "a1/nightly/1/100");
	/* Of two with one name the newer is meant; an id goes before a name. */
	snap.id = "a2";
	snap.created_us = 2;
	snap.state = DB_SNAP_READY;
	snap.bytes = 11;
	assert_int_equal(db_snap_insert(f->db, &snap, NULL), 0);
	assert_int_equal(db_snap_get(f->db, NULL, "nightly", see_snap, seen, NULL), 0);
	assert_string_equal(seen, "a2/nightly/1/11");
	snap.id = "a3";
	snap.name = "a1";
	snap.tenant = "other";
	assert_int_equal(db_snap_insert(f->db, &snap, NULL), 0);
	assert_int_equal(db_snap_get(f->db, NULL, "a1", see_snap, seen, NULL), 0);
	assert_string_equal(seen, "a1/nightly/1/100");
	assert_int_equal(db_snap_get(f->db, "other", "nightly", see_snap, seen, NULL), -ENOENT);
	assert_int_equal(db_snap_each(f->db, NULL, count_snap, &all, NULL), 0);
	assert_int_equal(db_snap_each(f->db, "acme", count_snap, &mine, NULL), 0);
	assert_int_equal(all, 3);
	assert_int_equal(mine, 2);
	assert_int_equal(db_snap_sum(f->db, "acme", &count, &bytes, NULL), 0);
	assert_int_equal(count, 2);
	assert_int_equal(bytes, 111);
	assert_int_equal(db_snap_delete(f->db, "a1", NULL), 0);
	assert_int_equal(db_snap_sum(f->db, "acme", &count, &bytes, NULL), 0);
	assert_int_equal(bytes, 11);
}

static void others_changes_are_seen(void **state)
{
	struct fixture *f = *state;
	struct db_tenant t = { "acme", 5, -1, -1, -1 };
	struct db *tool;

	db_changed(f->db);
	assert_false(db_changed(f->db));
	insert(f->db, "a", 1, 1);
	assert_false(db_changed(f->db)); /* our own */
	tool = open_db(f, DB_TOOL);
	assert_int_equal(db_tenant_put(tool, &t, 1, NULL), 0);
	db_close(tool);
	assert_true(db_changed(f->db));
	assert_false(db_changed(f->db));
}

/* Among many of our own, which write, write nothing, or are taken back: each of another's is seen,
 * once, and none that was not there. */
static void others_are_told_from_our_own(void **state)
{
	struct fixture *f = *state;
	struct db_tenant t = { "acme", 5, -1, -1, -1 };
	struct db *tool = open_db(f, DB_TOOL);
	char id[16];

	db_changed(f->db);
	for (unsigned i = 0; i < 300; i++) {
		if (i % 3 == 0) {
			snprintf(id, sizeof(id), "b%u", i);
			insert(f->db, id, 1, 1);
		} else if (i % 3 == 1) {
			assert_int_equal(db_begin(f->db, NULL), 0);
			if (i % 2) {
				assert_int_equal(db_tenant_put(f->db, &t, 2, NULL), 0);
				db_rollback(f->db);
			} else {
				assert_int_equal(db_commit(f->db, NULL), 0);
			}
		}
		if (i % 7 == 0) {
			t.sandboxes = i;
			assert_int_equal(db_tenant_put(tool, &t, 1, NULL), 0);
		}
		if (i % 50 == 0)
			assert_int_equal(db_checkpoint(f->dir, NULL), 0);
		assert_int_equal(db_changed(f->db), i % 7 == 0);
		assert_false(db_changed(f->db));
	}
	/* Nobody asked while another wrote between two of ours. */
	insert(f->db, "x", 1, 1);
	t.sandboxes = 1000;
	assert_int_equal(db_tenant_put(tool, &t, 1, NULL), 0);
	insert(f->db, "y", 1, 1);
	assert_true(db_changed(f->db));
	assert_false(db_changed(f->db));
	db_close(tool);
}

static void a_change_is_whole_or_not(void **state)
{
	struct fixture *f = *state;
	struct names n = { .stop_after = -1 };
	struct db_range all = { .states = ~0u };
	struct db_step bad = { "nobody", 1, 1, 2, "x", NULL };

	assert_int_equal(db_begin(f->db, NULL), 0);
	insert(f->db, "a", 1, 1);
	assert_int_equal(db_box_step(f->db, &bad, NULL), -ESTALE);
	assert_int_equal(db_box_each(f->db, &all, collect, &n, NULL), 0);
	assert_string_equal(n.text, "");
	insert(f->db, "b", 1, 1);
	assert_int_equal(db_box_each(f->db, &all, collect, &n, NULL), 0);
	assert_string_equal(n.text, "b ");
}

/* A child writes and is killed in the middle: the next one finds whole steps only. */
static void survives_a_kill(void **state)
{
	struct fixture *f = *state;
	int tell[2];
	pid_t pid;
	char byte;

	insert(f->db, "a", 1, 1);
	db_close(f->db);
	f->db = NULL;
	assert_int_equal(pipe(tell), 0);
	pid = fork();
	if (pid == 0) {
		struct db *db = open_db(f, DB_DAEMON);
		struct db_step step = { "a", 1, 1, 2, "on", NULL };

		for (;; step.from = step.to, step.to = step.from == 1 ? 2 : 1) {
			if (db_box_step(db, &step, NULL) < 0 || write(tell[1], "x", 1) != 1)
				_exit(1);
		}
	}
	for (int i = 0; i < 50; i++)
		assert_int_equal(read(tell[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(tell[0]);
	close(tell[1]);
	f->db = open_db(f, DB_DAEMON);

	sqlite3_stmt *s = NULL;
	/* The row says what the last line of the journal says. */
	assert_int_equal(sqlite3_prepare_v2(f->db->h,
				 "SELECT state = (SELECT to_state FROM journal ORDER BY seq DESC "
				 "LIMIT 1), (SELECT count(*) FROM journal) >= 50 FROM sandboxes",
				 -1, &s, NULL),
		SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(s, 0), 1);
	assert_int_equal(sqlite3_column_int(s, 1), 1);
	sqlite3_finalize(s);
}

static void check_refused(const struct fixture *f, enum db_mode mode, int want, const char *says)
{
	struct err e = { 0 };
	struct db *db = NULL;

	assert_int_equal(db_open(f->dir, mode, &db, &e), want);
	assert_null(db);
	if (!strstr(e.msg, says) || strchr(e.msg, '\n'))
		fail_msg("'%s' does not say '%s' in one line", e.msg, says);
}

static void write_at(const char *path, const char *text, size_t len, off_t at)
{
	own_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, len, at), (ssize_t)len);
}

static void refuses_what_is_not_ours(void **state)
{
	struct fixture *f = *state;
	char path[128], page[4096];
	struct stat st;

	str_fmt(path, sizeof(path), "%s/ward.db", f->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	for (int i = 0; i < 200; i++) {
		char id[8];

		str_fmt(id, sizeof(id), "i%d", i);
		insert(f->db, id, i, 1);
	}
	sqlite3_exec(f->db->h, "PRAGMA user_version = 99", NULL, NULL, NULL);
	db_close(f->db);
	f->db = NULL;
	check_refused(f, DB_DAEMON, -EPROTONOSUPPORT, "newer ward");
	check_refused(f, DB_LOOK, -EPROTONOSUPPORT, "newer ward");

	memset(page, 'x', sizeof(page)); /* a page in the middle */
	write_at(path, page, sizeof(page), 4096 * 12);
	check_refused(f, DB_DAEMON, -EBADMSG, "damaged");
	write_at(path, page, sizeof(page), 0); /* and the head */
	check_refused(f, DB_TOOL, -EBADMSG, "damaged");
	assert_int_equal(unlink(path), 0);
	check_refused(f, DB_LOOK, -ENOENT, "ward.db");
	assert_int_equal(symlink("/dev/null", path), 0);
	check_refused(f, DB_TOOL, -ELOOP, "ward.db");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	check_refused(f, DB_TOOL, -EINVAL, "is not a file");
	assert_int_equal(unlink(path), 0);
}

static void migrates_step_by_step(void **state)
{
	struct fixture *f = *state;
	static const struct db_migration good[] = { { "" }, { "CREATE TABLE two(x)" },
		{ "ALTER TABLE two ADD COLUMN y; INSERT INTO two VALUES(1, 2)" } };
	static const struct db_migration bad[] = { { "" }, { "" }, { "" },
		{ "CREATE TABLE three(x); SELECT nonsense FROM nowhere" } };
	struct err e = { 0 };

	/* As if it were of the first version, whatever this ward's is. */
	sqlite3_exec(f->db->h, "PRAGMA user_version = 1", NULL, NULL, NULL);
	assert_int_equal(db_migrate(f->db, good, 3, &e), 0);
	assert_int_equal(db_migrate(f->db, good, 3, &e), 0); /* nothing left to do */
	assert_int_equal(db_migrate(f->db, bad, 4, &e), -EIO);
	/* The step that failed left nothing, and the one before holds. */
	assert_int_equal(sqlite3_exec(f->db->h, "SELECT y FROM two", NULL, NULL, NULL), SQLITE_OK);
	assert_int_not_equal(
		sqlite3_exec(f->db->h, "SELECT x FROM three", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(db_migrate(f->db, good, 2, &e), -EPROTONOSUPPORT);
}

static int one_number(struct db *db, const char *sql)
{
	sqlite3_stmt *s;
	int n;

	assert_int_equal(sqlite3_prepare_v2(db->h, sql, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	n = sqlite3_column_int(s, 0);
	sqlite3_finalize(s);
	return n;
}

/* The journal of a file that ward made when its numbers were kept in a table of their own. */
static void keeps_an_old_journal(void **state)
{
	struct fixture *f = *state;
	struct db_step step = { .id = "abc", .from = 0, .to = 0, .reason = "new" };
	char text[160];
	sqlite3 *h;

	db_close(f->db);
	assert_int_equal(str_fmt(text, sizeof(text), "%s/ward.db", f->dir), 0);
	assert_int_equal(unlink(text), 0);
	assert_int_equal(sqlite3_open(text, &h), SQLITE_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(
			sqlite3_exec(h, db_migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(h,
				 "INSERT INTO journal VALUES(7, 'abc', 1, 0, 2, 'old', NULL);"
				 "PRAGMA user_version = 2",
				 NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(h);
	f->db = open_db(f, DB_DAEMON);
	assert_int_equal(db_box_step(f->db, &step, NULL), 0);
	assert_int_equal(one_number(f->db, "SELECT count(*) FROM journal WHERE id = 'abc'"), 2);
	assert_int_equal(one_number(f->db, "SELECT max(seq) FROM journal"), 8);
}

/* True in another process: this one's own locks do not stand in its way. */
static bool is_locked(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		own_fd int fd = open(path, O_RDWR | O_CLOEXEC);

		_exit(fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

/* Without its locks, the next tool that closes the database would remove the log under it. */
static void keeps_its_locks(void **state)
{
	struct fixture *f = *state;
	char path[128];

	str_fmt(path, sizeof(path), "%s/ward.db", f->dir);
	insert(f->db, "a", 1, 1);
	assert_true(is_locked(path));
	assert_int_equal(db_checkpoint(f->dir, NULL), 0);
	assert_true(is_locked(path));
	db_close(open_db(f, DB_LOOK));
	assert_true(is_locked(path));
	db_close(open_db(f, DB_TOOL));
	assert_true(is_locked(path));
}

static void checkpoints_on_demand(void **state)
{
	struct fixture *f = *state;
	struct db_step step = { "a", 1, 1, 2, "on", NULL };
	bool asked = false;
	struct stat st;
	char path[128];

	insert(f->db, "a", 1, 1);
	for (int i = 0; i < 4000 && !asked; i++) {
		assert_int_equal(db_box_step(f->db, &step, NULL), 0);
		step.from = step.to;
		step.to = step.from == 1 ? 2 : 1;
		asked = db_wants_checkpoint(f->db);
	}
	assert_true(asked);
	assert_false(db_wants_checkpoint(f->db));
	assert_int_equal(db_checkpoint(f->dir, NULL), 0);
	/* The next write starts the log anew: it does not grow for ever. */
	str_fmt(path, sizeof(path), "%s/ward.db-wal", f->dir);
	assert_int_equal(stat(path, &st), 0);
	off_t was = st.st_size;
	assert_int_equal(db_box_step(f->db, &step, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, was);
	assert_int_equal(st.st_mode & 0777, 0600);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(box_comes_back),
		TEST(lists_in_order),
		TEST(steps_go_with_the_state),
		TEST(end_forgets_secrets),
		TEST(prunes_by_age_and_count),
		TEST(keys_and_tenants),
		TEST(pools),
		TEST(snapshots),
		TEST(others_changes_are_seen),
		TEST(others_are_told_from_our_own),
		TEST(a_change_is_whole_or_not),
		TEST(survives_a_kill),
		TEST(refuses_what_is_not_ours),
		TEST(migrates_step_by_step),
		TEST(keeps_an_old_journal),
		TEST(checkpoints_on_demand),
		TEST(keeps_its_locks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
