/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/fuzz.c - random calls with random and hostile arguments: fuzz PROCESSES CALLS ROUNDS
 * SEED.
 *
 * Each process has the same few objects at the same low descriptors, two threads that call, one
 * that changes the memory which the calls read, and one that interrupts what blocks. What a thread
 * calls follows from the seed alone. After each round everything is cleaned up, "round N" is
 * printed and a line of input awaited: whoever watches can look for what is left. Beside all that
 * an innocent process checks that its own calls still tell the truth.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	NR_MAX = 470,
	SHIM_FIRST = 0x1000,
	PAGES = 4,
	BYTES = PAGES * 4096,
	FDS = 28,
	LIFE_S = 5,
	WIDTH_MAX = 64
};

/*
 * Shapes: f descriptor, p path, b buffer, s size, i small number, l long, F flags, P pid, S signal,
 * v vector of buffers, m message, a socket address, t time, 0 zero.
 */
static const struct {
	int nr;
	const char *shape;
} shapes[] = {
	{ SYS_read, "fbs" },
	{ SYS_write, "fbs" },
	{ SYS_open, "pFi" },
	{ SYS_close, "f" },
	{ SYS_stat, "pb" },
	{ SYS_fstat, "fb" },
	{ SYS_lstat, "pb" },
	{ SYS_poll, "bii" },
	{ SYS_lseek, "fli" },
	{ SYS_mmap, "0siFfl" },
	{ SYS_ioctl, "fib" },
	{ SYS_pread64, "fbsl" },
	{ SYS_pwrite64, "fbsl" },
	{ SYS_readv, "fvi" },
	{ SYS_writev, "fvi" },
	{ SYS_access, "pi" },
	{ SYS_pipe, "b" },
	{ SYS_select, "ibbbt" },
	{ SYS_dup, "f" },
	{ SYS_dup2, "ff" },
	{ SYS_getitimer, "ib" },
	{ SYS_sendfile, "ffbs" },
	{ SYS_socket, "iFi" },
	{ SYS_connect, "fai" },
	{ SYS_accept, "fab" },
	{ SYS_sendto, "fbsFai" },
	{ SYS_recvfrom, "fbsFab" },
	{ SYS_sendmsg, "fmF" },
	{ SYS_recvmsg, "fmF" },
	{ SYS_shutdown, "fi" },
	{ SYS_bind, "fai" },
	{ SYS_listen, "fi" },
	{ SYS_getsockname, "fab" },
	{ SYS_getpeername, "fab" },
	{ SYS_socketpair, "iiib" },
	{ SYS_setsockopt, "fiibi" },
	{ SYS_getsockopt, "fiibb" },
	{ SYS_execve, "pbb" },
	{ SYS_wait4, "PbFb" },
	{ SYS_kill, "PS" },
	{ SYS_ptrace, "iPbb" },
	{ SYS_ptrace, "iPib" },
	{ SYS_add_key, "ppbsi" },
	{ SYS_request_key, "pppi" },
	{ SYS_keyctl, "iiibs" },
	{ SYS_keyctl, "iiiii" },
	{ SYS_uname, "b" },
	{ SYS_semget, "iiF" },
	{ SYS_semop, "ibi" },
	{ SYS_semctl, "iiib" },
	{ SYS_shmget, "isF" },
	{ SYS_shmat, "i0F" },
	{ SYS_shmctl, "iib" },
	{ SYS_msgget, "iF" },
	{ SYS_msgsnd, "ibsF" },
	{ SYS_msgrcv, "ibsiF" },
	{ SYS_msgctl, "iib" },
	{ SYS_fcntl, "fil" },
	{ SYS_fcntl, "fib" },
	{ SYS_flock, "fi" },
	{ SYS_fsync, "f" },
	{ SYS_truncate, "pl" },
	{ SYS_ftruncate, "fl" },
	{ SYS_getdents, "fbs" },
	{ SYS_getcwd, "bs" },
	{ SYS_chdir, "p" },
	{ SYS_fchdir, "f" },
	{ SYS_rename, "pp" },
	{ SYS_mkdir, "pi" },
	{ SYS_rmdir, "p" },
	{ SYS_creat, "pi" },
	{ SYS_link, "pp" },
	{ SYS_unlink, "p" },
	{ SYS_symlink, "pp" },
	{ SYS_readlink, "pbs" },
	{ SYS_chmod, "pi" },
	{ SYS_fchmod, "fi" },
	{ SYS_chown, "pii" },
	{ SYS_getrlimit, "ib" },
	{ SYS_getrusage, "ib" },
	{ SYS_sysinfo, "b" },
	{ SYS_setpgid, "PP" },
	{ SYS_getgroups, "ib" },
	{ SYS_setgroups, "ib" },
	{ SYS_rt_sigpending, "bs" },
	{ SYS_rt_sigtimedwait, "bbts" },
	{ SYS_rt_sigqueueinfo, "PSb" },
	{ SYS_utime, "pb" },
	{ SYS_mknod, "pil" },
	{ SYS_statfs, "pb" },
	{ SYS_fstatfs, "fb" },
	{ SYS_getpriority, "iP" },
	{ SYS_sched_setaffinity, "Psb" },
	{ SYS_sched_getaffinity, "Psb" },
	{ SYS_prctl, "illll" },
	{ SYS_chroot, "p" },
	{ SYS_mount, "pppFb" },
	{ SYS_umount2, "pi" },
	{ SYS_readahead, "fls" },
	{ SYS_setxattr, "ppbsi" },
	{ SYS_getxattr, "ppbs" },
	{ SYS_listxattr, "pbs" },
	{ SYS_fsetxattr, "fpbsi" },
	{ SYS_fgetxattr, "fpbs" },
	{ SYS_removexattr, "pp" },
	{ SYS_getdents64, "fbs" },
	{ SYS_timer_create, "ibb" },
	{ SYS_timer_settime, "ibbb" },
	{ SYS_timer_gettime, "ib" },
	{ SYS_timer_delete, "i" },
	{ SYS_clock_gettime, "ib" },
	{ SYS_clock_nanosleep, "iit0" },
	{ SYS_epoll_wait, "fbii" },
	{ SYS_epoll_ctl, "fifb" },
	{ SYS_mq_open, "pFib" },
	{ SYS_mq_unlink, "p" },
	{ SYS_mq_timedsend, "fbsit" },
	{ SYS_mq_timedreceive, "fbsbt" },
	{ SYS_waitid, "iPbFb" },
	{ SYS_inotify_init1, "F" },
	{ SYS_inotify_add_watch, "fpi" },
	{ SYS_inotify_rm_watch, "fi" },
	{ SYS_openat, "fpFi" },
	{ SYS_mkdirat, "fpi" },
	{ SYS_newfstatat, "fpbF" },
	{ SYS_unlinkat, "fpF" },
	{ SYS_renameat2, "fpfpi" },
	{ SYS_linkat, "fpfpF" },
	{ SYS_symlinkat, "pfp" },
	{ SYS_readlinkat, "fpbs" },
	{ SYS_fchmodat, "fpi" },
	{ SYS_faccessat2, "fpiF" },
	{ SYS_pselect6, "ibbbtb" },
	{ SYS_ppoll, "bitbs" },
	{ SYS_splice, "fbfbsi" },
	{ SYS_tee, "ffsi" },
	{ SYS_vmsplice, "fvii" },
	{ SYS_sync_file_range, "flli" },
	{ SYS_utimensat, "fpbF" },
	{ SYS_epoll_pwait, "fbiibs" },
	{ SYS_signalfd4, "fbsF" },
	{ SYS_timerfd_create, "iF" },
	{ SYS_eventfd2, "iF" },
	{ SYS_io_setup, "ib" },
	{ SYS_io_destroy, "l" },
	{ SYS_io_submit, "lib" },
	{ SYS_io_getevents, "liibt" },
	{ SYS_io_cancel, "lbb" },
	{ SYS_fallocate, "fill" },
	{ SYS_timerfd_settime, "fibb" },
	{ SYS_timerfd_gettime, "fb" },
	{ SYS_accept4, "fabF" },
	{ SYS_dup3, "ffF" },
	{ SYS_pipe2, "bF" },
	{ SYS_preadv, "fvil" },
	{ SYS_pwritev, "fvil" },
	{ SYS_preadv2, "fvilli" },
	{ SYS_recvmmsg, "fmiFt" },
	{ SYS_sendmmsg, "fmiF" },
	{ SYS_prlimit64, "Pibb" },
	{ SYS_process_vm_readv, "PviviF" },
	{ SYS_process_vm_writev, "PviviF" },
	{ SYS_kcmp, "PPiff" },
	{ SYS_getrandom, "bsi" },
	{ SYS_memfd_create, "pi" },
	{ SYS_execveat, "fpbbF" },
	{ SYS_copy_file_range, "fbfbsi" },
	{ SYS_statx, "fpFib" },
	{ SYS_pidfd_send_signal, "fSbi" },
	{ SYS_pidfd_open, "Pi" },
	{ SYS_close_range, "ffi" },
	{ SYS_openat2, "fpbs" },
	{ SYS_pidfd_getfd, "ffi" },
	{ SYS_unshare, "N" },
	{ SYS_setns, "fN" },
	{ SYS_setns, "f0" },
	{ SYS_pivot_root, "pp" },
	{ SYS_sethostname, "bs" },
	{ SYS_capget, "bb" },
	{ SYS_capset, "bb" },
	{ SYS_seccomp, "iFb" },
	{ SYS_name_to_handle_at, "fpbbF" },
	{ SYS_open_by_handle_at, "fbF" },
	{ SYS_fanotify_init, "FF" },
	{ SYS_fanotify_mark, "fFlfp" },
	{ SYS_mbind, "bsibiF" },
	{ SYS_set_mempolicy, "ibi" },
	{ SYS_get_mempolicy, "bbibF" },
	{ SYS_move_pages, "PibbbF" },
	{ SYS_migrate_pages, "Pibb" },
	{ SYS_mq_notify, "fb" },
	{ SYS_mlock, "bs" },
	{ SYS_mlock2, "bsi" },
	{ SYS_sched_setscheduler, "Pib" },
	{ SYS_sched_setattr, "Pbi" },
	{ SYS_sched_getattr, "Pbii" },
	{ SYS_rt_tgsigqueueinfo, "PPSb" },
	{ SYS_personality, "F" },
	{ SYS_shmdt, "b" },
	{ SYS_semtimedop, "ibit" },
	{ SYS_pwritev2, "fvilli" },
	{ SYS_fchownat, "fpiiF" },
	{ SYS_mknodat, "fpil" },
	{ SYS_open_tree, "fpF" },
	{ SYS_move_mount, "fpfpF" },
	{ SYS_fsopen, "pi" },
	{ SYS_fsconfig, "fippi" },
	{ SYS_fsmount, "fiF" },
	{ SYS_fspick, "fpF" },
	{ SYS_process_madvise, "fviii" },
	{ SYS_epoll_pwait2, "fbitbs" },
	{ SYS_mount_setattr, "fpFbs" },
	{ SYS_landlock_create_ruleset, "bsi" },
	{ SYS_landlock_add_rule, "fibi" },
	{ 451 /* cachestat */, "fbbi" },
	{ 452 /* fchmodat2 */, "fpiF" },
	{ 457 /* statmount */, "bbsi" },
	{ 458 /* listmount */, "bbsi" },
	{ 459 /* lsm_get_self_attr */, "ibbi" },
	{ 460 /* lsm_set_self_attr */, "ibsi" },
	{ 463 /* setxattrat */, "fpFpbs" },
	{ 464 /* getxattrat */, "fpFpbs" },
	{ 465 /* listxattrat */, "fpFbs" },
	{ 467 /* open_tree_attr */, "fpFbs" },
	{ 468 /* file_getattr */, "fpbsF" },
	{ 469 /* file_setattr */, "fpbsF" },
};

static const char *const paths[] = { "f", "g", "d", "d/f", "d/g", "..", ".", "/", "l", "d/../f",
	"/proc/self/maps", "/proc/self/fd/3", "/proc/self/status", "/proc/1/stat", "/dev/null",
	"/dev/full", "/dev/ptmx", "/dev/tty", "/sys/devices", "/etc/passwd", "/proc/self/mem",
	"/proc/sys/kernel/hostname", "user.x", "", "/dev/shm/x", "/proc/self/exe",
	"/proc/self/cwd/f", "/tmp", "tmpfs", "proc", "size", "/proc/self/ns/mnt",
	"/proc/self/ns/user", "/proc/self/uid_map", "/proc/self/oom_score_adj",
	"/proc/self/pagemap", "/proc/thread-self/attr/current", "security.capability",
	"/proc/keys" };
enum {
	PATHS_AT = 2 * 4096,
	PATH_ROOM = 32,
	VECS_AT = 3 * 4096,
	MSG_AT = VECS_AT + 1024,
	ADDR_AT = MSG_AT + 1024
};

struct state {
	uint64_t seed;
	char *mem;
	long calls;
	pthread_t thread;
};

static uint64_t rnd(struct state *s)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return s->seed;
}

static long hostile(struct state *s)
{
	switch (rnd(s) % 10) {
	case 0:
		return -1;
	case 1:
		return (long)rnd(s);
	case 2:
		return (long)(1UL << (rnd(s) % 64));
	case 3:
		return (long)(0x100000 + rnd(s) % 0x4000); /* the shim */
	case 4: /* slots; writing there ends the process */
		return (long)(0x7d0000000000 + (rnd(s) % 64 ? 0x8000 * 1000 : 0) +
			      rnd(s) % 0x20000);
	case 5:
		return (long)s->mem + BYTES - (long)(rnd(s) % 16); /* ends at a hole */
	case 6:
		return (long)(rnd(s) % 8) - 4;
	case 7:
		return INT32_MAX - (long)(rnd(s) % 2);
	case 8:
		return INT64_MAX - (long)(rnd(s) % 4096);
	default:
		return (long)(0xffffffff81000000 + rnd(s) % 4096);
	}
}

static long argument(struct state *s, char kind)
{
	if (rnd(s) % 12 == 0)
		return hostile(s);
	switch (kind) {
	case 'f':
		return rnd(s) % 16 ? (long)(rnd(s) % FDS) : -100;
	case 'p':
		return (long)s->mem + PATHS_AT +
		       (long)(rnd(s) % (sizeof(paths) / sizeof(paths[0])) * PATH_ROOM);
	case 'b':
		return rnd(s) % 8 ? (long)s->mem + (long)(rnd(s) % 4096) : 0;
	case 's':
		return (long)(rnd(s) % 3 ? rnd(s) % 256 : rnd(s) % 8192);
	case 'i':
		return (long)(rnd(s) % 3 ? rnd(s) % 8 : rnd(s) % 70);
	case 'l':
		return (long)(rnd(s) % 2 ? rnd(s) % 65536 : rnd(s) >> rnd(s) % 64);
	case 'F':
		return (long)(rnd(s) & rnd(s) & rnd(s) & 0xffffffff);
	case 'P':
		return rnd(s) % 4 ? (long)(rnd(s) % 40) : getpid();
	case 'S':
		return (long)(rnd(s) % 65);
	case 'N': /* CLONE_NEW..., and what threads share */
		return 1L << "\x07\x09\x0a\x11\x12\x19\x1a\x1b\x1c\x1d\x1e"[rnd(s) % 11];
	case 'v':
		return (long)s->mem + VECS_AT + (long)(rnd(s) % 4 * 16);
	case 'm':
		return (long)s->mem + MSG_AT + (long)(rnd(s) % 4 * 64);
	case 'a':
		return (long)s->mem + ADDR_AT + (long)(rnd(s) % 8 * 128);
	case 't':
		return (long)s->mem + 64;
	default:
		return 0;
	}
}

/* What would only end the run, or what is done on purpose elsewhere. */
static int left_out(long nr)
{
	switch (nr) {
	case SYS_exit:
	case SYS_exit_group:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_alarm:
	case SYS_setitimer:
	case SYS_rt_sigprocmask:
	case SYS_rt_sigaction:
	case SYS_sigaltstack:
	case SYS_vfork:
	case SYS_fork:
	case SYS_clone:
	case SYS_clone3:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_brk:
	case SYS_arch_prctl:
	case SYS_set_robust_list:
	case SYS_rt_sigreturn:
	case SYS_set_tid_address:
	case SYS_rseq:
	case SYS_setuid:
	case SYS_futex: /* native */
		return 1;
	default:
		return 0;
	}
}

static void make_child(struct state *s)
{
	long flags = rnd(s) % 2 ? SIGCHLD : (long)(rnd(s) & rnd(s) & 0xff000000) | SIGCHLD;
	long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);

	if (pid == 0) {
		syscall(SYS_getpid);
		if (s->seed % 3)
			_exit(0);
		for (;;) /* an orphan, until the round ends */
			pause();
	}
}

static void one(struct state *s)
{
	const char *shape = "llllll";
	long nr, a[6] = { 0 };

	if (rnd(s) % 10 == 0) {
		nr = rnd(s) % 400 ? (long)(rnd(s) % NR_MAX) : SHIM_FIRST + (long)(rnd(s) % 9);
	} else {
		size_t i = rnd(s) % (sizeof(shapes) / sizeof(shapes[0]));

		nr = shapes[i].nr;
		shape = shapes[i].shape;
	}
	for (int i = 0; shape[i]; i++)
		a[i] = argument(s, shape[i]);
	if (left_out(nr)) {
		if (rnd(s) % 8 == 0)
			make_child(s);
		return;
	}
	if (nr == SYS_fallocate) /* of a memfd: that is memory */
		a[3] &= 0xffffff;
	if (nr == SYS_mmap) /* anywhere but over ourselves, and not all of our memory at once */
		a[3] &= ~(long)(MAP_FIXED | 0x100000 | MAP_POPULATE | MAP_LOCKED);
	if ((nr == SYS_kill || nr == SYS_rt_sigqueueinfo || nr == SYS_pidfd_send_signal ||
		    nr == SYS_tkill || nr == SYS_tgkill || nr == SYS_rt_tgsigqueueinfo) &&
		rnd(s) % 64)
		a[0] = a[1] = a[2] = SIGUSR1; /* seldom what ends somebody */
	if ((nr == SYS_execve || nr == SYS_execveat) && rnd(s) % 32)
		return;
	syscall((long)nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void *call(void *arg)
{
	struct state *s = arg;

	for (long i = 0; i < s->calls; i++)
		one(s);
	return NULL;
}

/* Changes what the calls read: numbers, paths, pointers of vectors; bursts, so that others run too.
 */
static void *change(void *arg)
{
	struct state *s = arg;

	for (;;) {
		for (int i = 0; i < 200; i++) {
			uint64_t r = rnd(s);
			volatile uint64_t *word = (volatile uint64_t *)s->mem + r % (BYTES / 8);

			if (r >> 60 < 2)
				*word = r % 7 ? rnd(s) % 256 : (uint64_t)hostile(s);
			else if (r >> 60 == 2)
				memcpy(s->mem + PATHS_AT + r % 8 * PATH_ROOM, paths[r % 7],
					strlen(paths[r % 7]) + 1);
			else
				*word ^= 1ULL << (r >> 32) % 64;
		}
		usleep(200);
	}
	return NULL;
}

static void nothing(int sig)
{
}

static void fill(struct state *s)
{
	for (int i = 0; i < PATHS_AT / 8; i++)
		((uint64_t *)s->mem)[i] = rnd(s) % 4 ? rnd(s) % 300 : rnd(s);
	memset(s->mem + 64, 0, 16);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		memcpy(s->mem + PATHS_AT + i * PATH_ROOM, paths[i], strlen(paths[i]) + 1);
	for (int i = 0; i < 8; i++) {
		struct iovec v = { s->mem + rnd(s) % 4096, rnd(s) % 512 };
		struct sockaddr_un un = { .sun_family = AF_UNIX };
		unsigned char in[28] = { i & 1 ? AF_INET : AF_INET6, 0, 0x1f,
			(unsigned char)(i + 1), 127, 0, 0, 1 };

		memcpy(s->mem + VECS_AT + i * 16, &v, sizeof(v));
		memcpy(un.sun_path + (i & 1), "sock", 4);
		memcpy(s->mem + ADDR_AT + i * 128, i & 4 ? (void *)&un : (void *)in,
			i & 4 ? 32 : sizeof(in));
	}
	for (int i = 0; i < 4; i++) {
		struct msghdr m = { .msg_iov = (void *)(s->mem + VECS_AT),
			.msg_iovlen = (size_t)i,
			.msg_control = s->mem + 2048,
			.msg_controllen = rnd(s) % 128 };
		struct cmsghdr c = {
			.cmsg_len = 20, .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS
		};

		memcpy(s->mem + MSG_AT + i * 64, &m, sizeof(m));
		memcpy(s->mem + 2048, &c, sizeof(c));
		memcpy(s->mem + 2048 + sizeof(c), &(int){ 3 + i }, 4);
	}
}

/* One of each kind, at the same numbers in every process. */
static void open_things(void)
{
	int pair[2], fd;
	sigset_t set;

	sigfillset(&set);
	if (pipe(pair) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
		socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		_exit(1);
	epoll_create1(0);
	eventfd(3, EFD_SEMAPHORE);
	timerfd_create(CLOCK_MONOTONIC, 0);
	signalfd(-1, &set, 0);
	inotify_init();
	fd = (int)syscall(SYS_memfd_create, "x", 0);
	if (ftruncate(fd, 8192) < 0)
		_exit(1);
	open("f", O_RDWR | O_CREAT, 0666);
	mkdir("d", 0777);
	open("d", O_RDONLY | O_DIRECTORY);
	open("/", O_PATH);
	open("/dev/ptmx", O_RDWR | O_NOCTTY);
	open("/proc/self/status", O_RDONLY);
	open("/proc/self/mem", O_RDWR);
	socket(AF_INET, SOCK_STREAM, 0);
	socket(AF_INET6, SOCK_DGRAM, 0);
	socket(AF_UNIX, SOCK_SEQPACKET, 0);
	socket(AF_NETLINK, SOCK_RAW, 0);
	syscall(SYS_pidfd_open, getpid(), 0);
}

static void child(uint64_t seed, long calls)
{
	struct state s[3];
	pthread_t changer;
	char dir[32];
	int alive = 2;

	snprintf(dir, sizeof(dir), "p%d", getpid());
	if (mkdir(dir, 0777) < 0 || chmod(dir, 0777) < 0 || chdir(dir) < 0 || setgid(1000) < 0 ||
		setuid(1000) < 0)
		_exit(1);
	/* A crash of ours is not what this is about, and nobody reads it. */
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	for (int fd = 0; fd < 3; fd++)
		if (close(fd) < 0 || open("/dev/null", O_RDWR) != fd)
			_exit(1);
	for (int sig = 1; sig < 65; sig++)
		signal(sig, sig % 2 ? SIG_IGN : nothing);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = nothing }, NULL);
	signal(SIGALRM, SIG_DFL);
	alarm(LIFE_S);
	open_things();
	for (int i = 0; i < 3; i++) {
		s[i].seed = (seed * 3 + (uint64_t)i + 1) * 0x9e3779b97f4a7c15;
		s[i].calls = calls;
		s[i].mem = i ? s[0].mem
			     : mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (s[0].mem == MAP_FAILED)
		_exit(1);
	mprotect(s[0].mem + BYTES, 4096, PROT_NONE);
	fill(&s[0]);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&s[i].thread, NULL, call, &s[i]))
			_exit(1);
	if (pthread_create(&changer, NULL, change, &s[2]))
		_exit(1);
	while (alive) { /* what blocks is interrupted */
		usleep(5000);
		for (int i = 0; i < 2; i++) {
			if (!s[i].thread)
				continue;
			if (pthread_tryjoin_np(s[i].thread, NULL) == 0) {
				s[i].thread = 0;
				alive--;
			} else {
				pthread_kill(s[i].thread, SIGUSR1);
			}
		}
	}
	_exit(0);
}

/* Its calls have one right answer each. */
static void innocent(void)
{
	char name[64], buf[64];
	int pair[2], fd;
	pid_t me = getpid(), p;

	snprintf(name, sizeof(name), "/tmp/innocent-%d", me);
	for (unsigned n = 0;; n++) {
		size_t len = (size_t)snprintf(buf, sizeof(buf), "%u of %d", n, me);
		char got[64] = { 0 };
		int st = 0;

		fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || write(fd, buf, len) != (ssize_t)len ||
			pread(fd, got, sizeof(got), 0) != (ssize_t)len || strcmp(got, buf) ||
			close(fd))
			break;
		if (pipe(pair) || write(pair[1], buf, len) != (ssize_t)len ||
			read(pair[0], got, sizeof(got)) != (ssize_t)len || strcmp(got, buf) ||
			close(pair[0]) || close(pair[1]))
			break;
		if (getpid() != me || (long)syscall(SYS_gettid) != me || geteuid() != 0)
			break;
		p = n % 8 ? 0 : fork();
		if (n % 8 == 0 && p == 0)
			_exit(42);
		if (p < 0 || (p && (waitpid(p, &st, 0) != p || st != 42 << 8)))
			break;
		usleep(1000);
	}
	printf("a wrong answer: %s\n", strerror(errno));
	fflush(stdout);
	_exit(1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
	if (w->level > 0)
		remove(path);
	return 0;
}

static void clean_up(void)
{
	struct shmid_ds shm;
	struct msqid_ds msg;
	DIR *queues;
	int id;

	nftw("/tmp/fuzz", remove_one, 16, FTW_DEPTH | FTW_PHYS);
	nftw("/dev/shm", remove_one, 16, FTW_DEPTH | FTW_PHYS);
	for (int i = 0; i < 256; i++) {
		id = shmctl(i, SHM_STAT, &shm);
		if (id >= 0)
			shmctl(id, IPC_RMID, NULL);
		id = msgctl(i, MSG_STAT, &msg);
		if (id >= 0)
			msgctl(id, IPC_RMID, NULL);
		id = semctl(i, 0, SEM_STAT, &shm);
		if (id >= 0)
			semctl(id, 0, IPC_RMID);
	}
	queues = opendir("/dev/mqueue");
	for (struct dirent *e; queues && (e = readdir(queues));)
		syscall(SYS_mq_unlink, e->d_name);
	if (queues)
		closedir(queues);
}

/* All of user 1000's, also those that nobody waits for. */
static void end_all(void)
{
	pid_t p = fork();
	int st;

	if (p == 0) {
		if (setuid(1000) == 0)
			kill(-1, SIGKILL);
		_exit(0);
	}
	waitpid(p, &st, 0);
}

/* false: the innocent one is gone, or there is no process to be had. */
static bool run_round(long width, long calls, uint64_t seed, pid_t good)
{
	pid_t made[WIDTH_MAX] = { 0 };
	long left = 0;
	time_t end = time(NULL) + 2 * LIFE_S;

	for (long i = 0; i < width; i++) {
		made[i] = fork();
		if (made[i] == 0)
			child(seed + (uint64_t)i, calls);
		left += made[i] > 0;
	}
	while (left) {
		int st = 0;
		pid_t p = waitpid(-1, &st, WNOHANG);

		if (p == good || p < 0)
			return false;
		if (p > 0 && WIFSTOPPED(st)) { /* it has asked to be traced by us */
			kill(p, SIGKILL);
			continue;
		}
		/* A thread that has asked for it is waited for as well. */
		for (long i = 0; p > 0 && i < width; i++)
			left -= made[i] == p;
		if (p == 0)
			usleep(10000);
		if (time(NULL) > end) /* one has stopped another */
			end_all();
	}
	end_all();
	clean_up();
	return true;
}

static long number(const char *text)
{
	return strtol(text, NULL, 0);
}

int main(int argc, char **argv)
{
	long width, calls, rounds, seed;
	char line[16];
	pid_t good;

	if (argc != 5) {
		fputs("fuzz: PROCESSES CALLS ROUNDS SEED\n", stderr);
		return 2;
	}
	width = number(argv[1]);
	calls = number(argv[2]);
	rounds = number(argv[3]);
	seed = number(argv[4]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(0);
	if (width < 1 || width > WIDTH_MAX)
		return 2;
	if ((mkdir("/tmp/fuzz", 0777) < 0 && errno != EEXIST) || chdir("/tmp/fuzz") < 0)
		return 1;
	good = fork();
	if (good == 0)
		innocent();
	for (long round = 0; round < rounds; round++) {
		if (!run_round(width, calls, (uint64_t)(seed * 1000003 + round * 1009), good))
			return 1;
		printf("round %ld\n", round + 1);
		if (!fgets(line, sizeof(line), stdin))
			break;
	}
	kill(good, SIGKILL);
	puts("still here");
	return 0;
}
