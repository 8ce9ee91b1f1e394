/* SPDX-License-Identifier: Apache-2.0 */
/* stat, lstat, fstat, newfstatat, statx, statfs, ustat. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <linux/magic.h>
#include <linux/stat.h>

#include "guest.h"

static long raw_statx(int dir, const char *path, int flags, unsigned mask, void *buf)
{
	return syscall(SYS_statx, dir, path, flags, mask, buf);
}

CASE(kinds)
{
	put("f", "12345");
	need("mkdir", mkdir("d", 0750));
	need("symlink", symlink("f", "l"));
	need("mkfifo", mkfifo("p", 0600));
	need("socket", mknod("s", S_IFSOCK | 0640, 0));
	say_stat("f");
	say_stat("d");
	say_stat("l");
	say_stat("p");
	say_stat("s");
	say_stat("/dev/null");
	say_stat("nothing");
}

CASE(follow)
{
	struct stat a, b;

	put("f", "12345");
	need("symlink", symlink("f", "l"));
	need("stat", stat("l", &a));
	say_is("stat follows", S_ISREG(a.st_mode));
	need("lstat", lstat("l", &a));
	say_is("lstat does not", S_ISLNK(a.st_mode));
	need("fstatat", fstatat(AT_FDCWD, "l", &b, AT_SYMLINK_NOFOLLOW));
	say_is("the same one", a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	say("stat of a dangling link", (unlink("f"), stat("l", &a)));
	say("slash after a link to a file", (put("f", ""), stat("l/", &a)));
}

CASE(errors)
{
	struct stat st;

	put("f", "");
	say("bad path", stat(BAD_PTR, &st));
	say("bad buffer", syscall(SYS_newfstatat, AT_FDCWD, "f", BAD_PTR, 0));
	say("bad buffer, no such file", syscall(SYS_newfstatat, AT_FDCWD, "nothing", BAD_PTR, 0));
	say("empty", stat("", &st));
	say("empty with AT_EMPTY_PATH", fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
	say("long name", stat(long_name(), &st));
	say("long path", stat(long_path(), &st));
	say("below a file", stat("f/x", &st));
	say("bad flags", fstatat(AT_FDCWD, "f", &st, 0x8000));
	say("bad fd", fstat(-1, &st));
	say("bad dirfd", fstatat(77, "f", &st, 0));
	say("bad dirfd, absolute", fstatat(77, "/", &st, 0));
	say("dirfd is a file", fstatat(open("f", O_RDONLY), "x", &st, 0));
	say("file and AT_EMPTY_PATH", fstatat(open("f", O_RDONLY), "", &st, AT_EMPTY_PATH));
}

CASE(numbers)
{
	struct stat a, b;

	put("f", "12345");
	need("stat", stat("f", &a));
	say_n("uid", a.st_uid);
	say_n("gid", a.st_gid);
	say_n("size", a.st_size);
	say_is("block size is sane", a.st_blksize >= 512 && a.st_blksize <= 1 << 20);
	say_is("times are of today",
		time(NULL) - a.st_mtime < 100 && a.st_atime > 0 && a.st_ctime > 0);
	need("link", link("f", "g"));
	need("stat", stat("g", &b));
	say_is("a hard link is the same inode",
		a.st_ino == b.st_ino && a.st_dev == b.st_dev && b.st_nlink == 2);
	put("h", "");
	need("stat", stat("h", &b));
	say_is("another file is not", a.st_ino != b.st_ino && a.st_dev == b.st_dev);
	need("stat", stat("/dev/null", &a));
	say_n("null major", major(a.st_rdev));
	say_n("null minor", minor(a.st_rdev));
}

CASE(directory_links)
{
	struct stat a, b;

	need("mkdir", mkdir("d", 0755));
	need("stat", stat("d/..", &a));
	need("stat", stat(".", &b));
	say_is("'..' is the parent", a.st_ino == b.st_ino);
	need("stat", stat("/..", &a));
	need("stat", stat("/", &b));
	say_is("'/..' is the root", a.st_ino == b.st_ino);
	need("stat", stat("d/./../d/.", &a));
	need("stat", stat("d", &b));
	say_is("dots", a.st_ino == b.st_ino);
}

CASE(extended)
{
	struct statx x;

	put("f", "12345");
	need("symlink", symlink("f", "l"));
	say("statx", raw_statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &x));
	say_n("size", (long)x.stx_size);
	say_is("has the basics", (x.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
	say("nofollow", raw_statx(AT_FDCWD, "l", AT_SYMLINK_NOFOLLOW, STATX_TYPE, &x));
	say_is("is a link", S_ISLNK(x.stx_mode));
	say("empty path", raw_statx(open("f", O_RDONLY), "", AT_EMPTY_PATH, STATX_SIZE, &x));
	say("reserved mask", raw_statx(AT_FDCWD, "f", 0, 0x80000000u, &x));
	say("bad flags", raw_statx(AT_FDCWD, "f", 0x400000, STATX_SIZE, &x));
	say("both sync flags", raw_statx(AT_FDCWD, "f", 0x6000, STATX_SIZE, &x));
	say("bad buffer", raw_statx(AT_FDCWD, "f", 0, STATX_SIZE, BAD_PTR));
	say("bad path", raw_statx(AT_FDCWD, BAD_PTR, 0, STATX_SIZE, &x));
	say("nothing", raw_statx(AT_FDCWD, "nothing", 0, STATX_SIZE, &x));
	say("bad dirfd", raw_statx(-5, "f", 0, STATX_SIZE, &x));
}

CASE(file_system)
{
	struct statfs s;
	char small[64];

	say("statfs", statfs(".", &s));
	say_is("sane", s.f_bsize > 0 && s.f_namelen == 255);
	say("proc", statfs("/proc", &s));
	say_is("is proc", s.f_type == 0x9fa0);
	say("fstatfs", fstatfs(open(".", O_RDONLY), &s));
	say("fstatfs of a bad fd", fstatfs(-1, &s));
	say("nothing", statfs("nothing", &s));
	say("bad path", statfs(BAD_PTR, &s));
	say("bad buffer", syscall(SYS_statfs, ".", BAD_PTR));
	say("ustat of nothing", syscall(SYS_ustat, 0xfffff, small));
}

static void access_as_user(void)
{
	say("read 0640", access("f", R_OK));
	say("exists", access("f", F_OK));
	say("read 0644", access("g", R_OK));
	say("write 0644", access("g", W_OK));
	say("read and write 0644", access("g", R_OK | W_OK));
	say("execute 0755", access("x", X_OK));
	say("execute 0644", access("g", X_OK));
	say("below 0700", access("d/f", F_OK));
}

CASE(access_rights)
{
	put("f", "");
	need("chmod", chmod("f", 0640));
	put("g", "");
	put("x", "");
	need("chmod", chmod("x", 0755));
	need("mkdir", mkdir("d", 0700));
	put("d/f", "");
	say("root writes 0444", (chmod("g", 0444), access("g", W_OK)));
	chmod("g", 0644);
	say("root executes 0644", access("g", X_OK));
	say("root executes 0755", access("x", X_OK));
	say("bad mode", access("f", 8));
	say("nothing", access("nothing", F_OK));
	say("bad path", access(BAD_PTR, F_OK));
	say("faccessat2 bad flag", syscall(SYS_faccessat2, AT_FDCWD, "f", F_OK, 0x1));
	say("faccessat2 nofollow",
		syscall(SYS_faccessat2, AT_FDCWD, "f", F_OK, AT_SYMLINK_NOFOLLOW));
	say("faccessat2 eaccess", syscall(SYS_faccessat2, AT_FDCWD, "f", R_OK, AT_EACCESS));
	say("faccessat bad dirfd", syscall(SYS_faccessat, 99, "f", F_OK));
	as_user(1000, 1000, access_as_user);
}

/* Of what has no name. */
CASE(kinds_of_file_systems)
{
	struct statfs fs;
	int p[2], s[2];

	need("pipe", pipe(p));
	need("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	say("a pipe", fstatfs(p[0], &fs));
	say_is("of pipes", (unsigned)fs.f_type == PIPEFS_MAGIC);
	say("a socket", fstatfs(s[0], &fs));
	say_is("of sockets", (unsigned)fs.f_type == SOCKFS_MAGIC);
	say("an epoll", fstatfs(epoll_create1(0), &fs));
	say_is("of the anonymous", (unsigned)fs.f_type == ANON_INODE_FS_MAGIC);
}
