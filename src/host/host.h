/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HOST_HOST_H
#define WARD_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>

/*
 * The one door to our own kernel for everything that sets a sandbox up or takes it down. Each call
 * returns what the kernel returned, or a negative errno. In the test binary `ward-fault` every call
 * passes a gate that can make the n-th one fail, or kill the process there (host/fault.c).
 */
struct ward_mount_attr;
struct clone_args;

int host_open(const char *path, int flags, mode_t mode);
int host_openat(int dir, const char *path, int flags, mode_t mode);
/* Below @dir only: no symlink, no "..", no other mount leads out. RESOLVE_* in @resolve. */
int host_openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve);
int host_close(int fd);
int host_close_from(int first);            /* all descriptors from @first on */
int host_close_range(int first, int last); /* both included; none when @first is more */
ssize_t host_read(int fd, void *buf, size_t len);
ssize_t host_write(int fd, const void *buf, size_t len);
int host_write_all(int fd, const void *buf, size_t len);
/* Opens, writes @text in one call, closes: for cgroup, proc and map files. */
int host_put(int dir, const char *path, const char *text);
/* Reads a small file into @buf, NUL-terminated; the number of bytes. */
ssize_t host_get(int dir, const char *path, char *buf, size_t cap);
int host_mkdirat(int dir, const char *path, mode_t mode);
int host_unlinkat(int dir, const char *path, int flags);
int host_symlinkat(const char *target, int dir, const char *path);
int host_renameat(int from_dir, const char *from, int to_dir, const char *to);
/* -EEXIST when @to is there. */
int host_rename_new(int from_dir, const char *from, int to_dir, const char *to);
int host_mknodat(int dir, const char *path, mode_t mode, dev_t dev);
int host_fchownat(int dir, const char *path, uid_t uid, gid_t gid, int flags);
int host_fstatfs(int fd, struct statfs *ret);
int host_lock(int fd); /* exclusive, this process's own, not waiting: -EAGAIN when it is held */
int host_ftruncate(int fd, off_t len);
int host_dup3(int from, int to, int flags);
int host_fchdir(int fd);
int host_chdir(const char *path);

int host_socketpair(int type, int fds[2]);
ssize_t host_send_fds(int sock, const void *data, size_t len, const int *fds, unsigned count);
ssize_t host_recv_fds(
	int sock, void *data, size_t len, int *fds, unsigned max, unsigned *ret_count);
int host_eventfd(void);
int host_epoll(void);
int host_timerfd(void); /* monotonic, not waiting */
int host_pipe(int ret[2]);

pid_t host_clone3(const struct clone_args *args);
pid_t host_fork(void);
int host_unshare(int flags);
int host_setns(int fd, int flags);
/*
 * Runs @work in a process of its own that has this one's memory and descriptors, and waits for it:
 * for what would change the process itself, like its mount namespace. What @work returned, or
 * -ECANCELED when it was killed.
 */
int host_errand(int (*work)(void *arg), void *arg);
/* The folder that holds this executable. */
int host_self_dir(char *ret, size_t cap);
int host_kill(pid_t pid, int sig);
int host_pidfd_kill(int pidfd, int sig);

int host_fsopen(const char *type);
int host_fsconfig_str(int fs, const char *key, const char *value); /* @value NULL: a flag */
int host_fsconfig_fd(int fs, const char *key, int fd);
int host_fsmount(int fs, unsigned attrs); /* creates, mounts detached; MOUNT_ATTR_* */
int host_open_tree(int dir, const char *path, unsigned flags);
int host_mount_setattr(int dir, const char *path, unsigned flags, struct ward_mount_attr *attr);
int host_move_mount(int from, int to_dir, const char *to);
int host_mount(
	const char *src, const char *dst, const char *type, unsigned long flags, const char *data);
int host_umount(const char *path, int flags);
int host_pivot_root(const char *new_root, const char *put_old);
int host_sethostname(const char *name);

int host_prctl(int op, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
/*
 * For a process that does little and is waited for: it runs soon after it is woken, in short turns
 * (Linux 6.12; nothing changes on older ones). What it starts is scheduled like anybody.
 */
int host_short_turns(void);
/* For who is going to wait: our own code's pages are mapped no more until they run again. */
int host_drop_text(void);
int host_setrlimit(int what, const struct rlimit *limit);
int host_setids(uid_t uid, gid_t gid, const gid_t *groups, size_t count);
int host_capset(uint64_t effective, uint64_t permitted, uint64_t inheritable);
/* Loads a classic BPF filter; SECCOMP_FILTER_FLAG_* in @flags; a listener descriptor, or 0. */
struct sock_fprog;
int host_seccomp(unsigned flags, const struct sock_fprog *prog);
int host_landlock_abi(void);
int host_landlock_create(const void *attr, size_t size);
int host_landlock_add_path(int ruleset, int fd, uint64_t access);
int host_landlock_restrict(int ruleset);

/* What the store needs: locks, positioned reads and writes, directories, deletion. */
struct stat;
struct iovec;
int host_lock_held(int fd, pid_t *ret_pid); /* 1 and who, when another process holds host_lock() */
int host_lock_file(int fd); /* exclusive, of the open file, not waiting: -EAGAIN when it is held */
ssize_t host_pread(int fd, void *buf, size_t len, off_t at);
ssize_t host_pwrite(int fd, const void *buf, size_t len, off_t at);
ssize_t host_writev(int fd, const struct iovec *iov, int count);
int host_fdatasync(int fd);
int host_fstat(int fd, struct stat *ret);
int host_fstatat(int dir, const char *path, struct stat *ret, int flags);
int host_fchmod(int fd, mode_t mode);
int host_chmod(const char *path, mode_t mode);
int host_fchmodat(int dir, const char *name, mode_t mode);
/* Entries as the kernel lays them out (struct host_dirent, d_reclen apart); 0 at the end. */
struct host_dirent {
	uint64_t d_ino;
	int64_t d_off;
	unsigned short d_reclen;
	unsigned char d_type;
	char d_name[];
};
ssize_t host_getdents(int fd, void *buf, size_t len);
int host_rewind(int fd);
int host_pidfd_open(pid_t pid);
int host_loop_detach(int fd);

#endif
