/* SPDX-License-Identifier: Apache-2.0 */
/* chmod, chown, utimensat and its elders, truncate, umask, mknod. */
#include <limits.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <utime.h>

#include "guest.h"

CASE(modes)
{
	put("f", "");
	need("mkdir", mkdir("d", 0755));
	need("symlink", symlink("f", "l"));
	say("chmod", chmod("f", 0640));
	say_stat("f");
	say("all bits", chmod("f", 07777));
	say_stat("f");
	say("bits of a type are ignored", chmod("f", S_IFDIR | 0600));
	say_stat("f");
	say("through a link", chmod("l", 0611));
	say_stat("f");
	say("fchmod", fchmod(open("f", O_RDONLY), 0600));
	say_stat("f");
	say("fchmod of a bad one", fchmod(-1, 0600));
	say("nothing", chmod("nothing", 0600));
	say("below a file", chmod("f/x", 0600));
	say("bad path", chmod(BAD_PTR, 0600));
	say("long", chmod(long_name(), 0600));
	say("fchmodat bad dirfd", syscall(SYS_fchmodat, -1, "f", 0600));
	say("directory", chmod("d", 01777));
	say_stat("d");
}

CASE(owners)
{
	struct stat st;

	put("f", "");
	need("symlink", symlink("f", "l"));
	need("chmod", chmod("f", 06755));
	say("chown", chown("f", 11, 22));
	need("stat", stat("f", &st));
	say_n("uid", st.st_uid);
	say_n("gid", st.st_gid);
	say_is("setuid is gone", (st.st_mode & 06000) == 0);
	say("only the group", chown("f", (uid_t)-1, 33));
	need("stat", stat("f", &st));
	say_n("uid", st.st_uid);
	say_n("gid", st.st_gid);
	say("lchown", lchown("l", 5, 6));
	need("lstat", lstat("l", &st));
	say_n("the link's", st.st_uid);
	need("stat", stat("l", &st));
	say_n("not the file's", st.st_uid);
	say("fchown", fchown(open("f", O_RDONLY), 1, 2));
	say("fchown of a bad one", fchown(-1, 1, 2));
	say("fchownat empty path", fchownat(open("f", O_PATH), "", 3, 4, AT_EMPTY_PATH));
	say("fchownat bad flag", fchownat(AT_FDCWD, "f", 3, 4, 0x8000));
	say("nothing", chown("nothing", 1, 2));
	say("bad path", chown(BAD_PTR, 1, 2));
	say("bad dirfd", fchownat(77, "f", 3, 4, 0));
}

static void not_mine(void)
{
	say("chmod another's", chmod("f", 0777));
	say("chown another's", chown("f", 1000, 1000));
	say("truncate another's", truncate("f", 0));
	say("times of another's", utimensat(AT_FDCWD, "f", NULL, 0));
	say("times of a writable one", utimensat(AT_FDCWD, "w", NULL, 0));
	say("set times of a writable one",
		utimensat(AT_FDCWD, "w", (struct timespec[]){ { 1, 0 }, { 1, 0 } }, 0));
	put("mine", "");
	say("give away one's own", chown("mine", 0, (gid_t)-1));
	say("give to a foreign group", chown("mine", (uid_t)-1, 55));
	say("chown to oneself", chown("mine", 1000, 1000));
	say("chmod one's own", chmod("mine", 02755));
	say_stat("mine");
}

static void make_device(void)
{
	say("character", mknod("dev", S_IFCHR | 0600, makedev(1, 3)));
	say("block", mknod("dev", S_IFBLK | 0600, makedev(7, 0)));
}

CASE(devices_of_a_user)
{
	as_user(1000, 1000, make_device);
}

CASE(another_user)
{
	put("f", "x");
	put("w", "x");
	need("chmod", chmod("w", 0666));
	as_user(1000, 1000, not_mine);
	say_stat("f");
}

static void say_times(const char *what, const char *path)
{
	struct stat st;

	need("lstat", lstat(path, &st));
	printf("  %s: %lld.%09ld %lld.%09ld\n", what, (long long)st.st_atim.tv_sec,
		st.st_atim.tv_nsec, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

CASE(times)
{
	struct timespec ts[2] = { { 1000, 500 }, { 2000, 600 } };
	struct timespec omit[2] = { { 0, UTIME_OMIT }, { 3000, 7 } };
	struct timespec wrong[2] = { { 0, 1000000000 }, { 0, 0 } };
	struct timeval tv[2] = { { 10, 20 }, { 30, 40 } }, badtv[2] = { { 0, -1 }, { 0, 0 } };
	struct utimbuf ub = { 100, 200 };
	struct stat st;

	put("f", "");
	need("symlink", symlink("f", "l"));
	say("utimensat", utimensat(AT_FDCWD, "f", ts, 0));
	say_times("f", "f");
	say("omit", utimensat(AT_FDCWD, "f", omit, 0));
	say_times("f", "f");
	say("of the link", utimensat(AT_FDCWD, "l", ts, AT_SYMLINK_NOFOLLOW));
	say_times("l", "l");
	say("bad nanoseconds", utimensat(AT_FDCWD, "f", wrong, 0));
	say("futimens", futimens(open("f", O_RDONLY), ts));
	say("futimens of a bad one", futimens(-1, ts));
	say("utimes", utimes("f", tv));
	say_times("f", "f");
	say("utimes bad", utimes("f", badtv));
	say("utime", utime("f", &ub));
	say_times("f", "f");
	say("now", utimensat(AT_FDCWD, "f", NULL, 0));
	need("stat", stat("f", &st));
	say_is("now is now", time(NULL) - st.st_mtime < 100);
	say("futimesat", syscall(SYS_futimesat, AT_FDCWD, "f", tv));
	say_times("f", "f");
	say("nothing", utimensat(AT_FDCWD, "nothing", ts, 0));
	say("bad times", syscall(SYS_utimensat, AT_FDCWD, "f", BAD_PTR, 0));
	say("bad path", utimensat(AT_FDCWD, BAD_PTR, ts, 0));
	say("bad flags", utimensat(AT_FDCWD, "f", ts, 0x8000));
	say("both omitted, nothing there",
		utimensat(AT_FDCWD, "nothing",
			(struct timespec[]){ { 0, UTIME_OMIT }, { 0, UTIME_OMIT } }, 0));
}

CASE(times_move)
{
	struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
	struct stat st;

	put("f", "x");
	need("mkdir", mkdir("d", 0755));
	need("utimensat", utimensat(AT_FDCWD, "f", old, 0));
	need("utimensat", utimensat(AT_FDCWD, "d", old, 0));
	put("d/new", "");
	need("stat", stat("d", &st));
	say_is("a new name changes the directory", st.st_mtime > 1000);
	need("stat", stat("f", &st));
	say_is("f is old", st.st_mtime == 1000);
	need("chmod", chmod("f", 0600));
	need("stat", stat("f", &st));
	say_is("chmod does not touch mtime", st.st_mtime == 1000 && st.st_ctime > 1000);
	need("truncate", truncate("f", 0));
	need("stat", stat("f", &st));
	say_is("truncate does", st.st_mtime > 1000);
	need("utimensat", utimensat(AT_FDCWD, "f", old, 0));
	need("write", write(open("f", O_WRONLY), "y", 1));
	need("stat", stat("f", &st));
	say_is("write does", st.st_mtime > 1000);
}

CASE(truncate)
{
	char buf[8];
	int fd;

	put("f", "0123456789");
	need("mkdir", mkdir("d", 0755));
	say("shorter", truncate("f", 4));
	cat("f");
	say("longer", truncate("f", 6));
	cat("f");
	say("negative", truncate("f", -1));
	say("nothing", truncate("nothing", 0));
	say("a directory", truncate("d", 0));
	say("bad path", truncate(BAD_PTR, 0));
	say("below a file", truncate("f/x", 0));
	fd = need_fd("f", open("f", O_RDWR));
	say("ftruncate", ftruncate(fd, 2));
	say_stat("f");
	say("ftruncate negative", ftruncate(fd, -1));
	say("ftruncate read-only", ftruncate(open("f", O_RDONLY), 1));
	say("ftruncate a directory", ftruncate(open("d", O_RDONLY), 1));
	say("ftruncate bad", ftruncate(-1, 1));
	need("seek", lseek(fd, 10, SEEK_SET));
	need("write", write(fd, "x", 1));
	say_stat("f");
	say_n("read", pread(fd, buf, 4, 1));
	say_bytes("zeroes between", buf, 4);
	need("mkfifo", mkfifo("p", 0600));
	say("truncate a fifo", truncate("p", 0));
}

CASE(mask)
{
	say_n("umask", umask(077));
	say_n("then", umask(0777));
	say_n("only permissions", umask(07777));
	say_n("again", umask(0));
	need("mkdir", mkdir("d", 0777));
	say_stat("d");
	umask(027);
	need("mkfifo", mkfifo("p", 0666));
	say_stat("p");
	need("symlink", symlink("p", "l"));
	say_stat("l");
}

CASE(nodes)
{
	say("fifo", mknod("p", S_IFIFO | 0644, 0));
	say("regular", mknod("r", S_IFREG | 0600, 0));
	say("no type is regular", mknod("n", 0600, 0));
	say("socket", mknod("s", S_IFSOCK | 0600, 0));
	say("directory", mknod("d", S_IFDIR | 0700, 0));
	say("link", mknod("l", S_IFLNK | 0700, 0));
	say("over an old name", mknod("p", S_IFIFO | 0644, 0));
	say("in nothing", mknod("no/p", S_IFIFO | 0644, 0));
	say("bad path", mknod(BAD_PTR, S_IFIFO | 0644, 0));
	say("with a slash", mknod("q/", S_IFIFO | 0644, 0));
	say("bad dirfd", mknodat(-1, "q", S_IFIFO | 0600, 0));
	say_stat("p");
	say_stat("r");
	say_stat("n");
	say_stat("s");
	say("open a socket", open("s", O_RDONLY));
	say("open a fifo for writing alone", open("p", O_WRONLY | O_NONBLOCK));
	say("open a fifo for reading", open("p", O_RDONLY | O_NONBLOCK));
}
