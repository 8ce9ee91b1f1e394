/* SPDX-License-Identifier: Apache-2.0 */
/* flock, record locks of a process and of an open file. */
#include <sys/file.h>

#include "guest.h"

static struct flock range(short type, off_t start, off_t len)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len
	};
}

static long lock(int fd, int cmd, short type, off_t start, off_t len)
{
	struct flock l = range(type, start, len);

	return fcntl(fd, cmd, &l);
}

/* Who holds [start, start+len), as another process sees it. */
static void ask(int fd, const char *what, off_t start, off_t len)
{
	fflush(stdout);
	if (fork() == 0) {
		struct flock l = range(F_WRLCK, start, len);

		if (fcntl(fd, F_GETLK, &l) < 0)
			say(what, -1);
		else if (l.l_type == F_UNLCK)
			printf("  %s: free\n", what);
		else
			printf("  %s: %s %lld+%lld by parent: %d\n", what,
				l.l_type == F_WRLCK ? "write" : "read", (long long)l.l_start,
				(long long)l.l_len, l.l_pid == getppid());
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

CASE(first_in_the_way)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	say("far", lock(fd, F_SETLK, F_WRLCK, 50, 10));
	say("near", lock(fd, F_SETLK, F_RDLCK, 10, 5));
	say("between", lock(fd, F_SETLK, F_WRLCK, 30, 1));
	ask(fd, "of all", 0, 100);
	ask(fd, "behind the first", 15, 100);
}

CASE(records)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	say("write lock", lock(fd, F_SETLK, F_WRLCK, 0, 100));
	ask(fd, "inside", 50, 1);
	ask(fd, "behind", 100, 10);
	say("a hole", lock(fd, F_SETLK, F_UNLCK, 40, 20));
	ask(fd, "first part", 0, 40);
	ask(fd, "the hole", 40, 20);
	ask(fd, "second part", 60, 100);
	say("read lock over a part", lock(fd, F_SETLK, F_RDLCK, 60, 10));
	ask(fd, "that part", 60, 1);
	ask(fd, "the rest", 70, 1);
	say("to the end of all", lock(fd, F_SETLK, F_WRLCK, 200, 0));
	ask(fd, "far away", 1 << 30, 1);
	say("negative length", lock(fd, F_SETLK, F_WRLCK, 300, -50));
	say("before the start", lock(fd, F_SETLK, F_WRLCK, 10, -50));
	say("bad type", lock(fd, F_SETLK, 7, 0, 1));
	say("bad fd", lock(-1, F_SETLK, F_WRLCK, 0, 1));
	say("bad address", fcntl(fd, F_SETLK, BAD_PTR));
	say("write lock, read-only", lock(open("f", O_RDONLY), F_SETLK, F_WRLCK, 0, 1));
	say("read lock, write-only", lock(open("f", O_WRONLY), F_SETLK, F_RDLCK, 0, 1));
}

CASE(close_drops_all)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)),
	    other = need_fd("f", open("f", O_RDWR));

	say("lock", lock(fd, F_SETLK, F_WRLCK, 0, 10));
	close(other);
	ask(fd, "after closing another descriptor of the file", 0, 10);
}

CASE(processes)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)), status = 0, p[2];
	char c;

	need("pipe", pipe(p));
	need("lock", lock(fd, F_SETLK, F_WRLCK, 0, 10));
	fflush(stdout);
	if (fork() == 0) {
		say("a child has none of it", lock(fd, F_SETLK, F_WRLCK, 0, 10));
		fflush(stdout);
		need("write", write(p[1], "x", 1));
		_exit(lock(fd, F_SETLKW, F_WRLCK, 0, 10) == 0 ? 5 : 6);
	}
	need("read", read(p[0], &c, 1));
	usleep(50000);
	say("let go", lock(fd, F_SETLK, F_UNLCK, 0, 10));
	wait(&status);
	say_n("the child got it", WEXITSTATUS(status));
	say("free again when it ended", lock(fd, F_SETLK, F_WRLCK, 0, 10));
}

CASE(circle)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)), p[2], status = 0;
	char c;
	long r;

	need("pipe", pipe(p));
	need("lock", lock(fd, F_SETLK, F_WRLCK, 0, 1));
	fflush(stdout);
	if (fork() == 0) {
		need("lock", lock(fd, F_SETLK, F_WRLCK, 1, 1));
		need("write", write(p[1], "x", 1));
		_exit(lock(fd, F_SETLKW, F_WRLCK, 0, 1) == 0 ? 5 : errno == EDEADLK ? 6 : 7);
	}
	need("read", read(p[0], &c, 1));
	usleep(100000);
	r = lock(fd, F_SETLKW, F_WRLCK, 1, 1);
	say("one of them is told", r);
	lock(fd, F_SETLK, F_UNLCK, 0, 1);
	wait(&status);
	say_n("the other goes on", WEXITSTATUS(status));
}

CASE(of_the_open_file)
{
	int a = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)),
	    b = need_fd("f", open("f", O_RDWR));

	say("first", lock(a, F_OFD_SETLK, F_WRLCK, 0, 10));
	say("another open file of the same process", lock(b, F_OFD_SETLK, F_WRLCK, 5, 1));
	say("a dup is the same", lock(dup(a), F_OFD_SETLK, F_WRLCK, 5, 1));
	say("beside it", lock(b, F_OFD_SETLK, F_WRLCK, 10, 1));
	say("a process lock is in the way too", lock(b, F_SETLK, F_RDLCK, 0, 1));
	close(a);
	say("still held by the dup", lock(b, F_OFD_SETLK, F_WRLCK, 0, 1));
}

CASE(whole_files)
{
	int a = need_fd("f", open("f", O_RDONLY | O_CREAT, 0600)),
	    b = need_fd("f", open("f", O_RDONLY));

	say("shared", flock(a, LOCK_SH));
	say("shared too", flock(b, LOCK_SH | LOCK_NB));
	say("exclusive", flock(b, LOCK_EX | LOCK_NB));
	say("unlock", flock(a, LOCK_UN));
	say("exclusive now", flock(b, LOCK_EX | LOCK_NB));
	say("shared in the way of", flock(a, LOCK_SH | LOCK_NB));
	say("records do not see it", lock(a, F_SETLK, F_RDLCK, 0, 0));
	say("down to shared", flock(b, LOCK_SH));
	say("shared beside it", flock(a, LOCK_SH | LOCK_NB));
	say("bad operation", flock(a, 99));
	say("none", flock(a, 0));
	say("bad descriptor", flock(-1, LOCK_SH));
	close(b);
	say("close lets go", flock(a, LOCK_EX | LOCK_NB));
}

CASE(whole_files_wait)
{
	int a = need_fd("f", open("f", O_RDONLY | O_CREAT, 0600)), status = 0;

	need("flock", flock(a, LOCK_EX));
	if (fork() == 0) {
		int b = open("f", O_RDONLY);

		_exit(flock(b, LOCK_EX) == 0 ? 5 : 6);
	}
	usleep(50000);
	need("unlock", flock(a, LOCK_UN));
	wait(&status);
	say_n("the child got it", WEXITSTATUS(status));
}
