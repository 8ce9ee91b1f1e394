/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/robust.c - the locks that a thread held when it died.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock. The list is the guest's memory: its length has a limit, and what
 *        cannot be read ends it. The host knows where the list is but not whose the locks are, as
 *        they carry our numbers.
 */
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"

enum { LOCKS_MAX = 2048 };
#define OWNER_DIED 0x40000000u
#define WAITERS 0x80000000u
#define OWNER_MASK 0x3fffffffu

/* Is the lock at @at the task's? Then nobody has it any more, and whoever gets it is told. */
static bool give_up(struct task *t, uint64_t at)
{
	uint32_t word;

	if (at % 4 || guest_read_u32(t, GVA(at), &word) < 0 ||
		(word & OWNER_MASK) != (uint32_t)task_nr(t, t))
		return false;
	return guest_write_u32(t, GVA(at), (word & WAITERS) | OWNER_DIED) == 0;
}

/* A kick makes a native wait look at its word again. Waiters may be in any process. */
static void wake_everyone(struct kernel *k)
{
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->state != TASK_DEAD && t->host && !t->host->in_call)
				k->engine->kick(t);
}

/* The list's locks; have any waiters? */
static bool release_list(struct task *t)
{
	uint64_t list = t->host && t->mm ? host_robust_list(t) : 0, at;
	struct {
		uint64_t next;
		int64_t offset;
		uint64_t pending;
	} head;
	bool any = false;

	if (!list || guest_read(t, &head, GVA(list), sizeof(head)) < 0)
		return false;
	at = head.next & ~1ULL;
	for (unsigned n = 0; n < LOCKS_MAX && at != list; n++) {
		uint64_t next;
		bool more = guest_read_u64(t, GVA(at), &next) == 0;

		if (at != (head.pending & ~1ULL))
			any |= give_up(t, at + (uint64_t)head.offset);
		if (!more)
			break;
		at = next & ~1ULL;
	}
	if (head.pending) {
		uint32_t word = 1;

		at = (head.pending & ~1ULL) + (uint64_t)head.offset;
		/* It may have died between letting go and waking who waits. */
		guest_read_u32(t, GVA(at), &word);
		any |= give_up(t, at) || !word;
	}
	return any;
}

void robust_release(struct task *t)
{
	if (release_list(t))
		wake_everyone(t->k);
	pi_owner_gone(t);
}
