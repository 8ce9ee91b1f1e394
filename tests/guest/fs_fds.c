/* SPDX-License-Identifier: Apache-2.0 */
/* dup, dup2, dup3, close, close_range, fcntl, limits of descriptors. */
#include <sys/resource.h>

#include "guest.h"

CASE(dup_family)
{
	int fd = need_fd(".", open(".", O_RDONLY | O_CLOEXEC));

	say_is("dup gives the next", dup(fd) == fd + 1);
	say_n("without CLOEXEC", fcntl(fd + 1, F_GETFD));
	say_is("dup2", dup2(fd, 50) == 50);
	say_is("dup2 onto itself", dup2(fd, fd) == fd);
	say_n("which keeps CLOEXEC", fcntl(fd, F_GETFD));
	say("dup2 of a bad one", dup2(40, 41));
	say("dup2 of a bad one onto itself", dup2(40, 40));
	say("dup2 to a negative one", dup2(fd, -1));
	say("dup2 past the limit", dup2(fd, 1 << 30));
	say("dup3 onto itself", dup3(fd, fd, 0));
	say("dup3 bad flags", syscall(SYS_dup3, fd, 51, O_APPEND));
	say_is("dup3 CLOEXEC", dup3(fd, 51, O_CLOEXEC) == 51 && fcntl(51, F_GETFD) == FD_CLOEXEC);
	say("dup bad", dup(-1));
	say_is("F_DUPFD", fcntl(fd, F_DUPFD, 60) == 60);
	say_is("F_DUPFD taken", fcntl(fd, F_DUPFD, 60) == 61);
	say_is("F_DUPFD_CLOEXEC", fcntl(fd, F_DUPFD_CLOEXEC, 70) == 70 && fcntl(70, F_GETFD) == 1);
	say("F_DUPFD negative", fcntl(fd, F_DUPFD, -1));
	say("F_DUPFD past the limit", fcntl(fd, F_DUPFD, 1 << 30));
	say("close", close(fd));
	say("close twice", close(fd));
	say("close a negative one", close(-1));
}

CASE(flags)
{
	int fd;

	put("f", "");
	fd = need_fd("f", open("f", O_RDWR | O_APPEND));
	say_is("access mode", (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
	say_is("append", (fcntl(fd, F_GETFL) & O_APPEND) != 0);
	say("clear append", fcntl(fd, F_SETFL, 0));
	say_is("cleared", (fcntl(fd, F_GETFL) & O_APPEND) == 0);
	say("the access mode cannot change", fcntl(fd, F_SETFL, O_WRONLY | O_NONBLOCK));
	say_is("did not", (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
	say_is("nonblock", (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
	say("F_SETFD", fcntl(fd, F_SETFD, FD_CLOEXEC));
	say_n("F_GETFD", fcntl(fd, F_GETFD));
	say("unknown command", fcntl(fd, 4711, 0));
	say("bad descriptor", fcntl(99, F_GETFL));
	say("unknown command, bad descriptor", fcntl(99, 4711, 0));
	say_is("no CREAT and such in F_GETFL",
		(fcntl(open("g", O_CREAT | O_EXCL | O_TRUNC | O_WRONLY, 0600), F_GETFL) &
			(O_CREAT | O_EXCL | O_TRUNC)) == 0);
}

CASE(range)
{
	for (int i = 10; i < 30; i++)
		need("dup2", dup2(0, i));
	say("close_range", syscall(SYS_close_range, 10, 19, 0));
	say("the last of it", fcntl(19, F_GETFD));
	say("the next", fcntl(20, F_GETFD));
	say("mark only", syscall(SYS_close_range, 20, 24, 4));
	say_n("marked", fcntl(24, F_GETFD));
	say_n("not marked", fcntl(25, F_GETFD));
	say("wrong order", syscall(SYS_close_range, 20, 10, 0));
	say("bad flags", syscall(SYS_close_range, 20, 30, 64));
	say("unshare first", syscall(SYS_close_range, 26, ~0U, 2));
	say("gone", fcntl(29, F_GETFD));
}

CASE(limit)
{
	struct rlimit r = { 20, 20 };
	int fd = -1, n;

	need("setrlimit", setrlimit(RLIMIT_NOFILE, &r));
	for (n = 0; n < 100; n++) {
		fd = open(".", O_RDONLY);
		if (fd < 0)
			break;
	}
	say("too many", fd);
	say_is("at the limit", fcntl(19, F_GETFD) >= 0);
	say("dup", dup(0));
	say("F_DUPFD at the limit", fcntl(0, F_DUPFD, 20));
	say("F_DUPFD below it", fcntl(0, F_DUPFD, 19));
	say("dup2 to the limit", dup2(0, 20));
	close(7);
	say_is("one is free again", open(".", O_RDONLY) == 7);
}

CASE(across_exec_and_fork)
{
	int fd = need_fd("f", open("f", O_CREAT | O_RDWR, 0600)), status;

	if (fork() == 0) {
		close(fd);
		_exit(0);
	}
	wait(&status);
	say("a child's close is its own", fcntl(fd, F_GETFD));
	if (fork() == 0)
		_exit(dup2(fd, 90) == 90 ? 7 : 8);
	wait(&status);
	say("its dup2 too", fcntl(90, F_GETFD));
}

CASE(owner_and_signal)
{
	int fd = need_fd("f", open("f", O_CREAT | O_RDWR, 0600));

	say_n("F_GETOWN", fcntl(fd, F_GETOWN));
	say("F_SETSIG bad", fcntl(fd, F_SETSIG, 1000));
	say_n("F_GETSIG", fcntl(fd, F_GETSIG));
	say("F_GETPIPE_SZ of a file", fcntl(fd, F_GETPIPE_SZ));
	say("F_GET_SEALS of a file", fcntl(fd, F_GET_SEALS) < 0 ? -1 : 0);
}
