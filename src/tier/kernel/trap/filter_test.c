/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/filter_test.c - both filters, for every number: exactly the listed calls pass.
 *
 * The lists stand here a second time on purpose: a call that is added to a filter is added here
 * too.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <termios.h>

#include "abi/newer.h"
#include "base/ckd.h"
#include "tier/kernel/jail.h"
#include "tier/kernel/shim/shim.h"
#include "tier/kernel/trap/filter.h"

enum { NR_MAX = 0x2000, BAD_PROGRAM = 0x7ff00001 };

/* What the host makes of a filter: the instructions that ours use. */
static uint32_t run(const struct sock_filter *f, unsigned len, const struct seccomp_data *d)
{
	uint32_t acc = 0;

	for (unsigned pc = 0; pc < len; pc++) {
		bool yes;

		switch (f[pc].code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (f[pc].k % 4 || f[pc].k > sizeof(*d) - 4)
				return BAD_PROGRAM;
			memcpy(&acc, (const char *)d + f[pc].k, 4);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= f[pc].k;
			continue;
		case BPF_RET | BPF_K:
			return f[pc].k;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = acc == f[pc].k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = acc >= f[pc].k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			yes = (acc & f[pc].k) != 0;
			break;
		default:
			return BAD_PROGRAM;
		}
		pc += yes ? f[pc].jt : f[pc].jf;
	}
	return BAD_PROGRAM;
}

struct filter {
	struct sock_filter f[GUEST_FILTER_MAX];
	unsigned len;
};

static const struct shim_head head = {
	.restorer_ip = SHIM_BASE + 0x109,
	.sigreturn_ip = SHIM_BASE + 0x123,
	.sigreturn2_ip = SHIM_BASE + 0x139,
};

static uint32_t ask(const struct filter *f, int nr, uint64_t ip, const uint64_t *args)
{
	struct seccomp_data d = { .nr = nr, .arch = AUDIT_ARCH_X86_64, .instruction_pointer = ip };

	if (args)
		memcpy(d.args, args, sizeof(d.args));
	return run(f->f, f->len, &d);
}

static bool in_list(const uint16_t *list, size_t n, int nr)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == nr)
			return true;
	return false;
}

/* Anywhere, with whatever arguments. */
static const uint16_t anywhere[] = { SYS_mprotect, SYS_munmap, SYS_brk, SYS_sched_yield, SYS_mremap,
	SYS_msync, SYS_mincore, SYS_madvise, SYS_futex, SYS_set_robust_list, SYS_membarrier,
	SYS_restart_syscall, SYS_rseq, 449 /* futex_waitv */, 462 /* mseal */ };
/* From the shim's page, with whatever arguments. */
static const uint16_t from_shim[] = { SYS_mmap, SYS_exit, SYS_sigaltstack, SYS_exit_group,
	SYS_close_range, SYS_pread64 };
/* Looked at below. */
static const uint16_t by_argument[] = { SYS_mmap, SYS_clone, SYS_prctl, SYS_arch_prctl,
	SYS_rt_sigreturn };

static int setup(void **state)
{
	static struct filter f;

	f.len = guest_filter(f.f, &head);
	*state = &f;
	return f.len > GUEST_FILTER_MAX;
}

static void every_number_of_a_guest(void **state)
{
	static const uint64_t places[] = { 0, 0x401000, SHIM_BASE - 1, SHIM_BASE + SHIM_SIZE,
		SHIM_BASE + 0x100000000, 0x7e0000001000, 0xffffffffff600000 };

	for (int nr = 0; nr < NR_MAX; nr++) {
		uint32_t want = in_list(anywhere, ARRAY_LEN(anywhere), nr) ? SECCOMP_RET_ALLOW
									   : SECCOMP_RET_USER_NOTIF;

		for (size_t i = 0; i < ARRAY_LEN(places); i++)
			assert_int_equal(ask(*state, nr, places[i], NULL), want);
		if (in_list(by_argument, ARRAY_LEN(by_argument), nr) && nr != SYS_mmap)
			continue;
		if (in_list(from_shim, ARRAY_LEN(from_shim), nr))
			want = SECCOMP_RET_ALLOW;
		assert_int_equal(ask(*state, nr, SHIM_BASE, NULL), want);
		assert_int_equal(ask(*state, nr, SHIM_BASE + SHIM_SIZE - 1, NULL), want);
	}
	for (int i = 0; i < 32; i++)
		assert_int_equal(ask(*state, (int)(1u << i | 0x1000), 0, NULL),
			i == 30 || i == 31 ? SECCOMP_RET_ERRNO | ENOSYS : SECCOMP_RET_USER_NOTIF);
}

static void other_doors(void **state)
{
	static const uint32_t archs[] = { AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0, ~0u };
	const struct filter *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		for (int nr = 0; nr < NR_MAX; nr++) {
			struct seccomp_data d = {
				.nr = nr, .arch = archs[i], .instruction_pointer = SHIM_BASE
			};

			assert_int_equal(run(f->f, f->len, &d), SECCOMP_RET_ERRNO | ENOSYS);
		}
	for (int nr = 0; nr < NR_MAX; nr++) /* x32 */
		assert_int_equal(
			ask(f, 0x40000000 | nr, SHIM_BASE, NULL), SECCOMP_RET_ERRNO | ENOSYS);
}

static void arguments_of_a_guest(void **state)
{
	enum { NO = 0, YES = 1, ZERO = 2 };
	static const struct {
		int nr;
		uint64_t ip;
		uint64_t a[6];
		int want;
	} cases[] = {
		{ SYS_mmap, 0x401000, { 0, 1, 7, MAP_PRIVATE | MAP_ANONYMOUS, ~0ULL, 0 }, YES },
		{ SYS_mmap, 0x401000, { 0, 1, 7, MAP_SHARED | MAP_ANONYMOUS, ~0ULL, 0 }, YES },
		{ SYS_mmap, 0x401000, { 0, 1, 7, MAP_PRIVATE, 3, 0 }, NO },
		{ SYS_mmap, 0x401000, { 0, 1, 7, MAP_PRIVATE | 0x2000000000ULL, 3, 0 }, NO },
		{ SYS_mmap, 0x401000, { 0, 1, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB }, NO },
		{ SYS_mmap, 0x401000, { 0, 1, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED }, NO },
		{ SYS_mmap, SHIM_BASE, { 0, 1, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB }, NO },
		{ SYS_mmap, SHIM_BASE, { 0, 1, 7, MAP_SHARED, 3, 0 }, YES },
		{ SYS_clone, 0x401000, { CLONE_VM | CLONE_THREAD | CLONE_SIGHAND }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_VM | CLONE_THREAD | CLONE_SIGHAND }, YES },
		{ SYS_clone, SHIM_BASE, { 17 }, YES },
		{ SYS_clone, SHIM_BASE, { CLONE_NEWUSER | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_NEWNS | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_NEWPID | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_NEWNET | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_PTRACE | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_UNTRACED | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_PARENT | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_PIDFD | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_VFORK | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { CLONE_IO | 17 }, NO },
		{ SYS_clone, SHIM_BASE, { 9 }, NO },
		{ SYS_clone, SHIM_BASE, { 0x100000000ULL | 17 }, NO },
		{ SYS_prctl, 0x401000, { 35, 14 }, NO },
		{ SYS_prctl, SHIM_BASE, { 35, 14 }, YES },
		{ SYS_prctl, SHIM_BASE, { 35, 13 }, NO },
		{ SYS_prctl, SHIM_BASE, { 4, 14 }, NO },
		{ SYS_prctl, SHIM_BASE, { 22, 14 }, NO },
		{ SYS_msync, 0x401000, { 0, 1, 4 }, YES },
		{ SYS_msync, 0x401000, { 0, 1, 6 }, NO },
		{ SYS_futex, 0x401000, { 0, 0 | 128 }, YES },
		{ SYS_futex, 0x401000, { 0, 5 }, YES },
		{ SYS_futex, 0x401000, { 0, 6 }, NO },
		{ SYS_futex, 0x401000, { 0, 6 | 128 }, NO },
		{ SYS_futex, 0x401000, { 0, 7 | 128 }, NO },
		{ SYS_futex, 0x401000, { 0, 8 }, NO },
		{ SYS_futex, 0x401000, { 0, 9 | 128 | 256 }, YES },
		{ SYS_futex, 0x401000, { 0, 10 | 128 }, YES },
		{ SYS_futex, 0x401000, { 0, 11 | 256 }, NO },
		{ SYS_futex, 0x401000, { 0, 12 }, NO },
		{ SYS_futex, SHIM_BASE, { 0, 13 | 128 }, NO },
		{ SYS_futex, 0x401000, { 0, 14 }, YES },
		{ SYS_arch_prctl, 0x401000, { 0x1000 }, NO },
		{ SYS_arch_prctl, 0x401000, { 0x1001 }, YES },
		{ SYS_arch_prctl, 0x401000, { 0x1002 }, YES },
		{ SYS_arch_prctl, 0x401000, { 0x1003 }, YES },
		{ SYS_arch_prctl, 0x401000, { 0x1004 }, YES },
		{ SYS_arch_prctl, 0x401000, { 0x1005 }, NO },
		{ SYS_arch_prctl, SHIM_BASE, { 0x1012 /* CPUID faulting */ }, NO },
		{ SYS_rt_sigreturn, SHIM_BASE, { 0 }, NO },
		{ SYS_rt_sigreturn, SHIM_BASE + 0x123, { 0 }, YES },
		{ SYS_rt_sigreturn, SHIM_BASE + 0x139, { 0 }, YES },
		{ SYS_rt_sigreturn, SHIM_BASE + 0x109, { 0 }, ZERO },
		{ SYS_rt_sigreturn, SHIM_BASE + 0x123 + 0x100000000, { 0 }, NO },
	};
	static const uint32_t answers[] = { SECCOMP_RET_USER_NOTIF, SECCOMP_RET_ALLOW,
		SECCOMP_RET_ERRNO };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (ask(*state, cases[i].nr, cases[i].ip, cases[i].a) != answers[cases[i].want])
			fail_msg("case %zu: call %d", i, cases[i].nr);
}

static void the_count_is_true(void **state)
{
	unsigned reached = 0;

	for (int nr = 0; nr < NR_MAX; nr++)
		reached += in_list(anywhere, ARRAY_LEN(anywhere), nr) ||
			   in_list(from_shim, ARRAY_LEN(from_shim), nr) ||
			   in_list(by_argument, ARRAY_LEN(by_argument), nr);
	assert_int_equal(reached, guest_filter_calls());
}

/* The kernel process. */

static const uint16_t jail_calls[] = { SYS_read, SYS_write, SYS_close, SYS_fstat, SYS_poll,
	SYS_lseek, SYS_munmap, SYS_brk, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_sched_yield, SYS_mremap, SYS_madvise,
	SYS_nanosleep, SYS_sendfile, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg,
	SYS_shutdown, SYS_exit, SYS_fcntl, SYS_fsync, SYS_fdatasync, SYS_ftruncate, SYS_fchmod,
	SYS_umask, SYS_getrlimit, SYS_sysinfo, SYS_fstatfs, SYS_gettid, SYS_fgetxattr,
	SYS_flistxattr, SYS_futex, SYS_sched_setaffinity, SYS_sched_getaffinity, SYS_getdents64,
	SYS_restart_syscall, SYS_fadvise64, SYS_clock_gettime, SYS_clock_getres,
	SYS_clock_nanosleep, SYS_exit_group, SYS_tgkill, SYS_openat, SYS_mkdirat, SYS_mknodat,
	SYS_fchownat, SYS_newfstatat, SYS_unlinkat, SYS_renameat, SYS_linkat, SYS_symlinkat,
	SYS_readlinkat, SYS_set_robust_list, SYS_get_robust_list, SYS_sync_file_range,
	SYS_utimensat, SYS_epoll_ctl, SYS_epoll_pwait, SYS_timerfd_settime, SYS_fallocate,
	SYS_preadv, SYS_pwritev, SYS_process_vm_readv, SYS_process_vm_writev, SYS_renameat2,
	SYS_getrandom, SYS_memfd_create, SYS_membarrier, SYS_copy_file_range, SYS_preadv2,
	SYS_pwritev2, SYS_statx, SYS_rseq, SYS_pidfd_send_signal, SYS_pidfd_open, SYS_openat2,
	SYS_prlimit64, WARD_SYS_fchmodat2 };
/* Only where a sanitizer is built in. */
static const uint16_t sanitizer_calls[] = { SYS_sigaltstack, SYS_getpid, SYS_prctl, SYS_pipe2,
	SYS_open, SYS_stat, SYS_readlink };
enum { BY_ARGUMENT = 4 }; /* ioctl, clone, mmap, mprotect */

static bool is_sanitized(void)
{
	return kernel_jail_calls() != ARRAY_LEN(jail_calls) + BY_ARGUMENT;
}

static void jail(struct filter *f)
{
	_Static_assert((int)KERNEL_JAIL_MAX <= (int)GUEST_FILTER_MAX, "both fit");
	f->len = kernel_jail_program(f->f);
	assert_in_range(f->len, 1, KERNEL_JAIL_MAX);
}

static void every_number_of_the_kernel_process(void **state)
{
	struct filter f;
	unsigned extra = is_sanitized() ? ARRAY_LEN(sanitizer_calls) : 0;

	jail(&f);
	assert_int_equal(kernel_jail_calls(), ARRAY_LEN(jail_calls) + BY_ARGUMENT + extra);
	for (int nr = -1; nr < NR_MAX; nr++) {
		bool allowed = in_list(jail_calls, ARRAY_LEN(jail_calls), nr) ||
			       in_list(sanitizer_calls, extra, nr);

		if (nr == SYS_ioctl || nr == SYS_clone || nr == SYS_mmap || nr == SYS_mprotect)
			continue;
		if (nr == SYS_clone3)
			assert_int_equal(ask(&f, nr, 0, NULL), SECCOMP_RET_ERRNO | ENOSYS);
		else
			assert_int_equal(ask(&f, nr, 0, NULL),
				allowed ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS);
		assert_int_equal(ask(&f, nr | 0x40000000, 0, NULL), SECCOMP_RET_KILL_PROCESS);
	}
	for (int nr = 0; nr < NR_MAX; nr++) {
		struct seccomp_data d = { .nr = nr, .arch = AUDIT_ARCH_I386 };

		assert_int_equal(run(f.f, f.len, &d), SECCOMP_RET_KILL_PROCESS);
	}
}

static void arguments_of_the_kernel_process(void **state)
{
	static const struct {
		int nr;
		uint64_t a[6];
		uint32_t want;
	} cases[] = {
		{ SYS_ioctl, { 3, SECCOMP_IOCTL_NOTIF_RECV }, SECCOMP_RET_ALLOW },
		{ SYS_ioctl, { 3, SECCOMP_IOCTL_NOTIF_SEND }, SECCOMP_RET_ALLOW },
		{ SYS_ioctl, { 3, SECCOMP_IOCTL_NOTIF_ADDFD }, SECCOMP_RET_ALLOW },
		{ SYS_ioctl, { 3, TCGETS }, SECCOMP_RET_ALLOW },
		{ SYS_ioctl, { 3, TIOCGWINSZ }, SECCOMP_RET_ALLOW },
		{ SYS_ioctl, { 3, FIONREAD }, SECCOMP_RET_ALLOW },
		{ SYS_ioctl, { 0, TIOCSTI }, SECCOMP_RET_ERRNO | ENOTTY },
		{ SYS_ioctl, { 0, TCSETS }, SECCOMP_RET_ERRNO | ENOTTY },
		{ SYS_ioctl, { 0, 0 }, SECCOMP_RET_ERRNO | ENOTTY },
		{ SYS_clone, { CLONE_THREAD | CLONE_VM | CLONE_SIGHAND }, SECCOMP_RET_ALLOW },
		{ SYS_clone, { 17 }, SECCOMP_RET_KILL_PROCESS },
		{ SYS_clone, { CLONE_VM | CLONE_VFORK | 17 }, SECCOMP_RET_KILL_PROCESS },
		{ SYS_clone, { CLONE_NEWUSER }, SECCOMP_RET_KILL_PROCESS },
		{ SYS_mmap, { 0, 1, PROT_READ | PROT_WRITE }, SECCOMP_RET_ALLOW },
		{ SYS_mmap, { 0, 1, PROT_READ | PROT_EXEC }, SECCOMP_RET_KILL_PROCESS },
		{ SYS_mprotect, { 0, 1, PROT_READ }, SECCOMP_RET_ALLOW },
		{ SYS_mprotect, { 0, 1, PROT_EXEC }, SECCOMP_RET_KILL_PROCESS },
	};
	struct filter f;

	jail(&f);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (ask(&f, cases[i].nr, 0, cases[i].a) != cases[i].want)
			fail_msg("case %zu: call %d", i, cases[i].nr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_number_of_a_guest, setup),
		cmocka_unit_test_setup(other_doors, setup),
		cmocka_unit_test_setup(arguments_of_a_guest, setup),
		cmocka_unit_test_setup(the_count_is_true, setup),
		cmocka_unit_test(every_number_of_the_kernel_process),
		cmocka_unit_test(arguments_of_the_kernel_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
