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

/* Where a decision leads: a check of its own, which lie behind the tree, or the end. */
enum to {
	TO_NEXT, /* the instruction behind it */
	TO_CLONE,
	TO_PRCTL,
	TO_MMAP,
	TO_SHIM,
	TO_ARCH,
	TO_FUTEX,
	TO_MSYNC,
	TO_SIGRETURN,
	TO_NOTIFY,
	TO_ALLOW,
	TO_ZERO,
	TO_ENOSYS,
	TO_COUNT
};

static const enum to act_to[] = { [ACT_NOTIFY] = TO_NOTIFY,
	[ACT_ALLOW] = TO_ALLOW,
	[ACT_MMAP] = TO_MMAP,
	[ACT_SHIM] = TO_SHIM,
	[ACT_CLONE] = TO_CLONE,
	[ACT_PRCTL] = TO_PRCTL,
	[ACT_ARCH] = TO_ARCH,
	[ACT_FUTEX] = TO_FUTEX,
	[ACT_MSYNC] = TO_MSYNC,
	[ACT_SIGRETURN] = TO_SIGRETURN };

/* A range of numbers, up to the next one's first. */
struct run {
	unsigned from;
	enum to to;
};

struct build {
	struct sock_filter *out;
	unsigned n;
	const struct shim_head *head;
	unsigned at[TO_COUNT]; /* the first instruction of each, once it is there */
	struct run runs[2 * ARRAY_LEN(rules) + 1];
	unsigned run_count;
};

static void put(struct build *b, unsigned code, unsigned jt, unsigned jf, uint32_t k)
{
	b->out[b->n++] = (struct sock_filter){ (uint16_t)code, (uint8_t)jt, (uint8_t)jf, k };
}

static void load(struct build *b, size_t from)
{
	put(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)from);
}

static size_t arg(unsigned i, bool high)
{
	return offsetof(struct seccomp_data, args) + 8 * i + (high ? 4 : 0);
}

static size_t ip(bool high)
{
	return offsetof(struct seccomp_data, instruction_pointer) + (high ? 4 : 0);
}

/* Until all is there, jumps say where to: link_jumps() makes distances of that. */
static void when(struct build *b, unsigned how, uint32_t k, enum to yes, enum to no)
{
	put(b, BPF_JMP | how | BPF_K, yes, no, k);
}

static void begin(struct build *b, enum to what)
{
	b->at[what] = b->n;
}

static void end(struct build *b, enum to what, uint32_t verdict)
{
	begin(b, what);
	put(b, BPF_RET | BPF_K, 0, 0, verdict);
}

/* Host flags of a clone: nothing that makes a namespace, traces or leaves a zombie. */
#define CLONE_OK 0x2d0f11u

static void put_checks(struct build *b)
{
	/* Anonymous, not out of the host's huge pages, not locked, not over what is ours. */
	begin(b, TO_MMAP);
	load(b, arg(3, false));
	when(b, BPF_JSET, 0x20, TO_NEXT, TO_SHIM);
	when(b, BPF_JSET, 0x42000, TO_NOTIFY, TO_NEXT);
	when(b, BPF_JSET, 0x10 /* MAP_FIXED */, TO_NEXT, TO_ALLOW);
	load(b, arg(0, true));
	when(b, BPF_JEQ, 0, TO_NEXT, TO_ALLOW);
	load(b, arg(0, false));
	when(b, BPF_JGE, PLACE_BASE + PLACE_SIZE, TO_ALLOW, TO_NOTIFY);
	/* ARCH_SET_GS, SET_FS, GET_FS, GET_GS: registers of one's own */
	begin(b, TO_ARCH);
	load(b, arg(0, false));
	when(b, BPF_JGE, 0x1001, TO_NEXT, TO_NOTIFY);
	when(b, BPF_JGE, 0x1005, TO_NOTIFY, TO_ALLOW);
	/* Words are compared by the host, thread numbers are not its own (6-8, 11-13). */
	begin(b, TO_FUTEX);
	load(b, arg(1, false));
	put(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, 127);
	when(b, BPF_JGE, 6, TO_NEXT, TO_ALLOW);
	when(b, BPF_JGE, 14, TO_ALLOW, TO_NEXT);
	when(b, BPF_JGE, 9, TO_NEXT, TO_NOTIFY);
	when(b, BPF_JGE, 11, TO_NOTIFY, TO_ALLOW);
	/* MS_INVALIDATE: what is locked is not the host's to know */
	begin(b, TO_MSYNC);
	load(b, arg(2, false));
	when(b, BPF_JSET, 2, TO_NOTIFY, TO_ALLOW);
	begin(b, TO_SIGRETURN);
	load(b, ip(true));
	when(b, BPF_JEQ, 0, TO_NEXT, TO_NOTIFY);
	load(b, ip(false));
	when(b, BPF_JEQ, (uint32_t)b->head->sigreturn_ip, TO_ALLOW, TO_NEXT);
	when(b, BPF_JEQ, (uint32_t)b->head->sigreturn2_ip, TO_ALLOW, TO_NEXT);
	when(b, BPF_JEQ, (uint32_t)b->head->restorer_ip, TO_ZERO, TO_NOTIFY);
	begin(b, TO_CLONE);
	load(b, arg(0, true));
	when(b, BPF_JEQ, 0, TO_NEXT, TO_NOTIFY);
	load(b, arg(0, false));
	when(b, BPF_JSET, ~CLONE_OK, TO_NOTIFY, TO_SHIM);
	/* PR_SET_MM, PR_SET_MM_MAP */
	begin(b, TO_PRCTL);
	load(b, arg(0, false));
	when(b, BPF_JEQ, 35, TO_NEXT, TO_NOTIFY);
	load(b, arg(1, false));
	when(b, BPF_JEQ, 14, TO_NEXT, TO_NOTIFY);
	/* From the shim's page only. */
	begin(b, TO_SHIM);
	load(b, ip(true));
	when(b, BPF_JEQ, 0, TO_NEXT, TO_NOTIFY);
	load(b, ip(false));
	when(b, BPF_JGE, (uint32_t)SHIM_BASE, TO_NEXT, TO_NOTIFY);
	when(b, BPF_JGE, (uint32_t)(SHIM_BASE + SHIM_SIZE), TO_NOTIFY, TO_ALLOW);
}

static void add_run(struct build *b, unsigned from, enum to to)
{
	if (!b->run_count || b->runs[b->run_count - 1].to != to)
		b->runs[b->run_count++] = (struct run){ from, to };
}

/* A number that no rule has is a notification. */
static void find_runs(struct build *b)
{
	unsigned next = 0;

	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		if (rules[i].nr > next)
			add_run(b, next, TO_NOTIFY);
		add_run(b, rules[i].nr, act_to[rules[i].act]);
		next = rules[i].nr + 1;
	}
	add_run(b, next, TO_NOTIFY);
}

/* Runs [lo, hi) decide, at least two of them. */
static void put_tree(struct build *b, unsigned lo, unsigned hi)
{
	unsigned mid = (lo + hi) / 2, jump = b->n;

	when(b, BPF_JGE, b->runs[mid].from, hi - mid == 1 ? b->runs[mid].to : TO_COUNT,
		mid - lo == 1 ? b->runs[lo].to : TO_NEXT);
	if (mid - lo > 1)
		put_tree(b, lo, mid);
	if (hi - mid > 1) {
		b->out[jump].jt = (uint8_t)(TO_COUNT + b->n - jump - 1);
		put_tree(b, mid, hi);
	}
}

static unsigned distance(const struct build *b, unsigned from, unsigned to)
{
	if (to == TO_NEXT)
		return 0;
	return to < TO_COUNT ? b->at[to] - from - 1 : to - TO_COUNT;
}

static void link_jumps(struct build *b)
{
	for (unsigned i = 0; i < b->n; i++)
		if (BPF_CLASS(b->out[i].code) == BPF_JMP) {
			b->out[i].jt = (uint8_t)distance(b, i, b->out[i].jt);
			b->out[i].jf = (uint8_t)distance(b, i, b->out[i].jf);
		}
}

/* Each end and each check is there once: what is installed is also translated, by its length. */
unsigned guest_filter(struct sock_filter *out, const struct shim_head *head)
{
	struct build b = { .out = out, .head = head };

	load(&b, offsetof(struct seccomp_data, arch));
	when(&b, BPF_JEQ, AUDIT_ARCH_X86_64, TO_NEXT, TO_ENOSYS); /* int 0x80 and friends */
	load(&b, offsetof(struct seccomp_data, nr));
	when(&b, BPF_JGE, 0x40000000, TO_ENOSYS, TO_NEXT); /* x32 */
	find_runs(&b);
	put_tree(&b, 0, b.run_count);
	put_checks(&b);
	end(&b, TO_NOTIFY, SECCOMP_RET_USER_NOTIF);
	end(&b, TO_ALLOW, SECCOMP_RET_ALLOW);
	end(&b, TO_ZERO, SECCOMP_RET_ERRNO);
	end(&b, TO_ENOSYS, SECCOMP_RET_ERRNO | ENOSYS);
	link_jumps(&b);
	return b.n;
}

unsigned guest_filter_calls(void)
{
	return ARRAY_LEN(rules);
}
