/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/filter.c - the guest's seccomp filter.
 *
 * Owns:  the list of calls that a guest makes natively.
 * Rules: nothing that uses a descriptor, except mmap, pread64 and close_range from the shim's page:
 *        what a guest has there it has opened for reading, and could map. What the
 *        shim may call must be safe with any arguments: a guest can jump there. A tree, not a
 * chain: the host runs the filter once per call number when it is installed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "tier/kernel/shim/shim.h"
#include "tier/kernel/trap/filter.h"

enum { SYS_futex_waitv_ = 449, SYS_mseal_ = 462 }; /* older headers do not have them */

enum act {
	ACT_NOTIFY,
	ACT_ALLOW,
	ACT_MMAP,
	ACT_SHIM,
	ACT_CLONE,
	ACT_PRCTL,
	ACT_ARCH,
	ACT_FUTEX,
	ACT_MSYNC,
	ACT_SIGRETURN
};

/* In the order of numbers. */
static const struct {
	unsigned nr;
	enum act act;
} rules[] = {
	{ SYS_mmap, ACT_MMAP },
	{ SYS_mprotect, ACT_ALLOW },
	{ SYS_munmap, ACT_ALLOW },
	{ SYS_brk, ACT_ALLOW },
	{ SYS_rt_sigreturn, ACT_SIGRETURN },
	{ SYS_pread64, ACT_SHIM },
	{ SYS_sched_yield, ACT_ALLOW },
	{ SYS_mremap, ACT_ALLOW },
	{ SYS_msync, ACT_MSYNC },
	{ SYS_mincore, ACT_ALLOW },
	{ SYS_madvise, ACT_ALLOW },
	{ SYS_clone, ACT_CLONE },
	{ SYS_exit, ACT_SHIM },
	{ SYS_sigaltstack, ACT_SHIM },
	{ SYS_prctl, ACT_PRCTL },
	{ SYS_arch_prctl, ACT_ARCH },
	{ SYS_futex, ACT_FUTEX },
	{ SYS_restart_syscall, ACT_ALLOW }, /* what a stop turns a timed wait into */
	{ SYS_exit_group, ACT_SHIM },
	{ SYS_set_robust_list, ACT_ALLOW },
	{ SYS_membarrier, ACT_ALLOW },
	{ SYS_rseq, ACT_ALLOW },
	{ SYS_close_range, ACT_SHIM },
	{ SYS_futex_waitv_, ACT_ALLOW },
	{ SYS_mseal_, ACT_ALLOW },
};

struct build {
	struct sock_filter *out;
	unsigned n;
	const struct shim_head *head;
};

#define LD(field) BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, field)
#define LD_ARG(i, high)                                                                            \
	BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[i]) + ((high) ? 4 : 0)
#define LD_IP(high)                                                                                \
	BPF_LD | BPF_W | BPF_ABS, 0, 0,                                                            \
		offsetof(struct seccomp_data, instruction_pointer) + ((high) ? 4 : 0)
#define RET(v) BPF_RET | BPF_K, 0, 0, v
#define JEQ(v, t, f) BPF_JMP | BPF_JEQ | BPF_K, t, f, v
#define JGE(v, t, f) BPF_JMP | BPF_JGE | BPF_K, t, f, v
#define JSET(v, t, f) BPF_JMP | BPF_JSET | BPF_K, t, f, v

static void put(struct build *b, unsigned code, unsigned jt, unsigned jf, uint32_t k)
{
	b->out[b->n++] = (struct sock_filter){ (uint16_t)code, (uint8_t)jt, (uint8_t)jf, k };
}

/* Goes on behind it when the caller is the shim's page; else a notification. */
static void from_shim(struct build *b)
{
	put(b, LD_IP(true));
	put(b, JEQ(0, 1, 0));
	put(b, RET(SECCOMP_RET_USER_NOTIF));
	put(b, LD_IP(false));
	put(b, JGE((uint32_t)SHIM_BASE, 0, 1));
	put(b, JGE((uint32_t)(SHIM_BASE + SHIM_SIZE), 0, 1));
	put(b, RET(SECCOMP_RET_USER_NOTIF));
}

/* Host flags of a clone: nothing that makes a namespace, traces or leaves a zombie. */
#define CLONE_OK 0x2d0f11u

static void emit_act(struct build *b, enum act act)
{
	switch (act) {
	case ACT_NOTIFY:
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		break;
	case ACT_ALLOW:
		put(b, RET(SECCOMP_RET_ALLOW));
		break;
	case ACT_MMAP: /* anonymous, not out of the host's huge pages, not locked, not over what is
			  ours */
		put(b, LD_ARG(3, false));
		put(b, JSET(0x20, 0, 8));
		put(b, JSET(0x42000, 5, 0));
		put(b, JSET(0x10 /* MAP_FIXED */, 0, 5));
		put(b, LD_ARG(0, true));
		put(b, JEQ(0, 0, 3));
		put(b, LD_ARG(0, false));
		put(b, JGE(PLACE_BASE + PLACE_SIZE, 1, 0));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		put(b, RET(SECCOMP_RET_ALLOW));
		from_shim(b);
		put(b, RET(SECCOMP_RET_ALLOW));
		break;
	case ACT_SHIM:
		from_shim(b);
		put(b, RET(SECCOMP_RET_ALLOW));
		break;
	case ACT_CLONE:
		from_shim(b);
		put(b, LD_ARG(0, true));
		put(b, JEQ(0, 0, 3));
		put(b, LD_ARG(0, false));
		put(b, JSET(~CLONE_OK, 1, 0));
		put(b, RET(SECCOMP_RET_ALLOW));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		break;
	case ACT_PRCTL: /* PR_SET_MM, PR_SET_MM_MAP */
		from_shim(b);
		put(b, LD_ARG(0, false));
		put(b, JEQ(35, 0, 3));
		put(b, LD_ARG(1, false));
		put(b, JEQ(14, 0, 1));
		put(b, RET(SECCOMP_RET_ALLOW));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		break;
	case ACT_ARCH: /* ARCH_SET_GS, SET_FS, GET_FS, GET_GS: registers of one's own */
		put(b, LD_ARG(0, false));
		put(b, JGE(0x1001, 0, 2));
		put(b, JGE(0x1005, 1, 0));
		put(b, RET(SECCOMP_RET_ALLOW));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		break;
	case ACT_FUTEX: /* words are compared by the host, thread numbers are not its own (6-8,
			   11-13) */
		put(b, LD_ARG(1, false));
		put(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, 127);
		put(b, JGE(6, 0, 3));
		put(b, JGE(14, 2, 0));
		put(b, JGE(9, 0, 2));
		put(b, JGE(11, 1, 0));
		put(b, RET(SECCOMP_RET_ALLOW));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		break;
	case ACT_MSYNC: /* MS_INVALIDATE: what is locked is not the host's to know */
		put(b, LD_ARG(2, false));
		put(b, JSET(2, 1, 0));
		put(b, RET(SECCOMP_RET_ALLOW));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		break;
	case ACT_SIGRETURN:
		put(b, LD_IP(true));
		put(b, JEQ(0, 0, 6));
		put(b, LD_IP(false));
		put(b, JEQ((uint32_t)b->head->sigreturn_ip, 2, 0));
		put(b, JEQ((uint32_t)b->head->sigreturn2_ip, 1, 0));
		put(b, JEQ((uint32_t)b->head->restorer_ip, 1, 2));
		put(b, RET(SECCOMP_RET_ALLOW));
		put(b, RET(SECCOMP_RET_ERRNO));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		break;
	}
}

/* Rules [lo, hi) decide; a number that none of them has is a notification. */
static void emit_tree(struct build *b, unsigned lo, unsigned hi)
{
	unsigned mid, jump;

	if (hi - lo == 1) {
		jump = b->n;
		put(b, JEQ(rules[lo].nr, 1, 0));
		put(b, RET(SECCOMP_RET_USER_NOTIF));
		(void)jump;
		emit_act(b, rules[lo].act);
		return;
	}
	mid = (lo + hi) / 2;
	jump = b->n;
	put(b, JGE(rules[mid].nr, 0, 0));
	emit_tree(b, lo, mid);
	b->out[jump].jt = (uint8_t)(b->n - jump - 1);
	emit_tree(b, mid, hi);
}

unsigned guest_filter(struct sock_filter *out, const struct shim_head *head)
{
	struct build b = { .out = out, .head = head };

	put(&b, LD(arch));
	put(&b, JEQ(AUDIT_ARCH_X86_64, 1, 0));
	put(&b, RET(SECCOMP_RET_ERRNO | ENOSYS)); /* int 0x80 and friends */
	put(&b, LD(nr));
	put(&b, JGE(0x40000000, 0, 1)); /* x32 */
	put(&b, RET(SECCOMP_RET_ERRNO | ENOSYS));
	emit_tree(&b, 0, ARRAY_LEN(rules));
	return b.n;
}

unsigned guest_filter_calls(void)
{
	return ARRAY_LEN(rules);
}
