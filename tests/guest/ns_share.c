/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts that tell each other what is mounted on them: peers, listeners, and who leaves. */
#include "io.h"

#include <sched.h>
#include <sys/mount.h>

#ifndef MOVE_MOUNT_SET_GROUP
#define MOVE_MOUNT_SET_GROUP 0x100
#endif

static int kind(const char *path, unsigned long flags)
{
	return mount(NULL, path, NULL, flags, NULL);
}

static int bind_to(const char *from, const char *to)
{
	return mount(from, to, NULL, MS_BIND, NULL);
}

static int tmpfs(const char *at)
{
	return mount("t", at, "tmpfs", 0, NULL);
}

/* A tree of one's own below "top", with folders to mount on. */
static void alone(void)
{
	need("unshare", unshare(CLONE_NEWNS));
	need("private", kind("/", MS_REC | MS_PRIVATE));
	need("top", mkdir("top", 0755) | tmpfs("top"));
	need("chdir", chdir("top"));
	need("mkdir", mkdir("a", 0755) | mkdir("b", 0755) | mkdir("c", 0755) | mkdir("d", 0755));
	need("a", tmpfs("a") | mkdir("a/x", 0755) | mkdir("a/y", 0755));
}

/* The optional fields of the mount at @path, with groups as letters in the order of their coming.
 */
static void say_kind(const char *path)
{
	static unsigned groups[26], count;
	char cwd[256], line[1024], want[600], out[200] = "";
	FILE *f = fopen("/proc/self/mountinfo", "re");
	size_t at = 0;

	if (!f || !getcwd(cwd, sizeof(cwd)))
		need("mountinfo", -1);
	snprintf(want, sizeof(want), "%s/%s", cwd, path);
	while (fgets(line, sizeof(line), f)) {
		char *save, *word = strtok_r(line, " ", &save);
		bool here = false;

		for (int n = 0; word; word = strtok_r(NULL, " ", &save), n++) {
			unsigned number, g = 0;
			char what[32];

			if (n == 4)
				here = strcmp(word, want) == 0;
			if (n < 6 || !here)
				continue;
			if (strcmp(word, "-") == 0)
				break;
			if (sscanf(word, "%31[a-z_]:%u", what, &number) < 2) {
				at += (size_t)snprintf(out + at, sizeof(out) - at, " %s", word);
				continue;
			}
			while (g < count && groups[g] != number)
				g++;
			if (g == count && count < 26)
				groups[count++] = number;
			at += (size_t)snprintf(out + at, sizeof(out) - at, " %s:%c", what, 'A' + g);
		}
	}
	fclose(f);
	printf("  %s:%s\n", path, out[0] ? out : " private");
}

static void say_mounted(const char *path)
{
	struct stat st, up;
	char parent[256];

	snprintf(parent, sizeof(parent), "%s/..", path);
	if (stat(path, &st) < 0 || stat(parent, &up) < 0)
		say(path, -1);
	else
		say_is(path, st.st_dev != up.st_dev);
}

static void peers(void)
{
	alone();
	say_kind("a");
	say("shared", kind("a", MS_SHARED));
	need("bind", bind_to("a", "b"));
	say_kind("a");
	say_kind("b");
	say("on the one", tmpfs("a/x"));
	say_mounted("b/x");
	say_kind("a/x");
	say_kind("b/x");
	put("b/x/f", "seen");
	cat("a/x/f");
	say("from the other", tmpfs("b/y"));
	say_mounted("a/y");
	say("away there", umount("b/x"));
	say_mounted("a/x");
	say("no more", kind("b", MS_PRIVATE));
	say("on the one", tmpfs("a/x"));
	say_mounted("b/x");
	say_kind("a");
	say_kind("b");
	say_kind("b/y");
}

CASE(peers)
{
	in_child(peers);
}

static void listeners(void)
{
	alone();
	say("a slave of nobody", kind("a", MS_SLAVE));
	say_kind("a");
	need("shared", kind("a", MS_SHARED) | bind_to("a", "b") | kind("b", MS_SLAVE));
	say_kind("b");
	need("mount", tmpfs("a/x"));
	say_mounted("b/x");
	say_kind("b/x");
	need("mount", tmpfs("b/y"));
	say_mounted("a/y");
	say("and tells others", kind("b", MS_SHARED));
	need("bind", bind_to("b", "c"));
	say_kind("b");
	say_kind("c");
	need("umount", umount("a/x"));
	say_mounted("b/x");
	say_mounted("c/x");
	need("mount", tmpfs("a/x"));
	say_kind("b/x");
	say_kind("c/x");
	/* The one in between goes: who heard of it hears of the one above. */
	need("slave", bind_to("b", "d") | kind("d", MS_SLAVE));
	say_kind("d");
	need("private", kind("b", MS_PRIVATE) | kind("c", MS_PRIVATE));
	say_kind("d");
	need("umount", umount("a/x"));
	say_mounted("d/x");
	need("private", kind("a", MS_PRIVATE));
	say_kind("d");
}

CASE(listeners)
{
	in_child(listeners);
}

static void unbindable(void)
{
	alone();
	need("mounts", tmpfs("a/x") | tmpfs("a/y"));
	say("unbindable", kind("a/x", MS_UNBINDABLE));
	say_kind("a/x");
	say("bind", bind_to("a/x", "b"));
	say("with all below", mount("a", "b", NULL, MS_BIND | MS_REC, NULL));
	say_mounted("b/x");
	say_mounted("b/y");
	need("shared", tmpfs("c") | mkdir("c/z", 0755) | kind("c", MS_SHARED));
	say("to who tells it", mount("a", "c/z", NULL, MS_MOVE, NULL));
	say("shared", kind("a/x", MS_SHARED));
	say("now", mount("a", "c/z", NULL, MS_MOVE, NULL));
	say_kind("c/z");
	say_kind("c/z/y");
	say("from who tells it", mount("c/z", "d", NULL, MS_MOVE, NULL));
	say("two kinds", kind("c", MS_SHARED | MS_PRIVATE));
	say("no mount", kind("c/z/x/..", MS_SHARED) | kind("d", MS_SHARED));
}

CASE(unbindable)
{
	in_child(unbindable);
}

static void trees(void)
{
	int here;

	alone();
	here = need_fd("here", open(".", O_RDONLY | O_DIRECTORY));
	need("shared", kind("a", MS_SHARED) | bind_to("a", "b"));
	need("tree", tmpfs("c") | mkdir("c/in", 0755) | tmpfs("c/in"));
	put("c/in/f", "tree");
	say("tree", mount("c", "a/x", NULL, MS_BIND | MS_REC, NULL));
	cat("b/x/in/f");
	say_kind("b/x");
	say_kind("b/x/in");
	/* What lies there already is on top of what comes. */
	need("slave", kind("b", MS_SLAVE) | tmpfs("b/y"));
	put("b/y/mine", "mine");
	need("mount", tmpfs("a/y"));
	cat("b/y/mine");
	need("umount", umount("b/y"));
	say("mine", access("b/y/mine", F_OK));
	say_mounted("b/y");
	/* In use elsewhere: it stays, unless it is taken away at once. */
	need("chdir", chdir("b/y"));
	say("busy", umount("../../a/y"));
	say("at once", umount2("../../a/y", MNT_DETACH));
	need("fchdir", fchdir(here));
	say_mounted("b/y");
	say("all of it", umount2("a/x", MNT_DETACH));
	say_mounted("b/x");
}

CASE(trees)
{
	in_child(trees);
}

static void in_two_trees(void)
{
	int up[2], down[2];
	char c;
	pid_t pid;

	alone();
	need("pipe", pipe(up) | pipe(down));
	need("shared", kind("a", MS_SHARED) | bind_to("a", "b") | kind("b", MS_SLAVE));
	pid = fork();
	if (pid == 0) {
		need("unshare", unshare(CLONE_NEWNS));
		need("tell", write(up[1], "1", 1));
		need("told", read(down[0], &c, 1));
		say_mounted("a/x");
		say_mounted("b/x");
		need("mount", tmpfs("a/y"));
		need("slave", kind("a", MS_SLAVE) | umount("a/x"));
		fflush(stdout);
		need("tell", write(up[1], "2", 1));
		need("told", read(down[0], &c, 1));
		_exit(0);
	}
	need("told", read(up[0], &c, 1));
	need("mount", tmpfs("a/x"));
	fflush(stdout);
	need("tell", write(down[1], "1", 1));
	need("told", read(up[0], &c, 1));
	say_mounted("a/y");
	say_mounted("a/x");
	say_mounted("b/y");
	need("tell", write(down[1], "2", 1));
	waitpid(pid, NULL, 0);
	/* pivot_root would have to be told to others. */
	need("new", tmpfs("d") | mkdir("d/old", 0755));
	need("shared", kind(".", MS_SHARED));
	say("pivot", syscall(SYS_pivot_root, "d", "d/old"));
}

CASE(in_two_trees)
{
	in_child(in_two_trees);
}

static void of_another(void)
{
	need_user_ns(CLONE_NEWNS);
	say_kind("a");
	need("mount", tmpfs("a/y"));
	say_mounted("a/y");
}

static void another_user(void)
{
	alone();
	need("shared", kind("a", MS_SHARED));
	in_child(of_another);
	say_mounted("a/y");
}

CASE(of_another_user)
{
	in_child(another_user);
}

static void joined(void)
{
	struct {
		uint64_t set, clear, propagation, userns;
	} attr = { .propagation = MS_SHARED };

	alone();
	need("bind", bind_to("a", "b") | bind_to("a/x", "c"));
	say("all by attributes", syscall(442, AT_FDCWD, "a", 0, &attr, sizeof(attr)));
	say_kind("a");
	say("join", syscall(429, AT_FDCWD, "a", AT_FDCWD, "b", MOVE_MOUNT_SET_GROUP));
	say_kind("b");
	say("a part of it", syscall(429, AT_FDCWD, "a", AT_FDCWD, "c", MOVE_MOUNT_SET_GROUP));
	say("again", syscall(429, AT_FDCWD, "a", AT_FDCWD, "b", MOVE_MOUNT_SET_GROUP));
	say("another", syscall(429, AT_FDCWD, "a", AT_FDCWD, ".", MOVE_MOUNT_SET_GROUP));
	say("not a group", syscall(429, AT_FDCWD, ".", AT_FDCWD, "a", MOVE_MOUNT_SET_GROUP));
	need("mkdir", mkdir("a/x/z", 0755) | tmpfs("a/x/z"));
	say_mounted("b/x/z");
	say_mounted("c/z");
	need("mount", tmpfs("a/y"));
	say_mounted("b/y");
	say("into itself", mount("a", "a/x", NULL, MS_BIND, NULL));
	say_kind("a/x");
	say_kind("b/x");
	say("and no deeper", access("a/x/x/y", F_OK));
}

CASE(joined)
{
	in_child(joined);
}
