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
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "host/host.h"
#include "tier/kernel/jail.h"

/* In the order of numbers. */
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
	SYS_futex,
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
	SYS_newfstatat,
	SYS_unlinkat,
	SYS_renameat,
	SYS_linkat,
	SYS_symlinkat,
	SYS_readlinkat,
	SYS_set_robust_list,
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
};

/* A sanitizer makes calls of its own, and is not what anyone runs guests with. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

int kernel_jail(struct err *e)
{
	struct sock_filter f[ARRAY_LEN(calls) + 8];
	struct sock_fprog prog = { .filter = f };
	unsigned n = 0;
	int r;

	f[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		f[n] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, calls[i], (uint8_t)(ARRAY_LEN(calls) - i), 0);
		n++;
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (SANITIZED)
		return 0;
	prog.len = (unsigned short)n;
	r = host_seccomp(0, &prog);
	return r < 0 ? err_set(e, -r, "loading the kernel process's own filter") : 0;
}

unsigned kernel_jail_calls(void)
{
	return ARRAY_LEN(calls);
}
