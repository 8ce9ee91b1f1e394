/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes: user.* is kept, sizes and errors are as documented. */
#include <sys/xattr.h>

#include "guest.h"

CASE(set_get_remove)
{
	char buf[64];
	ssize_t n;

	put("f", "");
	say("set", setxattr("f", "user.a", "value", 5, 0));
	n = getxattr("f", "user.a", buf, sizeof(buf));
	say_n("get", n);
	say_bytes("value", buf, n > 0 ? (size_t)n : 0);
	say_n("ask for the size", getxattr("f", "user.a", NULL, 0));
	say("too small", getxattr("f", "user.a", buf, 2));
	say("CREATE over it", setxattr("f", "user.a", "x", 1, XATTR_CREATE));
	say("REPLACE", setxattr("f", "user.a", "xyz", 3, XATTR_REPLACE));
	say_n("get", getxattr("f", "user.a", buf, sizeof(buf)));
	say("REPLACE nothing", setxattr("f", "user.b", "x", 1, XATTR_REPLACE));
	say("bad flags", setxattr("f", "user.b", "x", 1, 64));
	say("empty value", setxattr("f", "user.empty", "", 0, 0));
	say_n("get empty", getxattr("f", "user.empty", buf, sizeof(buf)));
	say("remove", removexattr("f", "user.a"));
	say("remove again", removexattr("f", "user.a"));
	say("get nothing", getxattr("f", "user.a", buf, sizeof(buf)));
}

CASE(list)
{
	char buf[64];
	ssize_t n;

	put("f", "");
	need("set", setxattr("f", "user.one", "1", 1, 0));
	n = listxattr("f", buf, sizeof(buf));
	say_bytes("list", buf, n > 0 ? (size_t)n : 0);
	say_n("size", listxattr("f", NULL, 0));
	say("too small", listxattr("f", buf, 3));
	say("bad buffer", syscall(SYS_listxattr, "f", BAD_PTR, 64));
	say("nothing", listxattr("nothing", buf, sizeof(buf)));
	say_n("by descriptor", flistxattr(open("f", O_RDONLY), buf, sizeof(buf)));
	say("by a bad descriptor", flistxattr(-1, buf, sizeof(buf)));
}

CASE(errors)
{
	char buf[16];

	put("f", "");
	need("symlink", symlink("f", "l"));
	need("mkfifo", mkfifo("p", 0600));
	need("mkdir", mkdir("d", 0755));
	say("no such space", setxattr("f", "nothing.a", "x", 1, 0));
	say("no space", setxattr("f", "a", "x", 1, 0));
	say("empty name", setxattr("f", "", "x", 1, 0));
	say("long name", setxattr("f", long_name(), "x", 1, 0));
	say("bad name", syscall(SYS_setxattr, "f", BAD_PTR, "x", 1, 0));
	say("bad value", syscall(SYS_setxattr, "f", "user.a", BAD_PTR, 1, 0));
	say("too large", setxattr("f", "user.a", buf, 70000, 0));
	say("of a link", lsetxattr("l", "user.a", "x", 1, 0));
	say("of a fifo", setxattr("p", "user.a", "x", 1, 0));
	say("of a directory", setxattr("d", "user.a", "x", 1, 0));
	say("through the link", setxattr("l", "user.via", "x", 1, 0));
	say_n("is the file's", getxattr("f", "user.via", buf, sizeof(buf)));
	say("get of a fifo", getxattr("p", "user.a", buf, sizeof(buf)));
	say("O_PATH", fsetxattr(open("f", O_PATH), "user.a", "x", 1, 0));
	say("get through a bad path", getxattr(BAD_PTR, "user.a", buf, 1));
}

static void as_other(void)
{
	char buf[8];

	say("set on another's", setxattr("f", "user.b", "x", 1, 0));
	say("get of a readable one", getxattr("f", "user.a", buf, sizeof(buf)));
	say("get of a private one", getxattr("g", "user.a", buf, sizeof(buf)));
	say("trusted of a user", setxattr("f", "trusted.a", "x", 1, 0));
	say("get trusted of a user", getxattr("f", "trusted.a", buf, sizeof(buf)));
}

CASE(another_user)
{
	put("f", "");
	put("g", "");
	need("set", setxattr("f", "user.a", "x", 1, 0));
	need("set", setxattr("g", "user.a", "x", 1, 0));
	need("chmod", chmod("g", 0600));
	as_user(1000, 1000, as_other);
}

CASE(move_with_the_file)
{
	char buf[8];

	put("f", "");
	need("set", setxattr("f", "user.a", "abc", 3, 0));
	need("rename", rename("f", "g"));
	say_n("after rename", getxattr("g", "user.a", buf, sizeof(buf)));
	need("link", link("g", "h"));
	say_n("by another name", getxattr("h", "user.a", buf, sizeof(buf)));
}

/* How much there is room for is the file system's; what is there can be replaced. */
CASE(full)
{
	char name[32];
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)), r = 0, n;

	for (n = 0; n < 5000 && r == 0; n++) {
		snprintf(name, sizeof(name), "user.n%d", n);
		r = fsetxattr(fd, name, "a long value", 12, XATTR_CREATE);
	}
	say_is("some", n > 10);
	say("replace", fsetxattr(fd, "user.n0", "value", 5, XATTR_REPLACE));
	say_n("its length", fgetxattr(fd, "user.n0", name, sizeof(name)));
}
