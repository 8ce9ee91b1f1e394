/* SPDX-License-Identifier: Apache-2.0 */
/* openat2 and its RESOLVE_ rules; magic links. */
#include <linux/openat2.h>

#include "guest.h"

static long open2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct open_how how = { flags, mode, resolve };
	long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	if (fd >= 0)
		close((int)fd);
	return fd;
}

static int setup(void)
{
	need("mkdir", mkdir("root", 0755));
	need("mkdir", mkdir("root/d", 0755));
	put("root/f", "");
	put("root/d/g", "");
	put("outside", "");
	need("symlink", symlink("f", "root/link"));
	need("symlink", symlink("../outside", "root/up"));
	need("symlink", symlink("/f", "root/abs"));
	need("symlink", symlink("d", "root/dlink"));
	need("symlink", symlink("/proc/self/exe", "root/magic"));
	return need_fd("root", open("root", O_RDONLY | O_DIRECTORY));
}

CASE(beneath)
{
	int dir = setup();

	say("below", open2(dir, "d/g", O_RDONLY, 0, RESOLVE_BENEATH));
	say("up and down", open2(dir, "d/../f", O_RDONLY, 0, RESOLVE_BENEATH));
	say("out", open2(dir, "../outside", O_RDONLY, 0, RESOLVE_BENEATH));
	say("out and back", open2(dir, "../root/f", O_RDONLY, 0, RESOLVE_BENEATH));
	say("absolute", open2(dir, "/f", O_RDONLY, 0, RESOLVE_BENEATH));
	say("a link", open2(dir, "link", O_RDONLY, 0, RESOLVE_BENEATH));
	say("a link out", open2(dir, "up", O_RDONLY, 0, RESOLVE_BENEATH));
	say("an absolute link", open2(dir, "abs", O_RDONLY, 0, RESOLVE_BENEATH));
	say("create below", open2(dir, "new", O_RDWR | O_CREAT, 0600, RESOLVE_BENEATH));
	say("create outside", open2(dir, "../new", O_RDWR | O_CREAT, 0600, RESOLVE_BENEATH));
}

CASE(in_root)
{
	int dir = setup();

	say("absolute", open2(dir, "/f", O_RDONLY, 0, RESOLVE_IN_ROOT));
	say("out stays in", open2(dir, "../f", O_RDONLY, 0, RESOLVE_IN_ROOT));
	say("outside is not there", open2(dir, "../outside", O_RDONLY, 0, RESOLVE_IN_ROOT));
	say("an absolute link", open2(dir, "abs", O_RDONLY, 0, RESOLVE_IN_ROOT));
	say("a link out", open2(dir, "up", O_RDONLY, 0, RESOLVE_IN_ROOT));
	say("both", open2(dir, "f", O_RDONLY, 0, RESOLVE_IN_ROOT | RESOLVE_BENEATH));
}

CASE(no_links)
{
	int dir = setup();

	say("a link", open2(dir, "link", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
	say("a link on the way", open2(dir, "dlink/g", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
	say("the link itself", open2(dir, "link", O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS));
	say("none", open2(dir, "d/g", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
	say("magic", open2(dir, "magic", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS));
	say("a plain link is fine", open2(dir, "link", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS));
	say("magic without the rule", open2(dir, "magic", O_RDONLY, 0, 0));
}

CASE(no_other_mounts)
{
	int dir = setup();

	say("below", open2(dir, "d/g", O_RDONLY, 0, RESOLVE_NO_XDEV));
	say("/proc", open2(AT_FDCWD, "/proc/self/status", O_RDONLY, 0, RESOLVE_NO_XDEV));
}

CASE(words)
{
	char how[64] = { 0 };
	int dir = setup();

	say("unknown flag", open2(dir, "f", 1ULL << 40, 0, 0));
	say("unknown rule", open2(dir, "f", O_RDONLY, 0, 1 << 20));
	say("mode without create", open2(dir, "f", O_RDONLY, 0600, 0));
	say("mode too large", open2(dir, "n", O_CREAT | O_RDWR, 010000, 0));
	say("PATH and more", open2(dir, "f", O_PATH | O_RDWR, 0, 0));
	say("too small", syscall(SYS_openat2, dir, "f", how, 8));
	say("larger, with zeroes", syscall(SYS_openat2, dir, "f", how, 64) < 0 ? -1 : 0);
	how[40] = 1;
	say("larger, with more", syscall(SYS_openat2, dir, "f", how, 64));
	say("far too large", syscall(SYS_openat2, dir, "f", how, 1 << 20));
	say("bad address", syscall(SYS_openat2, dir, "f", BAD_PTR, 24));
}

CASE(magic_links)
{
	char path[64], buf[256];
	int fd, dir;

	put("f", "text");
	fd = need_fd("f", open("f", O_RDWR));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	need("unlink", unlink("f"));
	say("a removed file opens again", open(path, O_RDONLY));
	need("readlink", readlink(path, buf, sizeof(buf)));
	say("its link goes nowhere by itself", access("f", F_OK));
	need("mkdir", mkdir("d", 0755));
	dir = need_fd("d", open("d", O_PATH));
	snprintf(path, sizeof(path), "/proc/self/fd/%d/x", dir);
	say("through a directory", open(path, O_CREAT | O_RDWR, 0600));
	say_stat("d/x");
	say("cwd", access("/proc/self/cwd/d/x", F_OK));
	say("root", access("/proc/self/root/proc/self", F_OK));
	say("exe", open("/proc/self/exe", O_RDONLY) < 0 ? -1 : 0);
	say("of nobody", access("/proc/self/fd/444", F_OK));
	say("/dev/stdin", access("/dev/fd/0", F_OK));
}
