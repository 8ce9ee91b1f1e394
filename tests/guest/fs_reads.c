/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that one process reads again and again, by its position and by others. A kernel may let
 * it do that by itself, and must then know what was read whenever somebody could see it, and stop
 * when the file or the descriptor is another.
 */
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "guest.h"

enum { OFTEN = 20, SIZE = 64 << 10, STEP = 512, RECORDS = 2000 };

static char block[SIZE];

static void fill(const char *path, char c)
{
	int fd = need_fd("open", open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));

	memset(block, c, sizeof(block));
	need("write", write(fd, block, sizeof(block)));
	need("close", close(fd));
}

/* What lies at the position, and at @at; that often, so that it is known. */
static void look(int fd, int64_t at)
{
	char a[STEP], b[STEP];
	int64_t from = lseek(fd, 0, SEEK_CUR);
	ssize_t n = 0, m = 0;

	for (int i = 0; i < OFTEN; i++) {
		lseek(fd, from, SEEK_SET);
		n = read(fd, a, sizeof(a));
	}
	for (int i = 0; i < OFTEN; i++)
		m = pread(fd, b, sizeof(b), at);
	printf("  %zd of %c, %zd of %c, at %lld\n", n, n > 0 ? a[0] : '-', m, m > 0 ? b[0] : '-',
		(long long)lseek(fd, 0, SEEK_CUR));
}

static int known(const char *path, int flags)
{
	int fd;

	fill(path, 'a');
	fd = need_fd("open", open(path, flags));
	look(fd, 100);
	return fd;
}

static void in_child_with(void (*fn)(int), int arg)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		fn(arg);
		fflush(stdout);
		_exit(0);
	}
	need("waitpid", waitpid(pid, NULL, 0));
}

static void write_b(int fd)
{
	need("pwrite", pwrite(fd, "bbbbbbbb", 8, STEP));
}

static void read_some(int fd)
{
	char b[STEP];

	say_n("the child reads", read(fd, b, 100));
}

static void cut(int arg)
{
	need("truncate", truncate("f", STEP + 3));
}

CASE(changes)
{
	int fd = known("f", O_RDWR), other = need_fd("open", open("f", O_RDWR));

	need("pwrite", pwrite(fd, "cccc", 4, 100));
	look(fd, 100);
	need("pwrite", pwrite(other, "dddd", 4, 100));
	look(fd, 100);
	need("write", write(fd, "ee", 2));
	look(fd, 100);
	in_child_with(write_b, other);
	lseek(fd, STEP, SEEK_SET);
	look(fd, STEP);
	in_child_with(cut, 0);
	lseek(fd, STEP, SEEK_SET);
	look(fd, STEP);
	need("ftruncate", ftruncate(other, 0));
	look(fd, 0);
	lseek(fd, 0, SEEK_SET);
	look(fd, 0);
	for (int i = 0; i < 200; i++)
		need("pwrite", pwrite(fd, &"0123456789"[i % 10], 1, i));
	look(fd, 1);
}

CASE(positions)
{
	int fd = known("f", O_RDONLY), copy;
	char b[STEP];

	say_n("read", read(fd, b, 10));
	in_child_with(read_some, fd);
	say_n("where", lseek(fd, 0, SEEK_CUR));
	look(fd, 0);
	copy = need_fd("dup", dup(fd));
	say_n("the copy reads", read(copy, b, 10));
	say_n("where", lseek(fd, 0, SEEK_CUR));
	close(copy);
	look(fd, 0);
	say_n("set", lseek(fd, SIZE - 5, SEEK_SET));
	say_n("less", read(fd, b, 10));
	say_n("nothing", read(fd, b, 10));
	say_n("behind the end", lseek(fd, SIZE + 5, SEEK_SET));
	say_n("nothing", read(fd, b, 10));
	say("before the begin", (int)lseek(fd, -1, SEEK_SET));
	say_n("end", lseek(fd, -2, SEEK_END));
	say_n("two", read(fd, b, 10));
	say("no buffer", (int)read(fd, BAD_PTR, 10));
	say("no buffer", (int)pread(fd, BAD_PTR, 10, 0));
	say("no place", (int)pread(fd, b, 10, -1));
	say_n("none", pread(fd, b, 0, 0));
	say_n("where", lseek(fd, 0, SEEK_CUR));
	close(fd);
	say("closed", (int)read(fd, b, 1));
	say("closed", (int)pread(fd, b, 1, 0));
}

CASE(numbers)
{
	int fd = known("f", O_RDONLY), other;
	char b[STEP];

	fill("g", 'g');
	other = need_fd("open", open("g", O_RDONLY));
	need("dup2", dup2(other, fd));
	look(fd, 0);
	close(fd);
	say_n("the lowest", open("f", O_RDONLY) - fd);
	look(fd, 0);
	need("close_range", syscall(436, fd, fd, 0));
	say("gone", (int)pread(fd, b, 1, 0));
	say("gone", (int)read(fd, b, 1));
	say_n("the lowest", open("g", O_WRONLY) - fd);
	say("not for reading", (int)pread(fd, b, 1, 0));
	say("not for reading", (int)read(fd, b, 1));
}

/* More files than one could know by heart, in turn. */
CASE(many)
{
	enum { FILES = 70 };
	int fds[FILES], bad = 0;
	char name[16], c;

	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		fill(name, (char)('A' + i % 26));
		fds[i] = need_fd("open", open(name, i % 2 ? O_RDONLY : O_RDWR));
	}
	for (int round = 0; round < OFTEN; round++) {
		for (int i = 0; i < FILES; i++) {
			bad += lseek(fds[i], round * 8, SEEK_SET) != round * 8;
			bad += read(fds[i], &c, 1) != 1 || c != 'A' + i % 26;
			bad += pread(fds[(i + 7) % FILES], &c, 1, i) != 1 ||
			       c != 'A' + (i + 7) % FILES % 26;
			bad += lseek(fds[i], 0, SEEK_CUR) != round * 8 + 1;
		}
	}
	say_n("wrong", bad);
	need("pwrite", pwrite(fds[60], "z", 1, 3));
	say_n("the next", pread(fds[60], &c, 1, 3));
	say_is("is new", c == 'z');
	for (int i = 0; i < FILES; i += 3)
		need("close", close(fds[i]));
	say("gone", (int)read(fds[60], &c, 1));
	say_n("there", read(fds[61], &c, 1));
}

CASE(mapped_for_writing)
{
	int fd = known("f", O_RDWR);
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	say_is("mapped", p != MAP_FAILED);
	if (p == MAP_FAILED)
		return;
	memset(p, 'm', 4096);
	lseek(fd, 0, SEEK_SET);
	look(fd, 100);
	memset(p, 'n', 4096);
	look(fd, 100);
}

static bool is_before(struct timespec a, struct timespec b)
{
	return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

/* Once read after it was written to, a file was read later than it was written to. */
CASE(times)
{
	struct timespec first[2] = { { 1000, 0 }, { 2000, 0 } };
	int fd = known("f", O_RDWR);
	struct statvfs fs = { 0 };
	struct stat st;
	char b[8];
	bool never;

	need("fstatvfs", fstatvfs(fd, &fs));
	never = fs.f_flag & ST_NOATIME;
	need("futimens", futimens(fd, first));
	need("fstat", fstat(fd, &st));
	say_n("as set", st.st_atim.tv_sec);
	say_n("read", pread(fd, b, 8, 0));
	need("fstat", fstat(fd, &st));
	say_is("read later", never || is_before(st.st_mtim, st.st_atim));
	look(fd, 0);
	need("futimens", futimens(fd, first));
	lseek(fd, 0, SEEK_SET);
	say_n("read", read(fd, b, 8));
	need("fstat", fstat(fd, &st));
	say_is("read later", never || is_before(st.st_mtim, st.st_atim));
}

CASE(heard_by_others)
{
	int fd = known("f", O_RDONLY);
	int in = need_fd("inotify_init1", inotify_init1(IN_NONBLOCK));
	struct inotify_event e[4];
	char b[8];

	need("inotify_add_watch", inotify_add_watch(in, "f", IN_ACCESS));
	say_n("pread", pread(fd, b, 8, 0));
	say_is("heard", read(in, e, sizeof(e)) > 0 && (e[0].mask & IN_ACCESS));
	say_n("read", read(fd, b, 8));
	say_is("heard", read(in, e, sizeof(e)) > 0 && (e[0].mask & IN_ACCESS));
}

static int shared_fd;
static volatile sig_atomic_t ticks;
static unsigned char seen[RECORDS];

/* One record; at the end false. */
static bool take_one(void)
{
	uint32_t n[2];

	if (read(shared_fd, n, sizeof(n)) != sizeof(n))
		return false;
	if (n[0] < RECORDS && n[0] == n[1])
		seen[n[0]]++;
	return true;
}

static void tick(int sig)
{
	int err = errno;

	take_one();
	errno = err;
	ticks++;
}

/* Two readers of one position, one of which interrupts the other: each record is somebody's. */
CASE(in_the_middle)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { 0 };
	int fd = need_fd("open", open("r", O_RDWR | O_CREAT, 0600)), bad = 0;

	for (uint32_t i = 0; i < RECORDS; i++)
		need("write", write(fd, (uint32_t[]){ i, i }, 8));
	signal(SIGALRM, tick);
	shared_fd = fd;
	for (int round = 0; round < 400 && ticks < 200; round++) {
		memset(seen, 0, sizeof(seen));
		lseek(fd, 0, SEEK_SET);
		setitimer(ITIMER_REAL, &often, NULL);
		while (take_one())
			;
		setitimer(ITIMER_REAL, &never, NULL);
		for (int i = 0; i < RECORDS; i++)
			bad += seen[i] != 1;
	}
	say_n("not once", bad);
}
