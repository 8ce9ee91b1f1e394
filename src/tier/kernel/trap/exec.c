/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/exec.c - a task moves into a blank host process.
 *
 * Owns:  nothing.
 * Rules: the old host process is killed, never answered; so vfork's parent, other threads and what
 *        the old memory held need no care.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <linux/prctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/ckd.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/engine.h"

/* New stacks are written here and copied by the shim once theirs is mapped. */
#define STAGE (SLOT_BASE + SLOT_SIZE * (SLOT_COUNT - 256))
#define STAGE_MAX (SLOT_SIZE * 255)
#define STAGE_TEXT (STAGE + STAGE_MAX) /* a page of the loader */

bool engine_has_blank(struct kernel *k)
{
	return engine_of(k)->blanks != NULL;
}

/* The loader's sites are changed in a copy of their page. */
static unsigned add_ahead(struct slot *s, unsigned n, const struct place_ahead *a)
{
	if (!a->count)
		return n;
	s->steps[n++] = (struct shim_step){ SYS_mprotect,
		{ a->page, sizeof(a->bytes), PROT_READ | PROT_WRITE } };
	s->steps[n++] = (struct shim_step){ STEP_COPY, { a->page, STAGE_TEXT, sizeof(a->bytes) } };
	s->steps[n++] = (struct shim_step){ SYS_mprotect,
		{ a->page, sizeof(a->bytes), PROT_READ | PROT_EXEC } };
	s->steps[n++] =
		(struct shim_step){ SYS_madvise, { STAGE_TEXT, sizeof(a->bytes), MADV_DONTNEED } };
	return n;
}

/* @step: it comes back before its first instruction. */
static int write_order(pid_t pid, struct exec_plan *plan, bool step)
{
	struct slot order, *s = &order;
	struct place_ahead *a = &plan->ahead;
	struct iovec from[] = { { s, sizeof(*s) }, { plan->stack, plan->stack_len },
		{ a->bytes, sizeof(a->bytes) }, { a->sites, a->count * sizeof(a->sites[0]) },
		{ &a->view, sizeof(a->view) } };
	struct iovec to[] = { { (void *)SLOT_BASE, sizeof(*s) }, { (void *)STAGE, plan->stack_len },
		{ (void *)STAGE_TEXT, from[2].iov_len },
		{ (void *)PLACE_SITES_AT, from[3].iov_len },
		{ (void *)PLACE_VIEW, from[4].iov_len } };
	unsigned parts = a->count ? ARRAY_LEN(from) : 2, n = plan->step_count;
	uint64_t map_at = SLOT_BASE + offsetof(struct slot, exec.map);
	ssize_t want = 0, r;

	if (n + 9 > STEPS_MAX || plan->stack_len > STAGE_MAX)
		return -E2BIG;
	memset(s, 0, sizeof(*s));
	s->order = ORDER_EXEC;
	s->more = step;
	s->exec.rip = plan->entry;
	s->exec.rsp = plan->sp;
	memcpy(s->exec.map, plan->mm_map, sizeof(s->exec.map));
	memcpy(s->steps, plan->steps, n * sizeof(s->steps[0]));
	n = add_ahead(s, n, a);
	s->steps[n++] = (struct shim_step){ STEP_COPY, { plan->sp, STAGE, plan->stack_len } };
	s->steps[n++] = (struct shim_step){ SYS_madvise,
		{ STAGE, (plan->stack_len + 4095) & ~4095ULL, MADV_DONTNEED } };
	s->steps[n++] = (struct shim_step){ SYS_prctl,
		{ PR_SET_MM, PR_SET_MM_MAP, map_at, sizeof(struct prctl_mm_map), 0 } };
	s->steps[n++] = (struct shim_step){ SYS_arch_prctl, { 0x1002 /* SET_FS */, 0 } };
	s->steps[n++] = (struct shim_step){ SYS_close_range, { 0, ~0U, 0 } };
	s->step_count = n;
	for (unsigned i = 0; i < parts; i++)
		want += (ssize_t)from[i].iov_len;
	r = process_vm_writev(pid, from, parts, to, parts, 0);
	return r == want ? 0 : -ENOMEM;
}

static struct host_proc *take_blank(struct engine *e)
{
	struct host_proc *hp = e->blanks;

	e->blanks = hp->next;
	hp->next = NULL;
	e->blank_count--;
	blank_taken(e);
	return hp;
}

int engine_exec(struct task *t, struct exec_plan *plan, struct mm *mm)
{
	struct engine *e = engine_of(t->k);
	struct host_proc *hp = take_blank(e), *old = t->proc->host;
	struct host_task *ht = host_find(e, hp->pid), *old_ht = t->host;
	struct out *o;
	int32_t tid = t->tid;
	int r = ht ? write_order(hp->pid, plan, t->trace != NULL) : -ESRCH;

	if (r < 0) {
		host_proc_kill(hp);
		return r;
	}
	robust_release(t);
	t->host = NULL; /* its slot goes with the old memory */
	if (old_ht) {
		if (t->mm && t->mm->refs > 1)
			shim_slot_free(t->mm, old_ht->slot);
		host_drop(e, old_ht);
	}
	proc_execed(t);
	trace_execed(t, tid); /* while it has no host thread to kick: it comes by itself */
	if (old) {
		usage_keep(t->proc);
		old->proc = NULL;
		host_proc_kill(old);
	}
	hp->proc = t->proc;
	t->proc->host = hp;
	ht->task = t;
	t->host = ht;
	mm_unref(t->mm);
	t->mm = mm;
	mm->host_pid = hp->pid;
	if (!mm->place_off) {
		mm->carry = hp->carry;
		hp->carry = NULL;
	}
	mm->place_shut = t->exec_step = t->trace != NULL;
	host_set_cpus(t);
	if (t->proc->limits[RLIMIT_AS].rlim_cur != RLIM_INFINITY)
		host_set_limit(t->proc, RLIMIT_AS, plan->stack_size);
	if (t->proc->limits[RLIMIT_DATA].rlim_cur != RLIM_INFINITY)
		host_set_limit(t->proc, RLIMIT_DATA, plan->stack_size);
	o = engine_out(e);
	o->fd = hp->trap->fd;
	o->id = hp->blank_notif;
	o->any_value = true;
	out_stay(o, t);
	for (int i = 0; i < 2; i++) {
		if (plan->fds[i] < 0)
			continue;
		o->add[o->add_count].src = plan->fds[i];
		o->add[o->add_count++].at = i;
	}
	return 0;
}
