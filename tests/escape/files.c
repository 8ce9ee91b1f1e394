/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/files.c - ways to a file of the host.
 *
 * Owns:  nothing.
 * Rules: "got through" means that the text of the host's file was read, not that a path resolved.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "escape.h"

#define UP "../../../../../../../../../../../../../../../.."

/* The host's file, seen from a link of process @pid. */
static int secret_from(long pid, const char *link, const struct facts *f)
{
	char path[8192];

	snprintf(path, sizeof(path), "/proc/%ld/%s%s", pid, link, f->secret);
	return secret_behind(open(path, O_RDONLY | O_CLOEXEC));
}

static int by_path(const struct facts *f, const struct attempt *a)
{
	(void)a;
	return secret_behind(open(f->secret, O_RDONLY));
}

static int by_dotdot(const struct facts *f, const struct attempt *a)
{
	char path[4096];

	(void)a;
	snprintf(path, sizeof(path), UP "%s", f->secret);
	return secret_behind(open(path, O_RDONLY));
}

/* A new directory to work in: where everybody writes, or where we are. */
static int make_scratch(char dir[32])
{
	snprintf(dir, 32, "/tmp/escape-XXXXXX");
	if (mkdtemp(dir))
		return 0;
	snprintf(dir, 32, "./escape-XXXXXX");
	return mkdtemp(dir) ? 0 : -errno;
}

static int by_symlink(const struct facts *f, const struct attempt *a)
{
	char dir[32], path[64];
	int fd, saved, r = make_scratch(dir);

	(void)a;
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/link", dir);
	if (symlink(f->secret, path) < 0)
		return -errno;
	fd = open(path, O_RDONLY);
	saved = errno;
	unlink(path);
	rmdir(dir);
	errno = saved;
	return secret_behind(fd);
}

static int for_writing(const struct facts *f, const struct attempt *a)
{
	int fd = open(f->secret, O_WRONLY | O_APPEND | O_CLOEXEC);

	(void)a;
	return outcome(fd);
}

static int create_beside(const struct facts *f, const struct attempt *a)
{
	char path[4096];
	int fd;

	(void)a;
	snprintf(path, sizeof(path), "%s.new", f->secret);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && f->native)
		unlink(path);
	return outcome(fd);
}

/* The first process's view of the file system, and everybody else's, through proc's magic links. */
static int by_proc_link(const struct facts *f, const struct attempt *a)
{
	return secret_from(f->init, a->path, f);
}

static int by_any_proc_link(const struct facts *f, const struct attempt *a)
{
	DIR *d = opendir("/proc");
	int r = -ENOENT;
	struct dirent *e;

	if (!d)
		return -errno;
	while (r < 0 && (e = readdir(d))) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);

		if (!*end && pid > 0)
			r = secret_from(pid, a->path, f) == 0 ? 0 : r;
	}
	closedir(d);
	return r;
}

/* From each descriptor that we were born with, upwards. */
static int by_own_descriptor(const struct facts *f, const struct attempt *a)
{
	char link[128];
	int r = -ENOENT;

	(void)a;
	for (int fd = 0; fd < 1024 && r < 0; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(link, sizeof(link), "fd/%d/" UP, fd);
		r = secret_from(getpid(), link, f) == 0 ? 0 : r;
	}
	return r;
}

static int leaked_descriptor(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	for (int fd = 3; fd < 65536; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return 0;
	return -EBADF;
}

/* Standard input is a file of the host, opened for reading: its magic link must not give more. */
static int reopen_stdin_for_writing(const struct facts *f, const struct attempt *a)
{
	struct stat st;

	(void)f;
	(void)a;
	if (fstat(0, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ESPIPE; /* handed over as a stream: nothing to open again */
	return outcome(open("/proc/self/fd/0", O_WRONLY | O_APPEND | O_CLOEXEC));
}

static int by_handle(const struct facts *f, const struct attempt *a)
{
	const char *const places[] = { "/", "/usr", "/etc", "/tmp", "/dev/shm", ".", f->secret };
	char buf[sizeof(struct file_handle) + MAX_HANDLE_SZ] = { 0 };
	struct file_handle *h = (struct file_handle *)buf;
	const char *hex = strchr(f->handle, ':');
	int r = -ENOENT;
	char *end;

	(void)a;
	h->handle_type = (int)strtol(f->handle, &end, 10);
	for (hex++; hex[0] && hex[1] && h->handle_bytes < MAX_HANDLE_SZ; hex += 2)
		h->f_handle[h->handle_bytes++] =
			(unsigned char)strtol((char[]){ hex[0], hex[1], 0 }, NULL, 16);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && r < 0; i++) {
		int mnt = open(places[i], O_RDONLY | O_CLOEXEC);

		if (mnt >= 0)
			r = secret_behind(open_by_handle_at(mnt, h, O_RDONLY));
	}
	return r;
}

/* The classic: a second chroot leaves the working directory outside of the first. */
static int by_chroot(const struct facts *f, const struct attempt *a)
{
	int out = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	char dir[32], back[128];

	(void)a;
	r = out < 0 ? -errno : make_scratch(dir);
	if (r < 0)
		return r;
	r = outcome(chroot(dir));
	/* The working directory is outside now: the old root is found upwards from it. */
	snprintf(back, sizeof(back), "%s%s", dir[0] == '/' ? UP : "", dir);
	rmdir(back);
	if (r < 0 || fchdir(out) < 0)
		return r < 0 ? r : -errno;
	for (int i = 0; i < 128; i++)
		if (chdir("..") < 0)
			return -errno;
	if (chroot(".") < 0)
		return -errno;
	return secret_behind(open(f->secret, O_RDONLY));
}

/* A knob that is masked opens, as the null device: there is nothing behind it. */
static int unless_masked(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) ? -ENODATA : 0;
}

static int open_to_read(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return unless_masked(open(a->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

/* Opening for writing is the permission check; nothing is written. */
static int open_to_write(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return unless_masked(open(a->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

static int make_node(const struct facts *f, const struct attempt *a)
{
	dev_t dev = S_ISCHR((mode_t)a->n) ? makedev(1, 1) : makedev(7, 0);
	char dir[32], path[64];
	int r = make_scratch(dir);

	(void)f;
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/node", dir);
	r = outcome(mknod(path, (mode_t)a->n | 0600, dev));
	if (r == 0)
		r = outcome(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	/* No such device, or a locked down one: the node was made, and could be opened. */
	if (r == -ENXIO || (r == -EPERM && access(path, F_OK) == 0))
		r = 0;
	unlink(path);
	rmdir(dir);
	return r;
}

#define HIDDEN "ENOENT EACCES EPERM"
#define KNOB(path_) "open-w:" path_, open_to_write, path_
#define PEEK(path_) "open-r:" path_, open_to_read, path_

/* clang-format off */
const struct attempt file_attempts[] = {
	/* name, function, path, n, native, container, workspace, own mounts */
	{ "read-path", by_path, NULL, 0, "ok", HIDDEN, "EACCES EPERM ENOENT EROFS", false },
	{ "read-dotdot", by_dotdot, NULL, 0, "ok", HIDDEN, "EACCES EPERM ENOENT EROFS", false },
	{ "read-symlink", by_symlink, NULL, 0, "ok", HIDDEN, "EACCES EPERM ENOENT EROFS", false },
	{ "read-proc-init-root", by_proc_link, "root", 0, "ok", HIDDEN, "-", false },
	{ "read-proc-init-cwd", by_proc_link, "cwd/" UP, 0, "ok", HIDDEN, "-", false },
	{ "read-any-proc-root", by_any_proc_link, "root", 0, "ok", HIDDEN, HIDDEN, false },
	{ "read-any-proc-cwd", by_any_proc_link, "cwd/" UP, 0, "ok", HIDDEN, HIDDEN, false },
	{ "read-own-descriptor", by_own_descriptor, NULL, 0, "ok", HIDDEN " ENOTDIR", HIDDEN " ENOTDIR", false },
	{ "leaked-descriptor", leaked_descriptor, NULL, 0, "ok", "EBADF", "EBADF", false },
	{ "reopen-stdin-for-writing", reopen_stdin_for_writing, NULL, 0, "ok", "ESPIPE EACCES EPERM ENOENT EROFS", "ESPIPE EACCES EPERM", false },
	{ "read-by-handle", by_handle, NULL, 0, "ok", DENY, DENY, false },
	{ "read-after-chroot", by_chroot, NULL, 0, "ok", HIDDEN " ENOSYS", HIDDEN " ENOSYS", false },
	{ "write-path", for_writing, NULL, 0, "ok", HIDDEN " EROFS", "EACCES EPERM EROFS ENOENT", false },
	{ "create-beside", create_beside, NULL, 0, "ok", HIDDEN " EROFS ENOTDIR", "EACCES EPERM EROFS ENOENT", false },
	{ PEEK("/etc/shadow"), 0, "ok", HIDDEN, HIDDEN, false },
	{ PEEK("/proc/kcore"), 0, "ok ENOENT EPERM", HIDDEN " ENODATA", "-", false },
	{ PEEK("/proc/kmsg"), 0, "ok ENOENT EPERM", HIDDEN " ENODATA", HIDDEN, false },
	{ PEEK("/dev/kmsg"), 0, "ok ENOENT EPERM", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/mem"), 0, "ok ENOENT EPERM", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/port"), 0, "ok ENOENT EPERM", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/kvm"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/vda"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/sda"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/nvme0n1"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/fuse"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/loop-control"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/net/tun"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/dev/userfaultfd"), 0, "ok ENOENT EPERM ENXIO ENODEV", HIDDEN, HIDDEN, false },
	{ PEEK("/sys/kernel/debug/tracing"), 0, "ok ENOENT", HIDDEN, "-", false },
	{ KNOB("/proc/sys/kernel/core_pattern"), 0, "ok", HIDDEN " EROFS ENODATA", "EACCES EPERM EROFS", false },
	{ KNOB("/proc/sys/kernel/hostname"), 0, "ok", HIDDEN " EROFS ENODATA", "EACCES EPERM EROFS", false },
	{ KNOB("/proc/sys/kernel/modprobe"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/proc/sys/kernel/randomize_va_space"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/proc/sys/kernel/sched_rt_runtime_us"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/proc/sys/vm/overcommit_memory"), 0, "ok", HIDDEN " EROFS ENODATA", "EACCES EPERM EROFS", false },
	{ KNOB("/proc/sys/vm/drop_caches"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/proc/sys/fs/binfmt_misc/register"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/proc/sysrq-trigger"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/sys/kernel/uevent_helper"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/sys/power/state"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/sys/fs/cgroup/memory/release_agent"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/sys/fs/cgroup/cgroup.procs"), 0, "ok ENOENT EACCES", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ KNOB("/sys/fs/cgroup/memory/tasks"), 0, "ok ENOENT", HIDDEN " EROFS ENODATA", "EACCES EPERM ENOENT EROFS", false },
	{ "mknod-char", make_node, NULL, S_IFCHR, "ok", "EPERM EACCES", "EPERM EACCES", false },
	{ "mknod-block", make_node, NULL, S_IFBLK, "ok", "EPERM EACCES", "EPERM EACCES", false },
	{ 0 },
};
/* clang-format on */
