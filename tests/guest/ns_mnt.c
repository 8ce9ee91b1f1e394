/* SPDX-License-Identifier: Apache-2.0 */
/* Mount namespaces: a tree of one's own, turned round, entered, and what stays locked in it. */
#include "io.h"

#include <sched.h>
#include <sys/mount.h>

static void alone(void)
{
	need("unshare", unshare(CLONE_NEWNS));
	need("private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
}

static void mount_inside(void)
{
	alone();
	say("mount", mount("apart", "dir", "tmpfs", 0, "mode=0700"));
	put("dir/inside", "yes");
	say_stat("dir");
	say("busy", umount("dir") < 0 ? -1 : 0);
	need("again", mount("apart", "dir", "tmpfs", 0, NULL));
}

CASE(apart)
{
	need("mkdir", mkdir("dir", 0755));
	in_child(mount_inside);
	say_stat("dir");
	say("inside", access("dir/inside", F_OK));
}

static void turn_round(void)
{
	char cwd[4096];

	alone();
	need("tmpfs", mount("new", "new", "tmpfs", 0, NULL));
	need("old", mkdir("new/old", 0755));
	put("new/here", "new root");
	say("no mount", syscall(SYS_pivot_root, "plain", "plain"));
	say("not below", syscall(SYS_pivot_root, "new", "plain"));
	say("no directory", syscall(SYS_pivot_root, "new", "new/here"));
	say("not there", syscall(SYS_pivot_root, "nowhere", "new/old"));
	say("pivot", syscall(SYS_pivot_root, "new", "new/old"));
	need("chdir", chdir("/"));
	cat("/here");
	say("old is below", access("/old/proc", F_OK));
	say("umount", umount2("/old", MNT_DETACH));
	say("old is gone", access("/old/proc", F_OK));
	say("up", chdir(".."));
	say_str("cwd", getcwd(cwd, sizeof(cwd)));
}

CASE(pivot)
{
	need("mkdir", mkdir("new", 0755) | mkdir("plain", 0755));
	in_child(turn_round);
	say("still here", access("/proc", F_OK));
}

/* As runc and bwrap do it: the old root on top of the new one, and off again. */
static void stacked(void)
{
	int old;

	alone();
	need("tmpfs", mount("new", "new", "tmpfs", 0, NULL));
	put("new/here", "new root");
	old = need_fd("old", open("/", O_RDONLY | O_DIRECTORY));
	need("chdir", chdir("new"));
	say("pivot", syscall(SYS_pivot_root, ".", "."));
	need("fchdir", fchdir(old));
	say("umount", umount2(".", MNT_DETACH));
	need("chdir", chdir("/"));
	cat("/here");
}

CASE(pivot_on_itself)
{
	need("mkdir", mkdir("new", 0755));
	in_child(stacked);
}

static void of_user(void)
{
	need_user_ns(CLONE_NEWNS);
	say("private", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	say("tmpfs", mount("mine", "dir", "tmpfs", 0, "uid=0,mode=755"));
	say("tmpfs of nobody", mount("mine", "dir", "tmpfs", 0, "uid=5"));
	say("devtmpfs", mount("dev", "dir", "devtmpfs", 0, NULL));
	say("proc of others", mount("proc", "dir", "proc", 0, NULL));
	say("remount mine", mount(NULL, "dir", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	say("write", open("dir/x", O_CREAT | O_WRONLY, 0600) < 0 ? -1 : 0);
	say("umount mine", umount("dir"));
	say("what is locked", umount2("below/under", MNT_DETACH));
	say("under it", mount("below", "dir", NULL, MS_BIND, NULL));
	say("with it", mount("below", "dir", NULL, MS_BIND | MS_REC, NULL));
	say("locked flags", mount(NULL, "below/under", NULL, MS_REMOUNT | MS_BIND, NULL));
	say("more flags", mount(NULL, "below/under", NULL,
				  MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC, NULL));
}

static void locked(void)
{
	alone();
	need("below", mount("below", "below", "tmpfs", 0, NULL));
	need("under", mkdir("below/under", 0755));
	need("lock", mount("under", "below/under", "tmpfs", MS_NOSUID, NULL));
	in_child(of_user);
	say("not here", umount("below/under"));
}

CASE(of_another_user)
{
	need("mkdir", mkdir("dir", 0755) | mkdir("below", 0755));
	in_child(locked);
}

static void there_and_back(void)
{
	int first = need_fd("ns", open("/proc/self/ns/mnt", O_RDONLY));
	int here = need_fd("cwd", open(".", O_RDONLY | O_DIRECTORY));

	alone();
	need("tmpfs", mount("apart", "dir", "tmpfs", 0, NULL));
	put("dir/inside", "yes");
	say("back", setns(first, CLONE_NEWNS));
	say_is("at the root", access("proc", F_OK) == 0);
	need("fchdir", fchdir(here));
	say("inside", access("dir/inside", F_OK));
	say("a tree of its own only", unshare(CLONE_NEWNS | CLONE_FS));
}

CASE(enter)
{
	need("mkdir", mkdir("dir", 0755));
	in_child(there_and_back);
}

static void keep_a_name(void)
{
	int fd;

	alone();
	put("name", "");
	need("uts", unshare(CLONE_NEWUTS));
	need("name", sethostname("kept", 4));
	say("bind", mount("/proc/self/ns/uts", "name", NULL, MS_BIND, NULL));
	need("other", unshare(CLONE_NEWUTS));
	need("name", sethostname("other", 5));
	fd = need_fd("open", open("name", O_RDONLY));
	say("enter", setns(fd, 0));
	cat("/proc/sys/kernel/hostname");
	say("itself", mount("/proc/self/ns/mnt", "name", NULL, MS_BIND, NULL));
}

CASE(bound_namespace)
{
	in_child(keep_a_name);
}

#define LOCKED (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)

/* As runtimes of containers hide and lock what is in /proc. */
static void hide(void)
{
	alone();
	put("over", "not yours");
	say("a file", mount("over", "/proc/version", NULL, MS_BIND, NULL));
	cat("/proc/version");
	say("null", mount("/dev/null", "/proc/uptime", NULL, MS_BIND, NULL));
	cat("/proc/uptime");
	say("a folder", mount("t", "/proc/sysvipc", "tmpfs", MS_RDONLY, NULL));
	say("empty", access("/proc/sysvipc/shm", F_OK));
	say("itself", mount("/proc/sys", "/proc/sys", NULL, MS_BIND, NULL));
	say("read-only", mount(NULL, "/proc/sys", NULL, MS_BIND | MS_REMOUNT | LOCKED, NULL));
	say("write", open("/proc/sys/vm/swappiness", O_WRONLY) < 0 ? -1 : 0);
	say("read", access("/proc/sys/vm/swappiness", R_OK));
	say("its own folder", mount("over", "/proc/self/limits", NULL, MS_BIND, NULL));
	cat("/proc/self/limits");
	say("away",
		umount("/proc/version") | umount("/proc/sysvipc") | umount("/proc/self/limits"));
	say("back", access("/proc/sysvipc/shm", F_OK));
}

CASE(in_proc)
{
	in_child(hide);
	say("not here", access("/proc/sysvipc/shm", F_OK));
}

/* As tools that build sandboxes do with the parts of /proc that are the machine's. */
CASE(over_proc)
{
	struct stat st;
	char b[16];
	int fd;

	alone();
	need("mkdir", mkdir("p", 0700));
	say("proc", mount("proc", "p", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
	say("bind", mount("p/sys", "p/sys", NULL, MS_BIND, NULL));
	say("read-only",
		mount(NULL, "p/sys", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID, NULL));
	say("write", open("p/sys/kernel/hostname", O_WRONLY));
	say("read", open("p/sys/kernel/hostname", O_RDONLY) < 0 ? -1 : 0);
	say("elsewhere", open("/proc/sys/kernel/hostname", O_WRONLY) < 0 ? -1 : 0);
	say("hide a file", mount("/dev/null", "p/uptime", NULL, MS_BIND, NULL));
	fd = open("p/uptime", O_RDONLY);
	say_n("what is read", read(fd, b, sizeof(b)));
	say_is("its kind", stat("p/uptime", &st) == 0 && S_ISCHR(st.st_mode));
	say("hide a directory", mount("none", "p/sys/vm", "tmpfs", 0, NULL));
	say("make a name", mkdir("p/sys/vm/x", 0700));
	close(fd);
	say("show it again", umount("p/uptime"));
	say_is("its kind", stat("p/uptime", &st) == 0 && S_ISREG(st.st_mode));
	say("all of it", umount2("p", MNT_DETACH));
}

/* Nor is what lies there mapped to be run. */
CASE(not_to_be_run)
{
	int fd;

	alone();
	need("mkdir", mkdir("n", 0700));
	say("mount", mount("n", "n", "tmpfs", MS_NOEXEC, NULL));
	put("n/f", "text");
	fd = need_fd("f", open("n/f", O_RDONLY));
	say_is("read", mmap(NULL, 4, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
	say("run", mmap(NULL, 4, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
}
