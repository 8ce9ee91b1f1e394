/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/mounts_test.c - the newer calls about mounts and processes, with a fake guest: mounts by
 * number, below others, made by parts; what a pidfd knows.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/vfs.h"

#define CALL(nr, ...) fake_call(me, SYS_##nr, __VA_ARGS__)
#define P(s) put(text, s)
#define P2(s) put(other, s)
#define P3(s) put(third, s)

static struct fake *g;
static struct task *me;
static gva_t text, other, third, out;

static uint64_t put(gva_t at, const char *s)
{
	assert_int_equal(str_copy(fake_ptr(g, at), 4096, s), 0);
	return at.v;
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
	third = fake_alloc(g, 4096);
	out = fake_alloc(g, 65536);
	return 0;
}

static int end(void **state)
{
	procs_done(&g->k);
	vfs_done(&g->k);
	kernel_done(&g->k);
	free(g);
	return 0;
}

/* Mounts by their lasting numbers. */
static void test_mount_numbers(void **state)
{
	enum { STATMOUNT = 457, LISTMOUNT = 458, UNIQUE = 0x4000, SIZE = 512 };
	struct {
		uint32_t size, fd;
		uint64_t id, param;
	} * req;
	uint64_t id, *st;
	char *p;

	assert_int_equal(CALL(mkdir, P("/a"), 0755), 0);
	assert_int_equal(CALL(mkdir, P("/a/b"), 0755), 0);
	assert_int_equal(CALL(mkdir, P("/m"), 0755), 0);
	assert_int_equal(CALL(mount, P("/a/b"), P2("/m"), P3(""), MS_BIND, 0), 0);
	assert_int_equal(CALL(statx, AT_FDCWD, P("/m"), 0, UNIQUE, out.v), 0);
	p = fake_ptr(g, out);
	assert_true(*(uint32_t *)p & UNIQUE);
	memcpy(&id, p + 0x90, sizeof(id));
	assert_true(id > 1ULL << 31);

	req = fake_ptr(g, text);
	*req = (typeof(*req)){ .size = 24, .id = id, .param = 1 | 2 | 8 | 16 | 32 };
	st = fake_ptr(g, out);
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, SIZE, 0), -EOVERFLOW);
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, 4096, 1), -EINVAL);
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, 4096, 0), 0);
	assert_int_equal(st[1], req->param);
	assert_int_equal(st[5], id);
	p = (char *)st + SIZE;
	assert_string_equal(p, ""); /* what was not asked for */
	assert_string_equal(p + ((uint32_t *)st)[9], "tmpfs");
	assert_string_equal(p + ((uint32_t *)st)[26], "/a/b");
	assert_string_equal(p + ((uint32_t *)st)[27], "/m");
	req->param = 0;
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, 16, 0), 0);
	assert_int_equal(st[0], 16);
	req->id = id + 1;
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, SIZE, 0), -ENOENT);
	req->fd = 900;
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, SIZE, 0), -EBADF);

	*req = (typeof(*req)){ .size = 24, .id = UINT64_MAX };
	assert_true(fake_call(me, LISTMOUNT, text.v, out.v, 64, 0) > 3);
	req->param = id - 1;
	assert_int_equal(fake_call(me, LISTMOUNT, text.v, out.v, 64, 0), 1);
	assert_int_equal(st[0], id);
	req->param = 0;
	assert_int_equal(fake_call(me, LISTMOUNT, text.v, out.v, 1, 1), 1); /* from the end */
	assert_int_equal(st[0], id);
	req->param = 3;
	assert_int_equal(fake_call(me, LISTMOUNT, text.v, out.v, 64, 0), -EINVAL);
	/* Below a root of one's own: only with the right to look out of it. */
	*req = (typeof(*req)){ .size = 24, .id = (1ULL << 31) + 1 };
	assert_int_equal(CALL(chroot, P2("/m")), 0);
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, SIZE, 0), 0);
	me->cred->cap_effective = 0;
	assert_int_equal(fake_call(me, STATMOUNT, text.v, out.v, SIZE, 0), -EPERM);
	assert_int_equal(fake_call(me, LISTMOUNT, text.v, out.v, 64, 0), -EPERM);
	req->id = UINT64_MAX;
	assert_int_equal(fake_call(me, LISTMOUNT, text.v, out.v, 64, 0), 1);
}

/* What PIDFD_GET_INFO knows of a process, and how it ended once it is reaped. */
static void test_pidfd_info(void **state)
{
	enum { INFO = 0xc040ff0b, LONGER = 0xc060ff0b, EXIT = 8 };
	struct task *child;
	uint64_t *info;
	long fd;

	child = fake_fork(me);
	fd = CALL(pidfd_open, child->proc->pid, 0);
	assert_true(fd >= 0);
	info = fake_ptr(g, out);
	memset(info, 0xff, 128);
	info[0] = EXIT;
	assert_int_equal(CALL(ioctl, fd, LONGER, out.v), 0);
	assert_true((info[0] & 3) == 3 && !(info[0] & EXIT));
	assert_int_equal((uint32_t)info[2], child->proc->pid);
	assert_int_equal(info[11], 0); /* a field of the future */
	assert_int_equal(CALL(ioctl, fd, INFO, 0), -EINVAL);
	assert_int_equal(CALL(ioctl, fd, 0xc004ff0b, out.v), -ENOTTY);
	task_exit(child, 0x500);
	info[0] = EXIT;
	assert_int_equal(CALL(ioctl, fd, INFO, out.v), 0);
	assert_false(info[0] & EXIT);
	assert_int_equal(CALL(wait4, -1, 0, 0, 0), *(uint32_t *)(info + 2));
	info[0] = 0;
	assert_int_equal(CALL(ioctl, fd, INFO, out.v), -ESRCH);
	info[0] = EXIT;
	assert_int_equal(CALL(ioctl, fd, INFO, out.v), 0);
	assert_int_equal(info[0], EXIT);
	assert_int_equal(((uint32_t *)info)[15], 0x500);
}

/* One mount below another, which goes first. */
static void test_beneath(void **state)
{
	enum { CLONE_TREE = 1, BENEATH = 0x200, FROM_EMPTY = 4 };
	long tree;

	assert_int_equal(CALL(mkdir, P("/a"), 0755), 0);
	assert_int_equal(CALL(mkdir, P("/b"), 0755), 0);
	assert_int_equal(CALL(mount, P("none"), P2("/a"), P3("tmpfs"), 0, 0), 0);
	assert_int_equal(CALL(mount, P("none"), P2("/b"), P3("tmpfs"), 0, 0), 0);
	assert_int_equal(CALL(mkdir, P("/a/in_a"), 0755), 0);
	assert_int_equal(CALL(mkdir, P("/b/in_b"), 0755), 0);
	tree = fake_call(me, 428 /* open_tree */, AT_FDCWD, P("/a"), CLONE_TREE);
	assert_true(tree >= 0);
	/* Only below a mount, and not below one that was there at the start. */
	assert_int_equal(fake_call(me, 429 /* move_mount */, (uint64_t)tree, P2(""), AT_FDCWD,
				 P("/b/in_b"), FROM_EMPTY | BENEATH),
		-EINVAL);
	assert_int_equal(fake_call(me, 429, (uint64_t)tree, P2(""), AT_FDCWD, P("/dev"),
				 FROM_EMPTY | BENEATH),
		-EINVAL);
	assert_int_equal(
		fake_call(me, 429, (uint64_t)tree, P2(""), AT_FDCWD, P("/b"), FROM_EMPTY | BENEATH),
		0);
	assert_int_equal(CALL(close, (uint64_t)tree), 0);
	assert_int_equal(CALL(access, P("/b/in_b"), F_OK), 0);
	assert_int_equal(CALL(access, P("/b/in_a"), F_OK), -ENOENT);
	assert_int_equal(CALL(umount2, P("/b"), 0), 0);
	assert_int_equal(CALL(access, P("/b/in_a"), F_OK), 0);
	assert_int_equal(CALL(umount2, P("/b"), 0), 0);
	assert_int_equal(CALL(umount2, P("/b"), 0), -EINVAL);
	assert_int_equal(CALL(umount2, P("/a"), 0), 0);
}

/* What every file system knows may come with a path or a descriptor; nothing else may. */
static void test_fsconfig(void **state)
{
	enum { FSOPEN = 430, FSCONFIG = 431, SET_PATH = 3, SET_FD = 5, CREATE = 6 };
	long fd = fake_call(me, FSOPEN, P("tmpfs"), 0);

	assert_true(fd >= 0);
	assert_int_equal(fake_call(me, FSCONFIG, (uint64_t)fd, SET_PATH, P("sync"), P2("/x"),
				 (uint64_t)AT_FDCWD),
		0);
	assert_int_equal(
		fake_call(me, FSCONFIG, (uint64_t)fd, SET_FD, P("sync"), 0, (uint64_t)fd), 0);
	assert_int_equal(fake_call(me, FSCONFIG, (uint64_t)fd, SET_FD, P("sync"), 0, 900), -EBADF);
	assert_int_equal(fake_call(me, FSCONFIG, (uint64_t)fd, SET_PATH, P("size"), P2("/x"),
				 (uint64_t)AT_FDCWD),
		-EINVAL);
	assert_int_equal(fake_call(me, FSCONFIG, (uint64_t)fd, CREATE, 0, 0, 0), 0);
}

/* Loop devices show in /sys what they are made of; a knob keeps what it was told. */
static void test_texts(void **state)
{
	enum { LOOP_SET_FD = 0x4c00, LOOP_CLR_FD };
	long file, dev, fd;

	file = CALL(open, P("/image"), O_RDWR | O_CREAT, 0600);
	assert_int_equal(CALL(ftruncate, (uint64_t)file, 4096), 0);
	dev = CALL(open, P("/dev/loop3"), O_RDWR);
	assert_true(dev >= 0);
	assert_int_equal(CALL(ioctl, (uint64_t)dev, LOOP_SET_FD, (uint64_t)file), 0);
	fd = CALL(open, P("/sys/block/loop3/loop/backing_file"), O_RDONLY);
	assert_int_equal(CALL(read, (uint64_t)fd, out.v, 64), 7);
	assert_memory_equal(fake_ptr(g, out), "/image\n", 7);
	fd = CALL(open, P("/sys/block/loop3/size"), O_RDONLY);
	assert_int_equal(CALL(read, (uint64_t)fd, out.v, 64), 2);
	assert_memory_equal(fake_ptr(g, out), "8\n", 2);
	assert_int_equal(CALL(ioctl, (uint64_t)dev, LOOP_CLR_FD, 0), 0);
	assert_int_equal(CALL(pread64, (uint64_t)fd, out.v, 64, 0), 2);
	assert_memory_equal(fake_ptr(g, out), "0\n", 2);

	fd = CALL(open, P("/proc/sys/vm/swappiness"), O_RDWR);
	assert_int_equal(CALL(write, (uint64_t)fd, P2("many"), 4), -EINVAL);
	assert_int_equal(CALL(write, (uint64_t)fd, P2("33"), 2), 2);
	fd = CALL(open, P("/proc/sys/vm/swappiness"), O_RDONLY);
	assert_int_equal(CALL(read, (uint64_t)fd, out.v, 64), 3);
	assert_memory_equal(fake_ptr(g, out), "33\n", 3);
}

static bool in_mountinfo(const char *words)
{
	int64_t fd = CALL(open, P("/proc/self/mountinfo"), O_RDONLY), n;
	char *p = fake_ptr(g, out);

	n = CALL(read, (uint64_t)fd, out.v, 65535);
	assert_true(n > 0);
	p[n] = '\0';
	assert_int_equal(CALL(close, (uint64_t)fd), 0);
	return strstr(p, words) != NULL;
}

/* What has no room everywhere comes nowhere; peers hear of each other in a ring of binds too. */
static void test_propagation(void **state)
{
	unsigned before;
	int64_t r;

	assert_int_equal(CALL(mkdir, P("/a"), 0755), 0);
	assert_int_equal(CALL(mkdir, P("/b"), 0755), 0);
	assert_int_equal(CALL(mount, P("t"), P2("/a"), P3("tmpfs"), 0, 0), 0);
	assert_int_equal(CALL(mkdir, P("/a/x"), 0755), 0);
	assert_int_equal(CALL(mount, 0, P("/a"), 0, MS_SHARED, 0), 0);
	assert_true(in_mountinfo(" /a rw,relatime shared:1 - "));
	/* Each doubles what is there. */
	do {
		before = g->k.vfs->mount_count;
		r = CALL(mount, P("/a"), P2("/a/x"), 0, MS_BIND | MS_REC, 0);
	} while (r == 0);
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(g->k.vfs->mount_count, before);
	assert_int_equal(CALL(mount, P("t"), P2("/b"), P3("tmpfs"), 0, 0), 0);
	for (char at[] = "/b/0"; at[3] < '8'; at[3]++) {
		assert_int_equal(CALL(mkdir, P(at), 0755), 0);
		assert_int_equal(CALL(mount, P("t"), P2(at), P3("tmpfs"), 0, 0), 0);
	}
	assert_int_equal(CALL(mount, P("/b"), P2("/a/x"), 0, MS_MOVE, 0), -ENOSPC);
	assert_int_equal(g->k.vfs->mount_count, before + 9);
	assert_true(in_mountinfo(" /b rw,relatime - "));
	assert_int_equal(CALL(umount2, P("/a"), MNT_DETACH), 0);
	assert_true(g->k.vfs->mount_count < before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_mount_numbers, begin, end),
		cmocka_unit_test_setup_teardown(test_beneath, begin, end),
		cmocka_unit_test_setup_teardown(test_fsconfig, begin, end),
		cmocka_unit_test_setup_teardown(test_pidfd_info, begin, end),
		cmocka_unit_test_setup_teardown(test_propagation, begin, end),
		cmocka_unit_test_setup_teardown(test_texts, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
