/* SPDX-License-Identifier: Apache-2.0 */
/* User, UTS and IPC namespaces: made, mapped, entered, and what capabilities count for in them. */
#include "io.h"

#include <grp.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/utsname.h>

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	char what[128];

	snprintf(what, sizeof(what), "%s << '%.20s'", path, text);
	if (fd < 0) {
		say(what, fd);
		return;
	}
	say(what, write(fd, text, strlen(text)));
	close(fd);
}

static void who(void)
{
	uid_t u[3];
	gid_t g[3];

	getresuid(&u[0], &u[1], &u[2]);
	getresgid(&g[0], &g[1], &g[2]);
	printf("  uid %u %u %u gid %u %u %u\n", u[0], u[1], u[2], g[0], g[1], g[2]);
}

static void owner(const char *path)
{
	struct stat st;

	need(path, stat(path, &st));
	printf("  %s: %u:%u\n", path, st.st_uid, st.st_gid);
}

static void map_root(void)
{
	who();
	cat("/proc/self/uid_map");
	cat("/proc/self/setgroups");
	write_to("/proc/self/uid_map", "");
	write_to("/proc/self/uid_map", "0 0");
	write_to("/proc/self/uid_map", "x 0 1");
	write_to("/proc/self/uid_map", "0 0 0");
	write_to("/proc/self/uid_map", "0 0 2\n1 5 3");
	write_to("/proc/self/uid_map", "0 4294967290 20");
	write_to("/proc/self/uid_map", "0 1000 1\n");
	write_to("/proc/self/uid_map", "0 1000 1\n");
	write_to("/proc/self/gid_map", "0 1000 1\n");
	write_to("/proc/self/setgroups", "maybe");
	write_to("/proc/self/setgroups", "deny");
	write_to("/proc/self/setgroups", "allow");
	write_to("/proc/self/gid_map", "0 1000 1\n");
	cat("/proc/self/uid_map");
	cat("/proc/self/gid_map");
	who();
}

static void user_alone(void)
{
	struct utsname u;
	gid_t g = 0;

	need("dumpable", prctl(PR_SET_DUMPABLE, 1)); /* its files in /proc are its own */
	say("unshare uts", unshare(CLONE_NEWUTS));
	say("unshare user", unshare(CLONE_NEWUSER));
	map_root();
	need("mine", close(open("mine", O_CREAT | O_WRONLY, 0644)));
	owner("mine");
	owner("/");
	say("setgroups", setgroups(1, &g));
	say("setuid 0", setuid(0));
	say("setuid 1", setuid(1));
	say("chown to me", chown("mine", 0, 0));
	say("chown to nobody", chown("mine", 7, -1));
	say("chmod of root's", chmod("/etc", 0700));
	say("sethostname of all", sethostname("other", 5));
	say("unshare uts", unshare(CLONE_NEWUTS));
	say("sethostname", sethostname("inner", 5));
	uname(&u);
	say_str("hostname", u.nodename);
	say("mknod", mknod("null", S_IFCHR | 0600, 0x103));
	say("chroot", chroot("."));
	say("unshare user in it", unshare(CLONE_NEWUSER));
}

CASE(of_a_user)
{
	need("chmod", chmod(".", 0777));
	as_user(1000, 1000, user_alone);
	owner("mine");
}

static void exec_in_it(void)
{
	need("user", unshare(CLONE_NEWUSER));
	say_is("dumpable", prctl(PR_GET_DUMPABLE) == 1);
	fflush(stdout);
	/* Without a map nobody is root, and the rights go. */
	execl("/bin/sh", "sh", "-c", "grep -E '^(Uid|CapEff|CapPrm):' /proc/self/status", NULL);
	say("exec", -1);
}

static void exec_as_root(void)
{
	need("user", unshare(CLONE_NEWUSER));
	write_to("/proc/self/uid_map", "0 0 1");
	fflush(stdout);
	execl("/bin/sh", "sh", "-c", "grep -E '^(Uid|CapPrm):' /proc/self/status", NULL);
	say("exec", -1);
}

CASE(exec)
{
	in_child(exec_in_it);
	in_child(exec_as_root);
}

static void deep(void)
{
	int n = 0;

	while (unshare(CLONE_NEWUSER) == 0) {
		write_to("/proc/self/uid_map", "0 0 1");
		write_to("/proc/self/setgroups", "deny");
		write_to("/proc/self/gid_map", "0 0 1");
		n++;
	}
	say("the last", -1);
	printf("  levels %d\n", n);
}

CASE(nesting)
{
	in_child(deep);
}

static void parent_maps(void)
{
	int go[2], ready[2];
	char path[64], c = 0;
	pid_t p;

	need("pipes", pipe(go) | pipe(ready));
	fflush(stdout);
	p = fork();
	if (!p) {
		need("user", unshare(CLONE_NEWUSER));
		need("ready", write(ready[1], "x", 1));
		need("go", read(go[0], &c, 1));
		who();
		say("setuid 5", setuid(5));
		who();
		say("setuid 50", setuid(50));
		fflush(stdout);
		_exit(0);
	}
	close(ready[1]); /* of one that may not, nobody waits for ever */
	need("wait", read(ready[0], &c, 1));
	snprintf(path, sizeof(path), "/proc/%d/uid_map", p);
	say("uid_map", dprintf(open(path, O_WRONLY), "0 100000 10\n") > 0 ? 0 : -1);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", p);
	say("gid_map", dprintf(open(path, O_WRONLY), "0 0 1\n5 100000 10\n") > 0 ? 0 : -1);
	need("go on", write(go[1], "x", 1));
	waitpid(p, NULL, 0);
}

CASE(mapped_from_outside)
{
	in_child(parent_maps);
}

static void other_name(void)
{
	struct utsname u;

	need("uts", unshare(CLONE_NEWUTS));
	need("name", sethostname("apart", 5));
	need("domain", setdomainname("there", 5));
	uname(&u);
	say_str("inside", u.nodename);
	cat("/proc/sys/kernel/hostname");
	cat("/proc/sys/kernel/domainname");
}

CASE(host_names)
{
	struct utsname a, b;
	int ns = need_fd("ns", open("/proc/self/ns/uts", O_RDONLY));

	uname(&a);
	in_child(other_name);
	uname(&b);
	say_is("the same outside", strcmp(a.nodename, b.nodename) == 0);
	need("uts", unshare(CLONE_NEWUTS));
	need("name", sethostname("apart", 5));
	say("wrong kind", setns(ns, CLONE_NEWIPC));
	say("back", setns(ns, CLONE_NEWUTS));
	uname(&b);
	say_is("the same again", strcmp(a.nodename, b.nodename) == 0);
	say("not open", setns(77, 0));
	say("no namespace", setns(0, 0));
}

static void no_segment(void)
{
	need("ipc", unshare(CLONE_NEWIPC));
	say("get", shmget(0x77617264, 4096, 0600));
	say("make", shmget(0x77617264, 4096, IPC_CREAT | IPC_EXCL | 0600) < 0 ? -1 : 0);
}

CASE(ipc_keys)
{
	int id = shmget(0x77617264, 4096, IPC_CREAT | 0600);

	need("make", id);
	in_child(no_segment);
	say_is("the same", shmget(0x77617264, 4096, 0600) == id);
	need("remove", shmctl(id, IPC_RMID, NULL));
	say("gone", shmget(0x77617264, 4096, 0600));
}

CASE(flags)
{
	say("unknown", unshare(0x100000));
	say("user and fs", syscall(SYS_clone, CLONE_NEWUSER | CLONE_FS | SIGCHLD, 0, 0, 0, 0));
	say("mount and fs", syscall(SYS_clone, CLONE_NEWNS | CLONE_FS | SIGCHLD, 0, 0, 0, 0));
	say("ipc and sem", syscall(SYS_clone, CLONE_NEWIPC | CLONE_SYSVSEM | SIGCHLD, 0, 0, 0, 0));
	say("user thread",
		syscall(SYS_clone, CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, 0, 0, 0,
			0));
}

static ino_t number(int fd)
{
	struct stat st;

	need("fstat", fstat(fd, &st));
	return st.st_ino;
}

static void ask(void)
{
	int outer = need_fd("user", open("/proc/self/ns/user", O_RDONLY)), inner, fd;
	char link[64] = { 0 }, same[64];
	uid_t uid = 77;

	need("user", unshare(CLONE_NEWUSER | CLONE_NEWUTS));
	inner = need_fd("user", open("/proc/self/ns/user", O_RDONLY));
	say_is("another", number(inner) != number(outer));
	need("link", readlink("/proc/self/ns/user", link, sizeof(link) - 1));
	snprintf(same, sizeof(same), "user:[%llu]", (unsigned long long)number(inner));
	say_str("named", strcmp(link, same) == 0 ? "right" : link);
	say_is("type", ioctl(inner, NS_GET_NSTYPE) == CLONE_NEWUSER);
	say("parent", ioctl(inner, NS_GET_PARENT));
	fd = need_fd("uts", open("/proc/self/ns/uts", O_RDONLY));
	say("no parent", ioctl(fd, NS_GET_PARENT));
	say_is("its owner", number(ioctl(fd, NS_GET_USERNS)) == number(inner));
	say("owner", ioctl(inner, NS_GET_OWNER_UID, &uid));
	printf("  by %u\n", uid);
	say("owner of uts", ioctl(fd, NS_GET_OWNER_UID, &uid));
	say("other", ioctl(fd, 0xb7ff));
	say("out again", setns(outer, 0));
	say("into the same", setns(inner, 0));
}

CASE(questions)
{
	in_child(ask);
}

/* Newer than the headers: an older Linux has no such question. */
#define GET_MNTNS_ID _IOR(NSIO, 0x5, uint64_t)
#define GET_PID_IN_PIDNS _IOR(NSIO, 0x8, int)
#define GET_TGID_FROM_PIDNS _IOR(NSIO, 0x7, int)

CASE(numbers)
{
	int mnt = need_fd("mnt", open("/proc/self/ns/mnt", O_RDONLY));
	int pid = need_fd("pid", open("/proc/self/ns/pid", O_RDONLY));
	uint64_t id = 0;
	int r = ioctl(mnt, GET_MNTNS_ID, &id);
	bool old = r < 0 && errno == ENOTTY;

	say_is("mnt has one", old || (r == 0 && id));
	say_is("pid has none", old || (ioctl(pid, GET_MNTNS_ID, &id) < 0 && errno == EINVAL));
	r = ioctl(pid, GET_PID_IN_PIDNS, getpid());
	old = r < 0 && errno == ENOTTY;
	say_is("same here", old || r == getpid());
	say_is("and back", old || ioctl(pid, GET_TGID_FROM_PIDNS, getpid()) == getpid());
	say_is("nobody", old || (ioctl(pid, GET_PID_IN_PIDNS, 0x3fffff0) < 0 && errno == ESRCH));
	say_is("not of mnt", old || (ioctl(mnt, GET_PID_IN_PIDNS, 1) < 0 && errno == EINVAL));
}

static void try_out(void)
{
	char path[64];

	need("user", unshare(CLONE_NEWUSER));
	snprintf(path, sizeof(path), "/proc/%d/ns/user", getppid());
	say("see the outer", open(path, O_RDONLY) < 0 ? -1 : 0);
	snprintf(path, sizeof(path), "/proc/%d/environ", getppid());
	say("read the outer", open(path, O_RDONLY) < 0 ? -1 : 0);
	say("signal the outer", kill(getppid(), 0));
}

static void user_tries(void)
{
	need("dumpable", prctl(PR_SET_DUMPABLE, 1));
	in_child(try_out);
}

CASE(not_out_of_it)
{
	as_user(1000, 1000, user_tries);
}

#define UTS_LIMIT "/proc/sys/user/max_uts_namespaces"

static void no_more(void)
{
	char was[32] = "";
	int fd;

	need_user_ns(0);
	fd = need_fd("limit", open(UTS_LIMIT, O_RDONLY));
	need("read", read(fd, was, sizeof(was) - 1));
	put_into(UTS_LIMIT, "0");
	say("none", unshare(CLONE_NEWUTS));
	cat(UTS_LIMIT);
	put_into(UTS_LIMIT, was);
	say("some", unshare(CLONE_NEWUTS));
}

CASE(limits)
{
	in_child(no_more);
}
