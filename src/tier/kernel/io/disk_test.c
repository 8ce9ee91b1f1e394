/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io/disk_test.c - a disk that does not answer: its caller waits, everybody else goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/tree.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/io/disk.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

static struct fake *g;
static struct task *me;
static char place[64];
static gva_t text, out;
/* The disk: how many were begun, and how many may end. */
static sem_t begun, may_end;
static bool cold;

static ssize_t slow_read_now(int fd, void *buf, size_t len, int64_t off)
{
	return cold ? -EAGAIN : pread(fd, buf, len, off);
}

static ssize_t slow_read(int fd, void *buf, size_t len, int64_t off)
{
	sem_post(&begun);
	sem_wait(&may_end);
	return pread(fd, buf, len, off);
}

static int slow_sync(int fd, bool data_only)
{
	sem_post(&begun);
	sem_wait(&may_end);
	return data_only ? -EIO : 0;
}

static const struct disk_ops slow = { slow_read_now, slow_read, slow_sync };

static void put_file(const char *name)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", place, name);
	fd = open(full, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hello disk", 10), 10);
	close(fd);
}

static int begin(void **state)
{
	struct vfs_bind binds[2] = { { .dst = "/rw" }, { .dst = "/ro", .read_only = true } };
	struct vfs_setup setup = { .binds = binds, .bind_count = 2 };
	struct err e = { 0 };

	snprintf(place, sizeof(place), "/tmp/ward-disk-XXXXXX");
	assert_non_null(mkdtemp(place));
	put_file("file");
	binds[0].fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	binds[1].fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g = fake_create();
	me = g->task;
	assert_int_equal(vfs_init(&g->k, &setup, &e), 0);
	fs_ctx_unref(me->fs);
	me->fs = vfs_first_ctx(&g->k);
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	cold = true;
	assert_int_equal(disk_init(&g->k, &slow), 0);
	text = fake_alloc(g, 4096);
	out = fake_alloc(g, 4096);
	return 0;
}

static int end(void **state)
{
	struct err e;

	disk_done(&g->k);
	procs_done(&g->k);
	vfs_done(&g->k);
	kernel_done(&g->k);
	free(g);
	return tree_remove(place, &e);
}

static long open_it(struct task *t, const char *path)
{
	memcpy(fake_ptr(g, text), path, strlen(path) + 1);
	return fake_call(t, SYS_open, text.v, O_RDWR);
}

static long wait_over(struct task *t)
{
	for (;;) {
		bool over;
		long ret;

		kernel_lock(&g->k);
		over = fake_over(t, &ret);
		kernel_unlock(&g->k);
		if (over)
			return ret;
		usleep(500);
	}
}

static void reads_wait_alone(void **state)
{
	static const char *const paths[] = { "/rw/file", "/ro/file" };

	for (int i = 0; i < 2; i++) {
		struct task *t = fake_thread(me);
		long fd;

		memcpy(fake_ptr(g, text), paths[i], strlen(paths[i]) + 1);
		fd = fake_call(t, SYS_open, text.v, O_RDONLY);
		assert_true(fd >= 0);
		memset(fake_ptr(g, out), 0, 64);
		cold = true;
		assert_int_equal(fake_call(t, SYS_read, fd, out.v, 64), SYS_BLOCK);
		sem_wait(&begun);
		/* The disk is silent; the lock is free, the file too. */
		cold = false;
		assert_int_equal(fake_call(me, SYS_pread64, fd, out.v + 128, 5, 5), 5);
		assert_memory_equal((char *)fake_ptr(g, out) + 128, " disk", 5);
		assert_true(t->call.active);
		sem_post(&may_end);
		assert_int_equal(wait_over(t), 10);
		assert_memory_equal(fake_ptr(g, out), "hello disk", 10);
		assert_int_equal(fake_call(me, SYS_lseek, fd, 0, SEEK_CUR), 10);
	}
}

static void sync_waits_alone(void **state)
{
	struct task *t = fake_thread(me), *u = fake_thread(me);
	long fd = open_it(t, "/rw/file");

	assert_true(fd >= 0);
	assert_int_equal(fake_call(t, SYS_fsync, fd), SYS_BLOCK);
	assert_int_equal(fake_call(u, SYS_fdatasync, fd), SYS_BLOCK);
	sem_wait(&begun);
	sem_wait(&begun);
	/* Closed meanwhile: the job has a descriptor of its own. */
	assert_int_equal(fake_call(me, SYS_close, fd), 0);
	sem_post(&may_end);
	sem_post(&may_end);
	assert_int_equal(wait_over(t), 0);
	assert_int_equal(wait_over(u), -EIO);
}

static void killed_while_waiting(void **state)
{
	struct task *t = fake_fork(me);
	long fd = open_it(t, "/rw/file");

	assert_int_equal(fake_call(t, SYS_read, fd, out.v, 64), SYS_BLOCK);
	sem_wait(&begun);
	kernel_lock(&g->k);
	proc_exit(t->proc, 9);
	kernel_bury(&g->k);
	kernel_unlock(&g->k);
	sem_post(&may_end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_wait_alone, begin, end),
		cmocka_unit_test_setup_teardown(sync_waits_alone, begin, end),
		cmocka_unit_test_setup_teardown(killed_while_waiting, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
