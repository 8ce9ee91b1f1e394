/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small writes, record locks, syncs and closes of a file that nobody else has open, again and
 * again, and then somebody looks: a kernel that puts such calls off must have made them by then.
 * Each case does them often enough for that first.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "guest.h"

enum { OFTEN = 80, CHILDREN = 3, ROUNDS = 300 };

static int lock(int fd, int cmd, int type, off_t start, off_t len)
{
	struct flock l = { .l_type = (short)type, .l_start = start, .l_len = len };

	return fcntl(fd, cmd, &l);
}

/* A file with all of it done often. */
static int busy_file(const char *path)
{
	int fd = need_fd(path, open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644));

	for (int i = 0; i < OFTEN; i++) {
		char b[16];

		need("lock", lock(fd, F_SETLK, F_WRLCK, 5, 10));
		need("pwrite", pwrite(fd, "0123456789", 10, 0));
		need("pread", pread(fd, b, sizeof(b), 2));
		need("unlock", lock(fd, F_SETLK, F_UNLCK, 0, 0));
	}
	return fd;
}

/* In a child with its own opening of @path: who is in the way of a lock of all of it? */
static void ask_child(const char *what, const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct flock l = { .l_type = F_WRLCK };
		int fd = need_fd(path, open(path, O_RDWR));

		need("F_GETLK", fcntl(fd, F_GETLK, &l));
		if (l.l_type == F_UNLCK)
			_exit(100);
		_exit(l.l_pid == getppid() ? (int)l.l_start : 101);
	}
	waitpid(pid, &status, 0);
	say_n(what, WEXITSTATUS(status));
}

CASE(locks_are_seen)
{
	int fd = busy_file("f");

	ask_child("none", "f");
	lock(fd, F_SETLK, F_RDLCK, 7, 3);
	ask_child("at 7", "f");
	lock(fd, F_SETLK, F_WRLCK, 3, 1);
	lock(fd, F_SETLK, F_UNLCK, 8, 1);
	ask_child("at 3", "f");
	lock(fd, F_SETLK, F_UNLCK, 0, 8);
	ask_child("at 9", "f");
	close(fd);
	ask_child("closed", "f");
}

CASE(closing_drops_locks)
{
	int fd = busy_file("f"), two;

	for (int i = 0; i < OFTEN; i++) {
		two = need_fd("g", open("g", O_RDWR | O_CREAT, 0644));
		lock(two, F_SETLK, F_WRLCK, 0, 0);
		close(two);
	}
	ask_child("closed", "g");
	lock(fd, F_SETLK, F_WRLCK, 0, 0);
	two = open("f", O_RDONLY);
	ask_child("twice open", "f");
	close(two);
	ask_child("another of it was closed", "f");
	say("close", close(fd));
	say("close again", close(fd));
	say("lock", lock(fd, F_SETLK, F_WRLCK, 0, 0));
	say("pwrite", pwrite(fd, "x", 1, 0));
	say("sync", fdatasync(fd));
}

CASE(arguments_are_checked)
{
	int fd = busy_file("f"), ro = open("f", O_RDONLY);
	struct flock l = { .l_type = 7 };

	say("type", fcntl(fd, F_SETLK, &l));
	l = (struct flock){ .l_type = F_WRLCK, .l_whence = 9 };
	say("whence", fcntl(fd, F_SETLK, &l));
	say("negative", lock(fd, F_SETLK, F_WRLCK, -1, 1));
	say("backwards", lock(fd, F_SETLK, F_WRLCK, 5, -5));
	say("overflow", lock(fd, F_SETLK, F_WRLCK, INT64_MAX, 2));
	say("address", fcntl(fd, F_SETLK, BAD_PTR));
	say("pwrite of nothing", pwrite(fd, "", 0, 0));
	say("pwrite at -1", pwrite(fd, "x", 1, -1));
	say("pwrite from nowhere", pwrite(fd, BAD_PTR, 10, 0));
	say("pread to nowhere", pread(fd, BAD_PTR, 10, 2));
	say("pread", pread(fd, &l, 16, 2));
	say("pread to nowhere again", pread(fd, BAD_PTR, 16, 2));
	say("pwrite, read only", pwrite(ro, "x", 1, 0));
	say("lock, read only", lock(ro, F_SETLK, F_WRLCK, 0, 1));
	say("far", pwrite(fd, "x", 1, (off_t)1 << 41));
	say("truncate", ftruncate(fd, 0));
}

CASE(syncs)
{
	int fd = busy_file("f"), dir = open(".", O_RDONLY), pipes[2];

	for (int i = 0; i < 30; i++)
		need("sync", fdatasync(i % 2 ? fd : dir));
	need("pipe", pipe(pipes));
	say("a file", fdatasync(fd));
	say("a directory", fdatasync(dir));
	say("a pipe", fdatasync(pipes[0]));
	close(dir);
	say("closed", fdatasync(dir));
	say("at its number", dup2(pipes[0], dir) == dir ? fdatasync(dir) : -1);
}

CASE(writes_are_seen)
{
	int fd = busy_file("f");
	struct stat st;
	char b[32];

	pwrite(fd, "abc", 3, 10);
	say_n("fstat", fstat(fd, &st) ? -1 : st.st_size);
	pwrite(fd, "def", 3, 13);
	say_n("stat", stat("f", &st) ? -1 : st.st_size);
	pwrite(fd, "ghi", 3, 16);
	say_n("lseek", lseek(fd, 0, SEEK_END));
	pwrite(fd, "XY", 2, 1);
	say_n("pread", pread(fd, b, sizeof(b), 0));
	say_bytes("of", b, 19);
	for (int i = 0; i < OFTEN; i++)
		pread(fd, b, 4, 4);
	pwrite(fd, "#", 1, 5);
	pread(fd, b, 4, 4);
	say_bytes("one's own write", b, 4);
	pwrite(fd, "far", 3, 30);
	say_n("hole", pread(fd, b, sizeof(b), 17));
	say_bytes("of", b, 16);
	cat("f");
}

CASE(a_read_is_not_old)
{
	int fd = busy_file("f"), status;
	char b[8];

	for (int i = 0; i < OFTEN; i++)
		pread(fd, b, 8, 0);
	for (int i = 0; i < 3; i++) {
		if (fork() == 0) {
			int mine = open("f", O_RDWR);

			pwrite(mine, i ? "child" : "other", 5, 1);
			_exit(0);
		}
		wait(&status);
		pread(fd, b, 8, 0);
		say_bytes("after a child", b, 8);
	}
	for (int i = 0; i < OFTEN; i++)
		pread(fd, b, 8, 0);
	truncate("f", 3);
	say_n("cut", pread(fd, b, 8, 0));
	for (int i = 0; i < OFTEN; i++)
		pread(fd, b, 8, 0);
	say("ftruncate", ftruncate(fd, 6));
	say_n("longer", pread(fd, b, 8, 0));
	say_bytes("of", b, 6);
}

CASE(another_file_at_the_number)
{
	int fd = busy_file("f"), two;
	char b[8];

	put("g", "GGGGGGGG");
	put("h", "HHHHHHHH");
	for (int i = 0; i < OFTEN; i++)
		pread(fd, b, 8, 0);
	close(fd);
	say_is("the same number", open("g", O_RDWR) == fd);
	pread(fd, b, 8, 0);
	say_bytes("after close", b, 8);
	for (int i = 0; i < OFTEN; i++)
		pread(fd, b, 8, 0);
	two = open("h", O_RDWR);
	dup2(two, fd);
	close(two);
	pread(fd, b, 8, 0);
	say_bytes("after dup2", b, 8);
}

static int64_t ns(struct timespec t)
{
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A clock that is read after a write is not before the file's time. */
CASE(times)
{
	int fd = busy_file("f"), early = 0, late = 0;
	struct timespec before, after;
	struct stat st;

	for (int i = 0; i < OFTEN; i++) {
		clock_gettime(CLOCK_REALTIME, &before);
		pwrite(fd, "t", 1, i);
		clock_gettime(CLOCK_REALTIME, &after);
		fstat(fd, &st);
		late += ns(st.st_mtim) > ns(after) || ns(st.st_ctim) > ns(after);
		early += ns(st.st_mtim) < ns(before) - 1000000000;
	}
	say_n("late", late);
	say_n("early", early);
}

CASE(mappings_show_writes)
{
	int fd = busy_file("f");
	char b[4], *m;

	pwrite(fd, "map", 3, 4);
	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	say_bytes("before", m, 10);
	for (int i = 0; i < OFTEN; i++) {
		pwrite(fd, i % 2 ? "odd" : "eve", 3, 0);
		if (memcmp(m, i % 2 ? "odd" : "eve", 3))
			say_is("seen at once", false);
		pread(fd, b, 4, 0);
	}
	memcpy(m, "MEM!", 4);
	pread(fd, b, 4, 0);
	say_bytes("the other way", b, 4);
	munmap(m, 4096);
	pwrite(fd, "end", 3, 0);
	cat("f");
}

CASE(open_twice)
{
	int fd = busy_file("f"), two = need_fd("f", open("f", O_RDWR | O_CLOEXEC));
	struct stat st;
	char b[16];

	for (int i = 0; i < OFTEN; i++) {
		char now = (char)('a' + i % 26);

		pwrite(i % 2 ? fd : two, &now, 1, 3);
		pread(i % 2 ? two : fd, b, 4, 0);
		if (b[3] != now)
			say_is("the other sees it", false);
		pwrite(fd, &now, 1, 20 + i);
		if (fstat(two, &st) || st.st_size != 21 + i)
			say_is("and its size", false);
		if (i % 3 == 0)
			lock(two, F_SETLK, F_WRLCK, 6, 1);
		else
			lock(fd, F_SETLK, F_RDLCK, 4, 1);
	}
	ask_child("locks of both", "f");
	for (int i = 0; i < OFTEN; i++)
		pread(two, b, 4, 0);
	pwrite(fd, "last", 4, 0);
	pread(two, b, 4, 0);
	say_bytes("read", b, 4);
	close(two);
	ask_child("closed one", "f");
}

CASE(flags_change)
{
	int fd = busy_file("f"), two;

	fcntl(fd, F_SETFL, O_APPEND);
	for (int i = 0; i < 3; i++)
		pwrite(fd, "+", 1, 0);
	fcntl(fd, F_SETFL, 0);
	pwrite(fd, "-", 1, 0);
	cat("f");
	two = dup(fd);
	pwrite(fd, "dup", 3, 0);
	say_n("write", write(two, "DUP", 3));
	cat("f");
	say_n("dup2", dup2(open("g", O_RDWR | O_CREAT, 0644), fd) == fd);
	pwrite(fd, "into g", 6, 0);
	cat("f");
	cat("g");
}

/* Killed while it writes: what it was told is there, its locks are gone. */
CASE(killed)
{
	int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int bad = 0, fd, status;

	for (int round = 0; round < 20; round++) {
		pid_t pid = fork();

		if (pid == 0) {
			fd = busy_file("f");
			for (int i = 1;; i++) {
				lock(fd, F_SETLK, F_WRLCK, 0, 0);
				pwrite(fd, &i, sizeof(i), 0);
				__atomic_store_n(done, i, __ATOMIC_SEQ_CST);
			}
		}
		while (__atomic_load_n(done, __ATOMIC_SEQ_CST) < 50 * round + 1)
			sched_yield();
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		fd = open("f", O_RDWR);
		if (pread(fd, &status, sizeof(status), 0) != sizeof(status) || status < *done ||
			status > *done + 1)
			bad++;
		if (lock(fd, F_SETLK, F_WRLCK, 0, 0))
			bad++;
		*done = 0;
		close(fd);
	}
	say_n("lost", bad);
}

/* Everybody counts in one file, and opens it anew some of the time. */
static void count(int n, bool reopen)
{
	int fd = need_fd("f", open("f", O_RDWR)), now;

	for (int i = 0; i < n; i++) {
		need("lock", lock(fd, F_SETLKW, F_WRLCK, 0, 1));
		need("pread", pread(fd, &now, sizeof(now), 0));
		now++;
		need("pwrite", pwrite(fd, &now, sizeof(now), 0));
		need("unlock", lock(fd, F_SETLK, F_UNLCK, 0, 1));
		if (reopen && i % 7 == 0) {
			close(fd);
			fd = need_fd("f", open("f", O_RDWR));
		}
	}
	close(fd);
}

CASE(many_count)
{
	int fd = busy_file("f"), now = 0;

	pwrite(fd, &now, sizeof(now), 0);
	close(fd);
	for (int i = 0; i < CHILDREN; i++) {
		if (fork() == 0) {
			count(ROUNDS, i != 0);
			_exit(0);
		}
	}
	count(ROUNDS, false);
	while (wait(NULL) > 0)
		;
	fd = open("f", O_RDONLY);
	pread(fd, &now, sizeof(now), 0);
	say_n("counted", now);
}

static sigjmp_buf out;
static volatile sig_atomic_t came;

static void on_alarm(int sig)
{
	came++;
	if (came % 3 == 0)
		siglongjmp(out, 1);
}

/* Interrupted anywhere, and left in the middle. */
CASE(signals)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { 0 };
	int fd = busy_file("f"), bad = 0;
	volatile int i = 0;
	int back[2];

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	sigsetjmp(out, 1);
	while (came < 100 && i < 4000000) {
		int pair[2] = { i + 1, ~(i + 1) };

		i++;
		if (pwrite(fd, pair, sizeof(pair), 0) != sizeof(pair) ||
			lock(fd, F_SETLK, i % 2 ? F_WRLCK : F_UNLCK, 0, 0) ||
			(i % 16 == 0 && (pread(fd, back, sizeof(back), 0) != sizeof(back) ||
						back[0] != ~back[1])))
			bad++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	say_n("wrong", bad);
	pwrite(fd, "end", 3, 0);
	lock(fd, F_SETLK, F_UNLCK, 0, 0);
	lock(fd, F_SETLK, F_WRLCK, 9, 1);
	ask_child("lock", "f");
	say_n("close", close(fd));
}

static void *other_thread(void *arg)
{
	int fd = *(int *)arg;

	for (int i = 0; i < OFTEN; i++)
		pwrite(fd, "thread", 6, 20);
	lock(fd, F_SETLK, F_WRLCK, 1, 1);
	return NULL;
}

CASE(threads)
{
	int fd = busy_file("f");
	pthread_t t;

	pwrite(fd, "before", 6, 10);
	pthread_create(&t, NULL, other_thread, &fd);
	for (int i = 0; i < OFTEN; i++)
		pwrite(fd, "main", 4, 30);
	pthread_join(t, NULL);
	ask_child("its lock", "f");
	cat("f");
}

CASE(children_have_their_own)
{
	int fd = busy_file("f"), status;

	lock(fd, F_SETLK, F_WRLCK, 0, 1);
	if (fork() == 0) {
		for (int i = 0; i < OFTEN; i++)
			if (lock(fd, F_SETLK, F_WRLCK, 0, 1) == 0 || errno != EAGAIN)
				_exit(1);
		for (int i = 0; i < OFTEN; i++)
			pwrite(fd, "child", 5, 10);
		lock(fd, F_SETLK, F_WRLCK, 5, 1);
		_exit(0);
	}
	for (int i = 0; i < OFTEN; i++)
		pwrite(fd, "parent", 6, 0);
	wait(&status);
	say_n("child", WEXITSTATUS(status));
	ask_child("the parent's", "f");
	if (vfork() == 0) {
		pwrite(fd, "vfork", 5, 15);
		_exit(0);
	}
	wait(NULL);
	for (int i = 0; i < OFTEN; i++)
		pwrite(fd, "after", 5, 20);
	cat("f");
}

CASE(exec_keeps_locks)
{
	int status, fd;
	pid_t pid = fork();
	char arg[16];

	if (pid == 0) {
		fd = busy_file("f");
		lock(fd, F_SETLK, F_WRLCK, 4, 1);
		pwrite(fd, "exec", 4, 0);
		fcntl(fd, F_SETFD, 0);
		pwrite(fd, "EXEC", 4, 4);
		snprintf(arg, sizeof(arg), "/proc/self/fd/%d", fd);
		execl("/bin/cat", "cat", arg, NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	say_n("\nstatus", WEXITSTATUS(status));
	ask_child("gone with it", "f");
}

/* Who waits to be told is told. */
CASE(watchers_hear_of_it)
{
	int fd = busy_file("f"), ready[2], status;

	need("pipe", pipe(ready));
	if (fork() == 0) {
		char b[4096];
		int in = inotify_init1(0);

		need("watch", inotify_add_watch(in, ".", IN_MODIFY));
		write(ready[1], "!", 1);
		_exit(read(in, b, sizeof(b)) > 0 ? 0 : 1);
	}
	need("ready", read(ready[0], &status, 1));
	pwrite(fd, "told", 4, 0);
	wait(&status);
	say_n("heard", WEXITSTATUS(status));
}

CASE(a_limit_is_felt)
{
	struct rlimit l = { 64, RLIM_INFINITY };
	int fd = busy_file("f"), below, across, above;

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &l);
	below = (int)pwrite(fd, "0123456789", 10, 50);
	across = (int)pwrite(fd, "0123456789", 10, 60);
	above = (int)pwrite(fd, "0123456789", 10, 70);
	l.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &l);
	say_n("below", below);
	say_n("across", across);
	say_n("above", above);
	say_n("without", pwrite(fd, "0123456789", 10, 70));
}
