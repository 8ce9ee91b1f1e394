/* SPDX-License-Identifier: Apache-2.0 */
/* link, symlink, readlink, unlink, rename and their *at forms. */
#include "guest.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

static long rename2(const char *from, const char *to, unsigned flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

CASE(unlink_one)
{
	char buf[8];
	int fd;

	put("f", "text");
	fd = need_fd("f", open("f", O_RDWR));
	say("unlink", unlink("f"));
	say_stat("f");
	say_n("still readable", read(fd, buf, sizeof(buf)));
	say_n("and writable", write(fd, "more", 4));
	say("nothing", unlink("f"));
	need("mkdir", mkdir("d", 0755));
	say("a directory", unlink("d"));
	say("a directory with a slash", unlink("d/"));
	say("a file with a slash", (put("g", ""), unlink("g/")));
	need("symlink", symlink("d", "l"));
	say("a link to a directory", unlink("l"));
	say("unlinkat with a bad flag", unlinkat(AT_FDCWD, "g", 1));
	say("unlinkat REMOVEDIR of a file", unlinkat(AT_FDCWD, "g", AT_REMOVEDIR));
	say("bad path", unlink(BAD_PTR));
	say("empty", unlink(""));
	say("long name", unlink(long_name()));
	say("dot", unlink("."));
	say("bad dirfd", unlinkat(-1, "g", 0));
}

CASE(hard_links)
{
	put("f", "text");
	need("mkdir", mkdir("d", 0755));
	need("symlink", symlink("f", "l"));
	say("link", link("f", "g"));
	say_stat("g");
	say("over an old name", link("f", "g"));
	say("of a directory", link("d", "e"));
	say("of nothing", link("nothing", "x"));
	say("into nothing", link("f", "no/x"));
	say("of a symlink", link("l", "l2"));
	say_stat("l2");
	say("followed", linkat(AT_FDCWD, "l", AT_FDCWD, "f3", AT_SYMLINK_FOLLOW));
	say_stat("f3");
	say("bad flags", linkat(AT_FDCWD, "f", AT_FDCWD, "x", 0x8000));
	say("with a slash", link("f", "x/"));
	say("bad old", link(BAD_PTR, "x"));
	say("bad new", link("f", BAD_PTR));
	say("empty old", link("", "x"));
	say("empty new", link("f", ""));
	say("by descriptor", linkat(open("f", O_RDONLY), "", AT_FDCWD, "f4", AT_EMPTY_PATH));
	say("to another file system", link("f", "/proc/x") < 0 ? 0 : -1);
	need("unlink", unlink("f"));
	cat("g");
	say_stat("g");
}

CASE(symbolic_links)
{
	char buf[300];
	ssize_t n;

	say("symlink", symlink("some/where", "l"));
	n = readlink("l", buf, sizeof(buf));
	say_bytes("readlink", buf, n > 0 ? (size_t)n : 0);
	n = readlink("l", buf, 4);
	say_bytes("cut", buf, n > 0 ? (size_t)n : 0);
	say("buffer of nothing", syscall(SYS_readlink, "l", buf, 0));
	say("negative", syscall(SYS_readlink, "l", buf, -1));
	say("over an old name", symlink("x", "l"));
	say("empty target", symlink("", "e"));
	say("empty name", symlink("x", ""));
	say("long target", symlink(long_path(), "e"));
	say("bad target", symlink(BAD_PTR, "e"));
	say("bad name", symlink("x", BAD_PTR));
	put("f", "");
	say("readlink of a file", readlink("f", buf, sizeof(buf)));
	say("readlink of nothing", readlink("nothing", buf, sizeof(buf)));
	say("readlink to a bad address", readlink("l", BAD_PTR, 10));
	say("readlink of a bad path", readlink(BAD_PTR, buf, 10));
	say("readlinkat of a bad dirfd", readlinkat(-1, "l", buf, sizeof(buf)));
	say_n("readlinkat of the link itself",
		readlinkat(open("l", O_PATH | O_NOFOLLOW), "", buf, sizeof(buf)));
	say("with a slash", symlink("x", "y/"));
	say("in nothing", symlink("x", "no/y"));
}

CASE(links_in_paths)
{
	need("mkdir", mkdir("d", 0755));
	need("mkdir", mkdir("d/e", 0755));
	put("d/e/f", "deep");
	need("symlink", symlink("d/e", "short"));
	need("symlink", symlink("../d/e/f", "d/up"));
	need("symlink", symlink(".", "self"));
	cat("short/f");
	cat("d/up");
	cat("self/self/self/d/up");
	say("'..' after a link goes to the target's parent", access("short/../up", F_OK));
	need("symlink", symlink("/dev/null", "null"));
	say_is("absolute", open("null", O_RDONLY) >= 0);
}

CASE(rename_files)
{
	put("a", "A");
	put("b", "BB");
	say("rename", rename("a", "c"));
	say_stat("a");
	cat("c");
	say("over another", rename("b", "c"));
	cat("c");
	say("to itself", rename("c", "c"));
	need("link", link("c", "d"));
	say("to its own hard link", rename("c", "d"));
	say_stat("c");
	say("nothing", rename("nothing", "x"));
	say("into nothing", rename("c", "no/x"));
	say("bad old", rename(BAD_PTR, "x"));
	say("bad new", rename("c", BAD_PTR));
	say("empty", rename("", "x"));
	say("long", rename("c", long_name()));
	say("slash after a file", rename("c/", "x"));
	say("slash after the new name", rename("c", "x/"));
	say("dot", rename(".", "x"));
	say("dot dot", rename("..", "x"));
	say("below a file", rename("c", "d/x"));
	need("symlink", symlink("c", "l"));
	say("a symlink moves, not its target", rename("l", "m"));
	say_stat("m");
}

CASE(rename_directories)
{
	need("mkdir", mkdir("a", 0755));
	need("mkdir", mkdir("a/b", 0755));
	put("a/b/f", "text");
	put("file", "");
	need("mkdir", mkdir("empty", 0755));
	need("mkdir", mkdir("full", 0755));
	put("full/x", "");
	say("below itself", rename("a", "a/b/c"));
	say("below itself, at once", rename("a", "a/c"));
	say("its parent over it", rename("a/b", "a"));
	say("over a file", rename("a", "file"));
	say("a file over it", rename("file", "empty"));
	say("over a full one", rename("a", "full"));
	say("over an empty one", rename("a", "empty"));
	cat("empty/b/f");
	say("with slashes", rename("empty/", "again/"));
	cat("again/b/f");
	say("deeper", rename("again/b", "b"));
	need("chdir", chdir("b"));
	say("moved up", access("../again", F_OK));
	need("rename", rename("../b", "../again/z"));
	say("'..' follows the move", access("../../full", F_OK));
}

CASE(rename_flags)
{
	put("a", "A");
	put("b", "B");
	need("mkdir", mkdir("d", 0755));
	put("d/f", "F");
	say("NOREPLACE over a file", rename2("a", "b", RENAME_NOREPLACE));
	say("NOREPLACE to a new name", rename2("a", "c", RENAME_NOREPLACE));
	say("EXCHANGE", rename2("b", "c", RENAME_EXCHANGE));
	cat("b");
	cat("c");
	say("EXCHANGE with a directory", rename2("b", "d", RENAME_EXCHANGE));
	cat("b/f");
	cat("d");
	say("EXCHANGE with nothing", rename2("b", "nothing", RENAME_EXCHANGE));
	say("EXCHANGE with something below", rename2("b", "b/f", RENAME_EXCHANGE));
	say("both", rename2("b", "c", RENAME_NOREPLACE | RENAME_EXCHANGE));
	say("unknown flag", rename2("b", "c", 0x80));
	say("NOREPLACE to itself", rename2("c", "c", RENAME_NOREPLACE));
}

static void sticky(void)
{
	say("unlink another's in a sticky directory", unlink("t/root"));
	say("rename another's", rename("t/root", "t/x"));
	put("t/mine", "");
	say("rename over another's", rename("t/mine", "t/root"));
	say("unlink one's own", unlink("t/mine"));
	say("unlink in 0755", unlink("p/f"));
	say("link into 0755", link("t/root", "p/x"));
	say("symlink into 0755", symlink("t/root", "p/x"));
	say("rename out of 0755", rename("p/f", "t/f"));
}

CASE(another_user)
{
	need("mkdir", mkdir("t", 0700));
	need("chmod", chmod("t", 01777));
	put("t/root", "");
	need("mkdir", mkdir("p", 0755));
	put("p/f", "");
	as_user(1000, 1000, sticky);
}
