/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/vfs_test.c - the tree of a sandbox through its system calls, with a fake guest: layers under
 * it, what is hidden and copied, procfs, locks, limits.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "host/tree.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/names.h"

static struct fake *g;
static struct task *me;
static char place[64];
static gva_t text, other, third, out;

/* A host file below the test's own directory. */
static void host_file(const char *path, const char *contents, mode_t mode)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", place, path);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, contents, strlen(contents)), strlen(contents));
	close(fd);
}

static void host_dir(const char *path)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", place, path);
	assert_int_equal(mkdir(full, 0755), 0);
}

static int host_open_dir(const char *path)
{
	char full[256];
	int fd;

	snprintf(full, sizeof(full), "%s/%s", place, path);
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void start(const int *layers, unsigned count, struct vfs_bind *binds, unsigned bind_count)
{
	struct vfs_setup setup = { layers, count, binds, bind_count, 0 };
	struct err e = { 0 };

	g = fake_create();
	me = g->task;
	g->k.store = host_open_dir("store");
	assert_int_equal(vfs_init(&g->k, &setup, &e), 0);
	fs_ctx_unref(me->fs);
	me->fs = vfs_first_ctx(&g->k);
	text = fake_alloc(g, 8192);
	other = fake_alloc(g, 8192);
	third = fake_alloc(g, 8192);
	out = fake_alloc(g, 65536);
}

static void stop(void)
{
	int store = g->k.store, left = 0;
	struct dirent *de;
	DIR *d;

	procs_done(&g->k);
	vfs_done(&g->k);
	d = fdopendir(store);
	while ((de = readdir(d)))
		left += de->d_name[0] != '.';
	closedir(d);
	assert_int_equal(left, 0); /* no contents stay behind */
	kernel_done(&g->k);
	free(g);
	g = NULL;
}

/* The contents are another kernel's too: the store is left alone. */
static void stop_sharing_store(void)
{
	close(g->k.store);
	g->k.store = host_open_dir("store-of-nobody");
	procs_done(&g->k);
	vfs_done(&g->k);
	close(g->k.store);
	kernel_done(&g->k);
	free(g);
	g = NULL;
}

static int begin(void **state)
{
	snprintf(place, sizeof(place), "/tmp/ward-vfs-XXXXXX");
	assert_non_null(mkdtemp(place));
	host_dir("store");
	host_dir("store-of-nobody");
	return 0;
}

static int end(void **state)
{
	struct err e = { 0 };

	if (g)
		stop();
	return tree_remove(place, &e);
}

static uint64_t put(gva_t at, const char *s)
{
	memcpy(fake_ptr(g, at), s, strlen(s) + 1);
	return at.v;
}

#define P(s) put(text, s)
#define P2(s) put(other, s)
#define P3(s) put(third, s)
#define CALL(nr, ...) fake_call(me, SYS_##nr, __VA_ARGS__)

static int open_at(const char *path, unsigned flags)
{
	return (int)CALL(openat, AT_FDCWD, P(path), flags, 0644);
}

static void write_file(const char *path, const char *s)
{
	int fd = open_at(path, O_WRONLY | O_CREAT | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(CALL(write, fd, P2(s), strlen(s)), strlen(s));
	assert_int_equal(CALL(close, fd), 0);
}

static const char *read_file(const char *path)
{
	int fd = open_at(path, O_RDONLY);
	char *p = fake_ptr(g, out);
	long n;

	if (fd < 0)
		return "(cannot open)";
	n = CALL(read, fd, out.v, 60000);
	assert_true(n >= 0);
	p[n] = '\0';
	CALL(close, fd);
	return p;
}

/* The names in a directory, sorted by nobody: only asks whether one is there. */
static bool lists(const char *dir, const char *name)
{
	int fd = open_at(dir, O_RDONLY | O_DIRECTORY);
	bool found = false;
	long n;

	assert_true(fd >= 0);
	while ((n = CALL(getdents64, fd, out.v, 4096)) > 0)
		for (long at = 0; at < n;) {
			struct dirent64 *d = (void *)((char *)fake_ptr(g, out) + at);

			found = found || strcmp(d->d_name, name) == 0;
			at += d->d_reclen;
		}
	assert_int_equal(n, 0);
	CALL(close, fd);
	return found;
}

static void test_empty_tree(void **state)
{
	start(NULL, 0, NULL, 0);
	assert_int_equal(CALL(mkdir, P("/a"), 0755), 0);
	write_file("/a/f", "hello");
	assert_string_equal(read_file("/a/f"), "hello");
	assert_int_equal(CALL(chdir, P("/a")), 0);
	assert_string_equal(read_file("f"), "hello");
	assert_string_equal(read_file("../a/./f"), "hello");
	assert_int_equal(CALL(rmdir, P("/a")), -ENOTEMPTY);
	assert_int_equal(CALL(unlink, P("f")), 0);
	assert_int_equal(CALL(rmdir, P("/a")), 0);
	assert_true(lists("/", "dev"));
	assert_true(lists("/dev", "null"));
	assert_int_equal(CALL(open, P("/dev/null"), O_RDWR, 0), 0);
	assert_int_equal(CALL(write, 0, P2("x"), 1), 1);
	assert_int_equal(CALL(read, 0, out.v, 1), 0);
}

static void test_proc(void **state)
{
	start(NULL, 0, NULL, 0);
	assert_non_null(strstr(read_file("/proc/self/status"), "Pid:\t1\n"));
	assert_non_null(strstr(read_file("/proc/mounts"), " /proc proc "));
	assert_non_null(strstr(read_file("/proc/self/mountinfo"), " / / "));
	assert_non_null(strstr(read_file("/proc/meminfo"), "MemTotal:"));
	assert_non_null(strstr(read_file("/proc/cpuinfo"), "processor\t: 0"));
	assert_string_equal(read_file("/proc/sys/kernel/ostype"), "Linux\n");
	assert_string_equal(read_file("/sys/devices/system/node/online"), "0\n");
	assert_true(lists("/proc", "1"));
	assert_true(lists("/proc/self/task", "1"));
	assert_int_equal(open_at("/dev/null", O_RDWR), 0);
	assert_true(lists("/proc/self/fd", "0"));
	assert_int_equal(CALL(readlink, P("/proc/self/fd/0"), out.v, 100), 9);
	assert_memory_equal(fake_ptr(g, out), "/dev/null", 9);
	assert_int_equal(open_at("/proc/self/fd/0", O_RDWR), 1);
	assert_int_equal(open_at("/proc/1234567", O_RDONLY), -ENOENT);
	assert_int_equal(open_at("/proc/self/fd/77", O_RDONLY), -ENOENT);
	assert_int_equal(open_at("/proc/version", O_WRONLY), 2); /* root may */
	assert_int_equal(CALL(write, 2, P2("x"), 1), -EIO);
	/* A limit that somebody asks for. */
	assert_true(CALL(shmget, 0, 8193, IPC_CREAT | 0600) >= 0);
	write_file("/proc/sys/kernel/shmmax", "8192");
	assert_int_equal(CALL(shmget, 0, 8193, IPC_CREAT | 0600), -EINVAL);
}

static void make_layers(int layers[2])
{
	host_dir("low");
	host_dir("low/d");
	host_dir("low/both");
	host_dir("low/closed");
	host_file("low/d/f", "lower", 0644);
	host_file("low/both/low", "l", 0644);
	host_file("low/both/hidden", "never seen", 0644);
	host_file("low/closed/x", "never seen", 0644);
	host_file("low/x", "of the lower layer", 0755);
	host_dir("up");
	host_dir("up/both");
	host_file("up/both/up", "u", 0644);
	host_file("up/closed", "a file over a directory", 0644);
	host_file("up/x", "of the upper layer", 0600);
	layers[0] = host_open_dir("up");
	layers[1] = host_open_dir("low");
	/* A device 0:0 hides the name below. */
	if (mknodat(layers[0], "both/hidden", S_IFCHR, makedev(0, 0)) < 0)
		assert_int_equal(unlinkat(layers[1], "both/hidden", 0), 0);
	assert_int_equal(symlinkat("d/f", layers[1], "link"), 0);
	assert_int_equal(linkat(layers[1], "d/f", layers[1], "hard", 0), 0);
}

static void test_layers(void **state)
{
	int layers[2];

	make_layers(layers);
	start(layers, 2, NULL, 0);
	assert_string_equal(read_file("/d/f"), "lower");
	assert_string_equal(read_file("/link"), "lower");
	assert_string_equal(read_file("/x"), "of the upper layer");
	assert_string_equal(read_file("/closed"), "a file over a directory");
	assert_int_equal(open_at("/closed/x", O_RDONLY), -ENOTDIR);
	assert_true(lists("/both", "up"));
	assert_true(lists("/both", "low"));
	assert_false(lists("/both", "hidden"));
	assert_int_equal(open_at("/both/hidden", O_RDONLY), -ENOENT);
}

static void test_changes_stay_above(void **state)
{
	int layers[2];

	make_layers(layers);
	start(layers, 2, NULL, 0);
	write_file("/d/f", "changed");
	assert_string_equal(read_file("/d/f"), "changed");
	assert_string_equal(read_file("/hard"), "changed"); /* one file, two names */
	assert_int_equal(CALL(unlink, P("/x")), 0);
	assert_string_equal(read_file("/x"), "(cannot open)"); /* nor does the lower one show */
	assert_false(lists("/", "x"));
	assert_int_equal(CALL(mkdir, P("/x"), 0755), 0);
	assert_true(lists("/", "x"));
	assert_false(lists("/x", "f"));
	assert_int_equal(CALL(rename, P("/both"), P2("/moved")), 0);
	assert_string_equal(read_file("/moved/low"), "l");
	assert_false(lists("/", "both"));
	assert_int_equal(CALL(rmdir, P("/moved")), -ENOTEMPTY);
	assert_int_equal(CALL(unlink, P("/moved/low")), 0);
	assert_int_equal(CALL(unlink, P("/moved/up")), 0);
	assert_int_equal(CALL(rmdir, P("/moved")), 0);
	assert_int_equal(CALL(mkdir, P("/both"), 0755), 0);
	assert_false(lists("/both", "up"));
	assert_int_equal(CALL(chmod, P("/link"), 0600), 0);
	stop();
	/* and the host's files are as they were */
	layers[0] = host_open_dir("low");
	start(layers, 1, NULL, 0);
	assert_string_equal(read_file("/d/f"), "lower");
	assert_string_equal(read_file("/both/low"), "l");
}

static void test_cache_is_bounded(void **state)
{
	char name[32];

	start(NULL, 0, NULL, 0);
	for (int i = 0; i < 40000; i++) {
		snprintf(name, sizeof(name), "/nothing-%d", i);
		assert_int_equal(CALL(access, P(name), F_OK), -ENOENT);
	}
	assert_true(g->k.vfs->cached <= 16384);
	assert_int_equal(CALL(mkdir, P("/d"), 0755), 0);
	assert_true(lists("/", "d"));
}

static void test_binds(void **state)
{
	struct vfs_bind binds[3];
	int layers[2];

	make_layers(layers);
	host_dir("rw");
	host_file("rw/f", "host", 0644);
	/* As a detached mount is: for walking only. */
	binds[0] = (struct vfs_bind){ .fd = openat(host_open_dir("rw"), ".", O_PATH | O_CLOEXEC),
		.dst = "/mnt/rw" };
	binds[1] =
		(struct vfs_bind){ .fd = host_open_dir("rw"), .dst = "/mnt/ro", .read_only = true };
	binds[2] =
		(struct vfs_bind){ .fd = host_open_dir("rw"), .dst = "/mnt/over", .overlay = true };
	start(layers, 2, binds, 3);
	assert_string_equal(read_file("/mnt/rw/f"), "host");
	assert_int_equal(open_at("/mnt/ro/f", O_WRONLY), -EROFS);
	assert_int_equal(open_at("/mnt/ro/new", O_WRONLY | O_CREAT), -EROFS);
	write_file("/mnt/over/f", "mine");
	assert_string_equal(read_file("/mnt/rw/f"), "host");
	write_file("/mnt/rw/f", "the guest was here");
	assert_string_equal(read_file("/mnt/over/f"), "mine");
	write_file("/mnt/rw/new", "made");
	assert_int_equal(CALL(mkdir, P("/mnt/rw/dir"), 0755), 0);
	assert_int_equal(CALL(rename, P("/mnt/rw/new"), P2("/mnt/rw/dir/newer")), 0);
	assert_string_equal(read_file("/mnt/rw/dir/newer"), "made");
	assert_true(lists("/mnt/rw/dir", "newer"));
	assert_true(lists("/mnt/rw", "dir"));
	assert_int_equal(CALL(rename, P("/mnt/rw/f"), P2("/f")), -EXDEV);
	assert_int_equal(CALL(symlink, P("../../../../etc/passwd"), P2("/mnt/rw/out")), 0);
	assert_int_equal(open_at("/mnt/rw/out", O_RDONLY), -ENOENT); /* the guest's own /etc */
	assert_int_equal(CALL(unlink, P("/mnt/rw/out")), 0);
}

/* The host's file is read-only by every way that leads to it. */
static void test_given_read_only(void **state)
{
	struct vfs_bind bind;
	const struct {
		uint64_t set, clear, kind, ns;
	} writable = { .clear = 1 };
	gva_t attr;
	long fd;

	host_dir("given");
	host_file("given/f", "host", 0644);
	bind = (struct vfs_bind){ .fd = host_open_dir("given"), .dst = "/ro", .read_only = true };
	start(NULL, 0, &bind, 1);
	attr = fake_put(g, &writable, sizeof(writable));
	assert_int_equal(CALL(mkdir, P("/b"), 0755), 0);
	assert_int_equal(CALL(mount, P("/ro"), P2("/b"), 0, MS_BIND, 0), 0);
	assert_int_equal(open_at("/b/f", O_WRONLY), -EROFS);
	assert_int_equal(CALL(mount, 0, P("/b"), 0, MS_BIND | MS_REMOUNT, 0), -EPERM);
	assert_int_equal(CALL(mount, 0, P("/b"), 0, MS_REMOUNT, 0), -EPERM);
	assert_int_equal(CALL(mount_setattr, AT_FDCWD, P("/b"), 0, attr.v, 32), -EPERM);
	assert_int_equal(CALL(mount_setattr, AT_FDCWD, P("/ro"), 0, attr.v, 32), -EPERM);
	assert_int_equal(open_at("/b/f", O_WRONLY), -EROFS);
	fd = CALL(open_tree, AT_FDCWD, P("/ro"), 1);
	assert_true(fd >= 0);
	assert_int_equal(CALL(openat, fd, P("f"), O_WRONLY), -EROFS);
	assert_int_equal(CALL(mount_setattr, fd, P(""), AT_EMPTY_PATH, attr.v, 32), -EPERM);
	assert_int_equal(CALL(umount2, P("/ro"), MNT_DETACH), -EINVAL);
	assert_int_equal(CALL(mount, P("/ro"), P2("/b"), 0, MS_MOVE, 0), -EINVAL);
	assert_int_equal(CALL(umount2, P("/b"), 0), 0);
	assert_int_equal(CALL(close, fd), 0);
}

static void test_guest_mounts(void **state)
{
	struct task *child;
	long fd, in;

	start(NULL, 0, NULL, 0);
	child = fake_fork(me);
	assert_int_equal(fake_call(child, SYS_setuid, 1000), 0);
	assert_int_equal(CALL(mkdir, P("/a"), 0755), 0);
	assert_int_equal(CALL(mkdir, P("/b"), 0755), 0);
	write_file("/a/below", "x");
	assert_int_equal(
		fake_call(child, SYS_mount, P("none"), P2("/a"), P3("tmpfs"), 0, 0), -EPERM);
	assert_int_equal(CALL(mount, P("none"), P2("/a"), P3("ext4"), 0, 0), -ENODEV);
	assert_int_equal(CALL(mount, P("none"), P2("/a"), P3("tmpfs"), 0, 0), 0);
	assert_false(lists("/a", "below"));
	write_file("/a/f", "made");
	assert_int_equal(CALL(rename, P("/a/f"), P2("/b/f")), -EXDEV);
	assert_int_equal(CALL(rmdir, P("/a")), -EBUSY);
	fd = open_at("/a/f", O_RDWR);
	assert_int_equal(CALL(umount2, P("/a"), 0), -EBUSY);
	assert_int_equal(CALL(mount, 0, P("/a"), 0, MS_REMOUNT | MS_RDONLY, 0), -EBUSY);
	assert_int_equal(CALL(umount2, P("/a"), MNT_DETACH), 0);
	assert_true(lists("/a", "below"));
	assert_int_equal(CALL(pread64, fd, out.v, 10, 0), 4); /* open: still there */
	assert_int_equal(CALL(close, fd), 0);
	assert_int_equal(CALL(umount2, P("/a"), 0), -EINVAL);

	/* By descriptor. */
	fd = CALL(fsopen, P("tmpfs"), 0);
	assert_true(fd >= 0);
	assert_int_equal(CALL(fsmount, fd, 0, 0), -EINVAL);
	assert_int_equal(CALL(fsconfig, fd, 1, P("mode"), P2("0700"), 0), 0);
	assert_int_equal(CALL(fsconfig, fd, 6, 0, 0, 0), 0);
	in = CALL(fsmount, fd, 0, 0);
	assert_true(in >= 0);
	assert_int_equal(CALL(openat, in, P("f"), O_CREAT | O_RDONLY, 0644), in + 1);
	assert_int_equal(CALL(close, in + 1), 0);
	assert_int_equal(CALL(move_mount, in, P(""), AT_FDCWD, P2("/b"), 4), 0);
	assert_true(lists("/b", "f"));
	assert_int_equal(CALL(move_mount, in, P(""), AT_FDCWD, P2("/b/x"), 4), -ENOENT);
	assert_int_equal(CALL(mkdir, P("/b/sub"), 0755), 0);
	assert_int_equal(CALL(move_mount, in, P(""), AT_FDCWD, P2("/b/sub"), 4), -ELOOP);
	assert_int_equal(CALL(mount, P("none"), P2("/b/sub"), P3("tmpfs"), 0, 0), 0);
	assert_int_equal(CALL(mount, P("/b"), P2("/a"), 0, MS_BIND | MS_REC, 0), 0);
	write_file("/a/sub/deep", "seen");
	assert_string_equal(read_file("/b/sub/deep"), "seen");
	assert_int_equal(CALL(umount2, P("/b"), MNT_DETACH), 0);
	assert_int_equal(CALL(close, in), 0);
	assert_string_equal(read_file("/a/sub/deep"), "seen");
	/* A size of its own. */
	assert_int_equal(CALL(mkdir, P("/s"), 0755), 0);
	assert_int_equal(CALL(mount, P("none"), P2("/s"), P3("tmpfs"), 0, put(out, "size=16k")), 0);
	fd = open_at("/s/f", O_RDWR | O_CREAT);
	assert_int_equal(CALL(write, fd, out.v, 60000), 16384);
	assert_int_equal(CALL(write, fd, out.v, 1), -ENOSPC);
	assert_int_equal(CALL(pwrite64, fd, out.v, 100, 50), 100);
	assert_int_equal(CALL(ftruncate, fd, 4096), 0);
	assert_int_equal(CALL(fallocate, fd, 0, 0, 20000), -ENOSPC);
	assert_int_equal(CALL(pwrite64, fd, out.v, 60000, 4096), 12288);
	assert_int_equal(CALL(close, fd), 0);
	assert_int_equal(CALL(unlink, P("/s/f")), 0);
	fd = open_at("/s/g", O_RDWR | O_CREAT);
	assert_int_equal(CALL(write, fd, out.v, 60000), 16384);
	/* The rest goes with the sandbox. */
}

/* Past the cache only whole sectors, as of a disk; a file in memory takes anything. */
static void test_direct(void **state)
{
	int layers[2], fd;
	gva_t at;

	make_layers(layers);
	start(layers, 2, NULL, 0);
	at = GVA((out.v + 4095) & ~(uint64_t)4095);
	fd = open_at("/direct", O_RDWR | O_CREAT | O_DIRECT);
	assert_int_equal(CALL(write, fd, at.v, 4096), 4096);
	assert_int_equal(CALL(pread64, fd, at.v, 512, 512), 512);
	assert_int_equal(CALL(pread64, fd, at.v, 1, 0), -EINVAL);
	assert_int_equal(CALL(pread64, fd, at.v, 512, 1), -EINVAL);
	assert_int_equal(CALL(pwrite64, fd, at.v + 1, 512, 0), -EINVAL);
	assert_int_equal(CALL(pread64, fd, at.v, 512, 4096), 0);
	assert_int_equal(CALL(close, fd), 0);
	assert_int_equal(CALL(mkdir, P("/m"), 0755), 0);
	assert_int_equal(CALL(mount, P("none"), P2("/m"), P3("tmpfs"), 0, 0), 0);
	fd = open_at("/m/d", O_RDWR | O_CREAT | O_DIRECT);
	assert_int_equal(CALL(pwrite64, fd, at.v + 1, 7, 3), 7);
	assert_int_equal(CALL(close, fd), 0);
}

static void test_leases(void **state)
{
	struct task *child;
	long ret;
	int fd;

	start(NULL, 0, NULL, 0);
	write_file("/f", "x");
	child = fake_fork(me);
	signal_set_mask(me, 1ULL << (SIGIO - 1)); /* so that it stays pending */
	fd = open_at("/f", O_RDONLY);
	assert_int_equal(CALL(fcntl, fd, F_SETLEASE, F_WRLCK), 0);
	assert_int_equal(CALL(fcntl, fd, F_GETLEASE), F_WRLCK);
	assert_int_equal(fake_call(child, SYS_open, P("/f"), O_RDONLY | O_NONBLOCK), -EAGAIN);
	assert_int_equal(fake_call(child, SYS_open, P("/f"), O_RDONLY), SYS_BLOCK);
	assert_true(signal_set(me) & 1ULL << (SIGIO - 1));
	assert_int_equal(CALL(fcntl, fd, F_GETLEASE), F_RDLCK); /* what may stay */
	assert_int_equal(CALL(fcntl, fd, F_SETLEASE, F_RDLCK), 0);
	assert_true(fake_over(child, &ret) && ret >= 0);
	/* Reading is no reason any more; writing is. */
	assert_int_equal(fake_call(child, SYS_truncate, P("/f"), 0), SYS_BLOCK);
	assert_int_equal(CALL(fcntl, fd, F_SETLEASE, F_RDLCK), -EAGAIN);
	assert_int_equal(CALL(close, fd), 0); /* the lease goes with the file */
	assert_true(fake_over(child, &ret) && ret == 0);
}

static void test_words_of_files(void **state)
{
	struct task *child;
	uint32_t *word;
	long fd, ret;

	start(NULL, 0, NULL, 0);
	write_file("/f", "x");
	child = fake_fork(me);
	assert_int_equal(fake_call(child, SYS_setuid, 1000), 0);
	/* Names of attributes. */
	assert_int_equal(CALL(setxattr, P("/f"), P2("security.a"), out.v, 4, 0), 0);
	assert_int_equal(CALL(setxattr, P("/f"), P2("trusted.b"), out.v, 4, 0), 0);
	assert_int_equal(CALL(listxattr, P("/f"), 0, 0), 21);
	assert_int_equal(fake_call(child, SYS_listxattr, P("/f"), 0, 0), 11);
	assert_int_equal(fake_call(child, SYS_getxattr, P("/f"), P2("security.a"), 0, 0), 4);
	assert_int_equal(fake_call(child, SYS_getxattr, P("/f"), P2("trusted.b"), 0, 0), -ENODATA);
	assert_int_equal(
		fake_call(child, SYS_setxattr, P("/f"), P2("security.a"), out.v, 4, 0), -EPERM);
	/* Immutable, append-only. */
	fd = open_at("/f", O_RDONLY);
	word = fake_ptr(g, out);
	*word = 0x10;
	assert_int_equal(CALL(ioctl, fd, 0x40086602, out.v), 0);
	assert_int_equal(open_at("/f", O_WRONLY), -EPERM);
	assert_int_equal(CALL(unlink, P("/f")), -EPERM);
	assert_int_equal(CALL(truncate, P("/f"), 0), -EPERM);
	assert_int_equal(CALL(chmod, P("/f"), 0600), -EPERM);
	assert_int_equal(CALL(chown, P("/f"), 1, 1), -EPERM);
	assert_int_equal(CALL(utimensat, AT_FDCWD, P("/f"), 0, 0), -EPERM);
	*word = 0x20;
	assert_int_equal(CALL(ioctl, fd, 0x40086602, out.v), 0);
	assert_int_equal(open_at("/f", O_WRONLY), -EPERM);
	assert_int_equal(CALL(chmod, P("/f"), 0600), -EPERM);
	assert_int_equal(CALL(utimensat, AT_FDCWD, P("/f"), 0, 0), 0);
	ret = open_at("/f", O_WRONLY | O_APPEND);
	assert_true(ret >= 0);
	*word = 0;
	assert_int_equal(CALL(ioctl, fd, 0x40086602, out.v), 0);
	/* Handles. */
	*word = 0;
	assert_int_equal(
		CALL(name_to_handle_at, AT_FDCWD, P("/f"), out.v, out.v + 512, 0), -EOVERFLOW);
	assert_true(*word > 0);
	assert_int_equal(CALL(name_to_handle_at, AT_FDCWD, P("/f"), out.v, out.v + 512, 0), 0);
	assert_int_equal(
		fake_call(child, SYS_open_by_handle_at, AT_FDCWD, out.v, O_RDONLY), -EPERM);
	ret = CALL(open_by_handle_at, AT_FDCWD, out.v, O_RDONLY);
	assert_true(ret >= 0);
	assert_int_equal(CALL(read, ret, out.v + 1024, 10), 1);
	assert_int_equal(CALL(unlink, P("/f")), 0);
	assert_int_equal(CALL(open_by_handle_at, AT_FDCWD, out.v, O_RDONLY), -ESTALE);
}

static void test_locks(void **state)
{
	struct task *child;
	long r;
	int fd;

	start(NULL, 0, NULL, 0);
	fd = open_at("/f", O_RDWR | O_CREAT);
	child = fake_fork(me);
	assert_int_equal(CALL(flock, fd, LOCK_EX), 0);
	assert_int_equal(fake_call(child, SYS_flock, fd, LOCK_EX), 0); /* the same open file */
	assert_int_equal(fake_call(child, SYS_close, fd), 0);
	assert_int_equal(fake_call(child, SYS_open, P("/f"), O_RDWR, 0), fd);
	assert_int_equal(fake_call(child, SYS_flock, fd, LOCK_EX | LOCK_NB), -EAGAIN);
	assert_int_equal(fake_call(child, SYS_flock, fd, LOCK_EX), SYS_BLOCK);
	assert_int_equal(CALL(flock, fd, LOCK_UN), 0);
	assert_true(fake_over(child, &r));
	assert_int_equal(r, 0);
}

static void set_lock(struct flock *l, short type, off_t start_at, off_t len)
{
	*l = (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = start_at, .l_len = len
	};
}

static void test_record_locks(void **state)
{
	struct task *child;
	struct flock *l;
	long r;
	int fd;

	start(NULL, 0, NULL, 0);
	fd = open_at("/f", O_RDWR | O_CREAT);
	child = fake_fork(me);
	l = fake_ptr(g, out);
	set_lock(l, F_WRLCK, 0, 10);
	assert_int_equal(CALL(fcntl, fd, F_SETLK, out.v), 0);
	set_lock(l, F_WRLCK, 5, 1);
	assert_int_equal(fake_call(child, SYS_fcntl, fd, F_SETLK, out.v), -EAGAIN);
	assert_int_equal(fake_call(child, SYS_fcntl, fd, F_GETLK, out.v), 0);
	assert_int_equal(l->l_type, F_WRLCK);
	assert_int_equal(l->l_pid, 1);
	assert_int_equal(l->l_len, 10);
	set_lock(l, F_WRLCK, 20, 10);
	assert_int_equal(fake_call(child, SYS_fcntl, fd, F_SETLK, out.v), 0);
	set_lock(l, F_WRLCK, 0, 5);
	assert_int_equal(fake_call(child, SYS_fcntl, fd, F_SETLKW, out.v), SYS_BLOCK);
	set_lock(l, F_WRLCK, 20, 5);
	assert_int_equal(CALL(fcntl, fd, F_SETLKW, out.v), -EDEADLK);
	/* A hole in the middle makes two of one. */
	set_lock(l, F_UNLCK, 4, 2);
	assert_int_equal(CALL(fcntl, fd, F_SETLK, out.v), 0);
	assert_false(fake_over(child, &r));
	set_lock(l, F_WRLCK, 0, 5);
	assert_int_equal(CALL(close, fd), 0); /* all that the process had goes */
	assert_true(fake_over(child, &r));
	assert_int_equal(r, 0);
}

/* Which ages moved since the last time: 1 names, 2 names in directories that were still. */
static int moved(uint64_t age[AGE_COUNT])
{
	static uint64_t names, still;
	int r = (age[AGE_NAMES] != names) | (age[AGE_STILL] != still) << 1;

	names = age[AGE_NAMES];
	still = age[AGE_STILL];
	return r;
}

/* What guests were told about names is old as soon as one changes, and not before. */
static void test_names_have_an_age(void **state)
{
	struct proc *init;
	uint64_t age[AGE_COUNT] = { 0 };
	int layers[2];

	make_layers(layers);
	start(layers, 2, NULL, 0);
	init = g->k.init;
	g->k.init = me->proc;
	g->k.age = age;
	moved(age);
	write_file("/d/f", "not new");
	assert_int_equal(CALL(mkdir, P("/d"), 0755), -EEXIST);
	assert_int_equal(CALL(unlink, P("/d/none")), -ENOENT);
	assert_int_equal(CALL(chmod, P("/d/f"), 0600), 0);
	assert_int_equal(moved(age), 0);
	write_file("/d/new", "");
	assert_int_equal(moved(age), 3);
	write_file("/d/newer", "");
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(unlink, P("/d/newer")), 0);
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(unlink, P("/both/low")), 0); /* of a layer */
	assert_int_equal(moved(age), 3);
	write_file("/both/low", "again");
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(symlink, P("f"), P2("/d/link")), 0);
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(link, P("/d/f"), P2("/d/second")), 0);
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(rename, P("/d/second"), P2("/second")), 0);
	assert_int_equal(moved(age), 3); /* the root was still */
	assert_int_equal(CALL(renameat2, AT_FDCWD, P("/d/new"), AT_FDCWD, P2("/x"), 2), 0);
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(mkdir, P("/d/e"), 0755), 0);
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(rmdir, P("/d/e")), 0);
	assert_int_equal(moved(age), 1);
	assert_int_equal(CALL(chmod, P("/d"), 0700), 0); /* who may look there */
	assert_int_equal(moved(age), 3);
	g->k.age = NULL;
	g->k.init = init;
}

static void test_descriptors_do_not_leak(void **state)
{
	unsigned before = 0, after = 0;
	char name[64];

	start(NULL, 0, NULL, 0);
	for (int i = 3; i < 1024; i++)
		before += fcntl(i, F_GETFD) >= 0;
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "/f%d", i);
		write_file(name, "contents");
	}
	for (int i = 3; i < 1024; i++)
		after += fcntl(i, F_GETFD) >= 0;
	assert_int_equal(before, after);
}

static void test_memfd(void **state)
{
	int fd;

	start(NULL, 0, NULL, 0);
	fd = (int)CALL(memfd_create, P("x"), MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(CALL(write, fd, P2("abc"), 3), 3);
	assert_int_equal(CALL(fcntl, fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
	assert_int_equal(CALL(write, fd, P2("abc"), 3), -EPERM);
	assert_int_equal(CALL(ftruncate, fd, 1), -EPERM);
	assert_int_equal(CALL(fcntl, fd, F_GET_SEALS, 0), F_SEAL_WRITE | F_SEAL_SHRINK);
	assert_int_equal(CALL(pread64, fd, out.v, 10, 0), 3);
}

/* Saves, builds a second kernel over the same layers and store, loads, and compares. */
static void test_walk(void **state)
{
	struct walk first, second, load;
	struct fake *old;
	int layers[2];

	make_layers(layers);
	start(layers, 2, NULL, 0);
	write_file("/d/f", "changed");
	write_file("/tmp/new", "made");
	assert_int_equal(CALL(mkdir, P("/tmp/dir"), 0750), 0);
	assert_int_equal(CALL(symlink, P("../new"), P2("/tmp/dir/link")), 0);
	assert_int_equal(CALL(link, P("/tmp/new"), P2("/tmp/dir/hard")), 0);
	assert_int_equal(CALL(rename, P("/both"), P2("/moved")), 0);
	assert_int_equal(CALL(unlink, P("/moved/up")), 0);
	assert_int_equal(CALL(unlink, P("/x")), 0);
	assert_int_equal(CALL(chmod, P("/closed"), 0600), 0);
	assert_int_equal(CALL(setxattr, P("/tmp/new"), P2("user.a"), text.v, 4, 0), 0);
	assert_int_equal(CALL(mkdir, P("/tmp/mnt"), 0755), 0);
	assert_int_equal(CALL(mkdir, P("/tmp/again"), 0755), 0);
	assert_int_equal(CALL(mount, P("none"), P2("/tmp/mnt"), P3("tmpfs"), 0, 0), 0);
	write_file("/tmp/mnt/inside", "mounted");
	assert_int_equal(CALL(mount, P("/tmp/mnt"), P2("/tmp/again"), 0, MS_BIND, 0), 0);
	assert_int_equal(
		CALL(mount, 0, P2("/tmp/again"), 0, MS_BIND | MS_REMOUNT | MS_RDONLY, 0), 0);
	assert_int_equal(walk_save_begin(&first), 0);
	names_walk(&g->k, &first);
	assert_int_equal(first.err, 0);

	old = g;
	layers[0] = host_open_dir("up");
	layers[1] = host_open_dir("low");
	start(layers, 2, NULL, 0);
	assert_int_equal(walk_load_begin(&load, first.buf, first.len), 0);
	names_walk(&g->k, &load);
	assert_int_equal(load.err, 0);
	assert_int_equal(load.at, load.len);
	walk_done(&load); /* it holds what it has made */
	assert_int_equal(walk_save_begin(&second), 0);
	names_walk(&g->k, &second);
	assert_int_equal(second.err, 0);
	assert_int_equal(second.len, first.len);
	assert_memory_equal(second.buf, first.buf, first.len);
	walk_done(&second);
	assert_string_equal(read_file("/d/f"), "changed");
	assert_string_equal(read_file("/tmp/again/inside"), "mounted");
	assert_int_equal(CALL(unlink, P("/tmp/again/inside")), -EROFS);
	assert_int_equal(CALL(umount2, P("/tmp/mnt"), 0), 0);
	assert_string_equal(read_file("/tmp/mnt/inside"), "(cannot open)");
	assert_string_equal(read_file("/tmp/again/inside"), "mounted");
	assert_string_equal(read_file("/hard"), "changed");
	assert_string_equal(read_file("/tmp/dir/link"), "made");
	assert_string_equal(read_file("/tmp/dir/hard"), "made");
	assert_string_equal(read_file("/moved/low"), "l");
	assert_string_equal(read_file("/moved/up"), "(cannot open)");
	assert_string_equal(read_file("/x"), "(cannot open)");
	assert_false(lists("/", "both"));
	assert_true(lists("/dev", "null"));
	assert_int_equal(CALL(getxattr, P("/tmp/dir/hard"), P2("user.a"), out.v, 10), 4);
	stop_sharing_store();

	/* Every shorter input is refused, and leaves nothing behind. */
	for (size_t len = 0; len < first.len; len += 97) {
		layers[0] = host_open_dir("up");
		layers[1] = host_open_dir("low");
		start(layers, 2, NULL, 0);
		assert_int_equal(walk_load_begin(&load, first.buf, len), 0);
		names_walk(&g->k, &load);
		assert_true(load.err < 0);
		walk_done(&load);
		stop_sharing_store();
	}
	g = old;
	me = g->task;
	walk_done(&first);
}

/* Who waits on the list of mounts hears of each change, once. */
static void test_mounts_are_polled(void **state)
{
	struct {
		int32_t fd;
		int16_t events, revents;
	} * p;
	int fd;

	start(NULL, 0, NULL, 0);
	fd = open_at("/proc/self/mounts", O_RDONLY);
	assert_true(fd >= 0);
	p = fake_ptr(g, out);
	*p = (typeof(*p)){ .fd = fd, .events = 2 /* POLLPRI */ };
	assert_int_equal(CALL(poll, out.v, 1, 0), 0);
	assert_int_equal(CALL(mount, P("none"), P2("/tmp"), P3("tmpfs"), 0, 0), 0);
	assert_int_equal(CALL(poll, out.v, 1, 0), 1);
	assert_int_equal(p->revents, 2 | 8);
	assert_int_equal(CALL(poll, out.v, 1, 0), 0);
	assert_true(CALL(read, fd, out.v + 64, 4096) > 0);
	assert_int_equal(CALL(umount2, P("/tmp"), 0), 0);
	assert_int_equal(CALL(poll, out.v, 1, 0), 1);
	stop();
}

/* Calls that came to Linux lately, so that a host may not have them to compare with. */
static void test_newest_calls(void **state)
{
	enum { SETXATTRAT = 463, GETXATTRAT, LISTXATTRAT, REMOVEXATTRAT, GETATTR = 468, SETATTR };
	struct {
		uint64_t value;
		uint32_t size, flags;
	} * args;
	uint64_t *attr;
	long fd;

	start(NULL, 0, NULL, 0);
	write_file("/f", "12345");
	assert_int_equal(CALL(symlink, P("f"), P2("/link")), 0);
	args = fake_ptr(g, out);
	*args = (typeof(*args)){ .value = out.v + 64, .size = 4 };
	assert_int_equal(
		fake_call(me, SETXATTRAT, AT_FDCWD, P("/f"), 0, P2("user.a"), out.v, 16), 0);
	assert_int_equal(
		fake_call(me, GETXATTRAT, AT_FDCWD, P("/link"), 0, P2("user.a"), out.v, 16), 4);
	assert_int_equal(fake_call(me, GETXATTRAT, AT_FDCWD, P("/link"), AT_SYMLINK_NOFOLLOW,
				 P2("user.a"), out.v, 16),
		-ENODATA);
	assert_int_equal(
		fake_call(me, GETXATTRAT, AT_FDCWD, P("/f"), 0, P2("user.a"), out.v, 8), -EINVAL);
	assert_int_equal(
		fake_call(me, GETXATTRAT, AT_FDCWD, P("/f"), 1, P2("user.a"), out.v, 16), -EINVAL);
	args[1].value = 1; /* a field of the future */
	assert_int_equal(
		fake_call(me, GETXATTRAT, AT_FDCWD, P("/f"), 0, P2("user.a"), out.v, 32), -E2BIG);
	assert_int_equal(fake_call(me, LISTXATTRAT, AT_FDCWD, P("/f"), 0, 0, 0), 7);
	assert_int_equal(fake_call(me, REMOVEXATTRAT, AT_FDCWD, P("/f"), 0, P2("user.a")), 0);
	assert_int_equal(fake_call(me, LISTXATTRAT, AT_FDCWD, P("/f"), 0, 0, 0), 0);

	attr = fake_ptr(g, out);
	memset(attr, 0, 64);
	attr[0] = 8; /* immutable */
	assert_int_equal(fake_call(me, SETATTR, AT_FDCWD, P("/f"), out.v, 24, 0), 0);
	assert_int_equal(open_at("/f", O_WRONLY), -EPERM);
	memset(attr, 0xff, 64);
	assert_int_equal(fake_call(me, GETATTR, AT_FDCWD, P("/f"), out.v, 32, 0), 0);
	assert_true(attr[0] == 8 && attr[1] == 0 && attr[3] == 0 && attr[4] == UINT64_MAX);
	assert_int_equal(fake_call(me, GETATTR, AT_FDCWD, P("/f"), out.v, 23, 0), -EINVAL);
	attr[0] = 1 << 30;
	assert_int_equal(fake_call(me, SETATTR, AT_FDCWD, P("/f"), out.v, 24, 0), -EINVAL);
	attr[0] = 0;
	assert_int_equal(fake_call(me, SETATTR, AT_FDCWD, P("/f"), out.v, 24, 0), 0);

	fd = open_at("/f", O_RDWR);
	assert_int_equal(CALL(fcntl, fd, 1028 /* F_CREATED_QUERY */, 0), 0);
	assert_int_equal(CALL(fcntl, open_at("/new", O_RDWR | O_CREAT), 1028, 0), 1);
	attr[0] = attr[1] = 0;
	assert_int_equal(fake_call(me, 451 /* cachestat */, fd, out.v, out.v + 64, 0), 0);
	assert_int_equal(attr[8], 1);
	assert_int_equal(fake_call(me, 451, fd, out.v, out.v + 64, 1), -EINVAL);
	assert_int_equal(CALL(sysfs, 1, P("tmpfs"), 0), 0);
	assert_int_equal(CALL(sysfs, 2, 0, out.v), 0);
	assert_string_equal(fake_ptr(g, out), "tmpfs");
	assert_int_equal(CALL(sysfs, 2, CALL(sysfs, 3, 0, 0), out.v), -EINVAL);
	assert_int_equal(CALL(sysfs, 1, P("ext9"), 0), -EINVAL);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_empty_tree, begin, end),
		cmocka_unit_test_setup_teardown(test_proc, begin, end),
		cmocka_unit_test_setup_teardown(test_layers, begin, end),
		cmocka_unit_test_setup_teardown(test_changes_stay_above, begin, end),
		cmocka_unit_test_setup_teardown(test_cache_is_bounded, begin, end),
		cmocka_unit_test_setup_teardown(test_binds, begin, end),
		cmocka_unit_test_setup_teardown(test_given_read_only, begin, end),
		cmocka_unit_test_setup_teardown(test_guest_mounts, begin, end),
		cmocka_unit_test_setup_teardown(test_direct, begin, end),
		cmocka_unit_test_setup_teardown(test_leases, begin, end),
		cmocka_unit_test_setup_teardown(test_words_of_files, begin, end),
		cmocka_unit_test_setup_teardown(test_mounts_are_polled, begin, end),
		cmocka_unit_test_setup_teardown(test_newest_calls, begin, end),
		cmocka_unit_test_setup_teardown(test_locks, begin, end),
		cmocka_unit_test_setup_teardown(test_record_locks, begin, end),
		cmocka_unit_test_setup_teardown(test_names_have_an_age, begin, end),
		cmocka_unit_test_setup_teardown(test_descriptors_do_not_leak, begin, end),
		cmocka_unit_test_setup_teardown(test_memfd, begin, end),
		cmocka_unit_test_setup_teardown(test_walk, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
