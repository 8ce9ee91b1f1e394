/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/processes.c - other processes: the host's, and the first one of the sandbox.
 *
 * Owns:  nothing.
 * Rules: natively "init" is a process that the test started, so that reading it is harmless.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "escape.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static ssize_t read_proc(long pid, const char *name, char *buf, size_t cap)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, cap);
	close(fd);
	return n;
}

static int see_host_process(const struct facts *f, const struct attempt *a)
{
	DIR *d = opendir("/proc");
	int r = -ESRCH;
	struct dirent *e;

	(void)a;
	if (!d)
		return -errno;
	while (r < 0 && (e = readdir(d))) {
		char text[4096], *end;
		long pid = strtol(e->d_name, &end, 10);
		ssize_t n = *end || pid <= 0 ? 0 : read_proc(pid, "cmdline", text, sizeof(text));

		/* Our own command line names the marker too; the host's process has nothing else.
		 */
		if (n > 0 && pid != getpid() && !memmem(text, (size_t)n, "marker=", 7) &&
			memmem(text, (size_t)n, f->marker, strlen(f->marker)))
			r = 0;
	}
	closedir(d);
	return r;
}

static int signal_host_process(const struct facts *f, const struct attempt *a)
{
	(void)a;
	return outcome(kill(f->victim, 0));
}

static int pidfd_of_host_process(const struct facts *f, const struct attempt *a)
{
	(void)a;
	return outcome(syscall(SYS_pidfd_open, f->victim, 0));
}

static int nice_of_host_process(const struct facts *f, const struct attempt *a)
{
	(void)a;
	return outcome(setpriority(PRIO_PROCESS, (id_t)f->victim, 5));
}

static int trace_init(const struct facts *f, const struct attempt *a)
{
	int r = outcome(ptrace((int)a->n, f->init, 0, 0));

	if (r == 0) /* a seized process must not stay stopped */
		ptrace(PTRACE_DETACH, f->init, 0, 0);
	return r;
}

static int open_of_init(const struct facts *f, const struct attempt *a)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)f->init, a->path);
	return outcome(open(path, (int)a->n | O_CLOEXEC));
}

static int follow_of_init(const struct facts *f, const struct attempt *a)
{
	char path[64], target[4096];

	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)f->init, a->path);
	return outcome(readlink(path, target, sizeof(target)));
}

/* Its environment may be that of the host's user, with all the credentials in it. */
static int environ_of_init(const struct facts *f, const struct attempt *a)
{
	char text[65536];
	ssize_t n = read_proc(f->init, "environ", text, sizeof(text));

	(void)a;
	if (n < 0)
		return (int)n;
	return memmem(text, (size_t)n, TOKEN_NAME, strlen(TOKEN_NAME)) ? 0 : -ENODATA;
}

static int own_environ(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return getenv(TOKEN_NAME) ? 0 : -ENODATA;
}

/* Where a mapping of @pid starts: the first line of its maps, or the usual place when hidden. */
static void *address_in(long pid)
{
	char line[128];
	ssize_t n = read_proc(pid, "maps", line, sizeof(line) - 1);

	if (n <= 0)
		return (void *)0x400000;
	line[n] = '\0';
	return (void *)strtoul(line, NULL, 16);
}

static int memory_of_init(const struct facts *f, const struct attempt *a)
{
	char c = 0;
	struct iovec here = { &c, 1 }, there = { address_in(f->init), 1 };
	ssize_t n;

	if (a->n == 0)
		return outcome(process_vm_readv(f->init, &here, 1, &there, 1, 0));
	/* Natively the first page is the program's header, read-only: past the check comes EFAULT.
	 */
	n = process_vm_writev(f->init, &here, 1, &there, 1, 0);
	return outcome(n);
}

static int descriptor_of_init(const struct facts *f, const struct attempt *a)
{
	int pidfd = (int)syscall(SYS_pidfd_open, f->init, 0);

	(void)a;
	if (pidfd < 0)
		return -errno;
	return outcome(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}

static int better_priority(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(setpriority(PRIO_PROCESS, 0, -20));
}

static int real_time(const struct facts *f, const struct attempt *a)
{
	const struct sched_param p = { .sched_priority = 1 };

	(void)f;
	(void)a;
	return outcome(syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p));
}

static int id_outside_the_range(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(SYS_setresuid, 1000000, 1000000, 1000000));
}

static bool is_bound(const char *line)
{
	return strncmp(line, "\nCapBnd", 7) == 0;
}

/* In any of its sets; in the bounding set alone when the row has a path. */
static int has_capability(const struct facts *f, const struct attempt *a)
{
	char text[8192], *line;
	ssize_t n = read_proc(getpid(), "status", text, sizeof(text) - 1);

	(void)f;
	if (n <= 0)
		return -EIO;
	text[n] = '\0';
	for (line = strstr(text, "\nCap"); line; line = strstr(line + 1, "\nCap"))
		if (is_bound(line) == (a->path != NULL) &&
			strtoull(strchr(line, ':') + 1, NULL, 16) >> a->n & 1)
			return 0;
	return -EPERM;
}

static int may_gain_privileges(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? -EPERM : 0;
}

static int is_unfiltered(const struct facts *f, const struct attempt *a)
{
	char text[8192];
	ssize_t n = read_proc(getpid(), "status", text, sizeof(text) - 1);

	(void)f;
	(void)a;
	if (n <= 0)
		return -EIO;
	text[n] = '\0';
	return strstr(text, "\nSeccomp:\t2") ? -EPERM : 0;
}

#define HIDDEN "ENOENT EACCES EPERM"
#define CAP(name_, n_)                                                                             \
	{                                                                                          \
		"cap-" name_, has_capability, NULL, n_, "ok EPERM", "EPERM", "EPERM", false        \
	}

/* clang-format off */
const struct attempt process_attempts[] = {
	{ "see-host-process", see_host_process, NULL, 0, "ok", "ESRCH", "-", false },
	{ "signal-host-process", signal_host_process, NULL, 0, "ok", "ESRCH EPERM", "-", false },
	{ "pidfd-of-host-process", pidfd_of_host_process, NULL, 0, "ok", "ESRCH " DENY, "-", false },
	{ "nice-of-host-process", nice_of_host_process, NULL, 0, "ok", "ESRCH " DENY, "-", false },
	{ "ptrace-seize-init", trace_init, NULL, PTRACE_SEIZE, "ok", "ESRCH " DENY, "ESRCH " DENY, false },
	{ "ptrace-attach-init", trace_init, NULL, PTRACE_ATTACH, "-", "ESRCH " DENY, "ESRCH " DENY, false },
	{ "init-mem", open_of_init, "mem", O_RDWR, "ok", HIDDEN " EROFS", HIDDEN, false },
	{ "init-maps", open_of_init, "maps", O_RDONLY, "ok", HIDDEN, HIDDEN, false },
	{ "init-fds", open_of_init, "fd", O_RDONLY, "ok", HIDDEN, HIDDEN, false },
	{ "init-root", open_of_init, "root", O_PATH, "ok", HIDDEN, HIDDEN, false },
	{ "init-exe-read", open_of_init, "exe", O_RDONLY, "ok", HIDDEN, HIDDEN, false },
	/* A running program is busy: natively the permission check is passed, and that comes next. */
	{ "init-exe-overwrite", open_of_init, "exe", O_WRONLY, "ETXTBSY", HIDDEN " EROFS", HIDDEN, false },
	{ "init-exe-link", follow_of_init, "exe", 0, "ok", HIDDEN, HIDDEN, false },
	{ "init-environ", environ_of_init, NULL, 0, "ok", HIDDEN " ENODATA", "-", false },
	{ "host-environment", own_environ, NULL, 0, "ok", "ENODATA", "ENODATA", false },
	{ "init-vm-read", memory_of_init, NULL, 0, "ok", "ESRCH " DENY, "ESRCH " DENY, false },
	{ "init-vm-write", memory_of_init, NULL, 1, "ok EFAULT", "ESRCH " DENY, "ESRCH " DENY, false },
	{ "init-getfd", descriptor_of_init, NULL, 0, "ok", DENY, "ESRCH " DENY, false },
	{ "nice", better_priority, NULL, 0, "ok", DENY, DENY, false },
	{ "real-time", real_time, NULL, 0, "ok", DENY, DENY, false },
	/* A workspace runs as its caller; root may become anybody, and the ring stays closed. */
	{ "id-outside-range", id_outside_the_range, NULL, 0, "ok", "EINVAL EPERM", "-", false },
	CAP("sys_admin", 21), CAP("net_admin", 12), CAP("sys_ptrace", 19), CAP("mknod", 27),
	CAP("sys_module", 16), CAP("dac_read_search", 2), CAP("net_raw", 13), CAP("sys_rawio", 17),
	CAP("sys_boot", 22), CAP("sys_time", 25), CAP("sys_nice", 23), CAP("sys_resource", 24),
	CAP("bpf", 39), CAP("perfmon", 38), CAP("checkpoint_restore", 40), CAP("syslog", 34),
	CAP("setfcap", 31), CAP("mac_admin", 33), CAP("linux_immutable", 9), CAP("ipc_lock", 14),
	{ "cap-bounding-sys_admin", has_capability, "bounding", 21, "ok EPERM", "EPERM", "-", false },
	{ "cap-bounding-mknod", has_capability, "bounding", 27, "ok EPERM", "EPERM", "-", false },
	{ "no-new-privs-off", may_gain_privileges, NULL, 0, "ok", "EPERM", "EPERM", false },
	{ "seccomp-off", is_unfiltered, NULL, 0, "ok", "EPERM", "EPERM", false },
	{ 0 },
};
/* clang-format on */
