/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_LIMITS_H
#define WARD_TIER_KERNEL_LIMITS_H

/* What one sandbox may make the kernel process hold. A guest that wants more gets an errno. */
enum {
	GUEST_PATH_MAX = 4096, /* with the NUL */
	GUEST_NAME_MAX = 255,
	GUEST_LINKS_MAX = 40, /* symbolic links followed in one walk */
	GUEST_IOV_MAX = 1024,
	GUEST_RW_MAX = 0x7ffff000,    /* bytes of one read or write, as on Linux */
	GUEST_RANDOM_MAX = 0x1ffffff, /* random bytes at once, as on Linux from 3.16 to 5.18 */
	GUEST_TASKS_MAX = 32768,      /* also the largest pid */
	GUEST_FDS_MAX = 65536,        /* RLIMIT_NOFILE, hard */
	GUEST_FILES_MAX = 262144,     /* open files of the whole sandbox */
	GUEST_GROUPS_MAX = 64,
	GUEST_NAMESPACES_MAX = 4096,   /* of all kinds together */
	GUEST_CPU_WORDS = 16,          /* of 64 processors */
	GUEST_BPF_MAX = 4096,          /* instructions of one seccomp filter */
	GUEST_BPF_SUM_MAX = 32768,     /* and of all of a task, with 4 more for each */
	GUEST_ARG_BYTES_MAX = 6 << 20, /* argv + envp of one execve */
	GUEST_ARG_ONE_MAX = 128 << 10, /* one string of these */
	GUEST_SIGQUEUE_MAX = 4096,     /* queued siginfos of the sandbox */
	GUEST_POLL_MAX = 65536,
	TRAP_STACK = 128 << 10, /* of a thread behind a listener */
	COPY_CHUNK = 256 << 10, /* one piece of a large copy */
};

#endif
