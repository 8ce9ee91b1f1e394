/* SPDX-License-Identifier: Apache-2.0 */
/* mkdir, rmdir, getdents64, getdents, chdir, fchdir, getcwd, chroot. */
#include <dirent.h>

#include "guest.h"

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *path)
{
	char *names[256];
	unsigned n = 0;
	struct dirent *de;
	DIR *d = opendir(path);

	if (!d) {
		say(path, -1);
		return;
	}
	while (n < 256 && (de = readdir(d)))
		names[n++] = strdup(de->d_name);
	closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	printf("  %s:", path);
	for (unsigned i = 0; i < n; i++)
		printf(" %s", names[i]);
	printf("\n");
}

CASE(make_and_remove)
{
	say("mkdir", mkdir("d", 0777));
	say_stat("d");
	say("again", mkdir("d", 0777));
	say("below", mkdir("d/e", 0700));
	say("rmdir of a full one", rmdir("d"));
	say("rmdir", rmdir("d/e"));
	say("rmdir of '.'", rmdir("."));
	say("rmdir of 'd/.'", rmdir("d/."));
	say("rmdir of 'd/..'", rmdir("d/.."));
	say("rmdir of '/'", rmdir("/"));
	say("rmdir with a slash", rmdir("d/"));
	say("rmdir of nothing", rmdir("d"));
	put("f", "");
	say("rmdir of a file", rmdir("f"));
	say("mkdir over a file", mkdir("f", 0700));
	say("mkdir below a file", mkdir("f/d", 0700));
	say("mkdir below nothing", mkdir("no/d", 0700));
	say("mkdir with slashes", mkdir("s///", 0700));
	say("mkdir of '.'", mkdir(".", 0700));
	say("mkdir of '/'", mkdir("/", 0700));
	say("long name", mkdir(long_name(), 0700));
	say("bad path", mkdir(BAD_PTR, 0700));
	say("empty", mkdir("", 0700));
	need("symlink", symlink("nowhere", "l"));
	say("over a dangling link", mkdir("l", 0700));
	say("mkdirat bad fd", mkdirat(-1, "x", 0700));
	say("unlinkat removes it", unlinkat(AT_FDCWD, "s", AT_REMOVEDIR));
	say("rmdir of a link to a directory",
		(symlink("d2", "l2"), mkdir("d2", 0700), rmdir("l2")));
	list(".");
}

CASE(link_counts)
{
	struct stat st;

	need("mkdir", mkdir("d", 0755));
	need("stat", stat("d", &st));
	say_is("an empty directory has 2 or 1", st.st_nlink == 2 || st.st_nlink == 1);
	need("mkdir", mkdir("d/a", 0755));
	need("rmdir", rmdir("d/a"));
	need("open", open("d", O_RDONLY));
	need("rmdir", rmdir("d"));
	need("fstat", fstat(3, &st));
	say_n("removed while open", (long)st.st_nlink);
	say("create below a removed one", openat(3, "x", O_CREAT | O_RDWR, 0600));
	say("mkdir below a removed one", mkdirat(3, "x", 0700));
	say("list a removed one", syscall(SYS_getdents64, 3, &st, sizeof(st)));
	say("'..' of a removed one", openat(3, "..", O_RDONLY));
}

CASE(setgid)
{
	struct stat st;

	need("mkdir", mkdir("d", 0755));
	need("chown", chown("d", 0, 77));
	need("chmod", chmod("d", 02755));
	need("mkdir", mkdir("d/sub", 0755));
	put("d/f", "");
	need("stat", stat("d/sub", &st));
	say_is("a directory inherits the bit", (st.st_mode & 02000) != 0);
	say_n("and the group", st.st_gid);
	need("stat", stat("d/f", &st));
	say_is("a file not the bit", (st.st_mode & 02000) == 0);
	say_n("but the group", st.st_gid);
}

CASE(entries)
{
	char buf[4096], name[16];
	int fd, seen = 0, dots = 0;
	long n;

	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "f%03d", i);
		put(name, "");
	}
	need("mkdir", mkdir("dir", 0700));
	fd = need_fd(".", open(".", O_RDONLY | O_DIRECTORY));
	while ((n = syscall(SYS_getdents64, fd, buf, 512)) > 0) {
		for (long at = 0; at < n;) {
			struct dirent64 *d = (void *)(buf + at);

			if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
				dots += d->d_type == DT_DIR;
			else if (strcmp(d->d_name, "dir") == 0)
				say_n("type of a directory", d->d_type);
			else
				seen += d->d_type == DT_REG;
			at += d->d_reclen;
		}
	}
	say_n("the end", n);
	say_n("files", seen);
	say_n("dots", dots);
	say_n("still the end", syscall(SYS_getdents64, fd, buf, sizeof(buf)));
	need("seek", lseek(fd, 0, SEEK_SET));
	say_is("from the start again", syscall(SYS_getdents64, fd, buf, sizeof(buf)) > 0);
	need("seek", lseek(fd, 0, SEEK_SET));
	say("buffer too small", syscall(SYS_getdents64, fd, buf, 10));
	say("bad buffer", syscall(SYS_getdents64, fd, BAD_PTR, 512));
	say("of a file", syscall(SYS_getdents64, open("f000", O_RDONLY), buf, 512));
	say("bad descriptor", syscall(SYS_getdents64, -1, buf, 512));
	say_is("the old form", syscall(SYS_getdents, fd, buf, sizeof(buf)) > 0);
}

CASE(remove_while_listing)
{
	char name[16];
	struct dirent *de;
	int left = 0;
	DIR *d;

	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "f%03d", i);
		put(name, "");
	}
	d = opendir(".");
	while ((de = readdir(d)))
		if (de->d_name[0] == 'f')
			left -= unlink(de->d_name) < 0;
	rewinddir(d);
	while ((de = readdir(d)))
		left += de->d_name[0] == 'f';
	say_n("left", left);
}

CASE(where)
{
	char buf[4096], old[4096];

	need("getcwd", syscall(SYS_getcwd, old, sizeof(old)));
	need("mkdir", mkdir("d", 0755));
	need("mkdir", mkdir("d/e", 0755));
	say("chdir", chdir("d/e"));
	need("getcwd", syscall(SYS_getcwd, buf, sizeof(buf)));
	say_str("below", buf + strlen(old));
	say_is("returns the length",
		syscall(SYS_getcwd, buf, sizeof(buf)) == (long)strlen(buf) + 1);
	say("chdir up", chdir("../.."));
	need("getcwd", syscall(SYS_getcwd, buf, sizeof(buf)));
	say_is("back", strcmp(old, buf) == 0);
	say("buffer too small", syscall(SYS_getcwd, buf, 3));
	say("bad buffer", syscall(SYS_getcwd, BAD_PTR, 4096));
	put("f", "");
	say("chdir to a file", chdir("f"));
	say("chdir to nothing", chdir("nothing"));
	say("chdir to a bad address", chdir(BAD_PTR));
	say("chdir to a long path", chdir(long_path()));
	say("fchdir to a file", fchdir(open("f", O_RDONLY)));
	say("fchdir to a bad one", fchdir(-1));
	say("fchdir", fchdir(open("d", O_RDONLY)));
	need("chdir", chdir("e"));
	need("rmdir", rmdir("../e"));
	say("getcwd of a removed one", syscall(SYS_getcwd, buf, sizeof(buf)));
	say("open '.' of a removed one", open(".", O_RDONLY));
	say("create in it", open("x", O_CREAT | O_RDWR, 0600));
}

static void closed_doors(void)
{
	say("chdir to 0700", chdir("d"));
	say("mkdir in 0755", mkdir("p/x", 0700));
	say("rmdir in 0755", rmdir("p/e"));
	say("chroot", chroot("p"));
}

CASE(another_user)
{
	need("mkdir", mkdir("d", 0700));
	need("mkdir", mkdir("p", 0755));
	need("mkdir", mkdir("p/e", 0755));
	as_user(1000, 1000, closed_doors);
}

CASE(new_root)
{
	char buf[256];

	need("mkdir", mkdir("r", 0755));
	need("mkdir", mkdir("r/d", 0755));
	put("r/f", "inside");
	put("outside", "outside");
	say("of a file", chroot("outside"));
	say("of nothing", chroot("nothing"));
	say("of a bad address", chroot(BAD_PTR));
	need("open", open(".", O_RDONLY));
	say("chroot", chroot("r"));
	need("chdir", chdir("/d"));
	say("absolute", open("/f", O_RDONLY));
	say("up and up", access("../../../f", F_OK));
	say("outside", access("/outside", F_OK));
	need("getcwd", syscall(SYS_getcwd, buf, sizeof(buf)));
	say_str("cwd", buf);
	say("an older descriptor leads out", openat(3, "outside", O_RDONLY));
	need("fchdir", fchdir(3));
	need("getcwd", syscall(SYS_getcwd, buf, sizeof(buf)));
	say_is("cwd outside is unreachable", strncmp(buf, "(unreachable)", 13) == 0);
}

CASE(deep)
{
	char buf[4096];
	int depth = 0;

	while (depth < 300 && mkdir("deeper-and-deeper", 0755) == 0 &&
		chdir("deeper-and-deeper") == 0)
		depth++;
	say_n("levels", depth);
	say("getcwd of more than a page", syscall(SYS_getcwd, buf, sizeof(buf)));
	for (; depth > 0; depth--) {
		need("chdir", chdir(".."));
		need("rmdir", rmdir("deeper-and-deeper"));
	}
	list(".");
}
