/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/later_test.c - what may be answered before it is made, that it is made in time
 * and once, and that a log with anything in it does no harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

enum { EVERYTHING = LATER_LOCK | LATER_WRITE | LATER_SYNC | LATER_READ | LATER_CLOSE };

static struct fake *g;
static struct task *me;
static struct place_log *page;
static struct later *later;
static gva_t mem;
static int fd;
static unsigned shared; /* references of the memory, as they are */

static int open_as(struct task *t, const char *path, unsigned flags)
{
	return (int)fake_call(t, SYS_openat, (uint64_t)AT_FDCWD, fake_str(g, path).v, flags, 0644);
}

/* A file with four bytes that only we have open, and a log. */
static int begin(void **state)
{
	struct vfs_setup setup = { 0 };
	struct err e = { 0 };

	g = fake_create();
	me = g->task;
	assert_int_equal(vfs_init(&g->k, &setup, &e), 0);
	fs_ctx_unref(me->fs);
	me->fs = vfs_first_ctx(&g->k);
	mem = fake_alloc(g, 64 << 10);
	page = aligned_alloc(4096, sizeof(*page));
	assert_non_null(page);
	memset(page, 0, sizeof(*page));
	fd = open_as(me, "/file", O_RDWR | O_CREAT);
	assert_int_equal(fd, 0);
	memcpy(fake_ptr(g, mem), "wxyz", 4);
	assert_int_equal(fake_call(me, SYS_pwrite64, 0, mem.v, 4, 0), 4);
	later = later_attach(me, page);
	assert_non_null(later);
	later_open(&g->k);
	return 0;
}

static int end(void **state)
{
	later_free(later);
	procs_done(&g->k);
	vfs_done(&g->k);
	kernel_done(&g->k);
	free(g);
	free(page);
	return 0;
}

/* As the shim does it. */
static void add(struct later_entry e, const void *data)
{
	uint64_t at = (page->head & 0xffff) * 8, size = sizeof(e) + ((e.len + 7u) & ~7u);

	assert_true(at + size <= sizeof(page->entries));
	memcpy(&page->entries[at], &e, sizeof(e));
	if (e.len)
		memcpy(&page->entries[at + sizeof(e)], data, e.len);
	page->head += (uint64_t)(e.op == LATER_WRITE ? LATER_WRITE_COST : 1) << 16;
	page->head += size / 8;
}

static void add_lock(uint16_t type, int64_t at, int64_t count)
{
	add((struct later_entry){ .op = LATER_LOCK, .type = type, .at = at, .count = count }, NULL);
}

static void add_write(const char *text, int64_t at)
{
	add((struct later_entry){ .op = LATER_WRITE, .len = (uint32_t)strlen(text), .at = at },
		text);
}

/* A section: another call comes in between. */
static void section(void)
{
	later_run(&g->k, NULL);
	later_open(&g->k);
}

/* Another process; its memory is its own, whatever a fake says. */
static struct task *other_process(void)
{
	struct task *t = fake_fork(me);

	shared = me->mm->refs;
	me->mm->refs = 1;
	return t;
}

static void over(struct task *t)
{
	me->mm->refs = shared;
	proc_exit(t->proc, 0);
	kernel_bury(&g->k);
}

/* F_GETLK: the type and first byte of what is in the way of a write lock on all of it. */
static int in_the_way(struct task *t, int at_fd, int64_t *ret_start)
{
	struct {
		int16_t type, whence;
		int64_t start, len;
		int32_t pid;
	} *l = fake_ptr(g, mem);

	memset(l, 0, sizeof(*l));
	l->type = F_WRLCK;
	assert_int_equal(fake_call(t, SYS_fcntl, (uint64_t)at_fd, F_GETLK, mem.v), 0);
	*ret_start = l->start;
	return l->type;
}

static void all_for_who_is_alone(void **state)
{
	assert_int_equal(later_may(me, fd), EVERYTHING);
	assert_int_equal(page->may[0], EVERYTHING);
	assert_int_equal(page->head >> 16 & 0xffff, 0);
}

static void less_for_others(void **state)
{
	struct task *t = other_process();
	int two, dir;

	/* A child has what we have open. */
	assert_int_equal(later_may(me, fd), LATER_SYNC);
	over(t);
	assert_int_equal(later_may(me, fd), EVERYTHING);
	/* Ours twice; and then another's, too. */
	two = open_as(me, "/file", O_RDONLY);
	assert_int_equal(later_may(me, fd), EVERYTHING);
	assert_int_equal(later_may(me, two), LATER_READ | LATER_SYNC | LATER_CLOSE);
	t = other_process();
	fake_call(t, SYS_close, (uint64_t)fd);
	fake_call(t, SYS_close, (uint64_t)two);
	assert_int_equal(later_may(me, fd), EVERYTHING);
	assert_int_equal(open_as(t, "/file", O_RDONLY), fd);
	assert_int_equal(later_may(me, fd), LATER_SYNC);
	assert_int_equal(later_may(me, two), LATER_SYNC);
	over(t);
	fake_call(me, SYS_close, (uint64_t)two);
	assert_int_equal(later_may(me, fd), EVERYTHING);
	two = (int)fake_call(me, SYS_dup, (uint64_t)fd);
	assert_int_equal(later_may(me, fd), LATER_SYNC);
	fake_call(me, SYS_close, (uint64_t)two);
	/* Appending, read only, a directory, a pipe, nothing. */
	fake_call(me, SYS_fcntl, (uint64_t)fd, F_SETFL, O_APPEND);
	assert_int_equal(later_may(me, fd), LATER_SYNC | LATER_CLOSE);
	fake_call(me, SYS_fcntl, (uint64_t)fd, F_SETFL, 0);
	dir = open_as(me, "/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(later_may(me, dir), LATER_SYNC | LATER_CLOSE);
	assert_int_equal(fake_call(me, SYS_pipe2, mem.v, 0), 0);
	assert_int_equal(later_may(me, 2), 0);
	assert_int_equal(later_may(me, 99), 0);
	/* Set-user-ID bits go with a write, a limit may be in its way. */
	fake_call(me, SYS_fchmod, (uint64_t)fd, 04755);
	assert_int_equal(later_may(me, fd) & LATER_WRITE, 0);
	fake_call(me, SYS_fchmod, (uint64_t)fd, 0644);
	me->proc->limits[RLIMIT_FSIZE].rlim_cur = 4096;
	assert_int_equal(later_may(me, fd) & LATER_WRITE, 0);
	me->proc->limits[RLIMIT_FSIZE].rlim_cur = RLIM_INFINITY;
	/* Who has it mapped sees it change. */
	fd_get(me, fd)->inode->was_mapped = true;
	assert_int_equal(later_may(me, fd), LATER_LOCK | LATER_SYNC | LATER_CLOSE);
}

static void not_while_somebody_watches(void **state)
{
	int in = (int)fake_call(me, SYS_inotify_init1, 0);

	assert_true(in > 0);
	assert_true(fake_call(me, SYS_inotify_add_watch, (uint64_t)in, fake_str(g, "/").v,
			    IN_ALL_EVENTS) > 0);
	assert_int_equal(later_may(me, fd), LATER_SYNC);
}

static void locks_are_made_in_order(void **state)
{
	struct task *t;
	int64_t start;
	int theirs;

	add_lock(F_RDLCK, 10, 1);
	add_lock(F_WRLCK, 20, 10);
	add_lock(F_UNLCK, 10, 1);
	assert_int_equal(g->k.vfs->lock_count, 0);
	later_run(&g->k, NULL);
	assert_int_equal(g->k.vfs->lock_count, 1);
	t = other_process();
	theirs = open_as(t, "/file", O_RDWR);
	assert_int_equal(in_the_way(t, theirs, &start), F_WRLCK);
	assert_int_equal(start, 20);
	/* From here on nothing is answered in place, since another has it open. */
	later_open(&g->k);
	assert_int_equal(page->may[0], LATER_SYNC);
	over(t);
}

/* Added after the begin of the section in which another opens the file: still ours. */
static void what_comes_in_between_counts(void **state)
{
	struct task *t = other_process();
	int64_t start;
	int theirs;

	fake_call(t, SYS_close, (uint64_t)fd);
	section();
	assert_int_equal(page->may[0], EVERYTHING);
	later_run(&g->k, NULL);
	theirs = open_as(t, "/file", O_RDWR);
	add_lock(F_WRLCK, 5, 1);
	add_write("later", 4);
	later_open(&g->k);
	assert_int_equal(page->may[0], LATER_SYNC);
	assert_int_equal(in_the_way(t, theirs, &start), F_WRLCK);
	assert_int_equal(start, 5);
	assert_int_equal(fake_call(t, SYS_pread64, (uint64_t)theirs, mem.v, 64, 0), 9);
	assert_memory_equal(fake_ptr(g, mem), "wxyzlater", 9);
	over(t);
}

static void writes_and_closes_are_made(void **state)
{
	int two;

	add_write("AB", 1);
	add_write("tail", 8);
	add((struct later_entry){ .op = LATER_CLOSE }, NULL);
	section();
	assert_false(later_is_spoiled(later));
	assert_int_equal(page->may[0], 0);
	two = open_as(me, "/file", O_RDONLY);
	assert_int_equal(two, 0);
	assert_int_equal(fake_call(me, SYS_pread64, 0, mem.v, 64, 0), 12);
	assert_memory_equal(fake_ptr(g, mem), "wABz\0\0\0\0tail", 12);
}

static void an_end_makes_all(void **state)
{
	struct task *t = other_process();
	int64_t start;
	int theirs;

	fake_call(t, SYS_close, (uint64_t)fd);
	section();
	add_write("last", 0);
	add_lock(F_WRLCK, 0, 0);
	later_end(me);
	assert_int_equal(page->may[0], 0);
	theirs = open_as(t, "/file", O_RDONLY);
	assert_int_equal(fake_call(t, SYS_pread64, (uint64_t)theirs, mem.v, 64, 0), 4);
	assert_memory_equal(fake_ptr(g, mem), "last", 4);
	assert_int_equal(in_the_way(t, theirs, &start), F_WRLCK);
	/* And then it is nobody's. */
	page->head += 3;
	section();
	over(t);
}

/* A head that was seen before the log was taken is another one afterwards. */
static void heads_do_not_come_again(void **state)
{
	uint64_t head = page->head;

	later_run(&g->k, me->mm);
	assert_int_equal(page->head >> 16 & 0xffff, LATER_CLOSED);
	later_open(&g->k);
	assert_true(page->head != head);
	head = page->head;
	section(); /* of another, and nothing lay there */
	assert_int_equal(page->head, head);
}

static void threads_end_it(void **state)
{
	struct task *t = fake_thread(me);

	section();
	assert_int_equal(page->may[0], 0);
	assert_int_equal(page->head >> 16 & 0xffff, LATER_CLOSED);
	task_exit(t, 0);
	kernel_bury(&g->k);
	section();
	assert_int_equal(page->may[0], EVERYTHING);
	me->mm->place_shut = true; /* a filter inside */
	later_run(&g->k, me->mm);
	later_open(&g->k);
	assert_int_equal(page->may[0], 0);
}

/* What no shim writes: the log is never read again. */
static const struct {
	const char *name;
	struct later_entry e;
	int64_t head; /* more than the entry needs */
} lies[] = {
	{ "no call", { .op = 0 }, 0 },
	{ "two calls", { .op = LATER_LOCK | LATER_WRITE }, 0 },
	{ "an answer that is no call", { .op = LATER_READ }, 0 },
	{ "another's descriptor", { .op = LATER_LOCK, .fd = 200 }, 0 },
	{ "a descriptor that is not open", { .op = LATER_LOCK, .fd = 7 }, 0 },
	{ "a kind of lock that is none", { .op = LATER_LOCK, .type = 3 }, 0 },
	{ "a lock before the file", { .op = LATER_LOCK, .at = -1 }, 0 },
	{ "a lock of less than nothing", { .op = LATER_LOCK, .count = -1 }, 0 },
	{ "a lock beyond everything", { .op = LATER_LOCK, .at = INT64_MAX, .count = 2 }, 0 },
	{ "a write of nothing", { .op = LATER_WRITE }, 0 },
	{ "a write before the file", { .op = LATER_WRITE, .len = 1, .at = -1 }, 1 },
	{ "a write far behind it", { .op = LATER_WRITE, .len = 1, .at = INT64_MAX }, 1 },
	{ "more bytes than there are", { .op = LATER_WRITE, .len = 4096 }, 1 },
	{ "more bytes than there can be", { .op = LATER_WRITE, .len = UINT32_MAX }, 1 },
	{ "a longer log than there is", { .op = LATER_LOCK }, 0xfff0 },
	{ "half an entry", { .op = LATER_LOCK }, 1 },
	{ "another time", { .op = LATER_LOCK }, 1LL << 32 },
};

static void lies_end_it(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		if (i)
			begin(NULL);
		memcpy(page->entries, &lies[i].e, sizeof(lies[i].e));
		page->head += sizeof(lies[i].e) / 8 + (uint64_t)lies[i].head;
		section();
		if (!later_is_spoiled(later))
			fail_msg("%s", lies[i].name);
		assert_int_equal(page->may[0], 0);
		page->head = 0;
		section();
		assert_int_equal(page->may[0], 0);
		if (i + 1 < ARRAY_LEN(lies))
			end(NULL);
	}
}

static void too_many_locks_end_it(void **state)
{
	for (int i = 0; i <= LATER_COST_MAX; i++)
		add_lock(F_RDLCK, i * 2, 1);
	section();
	assert_true(later_is_spoiled(later));
	assert_int_equal(g->k.vfs->lock_count, LATER_COST_MAX);
}

static void noise_does_no_harm(void **state)
{
	uint32_t seed = 12345;

	for (int round = 0; round < 300; round++) {
		for (size_t i = 0; i < 512; i++) {
			seed = seed * 1664525 + 1013904223;
			page->entries[i] = (uint8_t)(seed >> 24) & (i % 3 ? 0x1f : 3);
		}
		page->head += seed >> 26;
		section();
		if (later_is_spoiled(later)) {
			end(NULL);
			begin(NULL);
		}
	}
}

static void reads_are_kept(void **state)
{
	uint64_t age[AGE_PROC] = { 7, 7, 7, 7, 7 };

	g->k.age = age;
	later_keep_read(later, fd, 16, 1, 3);
	assert_int_equal(page->reads[0].len, 16);
	assert_int_equal(page->reads[0].value, 3);
	assert_int_equal(page->reads[0].age, age[AGE_FILES]);
	assert_memory_equal(page->reads[0].data, "xyz", 3);
	later_keep_read(later, fd, LATER_READ_MAX + 1, 0, 4);
	later_keep_read(later, fd, 2, 0, 4);
	later_keep_read(later, fd, 8, 0, -EIO);
	later_keep_read(later, 5, 8, 0, 4);
	assert_int_equal(page->reads[1].len, 0);
	/* A write that was made later makes it old. */
	add_write("!", 1);
	section();
	assert_true(page->reads[0].age != age[AGE_FILES]);
	g->k.age = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_for_who_is_alone, begin, end),
		cmocka_unit_test_setup_teardown(less_for_others, begin, end),
		cmocka_unit_test_setup_teardown(not_while_somebody_watches, begin, end),
		cmocka_unit_test_setup_teardown(locks_are_made_in_order, begin, end),
		cmocka_unit_test_setup_teardown(what_comes_in_between_counts, begin, end),
		cmocka_unit_test_setup_teardown(writes_and_closes_are_made, begin, end),
		cmocka_unit_test_setup_teardown(an_end_makes_all, begin, end),
		cmocka_unit_test_setup_teardown(heads_do_not_come_again, begin, end),
		cmocka_unit_test_setup_teardown(threads_end_it, begin, end),
		cmocka_unit_test_setup_teardown(lies_end_it, begin, end),
		cmocka_unit_test_setup_teardown(too_many_locks_end_it, begin, end),
		cmocka_unit_test_setup_teardown(noise_does_no_harm, begin, end),
		cmocka_unit_test_setup_teardown(reads_are_kept, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
