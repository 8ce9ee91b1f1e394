/* SPDX-License-Identifier: Apache-2.0 */
/* open, openat, creat: flags, errors, and which error comes first. */
#include "guest.h"

CASE(create_and_modes)
{
	int fd = need_fd("creat", creat("a", 0666));

	say_stat("a");
	say("write to it", write(fd, "abc", 3));
	say("read from it", read(fd, &fd, 1));
	close(fd);
	umask(077);
	close(need_fd("b", open("b", O_CREAT | O_RDWR, 07777)));
	say_stat("b");
	say("creat truncates", creat("a", 0));
	say_stat("a");
}

CASE(exclusive)
{
	put("a", "x");
	say("EXCL on a file", open("a", O_CREAT | O_EXCL | O_RDWR, 0600));
	need("symlink", symlink("nowhere", "dangling"));
	say("EXCL on a dangling link", open("dangling", O_CREAT | O_EXCL | O_RDWR, 0600));
	say("CREAT through a dangling link", open("dangling", O_CREAT | O_RDWR, 0600));
	say_stat("nowhere");
	need("mkdir", mkdir("d", 0755));
	say("EXCL on a directory", open("d", O_CREAT | O_EXCL, 0600));
	say("CREAT on a directory", open("d", O_CREAT, 0600));
}

CASE(directories)
{
	need("mkdir", mkdir("d", 0755));
	put("f", "x");
	say("read", open("d", O_RDONLY));
	say("write", open("d", O_WRONLY));
	say("both", open("d", O_RDWR));
	say("truncate", open("d", O_RDONLY | O_TRUNC));
	say("DIRECTORY on a directory", open("d", O_RDONLY | O_DIRECTORY));
	say("DIRECTORY on a file", open("f", O_RDONLY | O_DIRECTORY));
	say("slash after a file", open("f/", O_RDONLY));
	say("below a file", open("f/x", O_RDONLY));
	say("slash after a directory", open("d/", O_RDONLY));
	say("create with a slash", open("new/", O_CREAT | O_RDWR, 0600));
	say("create below nothing", open("no/new", O_CREAT | O_RDWR, 0600));
	say("DIRECTORY and CREAT", open("d", O_DIRECTORY | O_CREAT, 0600));
	say("DIRECTORY and CREAT, new", open("d2", O_DIRECTORY | O_CREAT, 0600));
}

CASE(links)
{
	char name[8];

	put("f", "text");
	need("symlink", symlink("f", "l"));
	need("symlink", symlink("loop2", "loop1"));
	need("symlink", symlink("loop1", "loop2"));
	say("through a link", open("l", O_RDONLY));
	say("NOFOLLOW", open("l", O_RDONLY | O_NOFOLLOW));
	say("NOFOLLOW and PATH", open("l", O_PATH | O_NOFOLLOW));
	say("NOFOLLOW and DIRECTORY", open("l", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
	say("a loop", open("loop1", O_RDONLY));
	say("create in a loop", open("loop1", O_RDWR | O_CREAT, 0600));
	need("symlink", symlink("f", "c0"));
	for (int i = 1; i <= 41; i++) {
		char to[8];

		snprintf(to, sizeof(to), "c%d", i - 1);
		snprintf(name, sizeof(name), "c%d", i);
		need("symlink", symlink(to, name));
	}
	say("40 links", open("c39", O_RDONLY));
	say("41 links", open("c40", O_RDONLY));
}

CASE(errors)
{
	put("f", "");
	say("bad address", open(BAD_PTR, O_RDONLY));
	say("empty", open("", O_RDONLY));
	say("nothing", open("nothing", O_RDONLY));
	say("long name", open(long_name(), O_RDONLY));
	say("long path", open(long_path(), O_RDONLY));
	say("mode 3", open("f", O_ACCMODE));
	say("bad dirfd", openat(-1, "f", O_RDONLY));
	say("bad dirfd, absolute", openat(-1, "/", O_RDONLY));
	say("bad dirfd, bad address", openat(-1, BAD_PTR, O_RDONLY));
	say("dirfd is a file", openat(need_fd("f", open("f", O_RDONLY)), "x", O_RDONLY));
	say("dirfd is a file, empty path", openat(need_fd("f", open("f", O_RDONLY)), "", O_RDONLY));
	say("TMPFILE without write", open(".", O_TMPFILE | O_RDONLY, 0600));
	say("unknown bits", open("f", O_RDONLY | 0x40000000));
}

CASE(append)
{
	char buf[16];
	int fd;

	put("f", "one");
	fd = need_fd("f", open("f", O_RDWR | O_APPEND));
	say_n("offset at first", lseek(fd, 0, SEEK_CUR));
	say_n("write", write(fd, "two", 3));
	say_n("offset", lseek(fd, 0, SEEK_CUR));
	say_n("pwrite at 0 appends too", pwrite(fd, "!", 1, 0));
	say_n("offset stays", lseek(fd, 0, SEEK_CUR));
	say_bytes("all", buf, (size_t)pread(fd, buf, sizeof(buf), 0));
}

CASE(truncate)
{
	put("f", "something");
	say("TRUNC and read only", open("f", O_RDONLY | O_TRUNC));
	say_stat("f");
	put("f", "something");
	say("TRUNC and write", open("f", O_WRONLY | O_TRUNC));
	say_stat("f");
	need("chmod", chmod("f", 0444));
	say("create over it", open("f", O_CREAT | O_RDONLY, 0777));
	say_stat("f");
}

CASE(path_only)
{
	struct stat st;
	char c;
	int fd;

	put("f", "x");
	need("chmod", chmod("f", 0000));
	fd = need_fd("PATH", open("f", O_PATH));
	say("read", read(fd, &c, 1));
	say("write", write(fd, "x", 1));
	say("fchmod", syscall(SYS_fchmod, fd, 0644));
	say("fstat", fstat(fd, &st));
	say("ftruncate", ftruncate(fd, 0));
	say("lseek", lseek(fd, 0, SEEK_SET));
	say("fsync", fsync(fd));
	say("F_GETFD", fcntl(fd, F_GETFD));
	say_is("F_GETFL says PATH", (fcntl(fd, F_GETFL) & O_PATH) != 0);
	say("F_SETFL", fcntl(fd, F_SETFL, O_APPEND));
	say("dup", dup(fd));
	say("fchdir", fchdir(fd));
	say("fstatat of it", fstatat(fd, "", &st, AT_EMPTY_PATH));
	say("close", close(fd));
	fd = need_fd("PATH dir", open(".", O_PATH | O_DIRECTORY));
	say("openat below it", openat(fd, "f", O_PATH));
	say("fchdir", fchdir(fd));
}

CASE(anonymous)
{
	char path[64];
	struct stat st;
	int fd = open(".", O_TMPFILE | O_RDWR, 0640);

	need("TMPFILE", fd);
	say("write", write(fd, "hidden", 6));
	need("fstat", fstat(fd, &st));
	say_n("links", (long)st.st_nlink);
	say_is("mode", (st.st_mode & 07777) == 0640);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("linkat through proc", linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
	cat("named");
	fd = need_fd("TMPFILE EXCL", open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	say("an exclusive one has no name",
		linkat(AT_FDCWD, path, AT_FDCWD, "n2", AT_SYMLINK_FOLLOW));
	say("TMPFILE of a file", open("named", O_TMPFILE | O_RDWR, 0600));
	say("TMPFILE of nothing", open("nothing", O_TMPFILE | O_RDWR, 0600));
}

CASE(lowest_number)
{
	int a = need_fd("a", open(".", O_RDONLY)), b = need_fd("b", open(".", O_RDONLY));

	close(a);
	say_is("the lowest free number", open(".", O_RDONLY) == a);
	close(b);
	say_is("and the next", open(".", O_RDONLY) == b);
	say_is("CLOEXEC is set", fcntl(open(".", O_RDONLY | O_CLOEXEC), F_GETFD) == FD_CLOEXEC);
	say_is("and is not", fcntl(open(".", O_RDONLY), F_GETFD) == 0);
}

static void other_opens(void)
{
	say("0600 of root, read", open("private", O_RDONLY));
	say("0644 of root, read", open("public", O_RDONLY));
	say("0644 of root, write", open("public", O_WRONLY));
	say("0644 of root, truncate", open("public", O_RDONLY | O_TRUNC));
	say("below 0700 of root", open("closed/f", O_RDONLY));
	say("below 0700 of root, nothing there", open("closed/nothing", O_RDONLY));
	say("list 0711", open("passage", O_RDONLY | O_DIRECTORY));
	say("below 0711", open("passage/f", O_RDONLY));
	say("create in 0755 of root", open("passage/new", O_CREAT | O_RDWR, 0600));
	say("NOATIME of another's", open("public", O_RDONLY | O_NOATIME));
	say("PATH of 0600", open("private", O_PATH));
}

CASE(another_user)
{
	put("private", "x");
	need("chmod", chmod("private", 0600));
	put("public", "x");
	need("mkdir", mkdir("closed", 0700));
	put("closed/f", "x");
	need("mkdir", mkdir("passage", 0711));
	put("passage/f", "x");
	as_user(1000, 1000, other_opens);
	need("chmod", chmod("private", 0));
	say("root reads 0000", open("private", O_RDWR));
}

CASE(running_image)
{
	char buf[65536];
	int in = need_fd("exe", open("/proc/self/exe", O_RDONLY)), out, status;
	ssize_t n;
	pid_t pid;

	out = need_fd("copy", open("copy", O_WRONLY | O_CREAT, 0755));
	while ((n = read(in, buf, sizeof(buf))) > 0)
		need("write", write(out, buf, (size_t)n));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execl("./copy", "copy", "--list", NULL);
		_exit(errno == ETXTBSY ? 9 : 8);
	}
	waitpid(pid, &status, 0);
	say_n("exec of one that is open for writing", WEXITSTATUS(status));
	close(out);
	pid = fork();
	if (pid == 0) {
		/* Its only case sleeps: see below. */
		execl("./copy", "copy", "sleeps", NULL);
		_exit(8);
	}
	usleep(300000);
	say("write to one that runs", open("copy", O_WRONLY));
	say("truncate one that runs", truncate("copy", 0));
	say("unlink it", unlink("copy"));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

CASE(sleeps)
{
	if (getenv("GUEST_TMP") && access("../running_image", F_OK) != 0)
		sleep(5);
}

/* Neither to read nor to write: for ioctls. */
CASE(for_nothing)
{
	char c;
	int fd;

	put("f", "text");
	need("fifo", mkfifo("p", 0600));
	fd = need_fd("open", open("f", 3));
	say_n("mode", fcntl(fd, F_GETFL) & 3);
	say("read", read(fd, &c, 1));
	say("write", write(fd, &c, 1));
	say("truncate", ftruncate(fd, 0));
	say("a fifo", open("p", 3 | O_NONBLOCK));
	say("a directory", open(".", 3));
	cat("f");
}

/* Past the cache: what has no pages has no such way. */
CASE(direct)
{
	need("fifo", mkfifo("p", 0600));
	say("a directory", open(".", O_RDONLY | O_DIRECT));
	say("a fifo", open("p", O_RDONLY | O_DIRECT | O_NONBLOCK));
	say("null", open("/dev/null", O_RDONLY | O_DIRECT));
	say("a directory, later", fcntl(need_fd(".", open(".", O_RDONLY)), F_SETFL, O_DIRECT));
	say("null, later", fcntl(need_fd("null", open("/dev/null", O_RDONLY)), F_SETFL, O_DIRECT));
}
