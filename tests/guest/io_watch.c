/* SPDX-License-Identifier: Apache-2.0 */
/* inotify: which changes are told, as what, and which are not. */
#include "io.h"

#include <sys/inotify.h>
#include <sys/xattr.h>

static int watch(const char *path, uint32_t mask)
{
	int in;

	NEED(in = inotify_init1(IN_NONBLOCK));
	NEED(inotify_add_watch(in, path, mask));
	return in;
}

/* What has been told since the last time, in one line. */
static void told(const char *what, int in)
{
	char buf[4096] __attribute__((aligned(8)));
	ssize_t n = read(in, buf, sizeof(buf));

	printf("  %s:", what);
	for (char *p = buf; n > 0 && p < buf + n;) {
		struct inotify_event *e = (struct inotify_event *)p;

		printf(" %x%s%s", e->mask, e->len ? "=" : "", e->len ? e->name : "");
		p += sizeof(*e) + e->len;
	}
	printf("%s\n", n < 0 ? " nothing" : "");
}

static void set_times(const char *path, long atime, long mtime)
{
	struct timespec t[2] = { { 1, atime }, { 2, mtime } };

	NEED(utimensat(AT_FDCWD, path, t, 0));
}

/* Of one time alone nobody can say that it was not a read, or a write. */
CASE(times)
{
	int in;

	put("f", "text");
	in = watch("f", IN_ALL_EVENTS);
	set_times("f", 0, 0);
	told("both", in);
	set_times("f", 0, UTIME_OMIT);
	told("of reading", in);
	set_times("f", UTIME_OMIT, 0);
	told("of writing", in);
	set_times("f", UTIME_NOW, UTIME_NOW);
	told("both, to now", in);
	set_times("f", UTIME_OMIT, UTIME_OMIT);
	told("neither", in);
}

CASE(no_bytes)
{
	char b[8];
	int in, fd;

	put("f", "1234");
	NEED(fd = open("f", O_RDWR));
	in = watch("f", IN_ALL_EVENTS);
	R(read(fd, b, 0));
	told("none wanted", in);
	R(write(fd, b, 0));
	told("none given", in);
	R(read(fd, b, 8));
	told("four", in);
	R(read(fd, b, 8));
	told("at the end", in);
	R(pread(fd, b, 8, 100));
	told("behind it", in);
	R(ftruncate(fd, 4));
	told("cut to what it was", in);
}

CASE(attributes)
{
	int in, dir;

	put("f", "");
	in = watch("f", IN_ALL_EVENTS);
	dir = watch(".", IN_ALL_EVENTS);
	R(setxattr("f", "user.a", "1", 1, 0));
	told("set", in);
	told("set, in its directory", dir);
	R(getxattr("f", "user.a", NULL, 0));
	told("asked", in);
	R(removexattr("f", "user.a"));
	told("removed", in);
	R(removexattr("f", "user.a"));
	told("not removed", in);
	R(chmod("f", 0600));
	R(chmod("f", 0600));
	told("rights", in);
	R(chown("f", -1, -1));
	told("nobody new", in);
}

/* IN_EXCL_UNLINK: nothing of what is done through a name that is gone. */
CASE(gone)
{
	char b[4];
	int in, dir, fd;

	put("f", "1234");
	NEED(fd = open("f", O_RDWR));
	in = watch("f", IN_ALL_EVENTS | IN_EXCL_UNLINK);
	dir = watch(".", IN_ALL_EVENTS | IN_EXCL_UNLINK);
	R(unlink("f"));
	told("unlinked", in);
	told("unlinked, in its directory", dir);
	R(read(fd, b, 4));
	R(write(fd, b, 4));
	told("used", in);
	told("used, in its directory", dir);
	R(ftruncate(fd, 1));
	R(fchmod(fd, 0600));
	told("changed", in);
	told("changed, in its directory", dir);
	close(fd);
	told("closed", in);
	told("closed, in its directory", dir);
}

CASE(gone_directory)
{
	int in, fd;

	NEED(mkdir("d", 0700));
	NEED(fd = open("d", O_RDONLY | O_DIRECTORY));
	in = watch("d", IN_ALL_EVENTS | IN_EXCL_UNLINK);
	R(rmdir("d"));
	told("removed", in);
	close(fd);
	told("closed", in);
}

CASE(one_of_two_names)
{
	int in, a, b;

	put("a", "");
	NEED(link("a", "b"));
	NEED(a = open("a", O_WRONLY));
	NEED(b = open("b", O_WRONLY));
	in = watch(".", IN_ALL_EVENTS | IN_EXCL_UNLINK);
	NEED(unlink("a"));
	told("unlinked", in);
	R(write(a, "1", 1));
	told("by the name that is gone", in);
	R(write(b, "1", 1));
	told("by the other", in);
}
