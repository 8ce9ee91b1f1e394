/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/slot_test.c - slots, their sweep, and kept boxes.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mount.h>

#include "base/ckd.h"
#include "base/id.h"
#include "store/audit.h"
#include "store/kept.h"
#include "store/slot.h"
#include "store/testdir.h"

static const char *const argv_true[] = { "/bin/true", "two words", NULL };

static bool exists(int dir, const char *path)
{
	struct stat st;

	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static unsigned count_in(int state_fd, const char *folder)
{
	DIR *d = fdopendir(openat(state_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2; /* "." and ".." */
}

static void make_id(char id[ID_LEN + 1])
{
	assert_int_equal(id_make(id), 0);
}

/* What a ward does: takes a slot, says what will be, makes it. Runs in children: no asserts. */
static int be_a_ward(const struct testdir *t, const char *id, bool keep, struct slot *s)
{
	char tree[256], rel[64];
	const struct undo undo[] = { { UNDO_TREE, tree, NULL }, { UNDO_KEPT, NULL, NULL } };
	const struct slot_record rec = { id, "container", argv_true, undo, keep ? 2 : 1 };
	struct err e = { 0 };

	if (str_fmt(tree, sizeof(tree), "%s/boxes/%s", t->path, id) < 0 ||
		str_fmt(rel, sizeof(rel), "boxes/%s", id) < 0)
		return 1;
	if (slot_take(t->fd, id, s, &e) < 0 || slot_write(s, &rec, &e) < 0) {
		print_message("%s\n", e.msg);
		return 2;
	}
	return mkdirat(t->fd, rel, 0700) < 0 ? 3 : 0;
}

enum how { EMPTY, PLAIN, KEEP };

/* A ward in another process; it has made everything when this returns, and waits to be killed. */
static pid_t start_ward(const struct testdir *t, const char *id, enum how how)
{
	int ready[2];
	char c = 'n';
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct slot s;
		int r = how == EMPTY ? slot_take(t->fd, id, &s, NULL)
				     : be_a_ward(t, id, how == KEEP, &s);

		if (write(ready[1], r == 0 ? "y" : "n", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	assert_int_equal(c, 'y');
	return pid;
}

static void kill_ward(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static struct sweep_report sweep(const struct testdir *t, unsigned max)
{
	struct sweep_report rep;
	struct err e = { 0 };

	if (slot_sweep(t->fd, max, NULL, &rep, &e) < 0)
		fail_msg("%s", e.msg);
	return rep;
}

static void take_write_free(void **state)
{
	const struct testdir *t = *state;
	struct err e = { 0 };
	struct slot s, none = { .fd = -1 };
	struct record rec;
	char id[ID_LEN + 1], path[32], out[64];

	make_id(id);
	assert_int_equal(be_a_ward(t, id, false, &s), 0);
	assert_true(s.number < SLOTS_MAX);
	assert_int_equal(str_fmt(path, sizeof(path), "slots/%u", s.number), 0);
	assert_true(exists(t->fd, path));
	assert_int_equal(record_load(&rec, s.fd), 0);
	assert_int_equal(record_get(&rec, "id", out, sizeof(out)), 0);
	assert_string_equal(out, id);
	assert_int_equal(record_get(&rec, "tier", out, sizeof(out)), 0);
	assert_string_equal(out, "container");
	assert_int_equal(slot_add(&s, id, &(struct undo){ UNDO_KEPT, NULL, NULL }, &e), 0);
	assert_int_equal(record_load(&rec, s.fd), 0);
	assert_true(undo_is_kept(&rec));
	slot_free(&s);
	slot_free(&s);
	slot_free(&none);
	assert_false(exists(t->fd, path));
	assert_int_equal(slot_take(t->fd, "../../etc", &s, &e), -EINVAL);
}

static ino_t number_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

/* Its file is the next one's; what was in it is not. */
static void used_again(void **state)
{
	const struct testdir *t = *state;
	const struct undo undo = { UNDO_KEPT, NULL, NULL };
	const struct slot_record rec = { "abcdefghijkl", "container", argv_true, &undo, 1 };
	struct slot s, other;
	struct record got;
	char out[64];
	int status;
	ino_t file;
	pid_t pid;

	/* A state directory of an older ward may have no place for spares. */
	assert_int_equal(unlinkat(t->fd, "run", AT_REMOVEDIR), 0);
	assert_int_equal(slot_take(t->fd, rec.id, &s, NULL), 0);
	assert_int_equal(slot_write(&s, &rec, NULL), 0);
	slot_free(&s);
	assert_int_equal(count_in(t->fd, "slots"), 0);
	assert_int_equal(mkdirat(t->fd, "run", 0700), 0);
	/* One that never said anything is none. */
	assert_int_equal(slot_take(t->fd, rec.id, &s, NULL), 0);
	slot_free(&s);
	assert_int_equal(count_in(t->fd, "run"), 0);
	assert_int_equal(slot_take(t->fd, rec.id, &s, NULL), 0);
	assert_int_equal(slot_write(&s, &rec, NULL), 0);
	file = number_of(s.fd);
	slot_free(&s);
	assert_int_equal(count_in(t->fd, "slots"), 0);
	assert_int_equal(count_in(t->fd, "run"), 1);

	assert_int_equal(slot_take(t->fd, rec.id, &s, NULL), 0);
	assert_int_equal(number_of(s.fd), file);
	assert_int_equal(slot_take(t->fd, rec.id, &other, NULL), 0);
	assert_int_not_equal(number_of(other.fd), file);
	assert_int_equal(record_load(&got, s.fd), 0);
	assert_false(undo_is_kept(&got));
	assert_true(record_get(&got, "id", out, sizeof(out)) < 0);
	pid = fork();
	if (pid == 0)
		_exit(sweep(t, 0).live == 2 ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(slot_write(&s, &rec, NULL), 0);
	assert_int_equal(record_load(&got, s.fd), 0);
	assert_int_equal(record_get(&got, "id", out, sizeof(out)), 0);
	slot_free(&s);
	slot_free(&other);
	assert_int_equal(count_in(t->fd, "slots"), 0);
	assert_int_equal(count_in(t->fd, "run"), 1);
	/* One that dies before it has written leaves nothing to undo. */
	pid = fork();
	if (pid == 0) {
		status = slot_take(t->fd, rec.id, &s, NULL);
		_exit(status == 0 && number_of(s.fd) == file ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(sweep(t, 0).swept, 1);
	assert_int_equal(count_in(t->fd, "slots"), 0);
}

static void fills_up(void **state)
{
	const struct testdir *t = *state;
	const unsigned hole = ((unsigned)getpid() + SLOTS_MAX - 1) % SLOTS_MAX; /* looked at last */
	struct slot s, more;
	struct err e = { 0 };
	char path[32];

	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		assert_int_equal(str_fmt(path, sizeof(path), "slots/%u", i), 0);
		if (i != hole)
			close(openat(t->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	assert_int_equal(slot_take(t->fd, "abcdefghijkl", &s, &e), 0);
	assert_int_equal(s.number, hole);
	assert_int_equal(slot_take(t->fd, "abcdefghijkl", &more, &e), -EUSERS);
	slot_free(&s);
	assert_int_equal(sweep(t, 0).swept, SLOTS_MAX - 1);
	assert_int_equal(count_in(t->fd, "slots"), 0);
}

static void made_by_hand(void **state)
{
	const struct testdir *t = *state;
	struct slot s;
	struct err e = { 0 };

	/* As a crash leaves it between the first mkdir and the last. */
	assert_int_equal(unlinkat(t->fd, "slots", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(t->fd, "trash", AT_REMOVEDIR), 0);
	assert_int_equal(sweep(t, 0).checked, 0);
	assert_int_equal(slot_take(t->fd, "abcdefghijkl", &s, &e), 0);
	assert_true(exists(t->fd, "trash"));
	slot_free(&s);
}

static void live_ones_stay(void **state)
{
	const struct testdir *t = *state;
	struct sweep_report rep;
	char id[ID_LEN + 1], box[32];
	pid_t pid;

	make_id(id);
	assert_int_equal(str_fmt(box, sizeof(box), "boxes/%s", id), 0);
	pid = start_ward(t, id, PLAIN);
	rep = sweep(t, 0);
	assert_int_equal(rep.checked, 1);
	assert_int_equal(rep.live, 1);
	assert_int_equal(rep.swept, 0);
	assert_true(exists(t->fd, box));
	kill_ward(pid);
	rep = sweep(t, 0);
	assert_int_equal(rep.swept, 1);
	assert_false(exists(t->fd, box));
	assert_int_equal(count_in(t->fd, "slots"), 0);
	assert_int_equal(count_in(t->fd, "trash"), 0);
}

static int count_events(void *arg, const char *text, size_t len, const struct audit_line *line)
{
	(void)text;
	(void)len;
	*(unsigned *)arg += line && str_eq(line->event, "run.swept");
	return 0;
}

static void dead_ones_go(void **state)
{
	const struct testdir *t = *state;
	unsigned told = 0;
	pid_t pids[6];

	for (unsigned i = 0; i < ARRAY_LEN(pids); i++) {
		char id[ID_LEN + 1];

		make_id(id);
		/* Every third one dies between taking its slot and writing it. */
		pids[i] = start_ward(t, id, i % 3 ? PLAIN : EMPTY);
	}
	for (unsigned i = 0; i < ARRAY_LEN(pids); i++)
		kill_ward(pids[i]);
	assert_int_equal(sweep(t, 2).swept, 2);
	assert_int_equal(sweep(t, 0).swept, 4);
	assert_int_equal(count_in(t->fd, "slots"), 0);
	assert_int_equal(count_in(t->fd, "boxes"), 0);
	assert_int_equal(audit_each(t->fd, count_events, &told, NULL), 0);
	assert_int_equal(told, 4); /* the two that were never written down have nothing to tell */
}

static void own_slot_keeps_its_lock(void **state)
{
	const struct testdir *t = *state;
	struct slot s;
	struct sweep_hooks hooks = { .own = &s };
	struct sweep_report rep;
	char id[ID_LEN + 1];
	pid_t pid;

	make_id(id);
	assert_int_equal(be_a_ward(t, id, false, &s), 0);
	assert_int_equal(slot_sweep(t->fd, 0, &hooks, &rep, NULL), 0);
	assert_int_equal(rep.checked, 0);
	pid = fork();
	if (pid == 0)
		_exit(slot_sweep(t->fd, 0, NULL, &rep, NULL) < 0 || rep.live != 1);
	assert_true(child_ok(pid));
	slot_free(&s);
}

/* Many sweepers at once: every dead slot is swept by exactly one of them. */
static void sweepers_race(void **state)
{
	enum { DEAD = 40, SWEEPERS = 4 };
	const struct testdir *t = *state;
	unsigned total = 0;
	int go[2], out[2];
	pid_t pids[SWEEPERS];

	for (unsigned i = 0; i < DEAD; i++) {
		pid_t pid = fork();
		char id[ID_LEN + 1];
		struct slot s;

		if (pid == 0)
			_exit(id_make(id) < 0 || be_a_ward(t, id, false, &s) != 0);
		assert_true(child_ok(pid));
	}
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(out), 0);
	for (unsigned i = 0; i < SWEEPERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct sweep_report rep;
			char c;

			close(go[1]);
			if (read(go[0], &c, 1) != 0 || slot_sweep(t->fd, 0, NULL, &rep, NULL) < 0)
				_exit(1);
			_exit(write(out[1], &rep.swept, sizeof(rep.swept)) < 0 || rep.failed);
		}
	}
	close(go[0]);
	close(go[1]); /* off they go */
	for (unsigned i = 0; i < SWEEPERS; i++) {
		unsigned n;

		assert_true(child_ok(pids[i]));
		assert_int_equal(read(out[0], &n, sizeof(n)), sizeof(n));
		total += n;
	}
	close(out[0]);
	close(out[1]);
	assert_int_equal(total, DEAD);
	assert_int_equal(count_in(t->fd, "slots"), 0);
	assert_int_equal(count_in(t->fd, "boxes"), 0);
}

/* Wards that start and end beside sweepers never lose a slot that they hold. */
static int churn(const struct testdir *t)
{
	for (unsigned i = 0; i < 200; i++) {
		char id[ID_LEN + 1], box[32];
		struct slot s;
		struct stat st;

		if (id_make(id) < 0 || be_a_ward(t, id, false, &s) != 0)
			return 1;
		if (fstat(s.fd, &st) < 0 || st.st_nlink != 1)
			return 2;
		if (str_fmt(box, sizeof(box), "boxes/%s", id) < 0 ||
			unlinkat(t->fd, box, AT_REMOVEDIR) < 0)
			return 3;
		slot_free(&s);
	}
	return 0;
}

static void churn_beside_sweepers(void **state)
{
	const struct testdir *t = *state;
	pid_t wards[4], sweepers[2];

	for (unsigned i = 0; i < ARRAY_LEN(wards); i++) {
		wards[i] = fork();
		if (wards[i] == 0)
			_exit(churn(t));
	}
	for (unsigned i = 0; i < ARRAY_LEN(sweepers); i++) {
		sweepers[i] = fork();
		if (sweepers[i] == 0) {
			struct sweep_report rep = { 0 };

			for (unsigned n = 0; n < 300; n++)
				if (slot_sweep(t->fd, 0, NULL, &rep, NULL) < 0 || rep.failed)
					_exit(1);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < ARRAY_LEN(wards); i++)
		assert_true(child_ok(wards[i]));
	for (unsigned i = 0; i < ARRAY_LEN(sweepers); i++)
		assert_true(child_ok(sweepers[i]));
	sweep(t, 0); /* a number taken back from a sweeper may have left an empty file */
	assert_int_equal(count_in(t->fd, "slots"), 0);
}

static void refused_on_sight(void **state)
{
	static const struct {
		struct undo u;
		int want;
	} cases[] = {
		{ { UNDO_CGROUP, "/sys/fs/cgroup/pids/ward/abcdefghijkl", NULL }, 0 },
		{ { UNDO_CGROUP, "/sys/fs/cgroup/ward-abcdefghijkl.scope", NULL }, 0 },
		{ { UNDO_CGROUP, "/sys/fs/cgroup/pids", NULL }, -EINVAL },
		{ { UNDO_CGROUP, "/sys/fs/cgroup/abcdefghijkl/x", NULL }, -EINVAL },
		{ { UNDO_CGROUP, "/sys/fs/abcdefghijkl", NULL }, -EINVAL },
		{ { UNDO_CGROUP, "/sys/fs/cgroup/../abcdefghijkl", NULL }, -EINVAL },
		{ { UNDO_CGROUP, NULL, NULL }, -EINVAL },
		{ { UNDO_TREE, "/x/boxes/y", NULL }, 0 },
		{ { UNDO_TREE, "x/boxes/y", NULL }, -EINVAL },
		{ { UNDO_TREE, "/x/../y", NULL }, -EINVAL },
		{ { UNDO_TREE, "/x/./y", NULL }, -EINVAL },
		{ { UNDO_TREE, "/x//y", NULL }, -EINVAL },
		{ { UNDO_TREE, "/x/y/", NULL }, -EINVAL },
		{ { UNDO_TREE, "/", NULL }, -EINVAL },
		{ { UNDO_TREE, "", NULL }, -EINVAL },
		{ { UNDO_MOUNT, "/..", NULL }, -EINVAL },
		{ { UNDO_MOUNT, "/x/..y", NULL }, 0 },
		{ { UNDO_WORKTREE, "/repo", "/x/y" }, 0 },
		{ { UNDO_WORKTREE, "/repo", NULL }, -EINVAL },
		{ { UNDO_WORKTREE, "repo", "/x/y" }, -EINVAL },
		{ { UNDO_KEPT, NULL, NULL }, 0 },
		{ { (enum undo_kind)99, "/x", NULL }, -EINVAL },
	};
	static struct record r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		record_init(&r);
		if (undo_write(&r, "abcdefghijkl", &cases[i].u, 1, NULL) != cases[i].want)
			fail_msg("case %zu", i);
	}
}

/* Records that somebody wrote by hand: nothing outside the state directory may be touched. */
static void hostile_records(void **state)
{
	static const char *const lines[] = {
		"undo=tree %s/precious\n",
		"undo=tree %s/state\n",
		"undo=tree %s/state/audit\n",
		"undo=tree %s/state/boxes\n",
		"undo=tree %s/state/boxes/../../precious\n",
		"undo=tree %s/state/boxes/link/precious\n",
		"undo=mount %s/precious\n",
		"undo=loop %s/precious\n",
		"undo=worktree /repo %s/precious\n",
		"undo=worktree /repo %s/state/boxes/link/precious\n",
		"undo=mount %s/state/boxes/link/precious\n",
		"undo=cgroup %s/abcdefghijkl\n",
		"undo=cgroup /sys/fs/cgroup/%s\n",
		"undo=mystery %s\n",
		"undo=tree\n%s=\n",
		"undo=\n%s=\n",
	};
	const struct testdir *t = *state;
	char text[512], line[256], precious[128];

	assert_int_equal(str_fmt(precious, sizeof(precious), "%s/precious", t->root), 0);
	assert_int_equal(mkdir(precious, 0700), 0);
	assert_int_equal(symlinkat("../..", t->fd, "boxes/link"), 0);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		int fd = openat(t->fd, "slots/7", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		const char *hole = strstr(lines[i], "%s");
		struct sweep_report rep;

		assert_true(fd >= 0);
		assert_int_equal(str_fmt(line, sizeof(line), "%.*s%s%s", (int)(hole - lines[i]),
					 lines[i], t->root, hole + 2),
			0);
		assert_int_equal(
			str_fmt(text, sizeof(text), "version=1\nid=abcdefghijkl\n%s", line), 0);
		assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
		close(fd);
		rep = sweep(t, 0);
		if (rep.failed != 1 || rep.swept || !exists(t->fd, "slots/7"))
			fail_msg("was not refused: %s", line);
		assert_int_equal(access(precious, F_OK), 0);
		assert_true(exists(t->fd, "audit") && exists(t->fd, "boxes"));
		assert_int_equal(unlinkat(t->fd, "slots/7", 0), 0);
	}
}

static void garbage_in_slots(void **state)
{
	const struct testdir *t = *state;
	struct sweep_report rep;
	int fd;

	/* Neither a name nor a kind of file of ours: left alone, or reported. */
	close(openat(t->fd, "slots/007", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	close(openat(t->fd, "slots/99999", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	close(openat(t->fd, "slots/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(mkdirat(t->fd, "slots/1", 0700), 0);
	assert_int_equal(mknodat(t->fd, "slots/2", S_IFIFO | 0600, 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", t->fd, "slots/3"), 0);
	fd = openat(t->fd, "slots/4", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, RECORD_BYTES_MAX), 0); /* too large for a record */
	close(fd);
	fd = openat(t->fd, "slots/5", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "version=2\nid=abcdefghijkl\n", 26), 26); /* of a later ward */
	close(fd);
	fd = openat(t->fd, "slots/6", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "version=1\nid=abcdef", 19), 19); /* half a record */
	close(fd);
	rep = sweep(t, 0);
	assert_int_equal(rep.checked, 6);
	assert_int_equal(rep.failed, 5);
	assert_int_equal(rep.swept, 1);
	assert_false(exists(t->fd, "slots/6"));
}

static void killed_but_kept(void **state)
{
	const struct testdir *t = *state;
	char id[ID_LEN + 1], box[32], out[64];
	struct record_line line;
	struct record rec;
	struct err e = { 0 };

	make_id(id);
	assert_int_equal(str_fmt(box, sizeof(box), "boxes/%s", id), 0);
	kill_ward(start_ward(t, id, KEEP));
	assert_int_equal(sweep(t, 0).swept, 1);
	assert_true(exists(t->fd, box));
	assert_int_equal(kept_read(t->fd, id, &rec, &e), 0);
	assert_int_equal(record_get(&rec, "cause", out, sizeof(out)), 0);
	assert_string_equal(out, "killed-by-operator");
	assert_true(record_find(&rec, "command", &line));
	assert_int_equal(record_word(&line, 1, out, sizeof(out)), 0);
	assert_string_equal(out, "two words");
	assert_int_equal(kept_remove(t->fd, id, NULL, &e), 0);
	assert_false(exists(t->fd, box));
	assert_int_equal(kept_remove(t->fd, id, NULL, &e), -ENOENT);
}

static int count_kept(void *arg, const char *id, const struct record *rec)
{
	(void)id;
	(void)rec;
	++*(unsigned *)arg;
	return 0;
}

static void kept_boxes(void **state)
{
	const struct testdir *t = *state;
	static struct record more, back;
	struct kept_record rec = { .id = "abcdefghijkl",
		.tier = "workspace",
		.created = "2025-06-01T10:00:00.000000Z",
		.cause = "exited",
		.status = 3,
		.argv = argv_true,
		.more = &more };
	struct err e = { 0 };
	unsigned n = 0;
	char out[64];

	record_init(&more);
	record_add(&more, "source", "/some where");
	record_add(&more, "source", "/else");
	assert_int_equal(kept_write(t->fd, &rec, &e), 0);
	assert_int_equal(kept_write(t->fd, &rec, &e), 0); /* again: replaces */
	assert_int_equal(kept_read(t->fd, rec.id, &back, &e), 0);
	assert_int_equal(record_get(&back, "source", out, sizeof(out)), 0);
	assert_string_equal(out, "/else");
	assert_int_equal(record_get(&back, "status", out, sizeof(out)), 0);
	assert_string_equal(out, "3");
	/* Not kept: without a record, or not an id. */
	assert_int_equal(mkdirat(t->fd, "boxes/bbbbbbbbbbbb", 0700), 0);
	assert_int_equal(mkdirat(t->fd, "boxes/other", 0700), 0);
	assert_int_equal(kept_list(t->fd, count_kept, &n, &e), 0);
	assert_int_equal(n, 1);
	assert_int_equal(kept_remove(t->fd, "bbbbbbbbbbbb", NULL, &e), -ENOENT);
	assert_int_equal(kept_remove(t->fd, "../audit", NULL, &e), -EINVAL);
	assert_int_equal(kept_read(t->fd, "other", &back, &e), -EINVAL);
	assert_int_equal(kept_remove(t->fd, rec.id, NULL, &e), 0);
}

static int fail_worktree(const char *repo, const char *path, struct err *e)
{
	(void)path;
	return err_say(e, EIO, "no luck with %s", repo);
}

static int pass_worktree(const char *repo, const char *path, struct err *e)
{
	(void)path;
	return str_eq(repo, "/my repo") ? 0 : err_say(e, EIO, "wrong repository");
}

static void worktrees_go_through_the_hook(void **state)
{
	const struct testdir *t = *state;
	char path[256];
	const struct undo undo = { UNDO_WORKTREE, "/my repo", path };
	struct kept_record rec = { .id = "abcdefghijkl", .undo = &undo, .undo_count = 1 };
	struct sweep_hooks bad = { .worktree_remove = fail_worktree };
	struct sweep_hooks good = { .worktree_remove = pass_worktree };
	struct err e = { 0 };

	assert_int_equal(str_fmt(path, sizeof(path), "%s/boxes/abcdefghijkl/w", t->path), 0);
	assert_int_equal(kept_write(t->fd, &rec, &e), 0);
	assert_int_equal(kept_remove(t->fd, rec.id, NULL, &e), -ENOTSUP);
	assert_int_equal(kept_remove(t->fd, rec.id, &bad, &e), -EIO);
	assert_true(exists(t->fd, "boxes/abcdefghijkl/record"));
	assert_int_equal(kept_remove(t->fd, rec.id, &good, &e), 0);
	assert_false(exists(t->fd, "boxes/abcdefghijkl"));
}

static int unmount_two(const char *state_dir)
{
	struct kept_record rec = { .id = "abcdefghijkl" };
	char outer[256], inner[256];
	const struct undo undo[] = { { UNDO_MOUNT, outer, NULL }, { UNDO_MOUNT, inner, NULL } };
	struct err e = { 0 };
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 10;
	fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rec.undo = undo;
	rec.undo_count = 2;
	if (str_fmt(outer, sizeof(outer), "%s/boxes/abcdefghijkl/m", state_dir) < 0 ||
		str_fmt(inner, sizeof(inner), "%s/boxes/abcdefghijkl/m/n", state_dir) < 0 ||
		kept_write(fd, &rec, &e) < 0)
		return 11;
	if (mkdir(outer, 0700) < 0 || mount("tmpfs", outer, "tmpfs", 0, NULL) < 0 ||
		mkdir(inner, 0700) < 0 || mount("tmpfs", inner, "tmpfs", 0, NULL) < 0 ||
		mount("tmpfs", inner, "tmpfs", 0, NULL) < 0)
		return 12;
	if (kept_remove(fd, rec.id, NULL, &e) < 0) {
		print_message("%s\n", e.msg);
		return 13;
	}
	return exists(fd, "boxes/abcdefghijkl") ? 14 : 0;
}

static void mounts_are_undone(void **state)
{
	const struct testdir *t = *state;
	pid_t pid;

	if (getuid() != 0)
		skip(); /* mounting needs root */
	pid = fork();
	if (pid == 0)
		_exit(unmount_two(t->path));
	assert_true(child_ok(pid));
}

static int see(void *arg, const struct slot_view *view)
{
	struct slot_view *out = arg;

	*out = *view;
	return 1;
}

static void listing(void **state)
{
	const struct testdir *t = *state;
	struct slot_view view = { 0 };
	char id[ID_LEN + 1];
	pid_t pid;

	make_id(id);
	assert_int_equal(slot_list(t->fd, see, &view, NULL), 0);
	pid = start_ward(t, id, PLAIN);
	assert_int_equal(slot_list(t->fd, see, &view, NULL), 1);
	assert_true(view.live);
	assert_int_equal(view.pid, pid);
	kill_ward(pid);
	assert_int_equal(slot_list(t->fd, see, &view, NULL), 1);
	assert_false(view.live);
}

static void state_directories(void **state)
{
	const struct testdir *t = *state;
	char path[256];
	struct err e = { 0 };
	int fd;

	assert_int_equal(str_fmt(path, sizeof(path), "%s/a/b/c", t->root), 0);
	assert_int_equal(state_open_existing(path, &fd, &e), -ENOENT);
	assert_int_equal(state_open(path, &fd, &e), 0);
	assert_true(exists(fd, "slots") && exists(fd, "audit") && exists(fd, "layers"));
	close(fd);
	assert_int_equal(chmod(path, 0770), 0);
	assert_int_equal(state_open(path, &fd, &e), -EPERM);
	assert_int_equal(chmod(path, 0702), 0);
	assert_int_equal(state_open(path, &fd, &e), -EPERM);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(state_open(path, &fd, &e), 0);
	close(fd);
	assert_int_equal(state_open("/dev/null", &fd, &e), -ENOTDIR);
	assert_int_equal(state_open("/dev/null/x", &fd, &e), -ENOTDIR);
	if (getuid() == 0) {
		assert_int_equal(chown(path, 65534, 65534), 0);
		assert_int_equal(state_open(path, &fd, &e), -EPERM);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, testdir_setup, testdir_teardown)
	const struct CMUnitTest tests[] = {
		T(take_write_free),
		T(used_again),
		T(fills_up),
		T(made_by_hand),
		T(live_ones_stay),
		T(dead_ones_go),
		T(own_slot_keeps_its_lock),
		T(sweepers_race),
		T(churn_beside_sweepers),
		T(refused_on_sight),
		T(hostile_records),
		T(garbage_in_slots),
		T(killed_but_kept),
		T(kept_boxes),
		T(worktrees_go_through_the_hook),
		T(mounts_are_undone),
		T(listing),
		T(state_directories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
