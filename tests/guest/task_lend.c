/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that nobody can change, opened, read and closed again and again. A kernel may let a process
 * do that by itself, and must then know what was done whenever somebody else could see it.
 */
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "guest.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#define FIXED "/usr/lib/os-release"

enum { OFTEN = 20, HEAD = 16 };

/* The whole file in pieces of @piece, and its end twice. */
static long in_pieces(int fd, size_t piece, char *all, size_t cap)
{
	size_t len = 0;
	ssize_t n;

	while (len + piece <= cap && (n = read(fd, all + len, piece)) > 0)
		len += (size_t)n;
	if (read(fd, all + len, 1) != 0 || read(fd, all + len, 1) != 0)
		say_n("more behind the end", (long)len);
	return (long)len;
}

/* A descriptor of a file that was read often, where it begins. */
static int known(void)
{
	char b[4096], first[4096];
	long len = 0;
	int fd;

	for (int i = 0; i < OFTEN; i++) {
		fd = need_fd("open", open(FIXED, O_RDONLY));
		if (i == 0)
			len = in_pieces(fd, sizeof(first) / 4, first, sizeof(first));
		else if (in_pieces(fd, 1 + (size_t)i * 7, b, sizeof(b)) != len ||
			 memcmp(b, first, (size_t)len))
			say_n("other bytes", i);
		if (lseek(fd, 0, SEEK_CUR) != len)
			say_n("not at the end", i);
		need("close", close(fd));
		if (close(fd) == 0 || errno != EBADF || read(fd, b, 1) >= 0)
			say_n("not closed", i);
	}
	return need_fd("open", open(FIXED, O_RDONLY));
}

CASE(positions)
{
	char b[64] = "", again[64] = "";
	int fd = known(), copy, status = 0;
	struct stat st;

	say_n("read", read(fd, b, HEAD));
	need("stat", stat(FIXED, &st));
	say_n("where", lseek(fd, 0, SEEK_CUR));
	say_n("nothing", read(fd, b, 0));
	say("no buffer", (int)read(fd, (void *)8, 4));
	say_n("where", lseek(fd, 0, SEEK_CUR));
	say_n("pread", pread(fd, again, HEAD, 0));
	say_is("the same", memcmp(b, again, HEAD) == 0);
	copy = need_fd("dup", dup(fd));
	say_n("the copy reads", read(copy, b, HEAD));
	say_n("where", lseek(fd, 0, SEEK_CUR));
	fd = known();
	say_n("read", read(fd, b, HEAD));
	fflush(stdout);
	if (fork() == 0)
		_exit(read(fd, again, HEAD) != HEAD);
	wait(&status);
	say_n("a child reads on", status);
	say_n("where", lseek(fd, 0, SEEK_CUR));
	say_n("read", read(fd, b, HEAD));
	say_n("where", lseek(fd, 0, SEEK_CUR));
	say_n("back", lseek(fd, 1, SEEK_SET));
	say_n("read", read(fd, again, HEAD));
	say_n("where", lseek(fd, 0, SEEK_CUR));
}

CASE(numbers)
{
	int fd = known(), next, status = 0;
	char b[8];

	say_n("read", read(fd, b, 1));
	need("close", close(fd));
	next = need_fd("open", open(FIXED, O_RDONLY));
	say_is("the lowest number", next == fd);
	need("close", close(next));
	need("dup2", dup2(0, fd));
	say_is("not what it was", read(fd, b, 1) <= 0);
	need("close", close(fd));
	fd = known();
	if (vfork() == 0)
		_exit(close(fd) || fcntl(fd, F_GETFD) >= 0);
	wait(&status);
	say_n("a child in the same memory", status);
	say_n("read", read(fd, b, 1));
	need("close", close(fd));
	say("flags", fcntl(fd, F_GETFD));
}

/* What another process sees of a descriptor, without a call of its owner in between. */
CASE(seen_from_outside)
{
	volatile int *word =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd, status = 0;
	char b[HEAD], path[64], to[64];
	pid_t pid;

	if (word == MAP_FAILED)
		need("mmap", -1);
	fflush(stdout);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), (fd = known()));
	close(fd);
	pid = fork();
	if (pid == 0) {
		while (!*word)
			sched_yield();
		status = readlink(path, to, sizeof(to)) < 0 && errno == ENOENT ? 0 : 1;
		*word = 2;
		_exit(status);
	}
	fd = known();
	need("read", (int)read(fd, b, HEAD));
	need("close", close(fd));
	*word = 1;
	while (*word != 2)
		__builtin_ia32_pause();
	waitpid(pid, &status, 0);
	say_n("what was closed is not there", status);
}

CASE(taken_by_another)
{
	int fd = known(), self, got;
	char b[HEAD], c[HEAD];

	say_n("read", read(fd, b, HEAD));
	self = need_fd("pidfd_open", (int)syscall(434, getpid(), 0));
	got = need_fd("pidfd_getfd", (int)syscall(SYS_pidfd_getfd, self, fd, 0));
	say_n("where", lseek(got, 0, SEEK_CUR));
	say_n("read", read(got, c, HEAD));
	say_n("where", lseek(fd, 0, SEEK_CUR));
	close(fd);
	say_n("read", read(got, c, 1));
}

CASE(mapped)
{
	int fd = known();
	char b[HEAD], *p, *q;

	say_n("read", read(fd, b, HEAD));
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	q = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	say_is("both",
		p != MAP_FAILED && q != MAP_FAILED && !memcmp(p, q, 64) && !memcmp(p, b, HEAD));
	say_is("shared and writable",
		mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
	say_n("where", lseek(fd, 0, SEEK_CUR));
	need("close", close(fd));
	say_is("closed", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	say_n("open", open("/dev/null", O_RDONLY) == fd);
	say_is("another file",
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED &&
			((char *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0))[0]);
	say_is("still there", memcmp(p, b, HEAD) == 0);
}

static unsigned entries(DIR *d)
{
	unsigned n = 0;

	while (readdir(d))
		n++;
	return n;
}

CASE(listings)
{
	for (int i = 0; i < OFTEN; i++) {
		DIR *d = opendir("/usr/lib");
		unsigned n = d ? entries(d) : 0;

		if (n < 3 || readdir(d) || readdir(d))
			say_n("not over", (long)n);
		rewinddir(d);
		if (entries(d) != n)
			say_n("other entries", i);
		closedir(d);
	}
	say_n("over", 0);
}

static unsigned heard(int in)
{
	char events[4096] __attribute__((aligned(8)));
	struct pollfd p = { .fd = in, .events = POLLIN };
	unsigned all = 0;

	while (poll(&p, 1, 0) > 0) {
		ssize_t n = read(in, events, sizeof(events));

		for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= n;) {
			const struct inotify_event *e = (const void *)(events + at);

			all |= e->mask;
			at += (ssize_t)sizeof(*e) + e->len;
		}
	}
	return all;
}

CASE(heard_by_others)
{
	int fd = known(), in = need_fd("inotify_init1", inotify_init1(0));
	char b[HEAD];

	say_n("read", read(fd, b, HEAD));
	need("watch", inotify_add_watch(in, FIXED, IN_ACCESS | IN_OPEN | IN_CLOSE_NOWRITE));
	say_n("read", read(fd, b, HEAD));
	say_n("heard", heard(in));
	need("close", close(fd));
	say_n("heard", heard(in));
	known();
	say_n("heard", heard(in));
}
