/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/numa.c - memory policies and moving pages, on the one node that there is.
 *
 * Owns:  mm->policies: what mbind() said, the newest last.
 * Rules: checked as Linux checks, kept and told; with one node there is nothing to carry out. What
 * a guest unmaps stays in the books until something newer covers it.
 */
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/mempolicy.h>

#include "base/ckd.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/sys/memory.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/pidfd.h"

enum {
	PAGE = 4096,
	MASK_BITS_MAX = PAGE * 8,
	NODES_KNOWN = 64, /* bits that may be set at all */
	RANGES_MAX = 128,
	MODES = 7, /* up to MPOL_WEIGHTED_INTERLEAVE, which our headers may not know */
	MODE_PREFERRED_MANY = 5,
	FLAG_BALANCING = 1 << 13,
	FIXED = MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES,
	MODE_FLAGS = FIXED | FLAG_BALANCING,
	MOVE_FLAGS = MPOL_MF_MOVE | MPOL_MF_MOVE_ALL,
	PIECE = 64,
	PAGES_MAX = 1 << 16, /* of one move_pages() */
	/* The advice that one may give another. */
	ADVICE_WILLNEED = 3,
	ADVICE_COLD = 20,
	ADVICE_PAGEOUT = 21,
	ADVICE_COLLAPSE = 25,
};

struct mm_policies {
	uint32_t count;
	struct {
		uint64_t from, to;
		struct mempolicy policy;
	} at[RANGES_MAX];
};

struct mm_policies *policies_copy(const struct mm *mm)
{
	struct mm_policies *p = mm->policies ? malloc(sizeof(*p)) : NULL;

	if (p)
		*p = *mm->policies;
	return p;
}

/* The nodes of a mask as one word. */
static long read_nodes(struct task *t, gva_t mask, uint64_t max, uint64_t *ret)
{
	uint64_t words[MASK_BITS_MAX / 64] = { 0 };

	*ret = 0;
	max--;
	if (!max || gva_null(mask))
		return 0;
	if (max > MASK_BITS_MAX)
		return -EINVAL;
	if (guest_read(t, words, mask, (max + 63) / 64 * sizeof(words[0])) < 0)
		return -EFAULT;
	if (max % 64)
		words[max / 64] &= ((uint64_t)1 << max % 64) - 1;
	for (size_t i = NODES_KNOWN / 64; i < ARRAY_LEN(words); i++)
		if (words[i])
			return -EINVAL;
	*ret = words[0];
	return 0;
}

/* A mask with node 0 in it, or without. */
static long write_nodes(struct task *t, gva_t mask, uint64_t max, bool node)
{
	uint64_t words[PAGE / sizeof(uint64_t)] = { node };
	uint64_t bytes = (max - 1 + 63) / 64 * sizeof(words[0]);

	if (bytes > sizeof(words))
		return -EINVAL;
	return bytes ? guest_write(t, mask, words, bytes) : 0;
}

static long make_policy(uint32_t mode, uint64_t nodes, struct mempolicy *ret)
{
	uint32_t flags = mode & MODE_FLAGS;
	bool fixed = flags & FIXED;

	mode &= ~(uint32_t)MODE_FLAGS;
	if (mode >= MODES || (flags & FIXED) == FIXED ||
		((flags & FLAG_BALANCING) && mode != MPOL_BIND && mode != MODE_PREFERRED_MANY))
		return -EINVAL;
	if (mode == MPOL_DEFAULT) {
		*ret = (struct mempolicy){ 0 };
		return nodes ? -EINVAL : 0;
	}
	if (!nodes && mode == MPOL_PREFERRED)
		mode = MPOL_LOCAL;
	if (mode == MPOL_LOCAL ? nodes || fixed : !(nodes & 1))
		return -EINVAL; /* there is node 0, and no other */
	*ret = (struct mempolicy){ mode | flags, nodes & 1 };
	return 0;
}

static long policy_in(
	struct task *t, uint32_t mode, gva_t mask, uint64_t max, struct mempolicy *ret)
{
	uint64_t nodes;
	long r = read_nodes(t, mask, max, &nodes);

	return r < 0 ? r : make_policy(mode, nodes, ret);
}

SYSCALL3(set_mempolicy, uint32_t, mode, gva_t, mask, uint64_t, max)
{
	return policy_in(task, mode, mask, max, &task->policy);
}

/* Is all of it mapped? */
static int next_part(void *arg, const struct proc_range *r)
{
	uint64_t *part = arg;

	if (r->to <= part[0])
		return 0;
	if (r->from > part[0])
		return -EFAULT;
	part[0] = r->to;
	return part[0] >= part[1];
}

static bool is_mapped(struct task *t, uint64_t from, uint64_t to)
{
	uint64_t part[2] = { from, to };

	return proc_host_each(t, next_part, part) == 1;
}

static void forget(struct mm_policies *p, uint64_t from, uint64_t to)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->count; i++)
		if (p->at[i].from < from || p->at[i].to > to)
			p->at[kept++] = p->at[i];
	p->count = kept;
}

static long remember(struct mm *mm, uint64_t from, uint64_t to, const struct mempolicy *what)
{
	if (!mm->policies && !what->mode)
		return 0;
	if (!mm->policies)
		mm->policies = calloc(1, sizeof(*mm->policies));
	if (!mm->policies)
		return -ENOMEM;
	forget(mm->policies, from, to);
	if (mm->policies->count == RANGES_MAX)
		return -ENOMEM;
	mm->policies->at[mm->policies->count].from = from;
	mm->policies->at[mm->policies->count].to = to;
	mm->policies->at[mm->policies->count++].policy = *what;
	return 0;
}

SYSCALL6(mbind, uint64_t, start, uint64_t, len, uint32_t, mode, gva_t, mask, uint64_t, max,
	unsigned, flags)
{
	struct mempolicy p;
	uint64_t end;
	long r = policy_in(task, mode, mask, max, &p);

	if (flags & ~(unsigned)(MPOL_MF_STRICT | MOVE_FLAGS))
		return -EINVAL;
	if ((flags & MPOL_MF_MOVE_ALL) && !task_capable(task, CAP_SYS_NICE))
		return -EPERM;
	if (start % PAGE || ckd_add(&end, len, (uint64_t)PAGE - 1) ||
		ckd_add(&end, end & ~(uint64_t)(PAGE - 1), start))
		return -EINVAL;
	if (r < 0 || end == start)
		return r;
	return is_mapped(task, start, end) ? remember(task->mm, start, end, &p) : -EFAULT;
}

/* What mbind() said about it; a task's own policy is another question. */
static struct mempolicy policy_at(const struct mm *mm, uint64_t addr)
{
	const struct mm_policies *p = mm->policies;

	for (uint32_t i = p ? p->count : 0; i > 0; i--)
		if (addr >= p->at[i - 1].from && addr < p->at[i - 1].to)
			return p->at[i - 1].policy;
	return (struct mempolicy){ 0 };
}

uint64_t policy_edge(const struct mm *mm, uint64_t from, uint64_t to)
{
	const struct mm_policies *p = mm->policies;
	struct mempolicy first = policy_at(mm, from);

	for (uint32_t i = 0; p && i < 2 * p->count; i++) {
		uint64_t at = i % 2 ? p->at[i / 2].to : p->at[i / 2].from;
		struct mempolicy next = policy_at(mm, at);

		if (at > from && at < to && (next.mode != first.mode || next.node != first.node))
			to = at;
	}
	return to;
}

/* Which policy, or node, and which nodes; -errno. */
static long look(struct task *t, uint64_t addr, uint64_t flags, uint32_t *mode, bool *node)
{
	const uint64_t page = addr & ~(uint64_t)(PAGE - 1);
	struct mempolicy p = t->policy;

	if (flags & ~(uint64_t)(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED))
		return -EINVAL;
	if (flags & MPOL_F_MEMS_ALLOWED) {
		*mode = 0;
		*node = true;
		return flags & (MPOL_F_NODE | MPOL_F_ADDR) ? -EINVAL : 0;
	}
	if (flags & MPOL_F_ADDR) {
		if (!is_mapped(t, page, page + 1))
			return -EFAULT;
		p = policy_at(t->mm, addr);
	} else if (addr) {
		return -EINVAL;
	}
	*mode = p.mode;
	*node = p.node;
	if (!(flags & MPOL_F_NODE))
		return 0;
	if (!(flags & MPOL_F_ADDR) && (p.mode & ~(uint32_t)MODE_FLAGS) != MPOL_INTERLEAVE)
		return -EINVAL;
	*mode = 0;
	return 0;
}

SYSCALL5(get_mempolicy, gva_t, umode, gva_t, mask, uint64_t, max, uint64_t, addr, uint64_t, flags)
{
	uint32_t mode = 0;
	bool node = false;
	long r;

	if (!gva_null(mask) && !max)
		return -EINVAL;
	r = look(task, addr, flags, &mode, &node);
	if (r == 0 && !gva_null(umode))
		r = guest_write_u32(task, umode, mode);
	if (r == 0 && !gva_null(mask))
		r = write_nodes(task, mask, max, node);
	return r;
}

/* Whose memory: 0 is the caller's own. */
static long owner_of(struct task *t, int pid, struct task **ret)
{
	*ret = pid ? task_at(t, pid) : t;
	if (!*ret || (*ret)->state == TASK_DEAD || !(*ret)->mm)
		return -ESRCH;
	return task_may_trace(t, *ret) ? 0 : -EPERM;
}

SYSCALL4(migrate_pages, int, pid, uint64_t, max, gva_t, uold, gva_t, unew)
{
	uint64_t old, new_nodes;
	struct task *it;
	long r = read_nodes(task, uold, max, &old);

	if (r == 0)
		r = read_nodes(task, unew, max, &new_nodes);
	if (r == 0)
		r = owner_of(task, pid, &it);
	if (r < 0)
		return r;
	if ((new_nodes & ~(uint64_t)1) && !task_capable(task, CAP_SYS_NICE))
		return -EPERM;
	return new_nodes & 1 ? 0 : -EINVAL;
}

SYSCALL6(move_pages, int, pid, uint64_t, count, gva_t, upages, gva_t, unodes, gva_t, ustatus,
	unsigned, flags)
{
	struct task *it;
	long r;

	if (flags & ~(unsigned)MOVE_FLAGS)
		return -EINVAL;
	if ((flags & MPOL_MF_MOVE_ALL) && !task_capable(task, CAP_SYS_NICE))
		return -EPERM;
	if (count > PAGES_MAX)
		return -E2BIG;
	r = owner_of(task, pid, &it);
	for (uint64_t at = 0; r == 0 && at < count; at += PIECE) {
		uint64_t n = count - at < PIECE ? count - at : PIECE, pages[PIECE];
		int32_t nodes[PIECE] = { 0 }, status[PIECE];

		if (guest_read(task, pages, gva_add(upages, at * 8), n * 8) < 0 ||
			(!gva_null(unodes) &&
				guest_read(task, nodes, gva_add(unodes, at * 4), n * 4) < 0))
			return -EFAULT;
		for (uint64_t i = 0; i < n; i++) {
			char c;

			if (nodes[i])
				return -ENODEV;
			status[i] = guest_read(it, &c, GVA(pages[i]), 1) == 0 ? 0 : -EFAULT;
		}
		r = guest_write(task, gva_add(ustatus, at * 4), status, n * 4);
	}
	return r;
}

/* Advice to another: nothing has to follow from it, and nothing does. */
SYSCALL5(process_madvise, int, fd, gva_t, iov, uint64_t, count, int, advice, unsigned, flags)
{
	struct task *it;
	struct uio io;
	long done = 0, r;
	int32_t pid;

	if (flags)
		return -EINVAL;
	r = uio_guest_iov(&io, task, iov, count);
	if (r < 0)
		return r;
	pid = pidfd_pid(task, fd);
	r = pid < 0 ? pid : owner_of(task, pid, &it);
	if (r == 0 && advice != ADVICE_COLD && advice != ADVICE_PAGEOUT &&
		advice != ADVICE_WILLNEED && advice != ADVICE_COLLAPSE)
		r = -EINVAL;
	if (r == 0 && it->mm != task->mm && !task_capable(task, CAP_SYS_NICE))
		r = -EPERM;
	for (unsigned i = 0; r == 0 && i < io.count; i++) {
		uint64_t from = io.iov[i].base.v, len = io.iov[i].len;

		if (from % PAGE)
			r = -EINVAL;
		else if (len && !is_mapped(it, from, from + len))
			r = -ENOMEM;
		else
			done += (long)len;
	}
	uio_done(&io);
	return done ? done : r;
}

/* What a process has that is ending anyway goes with it. */
SYSCALL2(process_mrelease, int, fd, unsigned, flags)
{
	struct proc *p;
	int32_t pid;

	if (flags)
		return -EINVAL;
	pid = pidfd_pid(task, fd);
	if (pid < 0)
		return pid;
	p = proc_find(task->k, pid);
	if (!p || p->state == PROC_ZOMBIE)
		return -ESRCH;
	return p->exiting ? 0 : -EINVAL;
}
