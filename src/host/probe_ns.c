/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe_ns.c - namespaces and ids: can we make them, and can an ordinary user?
 *
 * Owns:  nothing that outlives the probe's child.
 * Rules: an answer is what the kernel did when asked for the real thing; sysctls only explain it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "host/probe_impl.h"

enum { NOBODY = 65534 };

long probe_number(const char *path)
{
	char text[32];
	uint64_t n;

	if (host_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, 0, INT32_MAX, &n) == 0 ? (long)n : -1;
}

int probe_drop(void)
{
	int r;

	if (geteuid() != 0)
		return 0;
	r = host_setids(NOBODY, NOBODY, &(gid_t){ NOBODY }, 0);
	if (r < 0)
		return r;
	/* Changing ids forgets who to die with, */
	r = host_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (r < 0)
		return r;
	/* and hands our /proc/self to root, and with it the uid_map we are about to write. */
	return host_prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int map_self(const char *file, unsigned id)
{
	char line[32];
	int r = str_fmt(line, sizeof(line), "0 %u 1", id);

	return r < 0 ? r : host_put(AT_FDCWD, file, line);
}

int probe_enter_userns(int also)
{
	unsigned uid = geteuid(), gid = getegid();
	int r = host_unshare(CLONE_NEWUSER | also);

	if (r < 0)
		return r;
	r = host_put(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (r == 0 || r == -ENOENT)
		r = map_self("/proc/self/uid_map", uid);
	if (r == 0)
		r = map_self("/proc/self/gid_map", gid);
	return r;
}

void probe_namespaces(struct probe_result *r)
{
	static const char *const kinds[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup",
		"time" };
	char have[96] = "", lack[96] = "", path[32];

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		char *list;
		size_t at;

		if (str_fmt(path, sizeof(path), "/proc/self/ns/%s", kinds[i]) < 0)
			continue;
		list = access(path, F_OK) == 0 ? have : lack;
		at = strlen(list);
		snprintf(list + at, sizeof(have) - at, "%s%s", at ? ", " : "", kinds[i]);
	}
	probe_fact(r, "kinds", "%s", have);
	if (!lack[0])
		probe_say(r, PROBE_YES, "%s", have);
	else if (str_eq(lack, "time"))
		probe_say(r, PROBE_YES, "%s; no time namespaces, which ward can do without", have);
	else
		probe_say(r, PROBE_NO, "missing: %s", lack);
}

/* Why a user namespace may have been refused, and the setting to change. */
static void explain_userns(struct probe_result *r, bool ordinary)
{
	long clone = probe_number("/proc/sys/kernel/unprivileged_userns_clone");
	long max = probe_number("/proc/sys/user/max_user_namespaces");
	long armor = probe_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");

	if (clone >= 0)
		probe_fact(r, "unprivileged_userns_clone", "%ld", clone);
	if (max >= 0)
		probe_fact(r, "max_user_namespaces", "%ld", max);
	if (armor >= 0)
		probe_fact(r, "apparmor_restrict_userns", "%ld", armor);
	if (r->state == PROBE_YES)
		return;
	if (max == 0)
		probe_hint(r, "sysctl -w user.max_user_namespaces=15000");
	else if (ordinary && clone == 0)
		probe_hint(r, "sysctl -w kernel.unprivileged_userns_clone=1, or run ward as root");
	else if (ordinary && armor == 1)
		probe_hint(r, "give ward an AppArmor profile with 'userns,', or sysctl -w "
			      "kernel.apparmor_restrict_unprivileged_userns=0");
}

/* AppArmor lets the namespace be made and takes its power away; so use some of it. */
static int try_userns(void)
{
	int err = probe_enter_userns(CLONE_NEWNS);

	if (err == 0)
		err = host_mount("tmpfs", "/", "tmpfs", 0, "size=4k");
	return err;
}

void probe_userns(struct probe_result *r)
{
	bool root = geteuid() == 0; /* inside, everyone is */
	int err = try_userns();

	if (err == 0)
		probe_say(r, PROBE_YES, "made one as %s, and mounted in it",
			root ? "root" : "this user");
	else
		probe_say(r, PROBE_NO, "refused: %s", strerror(-err));
	explain_userns(r, !root);
}

void probe_userns_user(struct probe_result *r)
{
	bool root = geteuid() == 0;
	int err = probe_drop();

	if (err < 0) {
		probe_say(r, PROBE_UNKNOWN, "becoming an ordinary user to try it: %s",
			strerror(-err));
		return;
	}
	err = try_userns();
	if (err == 0)
		probe_say(r, PROBE_YES, "an ordinary user%s may make one",
			root ? " (tried as nobody)" : "");
	else
		probe_say(r, PROBE_NO, "an ordinary user may not: %s", strerror(-err));
	explain_userns(r, true);
}

/* A process that does nothing in a user namespace with a range of ids; its pid, or -errno. */
static pid_t hold_userns(void)
{
	int ready[2];
	pid_t pid;
	char c;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (host_unshare(CLONE_NEWUSER) < 0 || host_write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (pid > 0 && host_read(ready[0], &c, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = -EPERM;
	}
	close(ready[0]);
	return pid;
}

static int open_range(pid_t pid)
{
	char path[48];
	int r;

	r = str_fmt(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	if (r == 0)
		r = host_put(AT_FDCWD, path, "0 100000 65536");
	if (r == 0)
		r = str_fmt(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
	if (r == 0)
		r = host_put(AT_FDCWD, path, "0 100000 65536");
	if (r == 0)
		r = str_fmt(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	return r < 0 ? r : host_open(path, O_RDONLY, 0);
}

static int try_idmap(void)
{
	struct ward_mount_attr attr = { .attr_set = WARD_MOUNT_ATTR_IDMAP };
	own_fd int userns = -1, tree = -1;
	pid_t pid = hold_userns();

	if (pid < 0)
		return pid;
	userns = open_range(pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (userns < 0)
		return userns;
	/* Detached: it is gone with its descriptor, and never was anywhere in the tree. */
	tree = host_open_tree(AT_FDCWD, "/usr", WARD_OPEN_TREE_CLONE);
	if (tree < 0)
		return tree;
	attr.userns_fd = (uint64_t)userns;
	return host_mount_setattr(tree, "", WARD_AT_EMPTY_PATH, &attr);
}

void probe_idmap(struct probe_result *r)
{
	int err;

	if (geteuid() != 0) {
		probe_say(r, PROBE_UNKNOWN, "not tried: needs root, and is of use to root only");
		probe_hint(r, "run 'ward doctor' as root to know");
		return;
	}
	err = try_idmap();
	if (err == 0)
		probe_say(r, PROBE_YES, "/usr can be shown with other owners");
	else
		probe_say(
			r, PROBE_NO, "/usr cannot be shown with other owners: %s", strerror(-err));
}
