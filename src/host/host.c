/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/host.c - the one door to our own kernel.
 *
 * Owns:  nothing.
 * Rules: returns a negative errno, allocates nothing, logs nothing: all of it may run between clone
 *        and exec. Calls that the C library has no name for go through syscall().
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/loop.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "host/gate.h"
#include "host/host.h"

#define GATE(name)                                                                                 \
	do {                                                                                       \
		int gate_ = host_gate(name);                                                       \
		if (gate_ < 0)                                                                     \
			return gate_;                                                              \
	} while (0)

enum { ERRAND_STACK_BYTES = 64 * 1024, SHORT_TURN_NS = 200000 };

static long result(long r)
{
	return r < 0 ? -errno : r;
}

int host_open(const char *path, int flags, mode_t mode)
{
	return host_openat(AT_FDCWD, path, flags, mode);
}

int host_openat(int dir, const char *path, int flags, mode_t mode)
{
	GATE("openat");
	return (int)result(openat(dir, path, flags | O_CLOEXEC, mode));
}

int host_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .mode = mode, .resolve = resolve };

	GATE("openat2");
	return (int)result(syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}

int host_close(int fd)
{
	return (int)result(close(fd));
}

int host_close_from(int first)
{
	GATE("close_range");
	return (int)result(syscall(SYS_close_range, first, ~0U, 0));
}

int host_close_range(int first, int last)
{
	if (first > last)
		return 0;
	GATE("close_range");
	return (int)result(syscall(SYS_close_range, first, last, 0));
}

ssize_t host_read(int fd, void *buf, size_t len)
{
	GATE("read");
	return result(read(fd, buf, len));
}

ssize_t host_write(int fd, const void *buf, size_t len)
{
	GATE("write");
	return result(write(fd, buf, len));
}

int host_write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = host_write(fd, p, len);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int host_put(int dir, const char *path, const char *text)
{
	size_t len = strlen(text);
	int fd = host_openat(dir, path, O_WRONLY, 0);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = host_write(fd, text, len);
	close(fd);
	if (n < 0)
		return (int)n;
	return (size_t)n == len ? 0 : -EIO;
}

ssize_t host_get(int dir, const char *path, char *buf, size_t cap)
{
	int fd = host_openat(dir, path, O_RDONLY, 0);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	do {
		n = host_read(fd, buf + len, cap - 1 - len);
		if (n > 0)
			len += (size_t)n;
	} while ((n > 0 && len < cap - 1) || n == -EINTR);
	close(fd);
	buf[len] = '\0';
	return n < 0 ? n : (ssize_t)len;
}

int host_mkdirat(int dir, const char *path, mode_t mode)
{
	GATE("mkdirat");
	return (int)result(mkdirat(dir, path, mode));
}

int host_unlinkat(int dir, const char *path, int flags)
{
	GATE("unlinkat");
	return (int)result(unlinkat(dir, path, flags));
}

int host_symlinkat(const char *target, int dir, const char *path)
{
	GATE("symlinkat");
	return (int)result(symlinkat(target, dir, path));
}

int host_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	GATE("renameat");
	return (int)result(renameat(from_dir, from, to_dir, to));
}

int host_rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
	GATE("renameat2");
	return (int)result(
		syscall(SYS_renameat2, from_dir, from, to_dir, to, 1 /* RENAME_NOREPLACE */));
}

int host_mknodat(int dir, const char *path, mode_t mode, dev_t dev)
{
	GATE("mknodat");
	return (int)result(mknodat(dir, path, mode, dev));
}

int host_fchownat(int dir, const char *path, uid_t uid, gid_t gid, int flags)
{
	GATE("fchownat");
	return (int)result(fchownat(dir, path, uid, gid, flags));
}

int host_fstatfs(int fd, struct statfs *ret)
{
	GATE("fstatfs");
	return (int)result(fstatfs(fd, ret));
}

int host_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	GATE("lock");
	return (int)result(fcntl(fd, F_SETLK, &lock));
}

int host_ftruncate(int fd, off_t len)
{
	GATE("ftruncate");
	return (int)result(ftruncate(fd, len));
}

int host_dup3(int from, int to, int flags)
{
	GATE("dup3");
	return (int)result(dup3(from, to, flags));
}

int host_fchdir(int fd)
{
	GATE("fchdir");
	return (int)result(fchdir(fd));
}

int host_chdir(const char *path)
{
	GATE("chdir");
	return (int)result(chdir(path));
}

int host_socketpair(int type, int fds[2])
{
	GATE("socketpair");
	return (int)result(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds));
}

enum { FDS_MAX = 250 }; /* the kernel takes 253 */

union fds_room {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

ssize_t host_send_fds(int sock, const void *data, size_t len, const int *fds, unsigned count)
{
	struct iovec iov = { (void *)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fds_room control;
	struct cmsghdr *c;

	GATE("sendmsg");
	if (count > FDS_MAX)
		return -E2BIG;
	if (count) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	return result(sendmsg(sock, &msg, MSG_NOSIGNAL));
}

ssize_t host_recv_fds(int sock, void *data, size_t len, int *fds, unsigned max, unsigned *ret_count)
{
	struct iovec iov = { data, len };
	union fds_room control;
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	unsigned count = 0;
	ssize_t n;

	GATE("recvmsg");
	n = result(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC));
	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		unsigned here;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		here = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (unsigned i = 0; i < here; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (count < max)
				fds[count++] = fd;
			else
				close(fd); /* more than the caller wants: never keep one by accident
					    */
		}
	}
	*ret_count = count;
	return n;
}

int host_eventfd(void)
{
	GATE("eventfd");
	return (int)result(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int host_epoll(void)
{
	GATE("epoll_create");
	return (int)result(epoll_create1(EPOLL_CLOEXEC));
}

int host_timerfd(void)
{
	GATE("timerfd_create");
	return (int)result(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
}

pid_t host_clone3(const struct clone_args *args)
{
	GATE("clone3");
	return (pid_t)result(syscall(SYS_clone3, args, sizeof(*args)));
}

pid_t host_fork(void)
{
	GATE("fork");
	return (pid_t)result(fork());
}

int host_unshare(int flags)
{
	GATE("unshare");
	return (int)result(unshare(flags));
}

int host_setns(int fd, int flags)
{
	GATE("setns");
	return (int)result(setns(fd, flags));
}

struct errand {
	int (*work)(void *arg);
	void *arg;
	int result;
};

static int errand_main(void *arg)
{
	struct errand *e = arg;

	host_gate_errand(true);
	e->result = e->work(e->arg);
	return 0;
}

int host_errand(int (*work)(void *arg), void *arg)
{
	_Alignas(64) char stack[ERRAND_STACK_BYTES];
	struct errand e = { work, arg, -ECANCELED };
	pid_t pid;

	GATE("clone");
	pid = clone(errand_main, stack + sizeof(stack),
		CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &e);
	if (pid < 0)
		return -errno;
	while (waitpid(pid, NULL, 0) < 0)
		if (errno != EINTR)
			return -errno;
	host_gate_errand(false);
	return e.result;
}

int host_self_dir(char *ret, size_t cap)
{
	ssize_t n = readlink("/proc/self/exe", ret, cap);
	char *slash;

	if (n < 0)
		return -errno;
	if ((size_t)n == cap)
		return -ENAMETOOLONG;
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (slash)
		*slash = '\0';
	return 0;
}

int host_kill(pid_t pid, int sig)
{
	return (int)result(kill(pid, sig));
}

int host_pidfd_kill(int pidfd, int sig)
{
	return (int)result(syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0));
}

int host_fsopen(const char *type)
{
	GATE("fsopen");
	return (int)result(syscall(SYS_fsopen, type, WARD_FSOPEN_CLOEXEC));
}

int host_fsconfig_str(int fs, const char *key, const char *value)
{
	unsigned op = value ? WARD_FSCONFIG_SET_STRING : WARD_FSCONFIG_SET_FLAG;

	GATE("fsconfig");
	return (int)result(syscall(SYS_fsconfig, fs, op, key, value, 0));
}

int host_fsconfig_fd(int fs, const char *key, int fd)
{
	GATE("fsconfig_fd");
	return (int)result(syscall(SYS_fsconfig, fs, WARD_FSCONFIG_SET_FD, key, NULL, fd));
}

int host_fsmount(int fs, unsigned attrs)
{
	GATE("fsmount");
	if (syscall(SYS_fsconfig, fs, WARD_FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	return (int)result(syscall(SYS_fsmount, fs, WARD_FSMOUNT_CLOEXEC, attrs));
}

int host_open_tree(int dir, const char *path, unsigned flags)
{
	GATE("open_tree");
	return (int)result(syscall(SYS_open_tree, dir, path, flags | WARD_OPEN_TREE_CLOEXEC));
}

int host_mount_setattr(int dir, const char *path, unsigned flags, struct ward_mount_attr *attr)
{
	GATE("mount_setattr");
	return (int)result(
		syscall(SYS_mount_setattr, dir, path, flags, attr, WARD_MOUNT_ATTR_SIZE));
}

int host_move_mount(int from, int to_dir, const char *to)
{
	unsigned flags = WARD_MOVE_MOUNT_F_EMPTY_PATH | (*to ? 0 : WARD_MOVE_MOUNT_T_EMPTY_PATH);

	GATE("move_mount");
	return (int)result(syscall(SYS_move_mount, from, "", to_dir, to, flags));
}

int host_mount(
	const char *src, const char *dst, const char *type, unsigned long flags, const char *data)
{
	GATE("mount");
	return (int)result(mount(src, dst, type, flags, data));
}

int host_umount(const char *path, int flags)
{
	GATE("umount");
	return (int)result(umount2(path, flags));
}

int host_pivot_root(const char *new_root, const char *put_old)
{
	GATE("pivot_root");
	return (int)result(syscall(SYS_pivot_root, new_root, put_old));
}

int host_sethostname(const char *name)
{
	GATE("sethostname");
	return (int)result(sethostname(name, strlen(name)));
}

int host_prctl(int op, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	GATE("prctl");
	return (int)result(prctl(op, a, b, c, d));
}

int host_drop_text(void)
{
	extern const char __executable_start[], etext[];
	uintptr_t page = 4095, from = (uintptr_t)__executable_start & ~page,
		  to = (uintptr_t)etext & ~page;

	GATE("madvise");
	return (int)result(madvise((void *)from, to - from, MADV_DONTNEED));
}

int host_short_turns(void)
{
	/* struct sched_attr, version 0; the C libraries and kernel headers disagree about it. */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr) };

	GATE("sched_setattr");
	errno = 0;
	attr.nice = getpriority(PRIO_PROCESS, 0);
	if (errno)
		return -errno;
	attr.flags = 1; /* SCHED_FLAG_RESET_ON_FORK */
	attr.runtime = SHORT_TURN_NS;
	return (int)result(syscall(SYS_sched_setattr, 0, &attr, 0));
}

int host_setrlimit(int what, const struct rlimit *limit)
{
	GATE("setrlimit");
	return (int)result(setrlimit(what, limit));
}

int host_setids(uid_t uid, gid_t gid, const gid_t *groups, size_t count)
{
	GATE("setids");
	/* By number, for this thread alone: the C library's versions walk all threads. */
	if (syscall(SYS_setresgid, gid, gid, gid) < 0 ||
		(groups && syscall(SYS_setgroups, count, groups) < 0) ||
		syscall(SYS_setresuid, uid, uid, uid) < 0)
		return -errno;
	return 0;
}

int host_capset(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ (uint32_t)effective, (uint32_t)permitted, (uint32_t)inheritable },
		{ (uint32_t)(effective >> 32), (uint32_t)(permitted >> 32),
			(uint32_t)(inheritable >> 32) },
	};

	GATE("capset");
	return (int)result(syscall(SYS_capset, &head, data));
}

int host_seccomp(unsigned flags, const struct sock_fprog *prog)
{
	GATE("seccomp");
	return (int)result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, prog));
}

int host_landlock_abi(void)
{
	return (int)result(syscall(WARD_SYS_landlock_create_ruleset, NULL, 0, 1 /* version */));
}

int host_landlock_create(const void *attr, size_t size)
{
	GATE("landlock_create");
	return (int)result(syscall(WARD_SYS_landlock_create_ruleset, attr, size, 0));
}

int host_landlock_add_path(int ruleset, int fd, uint64_t access)
{
	struct landlock_path_beneath_attr attr = { .allowed_access = access, .parent_fd = fd };

	GATE("landlock_add");
	return (int)result(
		syscall(WARD_SYS_landlock_add_rule, ruleset, 1 /* path beneath */, &attr, 0));
}

int host_landlock_restrict(int ruleset)
{
	GATE("landlock_restrict");
	return (int)result(syscall(WARD_SYS_landlock_restrict_self, ruleset, 0));
}

int host_lock_held(int fd, pid_t *ret_pid)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	GATE("lock_held");
	if (fcntl(fd, F_GETLK, &lock) < 0)
		return -errno;
	if (lock.l_type == F_UNLCK)
		return 0;
	*ret_pid = lock.l_pid;
	return 1;
}

int host_lock_file(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	GATE("lock_file");
	return (int)result(fcntl(fd, F_OFD_SETLK, &lock));
}

ssize_t host_pread(int fd, void *buf, size_t len, off_t at)
{
	GATE("pread");
	return result(pread(fd, buf, len, at));
}

ssize_t host_pwrite(int fd, const void *buf, size_t len, off_t at)
{
	GATE("pwrite");
	return result(pwrite(fd, buf, len, at));
}

ssize_t host_writev(int fd, const struct iovec *iov, int count)
{
	GATE("writev");
	return result(writev(fd, iov, count));
}

int host_fdatasync(int fd)
{
	GATE("fdatasync");
	return (int)result(fdatasync(fd));
}

int host_fstat(int fd, struct stat *ret)
{
	GATE("fstat");
	return (int)result(fstat(fd, ret));
}

int host_fstatat(int dir, const char *path, struct stat *ret, int flags)
{
	GATE("fstatat");
	return (int)result(fstatat(dir, path, ret, flags));
}

int host_fchmod(int fd, mode_t mode)
{
	GATE("fchmod");
	return (int)result(fchmod(fd, mode));
}

int host_fchmodat(int dir, const char *name, mode_t mode)
{
	GATE("fchmodat");
	return (int)result(fchmodat(dir, name, mode, 0));
}

int host_chmod(const char *path, mode_t mode)
{
	GATE("chmod");
	return (int)result(chmod(path, mode));
}

ssize_t host_getdents(int fd, void *buf, size_t len)
{
	GATE("getdents");
	return result(syscall(SYS_getdents64, fd, buf, len));
}

int host_rewind(int fd)
{
	GATE("lseek");
	return lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

int host_pidfd_open(pid_t pid)
{
	GATE("pidfd_open");
	return (int)result(syscall(SYS_pidfd_open, pid, 0));
}

int host_loop_detach(int fd)
{
	GATE("loop_detach");
	return (int)result(ioctl(fd, LOOP_CLR_FD, 0));
}

int host_pipe(int ret[2])
{
	GATE("pipe2");
	return (int)result(pipe2(ret, O_CLOEXEC));
}
