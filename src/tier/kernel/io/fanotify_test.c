/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/fanotify_test.c - fanotify through its calls: whom a change is told and how, questions that
 * keep a call waiting, limits, and what is left when things go.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/io/fan.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/vfs.h"

#define CALL(name, ...) fake_call(me, SYS_##name, __VA_ARGS__)

struct event {
	uint32_t len;
	uint8_t version, pad;
	uint16_t own;
	uint64_t mask;
	int32_t fd, pid;
	struct {
		uint8_t type, pad;
		uint16_t len;
		uint32_t fsid[2], bytes;
		int32_t handle_type;
		uint8_t handle[16];
		char name[];
	} __attribute__((packed)) info;
} __attribute__((packed));

static struct fake *g;
static struct task *me; /* pid 1 */
static gva_t text, other, out;

static uint64_t P(const char *s)
{
	assert_int_equal(str_copy(fake_ptr(g, text), 4096, s), 0);
	return text.v;
}

static uint64_t P2(const char *s)
{
	assert_int_equal(str_copy(fake_ptr(g, other), 4096, s), 0);
	return other.v;
}

static int begin(void **state)
{
	struct vfs_setup setup = { .layers = NULL };
	struct err e = { 0 };

	g = fake_create();
	me = g->task;
	assert_int_equal(vfs_init(&g->k, &setup, &e), 0);
	fs_ctx_unref(me->fs);
	me->fs = vfs_first_ctx(&g->k);
	text = fake_alloc(g, 4096);
	other = fake_alloc(g, 4096);
	out = fake_alloc(g, 1 << 16);
	assert_int_equal(CALL(mkdir, P("/d"), 0755), 0);
	return 0;
}

static int end(void **state)
{
	procs_done(&g->k);
	assert_null(g->k.fan); /* with the last descriptor */
	vfs_done(&g->k);
	kernel_done(&g->k);
	free(g);
	return 0;
}

static long made(const char *path)
{
	long fd = CALL(open, P(path), O_RDWR | O_CREAT, 0600);

	assert_true(fd >= 0);
	return fd;
}

static long init(unsigned flags)
{
	return CALL(fanotify_init, flags, O_RDONLY);
}

static long mark(long fd, unsigned flags, uint64_t mask, const char *path)
{
	return CALL(fanotify_mark, (uint64_t)fd, flags, mask, (uint64_t)AT_FDCWD, P(path));
}

/* The next event alone; NULL: there is none. */
static struct event *next(long fd)
{
	long n = CALL(read, (uint64_t)fd, out.v, 4096);
	struct event *e = fake_ptr(g, out);

	if (n == -EAGAIN)
		return NULL;
	assert_true(n >= 24 && e->version == 3 && e->own == 24);
	return e;
}

static void test_descriptors(void **state)
{
	long fan = init(FAN_I_NONBLOCK), fd;
	struct event *e;

	made("/d/f");
	assert_int_equal(
		mark(fan, FAN_M_ADD, FAN_W_OPEN | FAN_W_CLOSE_WRITE | FAN_W_ON_CHILD, "/d"), 0);
	fd = made("/d/f");
	assert_int_equal(CALL(close, (uint64_t)fd), 0);
	e = next(fan); /* both in one */
	assert_int_equal(e->mask, FAN_W_OPEN | FAN_W_CLOSE_WRITE);
	assert_int_equal(e->pid, 1);
	assert_true(e->fd >= 0);
	assert_int_equal(CALL(read, (uint64_t)e->fd, out.v, 1), 0);
	assert_int_equal(CALL(close, (uint64_t)e->fd), 0);
	assert_null(next(fan)); /* its own descriptor tells nobody */
	assert_int_equal(mark(fan, FAN_M_REMOVE, FAN_W_ON_CHILD, "/d"), 0);
	CALL(close, (uint64_t)made("/d/f"));
	assert_null(next(fan));
	assert_int_equal(mark(fan, FAN_M_REMOVE, FAN_W_OPEN | FAN_W_CLOSE_WRITE, "/d"), 0);
	assert_int_equal(mark(fan, FAN_M_REMOVE, FAN_W_OPEN, "/d"), -ENOENT);
	assert_int_equal(g->k.fan->mark_count, 0);
}

static void test_handles(void **state)
{
	long fan = init(FAN_I_NONBLOCK | FAN_I_FID | FAN_I_DIR_FID | FAN_I_NAME);
	struct {
		uint32_t bytes;
		int32_t type;
		uint64_t body[2];
	} * h;
	struct event *e;

	assert_int_equal(mark(fan, FAN_M_ADD | FAN_M_SUPER,
				 FAN_W_CREATE | FAN_W_DELETE | FAN_W_RENAME | FAN_W_DELETE_SELF |
					 FAN_W_ON_DIR,
				 "/d"),
		0);
	assert_int_equal(CALL(mkdir, P("/d/new"), 0700), 0);
	e = next(fan);
	assert_int_equal(e->mask, FAN_W_CREATE | FAN_W_ON_DIR);
	assert_int_equal(e->info.type, 2);
	assert_string_equal(e->info.name, "new");
	h = fake_ptr(g, other);
	h->bytes = 16;
	assert_int_equal(
		CALL(name_to_handle_at, (uint64_t)AT_FDCWD, P("/d"), other.v, other.v + 64, 0), 0);
	assert_memory_equal(h->body, e->info.handle, 16);

	assert_int_equal(CALL(rename, P("/d/new"), P2("/d/newer")), 0);
	e = next(fan); /* from where, then to where */
	assert_int_equal(e->mask, FAN_W_RENAME | FAN_W_ON_DIR);
	assert_int_equal(e->info.type, 10);
	assert_string_equal(e->info.name, "new");
	assert_int_equal(((uint8_t *)&e->info)[e->info.len], 12);
	assert_string_equal((char *)&e->info + e->info.len + 36, "newer");
	assert_int_equal(CALL(rmdir, P("/d/newer")), 0);
	e = next(fan); /* the directory itself, which is "."; then its name, in the same read */
	assert_int_equal(e->mask, FAN_W_DELETE_SELF | FAN_W_ON_DIR);
	assert_string_equal(e->info.name, ".");
	e = (struct event *)((char *)e + e->len);
	assert_int_equal(e->mask, FAN_W_DELETE | FAN_W_ON_DIR);
	assert_null(next(fan));
}

static void test_words(void **state)
{
	static const struct {
		unsigned init, flags;
		uint64_t mask;
		long want;
	} rows[] = {
		{ 0, FAN_M_ADD, 0, -EINVAL },
		{ 0, 0, FAN_W_OPEN, -EINVAL },
		{ 0, FAN_M_ADD | FAN_M_REMOVE, FAN_W_OPEN, -EINVAL },
		{ 0, FAN_M_ADD, 1ULL << 40, -EINVAL },
		{ 0, FAN_M_ADD, FAN_W_CREATE, -EINVAL },
		{ 0, FAN_M_ADD, FAN_W_OPEN_PERM, -EINVAL },
		{ FAN_I_CONTENT, FAN_M_ADD, FAN_W_OPEN_PERM, 0 },
		{ FAN_I_FID, FAN_M_ADD | FAN_M_MOUNT, FAN_W_CREATE, -EINVAL },
		{ FAN_I_FID, FAN_M_ADD, FAN_W_RENAME, -EINVAL },
		{ FAN_I_FID, FAN_M_ADD, FAN_W_CREATE, 0 },
		{ 0, FAN_M_ADD | FAN_M_IGNORE, FAN_W_OPEN, -EISDIR },
		{ 0, FAN_M_ADD | FAN_M_IGNORE | FAN_M_MOUNT, FAN_W_OPEN, -EINVAL },
		{ 0, FAN_M_ADD | FAN_M_IGNORE | FAN_M_IGNORED, FAN_W_OPEN, -EINVAL },
		{ 0, FAN_M_FLUSH | FAN_M_ONLYDIR, 0, -EINVAL },
		{ 0, FAN_M_FLUSH, 0, 0 },
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		long fan = init(rows[i].init);

		assert_int_equal(mark(fan, rows[i].flags, rows[i].mask, "/d"), rows[i].want);
		assert_int_equal(CALL(close, (uint64_t)fan), 0);
	}
	assert_int_equal(init(FAN_I_CONTENT | FAN_I_FID), -EINVAL);
	assert_int_equal(init(FAN_I_NAME), -EINVAL);
	assert_int_equal(init(FAN_I_TID | FAN_I_PIDFD), -EINVAL);
	assert_int_equal(init(1 << 20), -EINVAL);
	me->cred->cap_effective = 0;
	assert_int_equal(init(0), -EPERM);
	assert_int_equal(init(FAN_I_FID | FAN_I_UNLIMITED_QUEUE), -EPERM);
	assert_int_equal(mark(init(FAN_I_FID), FAN_M_ADD | FAN_M_MOUNT, FAN_W_OPEN, "/d"), -EPERM);
}

/* An open and a read wait until they are allowed, or refused; a dead group allows all. */
static void test_questions(void **state)
{
	long fan = init(FAN_I_NONBLOCK | FAN_I_CONTENT), fd = made("/d/f"), r;
	struct task *child = fake_fork(me), *second = fake_fork(me);
	uint64_t path = fake_str(g, "/d/f").v, buf = fake_alloc(g, 16).v;
	int32_t *answer = fake_ptr(g, other);
	struct event *e;

	assert_int_equal(mark(fan, FAN_M_ADD, FAN_W_OPEN_PERM | FAN_W_ACCESS_PERM, "/d/f"), 0);
	assert_true(made("/d/f") >= 0); /* pid 1 is asked for nothing */
	assert_int_equal(fake_call(child, SYS_open, path, O_RDONLY), SYS_BLOCK);
	e = next(fan);
	assert_int_equal(e->mask, FAN_W_OPEN_PERM);
	assert_int_equal(e->pid, child->proc->pid);
	answer[0] = 900;
	answer[1] = 1;
	assert_int_equal(CALL(write, (uint64_t)fan, other.v, 8), -ENOENT);
	answer[0] = e->fd;
	answer[1] = 3;
	assert_int_equal(CALL(write, (uint64_t)fan, other.v, 8), -EINVAL);
	answer[1] = 1;
	assert_int_equal(CALL(write, (uint64_t)fan, other.v, 8), 8);
	assert_true(fake_over(child, &r));
	assert_true(r >= 0);
	assert_int_equal(fake_call(child, SYS_read, (uint64_t)fd, buf, 1), SYS_BLOCK);
	answer[0] = next(fan)->fd;
	answer[1] = 2;
	assert_int_equal(CALL(write, (uint64_t)fan, other.v, 8), 8);
	assert_true(fake_over(child, &r));
	assert_int_equal(r, -EPERM);

	/* One that is killed takes its question back; the other's end with the group. */
	assert_int_equal(fake_call(child, SYS_open, path, O_RDONLY), SYS_BLOCK);
	assert_int_equal(fake_call(second, SYS_open, path, O_RDONLY), SYS_BLOCK);
	proc_exit(child->proc, SIGKILL);
	e = next(fan);
	assert_int_equal(e->pid, second->proc->pid);
	assert_null(next(fan));
	assert_int_equal(CALL(close, (uint64_t)fan), 0);
	assert_false(fake_over(second, &r)); /* its own copy keeps the group alive */
	proc_exit(second->proc, SIGKILL);
	assert_null(g->k.fan);
}

static void test_limits(void **state)
{
	long fan = init(FAN_I_NONBLOCK), fd = made("/d/f"), last;
	unsigned groups = 1, seen = 0;
	char name[32];
	struct event *e;

	while ((last = init(0)) >= 0)
		groups++;
	assert_int_equal(last, -EMFILE);
	assert_int_equal(groups, FANOTIFY_GROUPS_MAX);
	for (long i = fan + 2; i < fan + 1 + FANOTIFY_GROUPS_MAX; i++)
		CALL(close, (uint64_t)i);

	assert_int_equal(mark(fan, FAN_M_ADD | FAN_M_MOUNT, FAN_W_OPEN, "/d"), 0);
	for (unsigned i = 0; i <= FANOTIFY_QUEUE_MAX + 1; i++) {
		snprintf(name, sizeof(name), "/d/%u", i);
		CALL(close, (uint64_t)made(name));
	}
	assert_int_equal(CALL(ioctl, (uint64_t)fan, 0x541b /* FIONREAD */, other.v), 0);
	assert_int_equal(*(uint32_t *)fake_ptr(g, other), (FANOTIFY_QUEUE_MAX + 1) * 24);
	do {
		CALL(read, (uint64_t)fan, out.v, 24);
		e = fake_ptr(g, out);
		if (e->fd >= 0)
			CALL(close, (uint64_t)e->fd);
		seen++;
	} while (!(e->mask & FAN_W_OVERFLOW) && seen < 2 * FANOTIFY_QUEUE_MAX);
	assert_int_equal(seen, FANOTIFY_QUEUE_MAX + 1);
	assert_int_equal(e->fd, -1);
	assert_null(next(fan));
	CALL(close, (uint64_t)fd);
}

/* Marks go with what they are on. */
static void test_what_goes(void **state)
{
	long fan = init(FAN_I_NONBLOCK | FAN_I_FID), fd;

	CALL(close, (uint64_t)made("/d/f"));
	assert_int_equal(mark(fan, FAN_M_ADD, FAN_W_OPEN, "/d/f"), 0);
	assert_int_equal(CALL(unlink, P("/d/f")), 0);
	assert_int_equal(g->k.fan->mark_count, 0);
	assert_int_equal(CALL(mount, P2("tmpfs"), P("/d"), other.v, 0, 0), 0);
	CALL(close, (uint64_t)made("/d/f"));
	assert_int_equal(mark(fan, FAN_M_ADD, FAN_W_OPEN, "/d/f"), 0);
	assert_int_equal(mark(fan, FAN_M_ADD | FAN_M_MOUNT, FAN_W_OPEN, "/d/f"), 0);
	assert_int_equal(mark(fan, FAN_M_ADD | FAN_M_SUPER, FAN_W_OPEN, "/d/f"), 0);
	assert_int_equal(g->k.fan->mark_count, 3);
	assert_int_equal(CALL(umount2, P("/d"), 0), 0);
	assert_int_equal(g->k.fan->mark_count, 0);
	/* The same file is meant by who has it open still. */
	fd = made("/d/g");
	assert_int_equal(mark(fan, FAN_M_ADD, FAN_W_DELETE_SELF, "/d/g"), 0);
	assert_int_equal(CALL(unlink, P("/d/g")), 0);
	assert_null(next(fan));
	CALL(close, (uint64_t)fd);
	assert_int_equal(next(fan)->mask, FAN_W_DELETE_SELF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_descriptors, begin, end),
		cmocka_unit_test_setup_teardown(test_handles, begin, end),
		cmocka_unit_test_setup_teardown(test_words, begin, end),
		cmocka_unit_test_setup_teardown(test_questions, begin, end),
		cmocka_unit_test_setup_teardown(test_limits, begin, end),
		cmocka_unit_test_setup_teardown(test_what_goes, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
