/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/bench/calls.c - what one system call costs, measured from inside.
 *
 * Owns:  the table of calls, and one file in DIR, which it removes.
 * Rules: static and alone, so the same bytes run natively and in every sandbox. A sample is the
 * mean of a batch that is long enough for the clock. kernel.py reads the samples and says what they
 * mean.
 *
 *   ward-calls DIR BUDGET_MS [ROW]   one line for each row: its name, then nanoseconds for one
 * call, sample by sample, tab-separated ward-calls nothing               what it execs: ends at
 * once
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MB = 1 << 20,
	SMALL = 64 << 10,
	SAMPLES_MAX = 300,
	SAMPLES_MIN = 5,
	BATCH_MIN_NS = 100000,
	BATCH_MAX = 1 << 16,
	BUDGET_MAX_MS = 10000
};

struct calls {
	const char *row; /* the one that runs, for messages */
	const char *self;
	char path[4096];
	char *bytes; /* MB of them */
	int file;
	int to[2], from[2]; /* pipes to and from the echo */
	pid_t echo;
	pthread_t thread;
	_Atomic uint32_t turn; /* 0: ours, 1: the thread's, 2: over */
};

static _Noreturn void die(const struct calls *c, const char *what)
{
	fprintf(stderr, "ward-calls: %s: %s: %s\n", c->row, what, strerror(errno));
	exit(1);
}

static void expect(const struct calls *c, bool ok, const char *what)
{
	if (!ok)
		die(c, what);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void do_getpid(struct calls *c)
{
	expect(c, syscall(SYS_getpid) > 0, "getpid");
}

static void do_getppid(struct calls *c)
{
	expect(c, syscall(SYS_getppid) >= 0, "getppid");
}

/* As libc makes it, from a site of its own: what is asked again and again may be answered there. */
static void do_getpid_libc(struct calls *c)
{
	expect(c, getpid() > 0, "getpid of libc");
}

static void do_readlink(struct calls *c)
{
	char b[8];

	expect(c, readlink("/usr/lib", b, sizeof(b)) < 0 && errno == EINVAL, "readlink");
}

static void do_clock(struct calls *c)
{
	struct timespec t;

	expect(c, clock_gettime(CLOCK_MONOTONIC, &t) == 0, "clock_gettime");
}

static void do_clock_call(struct calls *c)
{
	struct timespec t;

	expect(c, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) == 0, "clock_gettime");
}

static void rewind_file(struct calls *c)
{
	expect(c, lseek(c->file, 0, SEEK_SET) == 0, "lseek");
}

static void do_read_1(struct calls *c)
{
	ssize_t r = read(c->file, c->bytes, 1);

	if (r == 0)
		rewind_file(c);
	expect(c, r >= 0, "read");
}

static void do_write_1(struct calls *c)
{
	expect(c, write(c->file, c->bytes, 1) == 1, "write");
}

static void do_pread_64k(struct calls *c)
{
	expect(c, pread(c->file, c->bytes, SMALL, 0) == SMALL, "pread");
}

static void do_read_1m(struct calls *c)
{
	expect(c, pread(c->file, c->bytes, MB, 0) == MB, "pread");
}

static void do_write_1m(struct calls *c)
{
	expect(c, pwrite(c->file, c->bytes, MB, 0) == MB, "pwrite");
}

static void do_open_close(struct calls *c)
{
	int fd = open(c->path, O_RDONLY | O_CLOEXEC);

	expect(c, fd >= 0 && close(fd) == 0, "open and close");
}

static void do_stat(struct calls *c)
{
	struct stat st;

	expect(c, stat(c->path, &st) == 0, "stat");
}

static void pipe_begin(struct calls *c)
{
	char byte;

	expect(c, pipe(c->to) == 0 && pipe(c->from) == 0, "pipe");
	c->echo = fork();
	expect(c, c->echo >= 0, "fork");
	if (c->echo > 0)
		return;
	close(c->to[1]);
	while (read(c->to[0], &byte, 1) == 1)
		if (write(c->from[1], &byte, 1) != 1)
			break;
	_exit(0);
}

static void do_pipe(struct calls *c)
{
	expect(c, write(c->to[1], c->bytes, 1) == 1 && read(c->from[0], c->bytes, 1) == 1, "pipe");
}

static void pipe_end(struct calls *c)
{
	close(c->to[1]);
	close(c->to[0]);
	close(c->from[0]);
	close(c->from[1]);
	expect(c, waitpid(c->echo, NULL, 0) == c->echo, "waitpid");
}

static long futex(struct calls *c, int op, uint32_t value)
{
	return syscall(SYS_futex, &c->turn, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void do_futex_wake(struct calls *c)
{
	expect(c, futex(c, FUTEX_WAKE, 1) == 0, "futex");
}

/* Waits until it is not @other's turn any more; returns whose it is. */
static uint32_t await_turn(struct calls *c, uint32_t other)
{
	uint32_t turn;

	while ((turn = atomic_load(&c->turn)) == other)
		futex(c, FUTEX_WAIT, other);
	return turn;
}

static void pass_turn(struct calls *c, uint32_t to)
{
	atomic_store(&c->turn, to);
	futex(c, FUTEX_WAKE, 1);
}

static void *futex_thread(void *arg)
{
	struct calls *c = arg;

	while (await_turn(c, 0) == 1)
		pass_turn(c, 0);
	return NULL;
}

static void futex_begin(struct calls *c)
{
	errno = pthread_create(&c->thread, NULL, futex_thread, c);
	expect(c, errno == 0, "pthread_create");
}

static void do_futex_trip(struct calls *c)
{
	pass_turn(c, 1);
	await_turn(c, 1);
}

static void futex_end(struct calls *c)
{
	pass_turn(c, 2);
	errno = pthread_join(c->thread, NULL);
	expect(c, errno == 0, "pthread_join");
	atomic_store(&c->turn, 0);
}

static void do_mmap(struct calls *c)
{
	char *p = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(c, p != MAP_FAILED, "mmap");
	*(volatile char *)p = 1;
	expect(c, munmap(p, SMALL) == 0, "munmap");
}

static void await_child(struct calls *c, pid_t pid)
{
	int status = 0;

	expect(c, pid > 0 && waitpid(pid, &status, 0) == pid, "fork and wait");
	if (status != 0) {
		errno = ECHILD;
		die(c, "the child failed");
	}
}

static void do_fork(struct calls *c)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	await_child(c, pid);
}

static void fork_exec(struct calls *c, const char *path, const char *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl(path, path, arg, (char *)NULL);
		_exit(1);
	}
	await_child(c, pid);
}

static void do_exec_static(struct calls *c)
{
	fork_exec(c, c->self, "nothing");
}

static void do_exec_dynamic(struct calls *c)
{
	fork_exec(c, "/bin/true", NULL);
}

static const struct row {
	const char *name;
	void (*begin)(struct calls *), (*once)(struct calls *), (*end)(struct calls *);
} rows[] = {
	{ "getpid", NULL, do_getpid, NULL },
	{ "getppid", NULL, do_getppid, NULL },
	{ "getpid of libc", NULL, do_getpid_libc, NULL },
	{ "readlink of no link", NULL, do_readlink, NULL },
	{ "clock_gettime", NULL, do_clock, NULL },
	{ "clock_gettime, no vdso", NULL, do_clock_call, NULL },
	{ "read 1 byte", rewind_file, do_read_1, NULL },
	{ "pread 64 KB", NULL, do_pread_64k, NULL },
	{ "read 1 MB", NULL, do_read_1m, NULL },
	{ "write 1 byte", rewind_file, do_write_1, NULL },
	{ "write 1 MB", NULL, do_write_1m, NULL },
	{ "open+close", NULL, do_open_close, NULL },
	{ "stat", NULL, do_stat, NULL },
	{ "pipe round trip", pipe_begin, do_pipe, pipe_end },
	{ "futex wake", NULL, do_futex_wake, NULL },
	{ "futex round trip", futex_begin, do_futex_trip, futex_end },
	{ "mmap+munmap 64 KB", NULL, do_mmap, NULL },
	{ "fork+wait", NULL, do_fork, NULL },
	{ "fork+exec+wait static", NULL, do_exec_static, NULL },
	{ "fork+exec+wait true", NULL, do_exec_dynamic, NULL },
};

static uint64_t batch(struct calls *c, const struct row *row, unsigned n)
{
	uint64_t began = now_ns();

	for (unsigned i = 0; i < n; i++)
		row->once(c);
	return now_ns() - began;
}

/* Looking for the size of a batch also warms up. */
static void measure(struct calls *c, const struct row *row, uint64_t budget_ns)
{
	uint64_t end;
	unsigned n = 1;

	c->row = row->name;
	if (row->begin)
		row->begin(c);
	while (n < BATCH_MAX && batch(c, row, n) < BATCH_MIN_NS)
		n *= 2;
	printf("%s", row->name);
	end = now_ns() + budget_ns;
	for (unsigned i = 0; i < SAMPLES_MAX && (i < SAMPLES_MIN || now_ns() < end); i++)
		printf("\t%.1f", (double)batch(c, row, n) / n);
	printf("\n");
	fflush(stdout); /* a child must not print it again */
	if (row->end)
		row->end(c);
}

int main(int argc, char **argv)
{
	static struct calls c = { .row = "start" };
	static char bytes[MB];
	long budget_ms;

	if (argc == 2 && strcmp(argv[1], "nothing") == 0)
		return 0;
	budget_ms = argc == 3 || argc == 4 ? strtol(argv[2], NULL, 10) : 0;
	if (budget_ms < 1 || budget_ms > BUDGET_MAX_MS) {
		fprintf(stderr, "usage: ward-calls DIR BUDGET_MS [ROW]\n");
		return 1;
	}
	c.self = argv[0];
	c.bytes = memset(bytes, 'x', sizeof(bytes));
	snprintf(c.path, sizeof(c.path), "%s/calls.%ld", argv[1], (long)getpid());
	c.file = open(c.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	expect(&c, c.file >= 0 && pwrite(c.file, bytes, MB, 0) == MB, c.path);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (argc == 3 || strcmp(argv[3], rows[i].name) == 0)
			measure(&c, &rows[i], (uint64_t)budget_ms * 1000000u);
	expect(&c, unlink(c.path) == 0, "unlink");
	return 0;
}
