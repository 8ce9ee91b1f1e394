/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/iowalk_test.c - a file that is walked, built again and walked again is the same. All kinds
 * together, and what they have to do with each other: walk/sandbox_test.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "tier/kernel/fake.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

static struct fake *g;
static struct task *me;
static gva_t mem;

static int begin(void **state)
{
	g = fake_create();
	me = g->task;
	mem = fake_alloc(g, 1 << 16);
	return 0;
}

static int end(void **state)
{
	fake_destroy(g);
	return 0;
}

/* Saves @f, loads it into a new file, saves that, and compares. The new file. */
static struct file *again(struct file *f)
{
	struct file *n =
		file_create(&g->k, f->ops, f->flags, inode_anon(&g->k, f->inode->mode), NULL);
	struct walk a, b, l;

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	memset(&l, 0, sizeof(l));
	assert_int_equal(walk_save_begin(&a), 0);
	f->ops->walk(f, &a);
	assert_int_equal(a.err, 0);
	assert_int_equal(walk_load_begin(&l, a.buf, a.len), 0);
	n->ops->walk(n, &l);
	assert_int_equal(l.err, 0);
	assert_int_equal(walk_save_begin(&b), 0);
	n->ops->walk(n, &b);
	assert_int_equal(b.err, 0);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.buf, b.buf, a.len);
	walk_done(&a);
	walk_done(&b);
	walk_done(&l);
	return n;
}

static ssize_t take(struct file *f, void *buf, size_t n)
{
	struct uio io;
	int64_t pos = 0;

	uio_kernel(&io, buf, n);
	return f->ops->read(f, &io, &pos);
}

static void a_pipe_with_bytes(void **state)
{
	struct file *n;
	char b[9000];
	int p[2];

	assert_int_equal(fake_call(me, SYS_pipe2, mem.v, 0), 0);
	memcpy(p, fake_ptr(g, mem), sizeof(p));
	memset(fake_ptr(g, mem), 'p', 9000);
	assert_int_equal(fake_call(me, SYS_write, (uint64_t)p[1], mem.v, 5000), 5000);
	assert_int_equal(fake_call(me, SYS_read, (uint64_t)p[0], mem.v, 1000), 1000);
	n = again(fd_get(me, p[0]));
	assert_int_equal(take(n, b, sizeof(b)), 4000);
	assert_int_equal(b[3999], 'p');
	file_unref(n);
}

static void counters_and_timers(void **state)
{
	int64_t spec[4] = { 0, 5000000, 100, 0 };
	uint64_t v = 0;
	struct file *n;
	int fd;

	fd = (int)fake_call(me, SYS_eventfd2, 77, 0);
	n = again(fd_get(me, fd));
	assert_int_equal(take(n, &v, 8), 8);
	assert_int_equal(v, 77);
	file_unref(n);
	fd = (int)fake_call(me, SYS_timerfd_create, 1, 0);
	memcpy(fake_ptr(g, mem), spec, sizeof(spec));
	assert_int_equal(fake_call(me, SYS_timerfd_settime, (uint64_t)fd, 0, mem.v, 0), 0);
	n = again(fd_get(me, fd));
	assert_int_equal(take(n, &v, 8), -EAGAIN);
	file_unref(n);
	v = 1 << 9;
	memcpy(fake_ptr(g, mem), &v, 8);
	fd = (int)fake_call(me, SYS_signalfd4, (uint64_t)-1, mem.v, 8, 0);
	file_unref(again(fd_get(me, fd)));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_pipe_with_bytes),
		T(counters_and_timers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
