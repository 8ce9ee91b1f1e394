/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/diff_test.c - the same random calls to Linux and to our files: the same answers.
 *
 * Linux' side runs in a chroot of its own, so that no path leads out of it; that needs root. A seed
 * that fails prints its last calls; DIFF_SEED and DIFF_SEEDS choose others than the usual ones.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/falloc.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/tree.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/vfs.h"

enum { SEEDS = 60, CALLS = 1500, FDS = 8, HISTORY = 12, BUF = 4096 };

static struct fake *g;
static struct task *me;
static gva_t gpath, gpath2, gbuf;
static char *npath, *npath2, *nbuf;
static uint64_t rng;
static struct {
	int native, ours;
} fds[FDS];
static char history[HISTORY][256];
static unsigned calls;

static unsigned rnd(unsigned n)
{
	rng = rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(rng >> 33) % n;
}

static const char *a_path(void)
{
	static const char *const parts[] = { "a", "b", "c", "d", "a", "b", "c", ".", "..", "e" };
	static char path[512];
	unsigned n = 1 + rnd(3);

	switch (rnd(40)) {
	case 0:
		return "";
	case 1:
		return "/";
	case 2: {
		static char long_one[400];

		memset(long_one, 'l', 300);
		return long_one;
	}
	}
	path[0] = '\0';
	if (rnd(8) == 0)
		str_fmt(path, sizeof(path), rnd(2) ? "/w/" : "./");
	while (n--) {
		size_t at = strlen(path);

		str_fmt(path + at, sizeof(path) - at, "%s%s", parts[rnd(ARRAY_LEN(parts))],
			n         ? (rnd(12) ? "/" : "//")
			: rnd(15) ? ""
				  : "/");
	}
	return path;
}

static void set_path(const char *p, bool second)
{
	size_t n = strlen(p) + 1;

	memcpy(second ? npath2 : npath, p, n);
	memcpy(fake_ptr(g, second ? gpath2 : gpath), p, n);
}

static void remember(const char *what, long native, long ours)
{
	str_fmt(history[calls++ % HISTORY], sizeof(history[0]), "%s -> %ld / %ld", what, native,
		ours);
}

static void differ(const char *what, long native, long ours)
{
	for (unsigned i = 0; i < HISTORY; i++)
		printf("    %s\n", history[(calls + i) % HISTORY]);
	printf("  call %u: %s: Linux says %ld (%s), we say %ld (%s)\n", calls, what, native,
		native < 0 ? strerror((int)-native) : "", ours,
		ours < 0 ? strerror((int)-ours) : "");
	fflush(stdout);
	_exit(1);
}

static void compare(const char *what, long native, long ours)
{
	if (native != ours)
		differ(what, native, ours);
	remember(what, native, ours);
}

static long nat(long r)
{
	return r < 0 ? -errno : r;
}

#define NATIVE(nr, ...) nat(syscall(SYS_##nr, __VA_ARGS__))
#define OURS(nr, ...) fake_call(me, SYS_##nr, __VA_ARGS__)

static void do_open(unsigned slot, int dir)
{
	static const unsigned ways[] = { O_RDONLY, O_WRONLY, O_RDWR, O_RDWR };
	static const unsigned more[] = { O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY,
		O_NOFOLLOW, O_PATH, O_NONBLOCK, O_CREAT, O_CREAT, O_CREAT };
	unsigned flags = ways[rnd(4)] | O_NONBLOCK | O_CLOEXEC;
	char what[200];
	long n, o;

	for (unsigned i = rnd(4); i; i--)
		flags |= more[rnd(ARRAY_LEN(more))];
	if (rnd(25) == 0)
		flags = O_TMPFILE | O_RDWR;
	n = NATIVE(openat, dir < 0 ? AT_FDCWD : fds[dir].native, npath, flags, 0640);
	o = OURS(openat, dir < 0 ? (uint64_t)AT_FDCWD : (uint64_t)fds[dir].ours, gpath.v, flags,
		0640);
	str_fmt(what, sizeof(what), "open(%d, \"%.40s\", 0%o) in %u", dir, npath, flags, slot);
	if ((n < 0) != (o < 0) || (n < 0 && n != o))
		differ(what, n, o);
	remember(what, n, o);
	if (n < 0)
		return;
	if (fds[slot].native >= 0) {
		close(fds[slot].native);
		OURS(close, (uint64_t)fds[slot].ours);
	}
	fds[slot].native = (int)n;
	fds[slot].ours = (int)o;
}

static void do_stat(bool follow)
{
	struct stat *a = (void *)nbuf, *b = fake_ptr(g, gbuf);
	unsigned flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;
	char what[200];
	long n, o;

	n = NATIVE(newfstatat, AT_FDCWD, npath, nbuf, flags);
	o = OURS(newfstatat, AT_FDCWD, gpath.v, gbuf.v, flags);
	str_fmt(what, sizeof(what), "stat(\"%.40s\", %u)", npath, flags);
	compare(what, n, o);
	if (n < 0 || strcmp(npath, "/") == 0)
		return;
	compare("stat: mode", a->st_mode, b->st_mode);
	compare("stat: uid", a->st_uid, b->st_uid);
	compare("stat: gid", a->st_gid, b->st_gid);
	if (!S_ISDIR(a->st_mode)) {
		compare("stat: size", a->st_size, b->st_size);
		compare("stat: nlink", (long)a->st_nlink, (long)b->st_nlink);
	}
}

static long count_names(const char *buf, long n)
{
	long sum = 0;

	for (long at = 0; at < n;) {
		const struct dirent64 *d = (const void *)(buf + at);

		if (!d->d_name[1] && d->d_name[0] >= 'a' && d->d_name[0] <= 'e')
			sum += 1000 + d->d_name[0] + d->d_type * 7;
		at += d->d_reclen;
	}
	return sum;
}

static void do_list(unsigned s)
{
	long n = 0, o = 0, ns = 0, os = 0;

	NATIVE(lseek, fds[s].native, 0, SEEK_SET);
	OURS(lseek, (uint64_t)fds[s].ours, 0, SEEK_SET);
	while ((n = NATIVE(getdents64, fds[s].native, nbuf, BUF)) > 0)
		ns += count_names(nbuf, n);
	while ((o = OURS(getdents64, (uint64_t)fds[s].ours, gbuf.v, BUF)) > 0)
		os += count_names(fake_ptr(g, gbuf), o);
	compare("getdents", n, o);
	compare("getdents: names", ns, os);
}

static bool is_dir(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Linux sends pages, not bytes: from a file to itself the result is anybody's guess. */
static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino;
}

/* One descriptor call; @s is a slot, which may be empty. */
static void do_fd(unsigned s)
{
	int n = fds[s].native, off = (int)rnd(200), len = (int)rnd(300);
	uint64_t o = (uint64_t)fds[s].ours;
	char what[100];
	long a = 0, b = 0;
	unsigned k = rnd(21), other = rnd(FDS);
	const char *name = "";

	memset(nbuf, 'x', 512);
	memset(fake_ptr(g, gbuf), 'x', 512);
	switch (k) {
#define BOTH(call, ...)                                                                            \
	name = #call;                                                                              \
	a = NATIVE(call, n, __VA_ARGS__);                                                          \
	b = OURS(call, o, __VA_ARGS__);                                                            \
	break
	case 0:
		name = "read";
		a = NATIVE(read, n, nbuf, len);
		b = OURS(read, o, gbuf.v, (uint64_t)len);
		break;
	case 1:
		name = "write";
		a = NATIVE(write, n, nbuf, len);
		b = OURS(write, o, gbuf.v, (uint64_t)len);
		break;
	case 2:
		name = "pread";
		a = NATIVE(pread64, n, nbuf, len, off);
		b = OURS(pread64, o, gbuf.v, (uint64_t)len, (uint64_t)off);
		break;
	case 3:
		name = "pwrite";
		a = NATIVE(pwrite64, n, nbuf, len, off);
		b = OURS(pwrite64, o, gbuf.v, (uint64_t)len, (uint64_t)off);
		break;
	case 4:
		BOTH(lseek, (uint64_t)(off - 50), off % 3);
	case 5:
		BOTH(ftruncate, (uint64_t)off);
	case 6:
		BOTH(fchmod, (uint64_t)(off * 3));
	case 7:
		BOTH(fsync, 0);
	case 8:
		BOTH(fchdir, 0);
	case 9:
		BOTH(fallocate, off % 2 ? FALLOC_FL_KEEP_SIZE : 0, (uint64_t)off, (uint64_t)len);
	case 10:
		BOTH(fallocate, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, (uint64_t)off,
			(uint64_t)len);
	case 11:
		BOTH(flock, (off % 3 == 0 ? LOCK_EX : off % 3 == 1 ? LOCK_SH : LOCK_UN) | LOCK_NB);
	case 12:
		name = "F_GETFL";
		a = NATIVE(fcntl, n, F_GETFL, 0);
		b = OURS(fcntl, o, F_GETFL, 0);
		break;
	case 13:
		BOTH(fcntl, F_SETFL, (off % 2 ? O_APPEND : 0) | O_NONBLOCK);
	case 14:
		name = "fstat";
		a = NATIVE(fstat, n, nbuf);
		b = OURS(fstat, o, gbuf.v);
		break;
	case 15:
		do_list(s);
		return;
	case 16:
		name = "copy_file_range";
		a = NATIVE(copy_file_range, n, NULL, fds[other].native, NULL, len, 0);
		b = OURS(copy_file_range, o, 0, (uint64_t)fds[other].ours, 0, (uint64_t)len, 0);
		break;
	case 17:
		if (same_file(n, fds[other].native))
			return;
		name = "sendfile";
		a = NATIVE(sendfile, fds[other].native, n, NULL, len);
		b = OURS(sendfile, (uint64_t)fds[other].ours, o, 0, (uint64_t)len);
		break;
	case 18:
		BOTH(lseek, (uint64_t)off, SEEK_END);
	case 19:
		name = "linkat of a descriptor";
		a = NATIVE(linkat, n, "", AT_FDCWD, npath, AT_EMPTY_PATH);
		((char *)fake_ptr(g, gbuf))[0] = '\0';
		b = OURS(linkat, o, gbuf.v, (uint64_t)AT_FDCWD, gpath.v, AT_EMPTY_PATH);
		break;
	case 20:
		name = "close";
		a = n < 0 ? -EBADF : NATIVE(close, n);
		b = OURS(close, o);
		fds[s].native = fds[s].ours = -1;
		break;
	}
	str_fmt(what, sizeof(what), "%s of slot %u and %u (%d, %d)", name, s, other, off, len);
	/* A position in a directory is a number of the file system's own. */
	if ((k == 4 || k == 18) && is_dir(n))
		a = b = 1;
	/* To a pipe without a reader Linux says so before it looks for something to send. */
	if (k == 17 && a == -EPIPE)
		b = a;
	compare(what, a, b);
	if (k <= 3 && a > 0)
		compare("contents", memcmp(nbuf, fake_ptr(g, gbuf), (size_t)a), 0);
}

static void do_name(void)
{
	unsigned k = rnd(17), mode = rnd(01000);
	char what[300];
	long a = 0, b = 0;
	const char *name = "";

	switch (k) {
#define PATH(call, ...)                                                                            \
	name = #call;                                                                              \
	a = NATIVE(call, npath, __VA_ARGS__);                                                      \
	b = OURS(call, gpath.v, __VA_ARGS__);                                                      \
	break
#define PATHS(call)                                                                                \
	name = #call;                                                                              \
	a = NATIVE(call, npath, npath2);                                                           \
	b = OURS(call, gpath.v, gpath2.v);                                                         \
	break
	case 0:
	case 1:
		PATH(mkdir, mode | 0700);
	case 2:
		PATH(rmdir, 0);
	case 3:
	case 4:
		PATH(unlink, 0);
	case 5:
	case 6:
		PATHS(rename);
	case 7:
		PATHS(link);
	case 8:
	case 9:
		PATHS(symlink);
	case 10:
		name = "readlink";
		a = NATIVE(readlink, npath, nbuf, BUF);
		b = OURS(readlink, gpath.v, gbuf.v, BUF);
		if (a > 0 && a == b && memcmp(nbuf, fake_ptr(g, gbuf), (size_t)a) != 0)
			b = -1;
		break;
	case 11:
		PATH(chmod, mode);
	case 12:
		PATH(truncate, mode);
	case 13:
		PATH(access, mode & 7);
	case 14:
		PATH(lchown, mode & 3, mode >> 4 & 3);
	case 15:
		PATH(mknod, (mode & 1 ? S_IFIFO : S_IFREG) | 0600, 0);
	case 16: {
		unsigned flags = mode % 3; /* none, NOREPLACE, EXCHANGE */

		name = flags == 1 ? "rename NOREPLACE" : flags ? "rename EXCHANGE" : "renameat2";
		a = NATIVE(renameat2, AT_FDCWD, npath, AT_FDCWD, npath2, flags);
		b = OURS(renameat2, (uint64_t)AT_FDCWD, gpath.v, (uint64_t)AT_FDCWD, gpath2.v,
			flags);
		break;
	}
	}
	str_fmt(what, sizeof(what), "%s(\"%.40s\", \"%.40s\", 0%o)", name, npath, npath2, mode);
	compare(what, a, b);
}

static void run_seed(uint64_t seed)
{
	rng = seed * 77777 + 1;
	for (unsigned i = 0; i < FDS; i++)
		fds[i].native = fds[i].ours = -1;
	for (unsigned i = 0; i < CALLS; i++) {
		set_path(a_path(), false);
		set_path(a_path(), true);
		switch (rnd(9)) {
		case 0:
		case 1:
			do_open(rnd(FDS), rnd(4) ? -1 : (int)rnd(FDS));
			break;
		case 2:
		case 3:
		case 4:
			do_fd(rnd(FDS));
			break;
		case 5:
			do_stat(rnd(2));
			break;
		default:
			do_name();
		}
		/* Somebody has to come back from wherever fchdir went. */
		if (rnd(50) == 0) {
			set_path("/w", false);
			compare("chdir", NATIVE(chdir, npath), OURS(chdir, gpath.v));
		}
	}
}

/* Every other seed is an ordinary user, among things that are root's. */
static void become_user(void)
{
	static const struct {
		const char *path;
		unsigned mode;
		bool dir;
	} things[] = { { "a", 0644, false }, { "b", 0755, true }, { "b/a", 0600, false },
		{ "d", 01777, true }, { "d/a", 0666, false }, { "d/b", 0700, true } };
	struct cred *c = me->cred;

	for (size_t i = 0; i < ARRAY_LEN(things); i++) {
		set_path(things[i].path, false);
		if (things[i].dir)
			compare("mkdir", NATIVE(mkdir, npath, 0700), OURS(mkdir, gpath.v, 0700));
		else
			compare("mknod", NATIVE(mknod, npath, S_IFREG | 0600, 0),
				OURS(mknod, gpath.v, S_IFREG | 0600, 0));
		compare("chmod", NATIVE(chmod, npath, things[i].mode),
			OURS(chmod, gpath.v, things[i].mode));
	}
	set_path("/w", false);
	compare("chmod", NATIVE(chmod, npath, 0777), OURS(chmod, gpath.v, 0777));
	if (syscall(SYS_setgroups, 0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 ||
		setresuid(1000, 1000, 1000) < 0)
		_exit(2);
	c->uid = c->euid = c->suid = c->fsuid = 1000;
	c->gid = c->egid = c->sgid = c->fsgid = 1000;
	c->group_count = 0;
	c->cap_effective = c->cap_permitted = 0;
}

/* What both find there: for us it is a layer, and nothing of it may change. */
static void populate(int at)
{
	int fd;

	assert_int_equal(mkdirat(at, "w", 0755), 0);
	assert_int_equal(mkdirat(at, "w/b", 0755), 0);
	assert_int_equal(mkdirat(at, "w/b/c", 0755), 0);
	assert_int_equal(mkdirat(at, "w/e", 0755), 0);
	fd = openat(at, "w/a", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "from the layer", 14), 14);
	close(fd);
	assert_int_equal(linkat(at, "w/a", at, "w/b/a", 0), 0);
	assert_int_equal(symlinkat("b/a", at, "w/c"), 0);
	fd = openat(at, "w/b/c/d", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "deeper", 6), 6);
	close(fd);
}

static int child(const char *place, int store, int layer, uint64_t seed)
{
	struct vfs_setup setup = { .layers = &layer, .layer_count = layer >= 0 };
	struct err e = { 0 };

	if (chroot(place) < 0 || chdir("/") < 0 || (layer < 0 && mkdir("/w", 0755) < 0) ||
		chdir("/w") < 0)
		return 2;
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	g = fake_create();
	me = g->task;
	g->k.store = store;
	if (vfs_init(&g->k, &setup, &e) < 0)
		return 2;
	me->fs = vfs_first_ctx(&g->k);
	gpath = fake_alloc(g, BUF);
	gpath2 = fake_alloc(g, BUF);
	gbuf = fake_alloc(g, BUF);
	npath = malloc(BUF);
	npath2 = malloc(BUF);
	nbuf = malloc(BUF);
	set_path("/w", false);
	OURS(mkdir, gpath.v, 0755);
	OURS(chdir, gpath.v);
	if (seed % 2 && layer < 0)
		become_user();
	run_seed(seed);
	procs_done(&g->k);
	vfs_done(&g->k);
	kernel_done(&g->k);
	free(g);
	free(npath);
	free(npath2);
	free(nbuf);
	return 0;
}

static int one_seed(uint64_t seed)
{
	char place[64] = "/dev/shm/ward-diff-XXXXXX", shelf[64] = "/dev/shm/ward-shelf-XXXXXX";
	char low[64] = "/dev/shm/ward-layer-XXXXXX";
	struct err e = { 0 };
	int status = 0, store, layer = -1, at;
	pid_t pid;

	assert_non_null(mkdtemp(place));
	assert_non_null(mkdtemp(shelf));
	assert_int_equal(chmod(place, 0755), 0);
	assert_int_equal(chmod(shelf, 0777), 0); /* the test itself becomes a user */
	store = open(shelf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_non_null(mkdtemp(low));
	assert_int_equal(chmod(low, 0755), 0);
	if (seed % 4 >= 2) {
		layer = open(low, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		at = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		populate(layer);
		populate(at);
		close(at);
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(child(place, store, layer, seed)); /* no leak search in a chroot */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(store);
	if (layer >= 0) {
		struct stat st;

		assert_int_equal(fstatat(layer, "w/b/c/d", &st, 0), 0);
		assert_int_equal(st.st_size, 6);
		assert_int_equal(fstatat(layer, "w/a", &st, 0), 0);
		assert_int_equal(st.st_size, 14);
		assert_int_equal(st.st_nlink, 2);
		close(layer);
	}
	assert_int_equal(tree_remove(low, &e), 0);
	assert_int_equal(tree_remove(place, &e), 0);
	assert_int_equal(tree_remove(shelf, &e), 0);
	return status;
}

static void test_same_answers(void **state)
{
	const char *first = getenv("DIFF_SEED"), *count = getenv("DIFF_SEEDS");
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
	uint64_t end = seed + (count ? strtoull(count, NULL, 10) : SEEDS);

	if (geteuid() != 0)
		skip();
	for (; seed < end; seed++) {
		int status = one_seed(seed);

		if (status)
			printf("seed %llu failed\n", (unsigned long long)seed);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_answers) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
