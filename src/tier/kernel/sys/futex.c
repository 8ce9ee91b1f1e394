/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/futex.c - locks whose word is a thread number (FUTEX_LOCK_PI and the like).
 *
 * Owns:  struct pi_wait, one per task that waits, in call.own; the order in which they get it.
 * Rules: all other operations are the host's: they compare words, and these compare threads, whose
 *        numbers the host does not know. Nobody but the guest can change a word in one go, and need
 *        not: numbers have 24 bits, so that WAITERS is in a byte of its own, and a word that has it
 *        is changed by nobody but us (a program takes a lock that is 0 and leaves one that is its
 *        number, and asks for all else). The byte is written first, then the word is read.
 */
#include <errno.h>
#include <stdlib.h>
#include <linux/futex.h>

#include "base/ckd.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/task/proc.h"

enum { POLICY_FIFO = 1, POLICY_RR = 2, POLICY_DEADLINE = 6, RANK_MAX = 100 };
enum { OP_LOCK_PI2 = 13 }; /* older headers do not have it */

/* Which word: of one memory, or of what several have mapped. */
struct pi_key {
	const struct mm *mm; /* NULL: shared */
	uint64_t dev, ino, at;
};

struct pi_word {
	gva_t at; /* for the task that named it */
	struct pi_key key;
};

struct pi_wait {
	struct pi_word lock;
	struct pi_word cond; /* FUTEX_WAIT_REQUEUE_PI: where it waits until it is to lock */
	uint64_t turn;
	uint32_t gone; /* not 0: the number of an owner that has ended */
	long ret;      /* once it is over */
	bool on_cond, over;
};

struct find {
	uint64_t addr;
	struct pi_key *key;
};

static int find_backing(void *arg, const struct proc_range *r)
{
	struct find *f = arg;

	if (f->addr < r->from || f->addr >= r->to)
		return 0;
	if (r->shared)
		*f->key = (struct pi_key){
			.dev = r->dev, .ino = r->ino, .at = r->offset + (f->addr - r->from)
		};
	return 1;
}

static int word_of(struct task *t, gva_t at, unsigned op, struct pi_word *ret)
{
	struct find f = { at.v, &ret->key };

	if (at.v % 4)
		return -EINVAL;
	ret->at = at;
	ret->key = (struct pi_key){ .mm = t->mm, .at = at.v };
	if (!(op & FUTEX_PRIVATE_FLAG))
		proc_host_each(t, find_backing, &f);
	return 0;
}

static bool same(const struct pi_key *a, const struct pi_key *b)
{
	return a->mm == b->mm && a->dev == b->dev && a->ino == b->ino && a->at == b->at;
}

static unsigned rank_of(const struct task *t)
{
	if (t->sched.policy == POLICY_DEADLINE)
		return RANK_MAX;
	return t->sched.policy == POLICY_FIFO || t->sched.policy == POLICY_RR ? t->sched.prio : 0;
}

/* Who waits for the word and is next, @but apart: the highest priority, then the longest wait. */
static struct task *next_for(
	struct kernel *k, const struct pi_key *key, bool on_cond, const struct task *but)
{
	struct task *best = NULL;

	for (struct wait_entry *e = k->pi_waiters.first; e; e = e->next) {
		const struct pi_wait *w = e->task->call.own;
		const struct pi_wait *b = best ? best->call.own : NULL;
		unsigned rank = rank_of(e->task), most = best ? rank_of(best) : 0;

		if (e->task == but || w->over || w->on_cond != on_cond ||
			!same(on_cond ? &w->cond.key : &w->lock.key, key))
			continue;
		if (!b || rank > most || (rank == most && w->turn < b->turn))
			best = e->task;
	}
	return best;
}

/* The lock becomes @t's. @word: nobody else changes it now. */
static int take(struct task *t, const struct pi_word *lock, uint32_t word, bool died)
{
	uint32_t v = (uint32_t)task_nr(t, t) | (word & FUTEX_OWNER_DIED);

	if (died)
		v |= FUTEX_OWNER_DIED;
	if (next_for(t->k, &lock->key, false, t))
		v |= FUTEX_WAITERS;
	return guest_write_u32(t, lock->at, v);
}

static int read_marked(struct task *t, gva_t at, uint32_t *word)
{
	uint8_t top = (uint8_t)((*word | FUTEX_WAITERS) >> 24);

	if (guest_write(t, gva_add(at, 3), &top, sizeof(top)) < 0)
		return -EFAULT;
	return guest_read_u32(t, at, word);
}

/*
 * Tries to get the lock for @t: 0; -EBUSY: another has it, and will ask us when it gives it back
 * (unless @only_look). @gone: the number of an owner that is not there any more.
 */
static int try_lock(struct task *t, const struct pi_word *lock, uint32_t gone, bool only_look)
{
	bool marked = false;
	uint32_t word;

	if (guest_read_u32(t, lock->at, &word) < 0)
		return -EFAULT;
	for (;;) {
		uint32_t nr = word & FUTEX_TID_MASK;
		bool unowned = !nr || nr == gone;
		const struct task *owner = unowned ? NULL : task_at(t, (int32_t)nr);

		if (!unowned && owner == t)
			return -EDEADLK;
		if (!unowned && (!owner || owner->state == TASK_DEAD))
			return -ESRCH;
		if (marked && unowned)
			return take(t, lock, word, nr != 0);
		if (marked || (only_look && !unowned))
			return -EBUSY;
		if (read_marked(t, lock->at, &word) < 0)
			return -EFAULT;
		marked = true;
	}
}

static void is_over(struct task *t, long ret)
{
	struct pi_wait *w = t->call.own;

	w->over = true;
	w->ret = ret;
	wait_rouse(t);
}

static struct pi_wait *new_wait(struct task *t)
{
	struct pi_wait *w = calloc(1, sizeof(*w));

	if (w)
		w->turn = ++t->k->pi_turns;
	t->call.own = w;
	return w;
}

static long sleep_on(struct task *t)
{
	long r = wait_on(t, &t->k->pi_waiters, 0);

	if (r == 0)
		r = wait_block(t);
	return r == -ERESTARTSYS ? -ERESTARTNOINTR : r;
}

/* It has waited, or begins to. */
static long wait_more(struct task *t, struct pi_wait *w)
{
	long r;

	if (w->over)
		return w->ret;
	r = w->on_cond ? -EBUSY : try_lock(t, &w->lock, w->gone, false);
	w->gone = 0;
	return r == -EBUSY ? sleep_on(t) : r;
}

/* First entry. Deadlines are moments, not spans. */
static int deadline_in(struct task *t, gva_t at, bool realtime)
{
	int64_t ns;
	int r;

	if (gva_null(at))
		return 0;
	r = guest_read_timespec(t, at, &ns);
	if (r < 0)
		return r;
	if (realtime && ckd_sub(&ns, ns, kernel_realtime(t->k) - kernel_now(t->k)))
		return 0;
	t->call.deadline = ns > 0 ? ns : 1;
	return 0;
}

static long lock_pi(struct task *t, unsigned op, gva_t at, gva_t until, bool realtime)
{
	struct pi_word lock;
	struct pi_wait *w;
	int r = deadline_in(t, until, realtime);

	if (r == 0)
		r = word_of(t, at, op, &lock);
	if (r == 0)
		r = try_lock(t, &lock, 0, false);
	if (r != -EBUSY)
		return r;
	w = new_wait(t);
	if (!w)
		return -ENOMEM;
	w->lock = lock;
	return sleep_on(t);
}

static long trylock_pi(struct task *t, unsigned op, gva_t at)
{
	struct pi_word lock;
	int r = word_of(t, at, op, &lock);

	if (r == 0)
		r = try_lock(t, &lock, 0, true);
	return r == -EBUSY ? -EAGAIN : r;
}

static long unlock_pi(struct task *t, unsigned op, gva_t at)
{
	struct pi_word lock;
	struct task *next;
	uint32_t word;
	int r = word_of(t, at, op, &lock);

	if (r < 0)
		return r;
	if (guest_read_u32(t, at, &word) < 0)
		return -EFAULT;
	if ((word & FUTEX_TID_MASK) != (uint32_t)task_nr(t, t))
		return -EPERM;
	next = next_for(t->k, &lock.key, false, NULL);
	if (!next)
		return guest_write_u32(t, at, 0);
	is_over(next, take(next, &((struct pi_wait *)next->call.own)->lock, 0, false));
	return 0;
}

static long wait_requeue_pi(
	struct task *t, unsigned op, gva_t at, uint32_t val, gva_t until, gva_t to)
{
	bool realtime = op & FUTEX_CLOCK_REALTIME;
	struct pi_word cond, lock;
	struct pi_wait *w;
	uint32_t word;
	int r = deadline_in(t, until, realtime);

	if (r == 0)
		r = word_of(t, at, op, &cond);
	if (r == 0)
		r = word_of(t, to, op, &lock);
	if (r < 0)
		return r;
	if (same(&cond.key, &lock.key))
		return -EINVAL;
	if (guest_read_u32(t, at, &word) < 0)
		return -EFAULT;
	if (word != val)
		return -EAGAIN;
	w = new_wait(t);
	if (!w)
		return -ENOMEM;
	w->cond = cond;
	w->lock = lock;
	w->on_cond = true;
	return sleep_on(t);
}

/* Who waits at @at gets the lock @to, or waits for that from now on. */
static long cmp_requeue_pi(struct task *t, const uint64_t *a)
{
	const unsigned op = (unsigned)a[1];
	struct pi_word cond, lock;
	struct task *next;
	uint32_t word;
	long n = 0;
	int r = (int32_t)a[2] != 1 || (int32_t)a[3] < 0 ? -EINVAL : 0;

	if (r == 0)
		r = word_of(t, GVA(a[0]), op, &cond);
	if (r == 0)
		r = word_of(t, GVA(a[4]), op, &lock);
	if (r < 0)
		return r;
	if (same(&cond.key, &lock.key))
		return -EINVAL;
	if (guest_read_u32(t, GVA(a[0]), &word) < 0)
		return -EFAULT;
	if (word != (uint32_t)a[5])
		return -EAGAIN;
	while (n <= (int32_t)a[3] && (next = next_for(t->k, &cond.key, true, NULL))) {
		struct pi_wait *w = next->call.own;

		if (!same(&w->lock.key, &lock.key))
			return n ? n : -EINVAL;
		w->on_cond = false;
		r = try_lock(next, &w->lock, 0, false);
		if (r != -EBUSY)
			is_over(next, r);
		n++;
	}
	return n;
}

void pi_owner_gone(struct task *t)
{
	for (struct wait_entry *e = t->k->pi_waiters.first; e; e = e->next) {
		struct pi_wait *w = e->task->call.own;
		uint32_t nr = (uint32_t)task_nr(e->task, t), word;

		if (e->task == t || w->on_cond || guest_read_u32(e->task, w->lock.at, &word) < 0)
			continue;
		if (nr && (word & FUTEX_TID_MASK) == nr)
			w->gone = nr;
		wait_rouse(e->task);
	}
}

long sys_futex(struct task *task, const uint64_t *a);
long sys_futex(struct task *task, const uint64_t *a)
{
	const unsigned op = (unsigned)a[1], kind = op & FUTEX_CMD_MASK;
	bool realtime = op & FUTEX_CLOCK_REALTIME;

	if (realtime && kind != FUTEX_WAIT_REQUEUE_PI && kind != OP_LOCK_PI2)
		return -ENOSYS;
	if (!task->call.first)
		return wait_more(task, task->call.own);
	switch (kind) {
	case FUTEX_LOCK_PI:
		return lock_pi(task, op, GVA(a[0]), GVA(a[3]), true);
	case OP_LOCK_PI2:
		return lock_pi(task, op, GVA(a[0]), GVA(a[3]), realtime);
	case FUTEX_TRYLOCK_PI:
		return trylock_pi(task, op, GVA(a[0]));
	case FUTEX_UNLOCK_PI:
		return unlock_pi(task, op, GVA(a[0]));
	case FUTEX_WAIT_REQUEUE_PI:
		return wait_requeue_pi(task, op, GVA(a[0]), (uint32_t)a[2], GVA(a[3]), GVA(a[4]));
	case FUTEX_CMP_REQUEUE_PI:
		return cmp_requeue_pi(task, a);
	default:
		return -ENOSYS; /* all others are the host's */
	}
}
