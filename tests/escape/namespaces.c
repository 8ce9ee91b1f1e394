/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/namespaces.c - a namespace of one's own is a door to code of the kernel that was
 * never meant for strangers: every way to make or enter one.
 *
 * Owns:  nothing.
 * Rules: the processes that it makes end at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escape.h"

enum { NR_clone3 = 435 };
enum { SELF, INIT }; /* whose namespace */

static int by_unshare(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(unshare((int)a->n));
}

static int ended(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return -errno;
	waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int by_clone(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return ended(syscall(SYS_clone, (unsigned long)a->n | SIGCHLD, 0, 0, 0, 0));
}

static int by_clone3(const struct facts *f, const struct attempt *a)
{
	struct clone_args args = { .flags = (uint64_t)a->n, .exit_signal = SIGCHLD };

	(void)f;
	return ended(syscall(NR_clone3, &args, sizeof(args)));
}

static int by_setns(const struct facts *f, const struct attempt *a)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/ns/%s", (long)(a->n == SELF ? getpid() : f->init),
		a->path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return outcome(setns(fd, 0));
}

static int by_setns_pidfd(const struct facts *f, const struct attempt *a)
{
	int pidfd = (int)syscall(434, f->init, 0);

	if (pidfd < 0)
		return -errno;
	return outcome(setns(pidfd, (int)a->n));
}

/* clang-format off */
#define UNSHARE(name_, flag) { "unshare-" name_, by_unshare, NULL, flag, "ok", DENY, DENY, false }
#define CLONE(name_, flag) { "clone-" name_, by_clone, NULL, flag, "ok", DENY, DENY, false }
#define CLONE3(name_, flag) { "clone3-" name_, by_clone3, NULL, flag, "ok", DENY, DENY, false }
#define SETNS(name_) { "setns-self-" name_, by_setns, name_, SELF, "ok", DENY, DENY, false }, \
	{ "setns-init-" name_, by_setns, name_, INIT, "ok", DENY " ENOENT", DENY " ENOENT", false }

const struct attempt namespace_attempts[] = {
	UNSHARE("user", CLONE_NEWUSER), UNSHARE("mnt", CLONE_NEWNS), UNSHARE("pid", CLONE_NEWPID),
	UNSHARE("net", CLONE_NEWNET), UNSHARE("ipc", CLONE_NEWIPC), UNSHARE("uts", CLONE_NEWUTS),
	UNSHARE("cgroup", CLONE_NEWCGROUP), UNSHARE("time", 0x80),
	UNSHARE("user-and-mnt", CLONE_NEWUSER | CLONE_NEWNS),
	CLONE("user", CLONE_NEWUSER), CLONE("mnt", CLONE_NEWNS), CLONE("pid", CLONE_NEWPID),
	CLONE("net", CLONE_NEWNET), CLONE("ipc", CLONE_NEWIPC), CLONE("uts", CLONE_NEWUTS),
	CLONE("cgroup", CLONE_NEWCGROUP),
	CLONE3("user", CLONE_NEWUSER), CLONE3("mnt", CLONE_NEWNS), CLONE3("pid", CLONE_NEWPID),
	CLONE3("net", CLONE_NEWNET), CLONE3("ipc", CLONE_NEWIPC), CLONE3("uts", CLONE_NEWUTS),
	CLONE3("cgroup", CLONE_NEWCGROUP), CLONE3("time", 0x80),
	SETNS("uts"), SETNS("ipc"), SETNS("net"), SETNS("mnt"), SETNS("pid"), SETNS("cgroup"),
	{ "setns-pidfd-mnt", by_setns_pidfd, NULL, CLONE_NEWNS, "ok", DENY, DENY " ESRCH", false },
	{ 0 },
};
/* clang-format on */
