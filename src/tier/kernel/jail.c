/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/jail.c - which calls the kernel process itself may make.
 *
 * Owns:  the list.
 * Rules: what answering guests needs and no more: no paths but below a descriptor, no sockets, no
 * exec, no ptrace, no signal to a bare process number. Anything else kills it: that is a bug or a
 *        break-in, and both end the sandbox.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <termios.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "host/host.h"
#include "tier/kernel/jail.h"
#include "tier/kernel/trap/engine.h"

static const uint16_t calls[] = {
	SYS_read,
	SYS_write,
	SYS_close,
	SYS_fstat,
	SYS_poll,
	SYS_lseek,
	SYS_mmap,
	SYS_mprotect,
	SYS_munmap,
	SYS_brk,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_ioctl,
	SYS_pread64,
	SYS_pwrite64,
	SYS_readv,
	SYS_writev,
	SYS_sched_yield,
	SYS_mremap,
	SYS_madvise,
	SYS_nanosleep,
	SYS_sendfile,
	SYS_sendto,
	SYS_recvfrom,
	SYS_sendmsg,
	SYS_recvmsg,
	SYS_shutdown,
	SYS_clone,
	SYS_exit,
	SYS_fcntl,
	SYS_fsync,
	SYS_fdatasync,
	SYS_ftruncate,
	SYS_fchmod,
	SYS_umask,
	SYS_getrlimit,
	SYS_sysinfo,
	SYS_fstatfs,
	SYS_gettid,
	SYS_fgetxattr,
	SYS_flistxattr,
	SYS_futex,
	SYS_sched_setaffinity,
	SYS_sched_getaffinity,
	SYS_getdents64,
	SYS_restart_syscall,
	SYS_fadvise64,
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_clock_nanosleep,
	SYS_exit_group,
	SYS_tgkill,
	SYS_openat,
	SYS_mkdirat,
	SYS_mknodat, /* FIFOs and sockets in writable mounts */
	SYS_fchownat,
	SYS_newfstatat,
	SYS_unlinkat,
	SYS_renameat,
	SYS_linkat,
	SYS_symlinkat,
	SYS_readlinkat,
	SYS_set_robust_list,
	SYS_get_robust_list,
	SYS_sync_file_range,
	SYS_utimensat,
	SYS_epoll_ctl,
	SYS_epoll_pwait,
	SYS_timerfd_settime,
	SYS_fallocate,
	SYS_preadv,
	SYS_pwritev,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_renameat2,
	SYS_getrandom,
	SYS_memfd_create,
	SYS_membarrier,
	SYS_copy_file_range,
	SYS_preadv2,
	SYS_pwritev2,
	SYS_statx,
	SYS_rseq,
	SYS_pidfd_send_signal,
	SYS_pidfd_open,
	SYS_openat2,
	WARD_SYS_fchmodat2,
	SYS_prlimit64, /* RLIMIT_AS and RLIMIT_DATA of guests */
#if SANITIZED
	SYS_sigaltstack, /* a stack of its own for each thread's faults */
	SYS_getpid,
	SYS_prctl, /* names of its mappings */
	SYS_pipe2, /* is memory there? it asks write(2) */
	SYS_open,  /* what a report looks for; there is nothing to be found */
	SYS_stat,
	SYS_readlink,
#endif
};

/* Of these an argument is looked at. */
static const uint32_t ioctls[] = {
	SECCOMP_IOCTL_NOTIF_RECV,
	SECCOMP_IOCTL_NOTIF_SEND,
	SECCOMP_IOCTL_NOTIF_ADDFD,
	_IOC(_IOC_WRITE, SECCOMP_IOC_MAGIC, 4, 8),                /* NOTIF_SET_FLAGS */
	_IOC(_IOC_READ | _IOC_WRITE, 0xFF, 11, PIDFD_INFO_BYTES), /* PIDFD_GET_INFO */
	PROCMAP_QUERY_,
	TCGETS,
	TIOCGWINSZ,
	FIONREAD,
};

/* Numbers are looked for in blocks: the host runs all of them through the filter when it is loaded,
 * and one after the other would take as long as the rest of the jail. */
enum { HEAD = 5, CALLS = ARRAY_LEN(calls), IOCTLS = ARRAY_LEN(ioctls), BLOCK = 10 };
/* Where each answer is. */
enum {
	AT_ALLOW = HEAD + CALLS + 2 * ((CALLS + BLOCK - 1) / BLOCK),
	AT_NONE,                          /* the caller knows another way */
	AT_IOCTL,                         /* load, one comparison each, refuse, allow */
	AT_CLONE = AT_IOCTL + IOCTLS + 3, /* threads only */
	AT_MEMORY = AT_CLONE + 4,         /* nothing that can be executed */
	PROGRAM = AT_MEMORY + 4,
};

static unsigned target(uint16_t nr)
{
	switch (nr) {
	case SYS_ioctl:
		return AT_IOCTL;
	case SYS_clone:
		return AT_CLONE;
	case SYS_mmap:
	case SYS_mprotect:
		return AT_MEMORY;
	default:
		return AT_ALLOW;
	}
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(v) BPF_STMT(BPF_RET | BPF_K, v)

static void in_order(uint16_t ret[CALLS])
{
	for (unsigned i = 0, at; i < CALLS; i++) {
		for (at = i; at > 0 && ret[at - 1] > calls[i]; at--)
			ret[at] = ret[at - 1];
		ret[at] = calls[i];
	}
}

/* Each block: on to the next one for what lies there; its numbers; none of them. */
static void put_calls(struct sock_filter *f)
{
	unsigned at = HEAD, n;
	uint16_t nr[CALLS];

	in_order(nr);
	for (unsigned i = 0; i < CALLS; i += n) {
		n = CALLS - i < BLOCK ? CALLS - i : BLOCK;
		/* Behind the last block there are answers: nothing gets past it. */
		f[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
			i + n < CALLS ? nr[i + n] : 0, (uint8_t)(i + n < CALLS ? n + 1 : 0), 0);
		for (unsigned k = i; k < i + n; k++, at++)
			f[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr[k],
				(uint8_t)(target(nr[k]) - at - 1), 0);
		f[at++] = (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS);
	}
}

unsigned kernel_jail_program(struct sock_filter *f)
{
	const struct sock_filter head[HEAD] = { LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS), LOAD(nr),
		/* What a libc tries before clone; its flags cannot be looked at. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, AT_NONE - HEAD, 0) };
	const struct sock_filter thread[4] = { LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW) };
	const struct sock_filter memory[4] = { LOAD(args[2]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS), RETURN(SECCOMP_RET_ALLOW) };

	memcpy(f, head, sizeof(head));
	put_calls(f);
	f[AT_ALLOW] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	f[AT_NONE] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | ENOSYS);
	f[AT_IOCTL] = (struct sock_filter)LOAD(args[1]);
	for (unsigned i = 0; i < IOCTLS; i++)
		f[AT_IOCTL + 1 + i] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, ioctls[i], (uint8_t)(IOCTLS - i), 0);
	f[AT_IOCTL + 1 + IOCTLS] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | ENOTTY);
	f[AT_IOCTL + 2 + IOCTLS] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	memcpy(f + AT_CLONE, thread, sizeof(thread));
	memcpy(f + AT_MEMORY, memory, sizeof(memory));
	return PROGRAM;
}

_Static_assert((int)PROGRAM <= (int)KERNEL_JAIL_MAX, "the filter's buffer");
/* A jump has eight bits. */
_Static_assert(PROGRAM - HEAD < 256, "from the first comparison to the last answer");

int kernel_jail(struct err *e)
{
	struct sock_filter f[KERNEL_JAIL_MAX];
	struct sock_fprog prog = { .filter = f, .len = (unsigned short)kernel_jail_program(f) };
	int r;

	r = host_seccomp(0, &prog);
	return r < 0 ? err_set(e, -r, "loading the kernel process's own filter") : 0;
}

unsigned kernel_jail_calls(void)
{
	return ARRAY_LEN(calls);
}
