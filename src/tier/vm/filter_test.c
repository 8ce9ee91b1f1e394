/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/filter_test.c - the filters' programs, read by a machine of our own: every call with
 * every argument that matters, against what should be allowed. And the filters themselves, in
 * children.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/vm/machine.h"
#include "tier/vm/vm.h"

enum { CALLS = 600 };

/* What a program of loads, compares and returns says; a jump that leaves it fails the test. */
static uint32_t say(const struct sock_filter *code, unsigned len, const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (unsigned pc = 0; pc < len; pc++) {
		const struct sock_filter *f = &code[pc];

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(f->k + 4 <= sizeof(*d));
			memcpy(&a, (const uint8_t *)d + f->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & f->k ? f->jt : f->jf;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		default:
			fail_msg("instruction %#x", f->code);
		}
	}
	fail_msg("the program has no end");
	return 0;
}

static bool allows(enum filter_thread who, unsigned nr, uint64_t arg1, uint64_t arg2)
{
	struct sock_filter code[FILTER_CODE_MAX];
	unsigned len = filter_make(who, code);
	struct seccomp_data d = {
		.nr = (int)nr, .arch = AUDIT_ARCH_X86_64, .args = { 0, arg1, arg2 }
	};
	uint32_t answer;

	assert_in_range(len, 1, FILTER_CODE_MAX);
	answer = say(code, len, &d);
	assert_true(answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_KILL_PROCESS);
	return answer == SECCOMP_RET_ALLOW;
}

/* Whatever a call is allowed with. */
static bool allows_some(enum filter_thread who, unsigned nr)
{
	return allows(who, nr, 0, 0) || allows(who, nr, 0, MADV_DONTNEED) ||
	       allows(who, nr, (uint64_t)MACHINE_KICK, (uint64_t)MACHINE_KICK) ||
	       allows(who, nr, KVM_RUN, 0) || allows(who, nr, KVM_KVMCLOCK_CTRL, 0);
}

/* The thread that the guest can steer has next to nothing, and nothing that the other has not. */
static void who_may_what(void **state)
{
	static const unsigned cpu[] = { SYS_ioctl, SYS_futex, SYS_write, SYS_rt_sigreturn,
		SYS_restart_syscall, SYS_rt_sigprocmask, SYS_exit, SYS_exit_group, SYS_epoll_ctl,
		SYS_close, SYS_munmap, SYS_madvise, SYS_brk };
	/* What none of them may do, whatever is added to the lists one day. */
	static const unsigned never[] = { SYS_open, SYS_openat, SYS_openat2, SYS_socket,
		SYS_socketpair, SYS_connect, SYS_bind, SYS_clone, SYS_clone3, SYS_fork, SYS_vfork,
		SYS_execve, SYS_execveat, SYS_ptrace, SYS_mprotect, SYS_pkey_mprotect, SYS_dup,
		SYS_dup2, SYS_dup3, SYS_memfd_create, SYS_mount, SYS_setns, SYS_unshare, SYS_prctl,
		SYS_seccomp, SYS_bpf, SYS_io_uring_setup, SYS_userfaultfd, SYS_process_vm_readv,
		SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kill, SYS_setrlimit, SYS_prlimit64,
		SYS_pwrite64, SYS_pwritev, SYS_pwritev2, SYS_fallocate, SYS_ftruncate };
	unsigned devices = 0;

	(void)state;
	for (unsigned nr = 0; nr < CALLS; nr++) {
		bool listed = false;

		for (size_t i = 0; i < ARRAY_LEN(cpu); i++)
			listed |= cpu[i] == nr;
		if (allows_some(FILTER_CPU, nr) != listed)
			fail_msg("a vCPU's thread and call %u", nr);
		devices += allows_some(FILTER_DEVICES, nr);
		if (listed && !allows_some(FILTER_DEVICES, nr))
			fail_msg("call %u is in one list only", nr);
	}
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (allows_some(FILTER_DEVICES, never[i]))
			fail_msg("call %u is allowed", never[i]);
	assert_int_equal(devices, filter_calls());
}

static void arguments(void **state)
{
	const enum filter_thread both[] = { FILTER_DEVICES, FILTER_CPU };
	struct sock_filter code[FILTER_CODE_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(both); i++) {
		bool cpu = both[i] == FILTER_CPU;
		struct seccomp_data other = { .nr = SYS_write, .arch = AUDIT_ARCH_I386 };

		assert_true(allows(both[i], SYS_ioctl, KVM_RUN, 0) == cpu);
		assert_true(allows(both[i], SYS_ioctl, TUNSETOFFLOAD, 0) == cpu);
		assert_true(allows(both[i], SYS_ioctl, KVM_KVMCLOCK_CTRL, 0) == !cpu);
		assert_false(allows(both[i], SYS_ioctl, KVM_CREATE_VM, 0));
		assert_false(allows(both[i], SYS_ioctl, KVM_CREATE_VCPU, 0));
		assert_false(allows(both[i], SYS_ioctl, TUNSETIFF, 0));
		assert_true(allows(both[i], SYS_madvise, 0, MADV_DONTNEED));
		assert_false(allows(both[i], SYS_madvise, 0, MADV_HWPOISON));
		assert_true(allows(both[i], SYS_mmap, 0, PROT_READ | PROT_WRITE) == !cpu);
		assert_false(allows(both[i], SYS_mmap, 0, PROT_READ | PROT_EXEC));
		assert_true(allows(both[i], SYS_futex, FUTEX_WAIT_PRIVATE, 0));
		assert_true(allows(both[i], SYS_futex, FUTEX_REQUEUE_PRIVATE, 0));
		assert_false(allows(both[i], SYS_futex, FUTEX_LOCK_PI_PRIVATE, 0));
		assert_false(allows(both[i], SYS_futex, FUTEX_CMP_REQUEUE_PI_PRIVATE, 0));
		assert_true(allows(both[i], SYS_tkill, (uint64_t)MACHINE_KICK, 0) == !cpu);
		assert_false(allows(both[i], SYS_tkill, SIGKILL, 0));
		assert_false(allows(both[i], SYS_tgkill, (uint64_t)MACHINE_KICK, SIGKILL));
		assert_int_equal(
			say(code, filter_make(both[i], code), &other), SECCOMP_RET_KILL_PROCESS);
	}
}

/* In a child with the filter: the signal that ended it, or 0. */
static int end_of(enum filter_thread who, bool bad)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int fd = eventfd(0, EFD_NONBLOCK);
		uint64_t one = 1;
		struct err e;

		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load(who, &e) < 0)
			_exit(2);
		if (syscall(SYS_write, fd, &one, sizeof(one)) != sizeof(one))
			_exit(3);
		if (bad)
			syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY);
		syscall(SYS_exit_group, 0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void for_real(void **state)
{
	(void)state;
	assert_int_equal(end_of(FILTER_DEVICES, false), 0);
	assert_int_equal(end_of(FILTER_CPU, false), 0);
	assert_int_equal(end_of(FILTER_DEVICES, true), SIGSYS);
	assert_int_equal(end_of(FILTER_CPU, true), SIGSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_may_what),
		cmocka_unit_test(arguments),
		cmocka_unit_test(for_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
