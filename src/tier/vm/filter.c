/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/filter.c - what a monitor may still ask of the host's kernel once its guest runs.
 *
 * Owns:  the list. Everything else kills the process, and with it the machine.
 * Rules: loaded last, by each thread for itself, when every thread, file and mapping that is needed
 *        exists: so no clone, no open, no socket, no executable memory; of ioctl what reads the
 *        state of the machine, for snapshots. The thread of a vCPU runs the guest and answers for
 *        registers; all work for the guest is the device thread's.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/seccomp.h>

#include "base/ckd.h"
#include "host/host.h"
#include "tier/vm/machine.h"
#include "tier/vm/vm.h"

enum rule_kind { PLAIN, IOCTL, NO_EXEC, ADVICE, FUTEX, KICK, KICK_IN };

/* What the device thread may do. */
/* clang-format off */
static const struct rule {
	unsigned nr;
	enum rule_kind kind;
} rules[] = {
	/* running, waiting */
	{ SYS_ioctl, IOCTL }, { SYS_futex, FUTEX }, { SYS_epoll_pwait, PLAIN },
	{ SYS_epoll_ctl, PLAIN }, { SYS_timerfd_settime, PLAIN }, { SYS_restart_syscall, PLAIN }, { SYS_rt_sigreturn, PLAIN },
	{ SYS_rt_sigprocmask, PLAIN }, { SYS_tkill, KICK },
	{ SYS_clock_gettime, PLAIN }, { SYS_exit, PLAIN }, { SYS_exit_group, PLAIN },
	/* bytes between the guest, its disk and its channel */
	{ SYS_read, PLAIN }, { SYS_write, PLAIN }, { SYS_readv, PLAIN }, { SYS_writev, PLAIN },
	{ SYS_pread64, PLAIN }, { SYS_lseek, PLAIN }, { SYS_preadv, PLAIN },
	{ SYS_sendto, PLAIN }, { SYS_recvfrom, PLAIN }, { SYS_sendmsg, PLAIN }, { SYS_recvmsg, PLAIN },
	{ SYS_accept4, PLAIN }, { SYS_shutdown, PLAIN }, { SYS_close, PLAIN }, { SYS_getrandom, PLAIN },
	/* memory: buffers of our own, pages that the guest gives back */
	{ SYS_mmap, NO_EXEC }, { SYS_munmap, PLAIN }, { SYS_mremap, PLAIN }, { SYS_madvise, ADVICE },
	{ SYS_brk, PLAIN },
#ifdef __GLIBC__
	/* how that one waits and signals */
	{ SYS_epoll_wait, PLAIN }, { SYS_tgkill, KICK_IN }, { SYS_getpid, PLAIN },
#endif
};
/* clang-format on */

static const uint32_t ioctls[] = {
	(uint32_t)KVM_KVMCLOCK_CTRL,
	/* for a snapshot: what KVM keeps is read, nothing of it is set */
	(uint32_t)KVM_GET_MP_STATE,
	(uint32_t)KVM_GET_REGS,
	(uint32_t)KVM_GET_SREGS,
	(uint32_t)KVM_GET_FPU,
	(uint32_t)KVM_GET_XSAVE,
	(uint32_t)KVM_GET_XSAVE2,
	(uint32_t)KVM_GET_XCRS,
	(uint32_t)KVM_GET_DEBUGREGS,
	(uint32_t)KVM_GET_LAPIC,
	(uint32_t)KVM_GET_TSC_KHZ,
	(uint32_t)KVM_GET_CPUID2,
	(uint32_t)KVM_GET_MSRS,
	(uint32_t)KVM_GET_VCPU_EVENTS,
	(uint32_t)KVM_GET_IRQCHIP,
	(uint32_t)KVM_GET_CLOCK,
	/* which pages changed */
	(uint32_t)KVM_SET_USER_MEMORY_REGION,
	(uint32_t)KVM_GET_DIRTY_LOG,
};

/*
 * What of that a vCPU's thread may do: run, wait, raise an interrupt or wake the device thread
 * (write), and, when a driver resets a device, let go of what it had: sockets, and buffers, which
 * some allocators give back with brk.
 */
static const unsigned cpu_calls[] = { SYS_ioctl, SYS_futex, SYS_write, SYS_rt_sigreturn,
	SYS_restart_syscall, SYS_rt_sigprocmask, SYS_exit, SYS_exit_group, SYS_epoll_ctl, SYS_close,
	SYS_munmap, SYS_madvise, SYS_brk };

/* And beside running, what a tap may leave to the guest, which its driver chooses. */
static const uint32_t cpu_ioctls[] = { (uint32_t)KVM_RUN, (uint32_t)TUNSETOFFLOAD };

struct prog {
	struct sock_filter *code;
	unsigned len;
	const uint32_t *ioctls;
	size_t ioctl_count;
};

static void emit(struct prog *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
	p->code[p->len++] = (struct sock_filter){ code, yes, no, k };
}

static void load(struct prog *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct prog *p, uint32_t what)
{
	emit(p, BPF_RET | BPF_K, what, 0, 0);
}

static size_t arg_low(unsigned i)
{
	return offsetof(struct seccomp_data, args) + 8 * (size_t)i;
}

/* The argument, or what @mask leaves of it, is one of these, or it is the end. */
static void allow_only(
	struct prog *p, unsigned arg, uint32_t mask, const uint32_t *values, size_t count)
{
	load(p, arg_low(arg));
	if (mask != ~0u)
		emit(p, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	for (size_t i = 0; i < count; i++) {
		emit(p, BPF_JMP | BPF_JEQ | BPF_K, values[i], 0, 1);
		answer(p, SECCOMP_RET_ALLOW);
	}
	answer(p, SECCOMP_RET_KILL_PROCESS);
}

/* The accumulator holds the number; falls through to the next rule when it is another. */
static void emit_rule(struct prog *p, const struct rule *r)
{
	/* Of our own allocator, and of a guest that gives pages back. */
	static const uint32_t advices[] = { MADV_DONTNEED, MADV_FREE };
	/* Waiting and waking; nothing of priorities, in which the host's kernel was wrong before.
	 */
	static const uint32_t futex_ops[] = { FUTEX_WAIT, FUTEX_WAKE, FUTEX_REQUEUE,
#ifdef __GLIBC__
		FUTEX_WAIT_BITSET
#endif
	};
	const uint32_t kick = (uint32_t)MACHINE_KICK;
	unsigned jump = p->len;

	emit(p, BPF_JMP | BPF_JEQ | BPF_K, r->nr, 0, 0);
	if (r->kind == IOCTL) {
		allow_only(p, 1, ~0u, p->ioctls, p->ioctl_count);
	} else if (r->kind == ADVICE) {
		allow_only(p, 2, ~0u, advices, ARRAY_LEN(advices));
	} else if (r->kind == KICK || r->kind == KICK_IN) {
		allow_only(p, r->kind == KICK ? 1 : 2, ~0u, &kick, 1);
	} else if (r->kind == FUTEX) {
		allow_only(p, 1, (uint32_t)FUTEX_CMD_MASK, futex_ops, ARRAY_LEN(futex_ops));
	} else if (r->kind == NO_EXEC) {
		load(p, arg_low(2));
		emit(p, BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
		answer(p, SECCOMP_RET_KILL_PROCESS);
		answer(p, SECCOMP_RET_ALLOW);
	} else {
		answer(p, SECCOMP_RET_ALLOW);
	}
	p->code[jump].jf = (uint8_t)(p->len - jump - 1);
}

unsigned filter_calls(void)
{
	return ARRAY_LEN(rules);
}

static bool may(enum filter_thread who, unsigned nr)
{
	for (size_t i = 0; who == FILTER_CPU && i < ARRAY_LEN(cpu_calls); i++)
		if (cpu_calls[i] == nr)
			return true;
	return who == FILTER_DEVICES;
}

unsigned filter_make(enum filter_thread who, struct sock_filter ret[FILTER_CODE_MAX])
{
	struct prog p = { .code = ret, .ioctls = ioctls, .ioctl_count = ARRAY_LEN(ioctls) };

	if (who == FILTER_CPU) {
		p.ioctls = cpu_ioctls;
		p.ioctl_count = ARRAY_LEN(cpu_ioctls);
	}
	load(&p, offsetof(struct seccomp_data, arch));
	emit(&p, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	answer(&p, SECCOMP_RET_KILL_PROCESS);
	load(&p, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (may(who, rules[i].nr))
			emit_rule(&p, &rules[i]);
	answer(&p, SECCOMP_RET_KILL_PROCESS);
	return p.len;
}

int filter_load(enum filter_thread who, struct err *e)
{
	struct sock_filter code[FILTER_CODE_MAX];
	struct sock_fprog prog = { .len = (unsigned short)filter_make(who, code), .filter = code };
	int r = host_seccomp(0, &prog);

	return r < 0 ? err_set(e, -r, "loading the monitor's system call filter") : 0;
}
