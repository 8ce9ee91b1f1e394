/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc/sem.c - System V semaphores.
 *
 * Owns:  struct sem_set; the undo lists of processes.
 * Rules: an operation happens as a whole or not at all: it is tried on a copy of the values it
 *        touches. Everybody who waits on a set tries again when it changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#include "tier/kernel/ipc/ipc.h"

#include "base/buf.h"
#include "base/own.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/walk.h"

/* clang-format off */
enum { CMD_GETPID = 11, CMD_GETVAL = 12, CMD_GETALL = 13, CMD_GETNCNT = 14, CMD_GETZCNT = 15, CMD_SETVAL = 16,
	CMD_SETALL = 17, CMD_SEM_STAT = 18, CMD_SEM_INFO = 19, CMD_SEM_STAT_ANY = 20 };
/* clang-format on */

struct sem {
	uint16_t value;
	int32_t pid;
};

struct sem_set {
	struct ipc_obj o;
	uint32_t n;
	int64_t otime, ctime;
	struct sem sems[];
};

/* What a process's end adds to the semaphores of a set. */
struct sem_undo {
	struct sem_undo *next;
	struct proc *proc;
	struct sem_set *set;
	int32_t adj[]; /* of each semaphore */
};

struct gsembuf {
	uint16_t num;
	int16_t op, flg;
};

struct gsemid_ds {
	struct gipc_perm perm;
	int64_t otime, unused1, ctime, unused2;
	uint64_t nsems, unused3[2];
};

static struct sem_set *new_set(struct ipc_state *s, uint32_t n)
{
	struct sem_set *set = calloc(1, sizeof(*set) + n * sizeof(struct sem));

	if (!set)
		return NULL;
	set->n = n;
	s->sem_total += n;
	return set;
}

static struct ipc_obj *make_set(struct task *t, const struct ipc_get *g, int *ret_err)
{
	struct ipc_state *s = ipc_state(t->k);
	struct sem_set *set;

	*ret_err = -EINVAL;
	if (g->size == 0)
		return NULL;
	*ret_err = -ENOSPC;
	if (s->sem_total + g->size > SEM_TOTAL_MAX)
		return NULL;
	*ret_err = -ENOMEM;
	set = new_set(s, (uint32_t)g->size);
	if (!set)
		return NULL;
	set->ctime = ipc_seconds(t);
	return &set->o;
}

static int check_set(struct ipc_obj *o, const struct ipc_get *g)
{
	return g->size > ((struct sem_set *)o)->n ? -EINVAL : 0;
}

SYSCALL3(semget, int32_t, key, int32_t, n, int32_t, flags)
{
	struct ipc_get g = { .make = make_set,
		.check = check_set,
		.size = (uint64_t)n,
		.key = key,
		.flags = flags };

	if (n < 0 || n > SEM_PER_SET_MAX)
		return -EINVAL;
	return ipc_get(task, IPC_SEM, &g);
}

static void drop_undos(struct ipc_state *s, const struct sem_set *set, const struct proc *p)
{
	struct sem_undo **u = &s->undos;

	while (*u) {
		struct sem_undo *x = *u;

		if ((set && x->set != set) || (p && x->proc != p)) {
			u = &x->next;
			continue;
		}
		*u = x->next;
		free(x);
	}
}

void sem_free(struct kernel *k, struct ipc_obj *o)
{
	struct sem_set *set = (struct sem_set *)o;

	drop_undos(k->ipc, set, NULL);
	k->ipc->sem_total -= set->n;
	wait_flush(&o->wait);
	free(set);
}

static struct sem_undo *undo_of(struct ipc_state *s, struct proc *p, struct sem_set *set)
{
	struct sem_undo *u = s->undos;

	while (u && (u->proc != p || u->set != set))
		u = u->next;
	if (u)
		return u;
	u = calloc(1, sizeof(*u) + set->n * sizeof(u->adj[0]));
	if (!u)
		return NULL;
	u->proc = p;
	u->set = set;
	u->next = s->undos;
	s->undos = u;
	return u;
}

void sem_proc_gone(struct proc *p)
{
	struct ipc_state *s = p->k->ipc;

	for (struct sem_undo *u = s->undos; u; u = u->next) {
		if (u->proc != p)
			continue;
		for (uint32_t i = 0; i < u->set->n; i++) {
			int32_t v = u->set->sems[i].value + u->adj[i];

			if (!u->adj[i])
				continue;
			u->set->sems[i].value = (uint16_t)(v < 0               ? 0
							   : v > SEM_VALUE_MAX ? SEM_VALUE_MAX
									       : v);
			u->set->sems[i].pid = p->pid;
		}
		wait_wake(&u->set->o.wait, 0);
	}
	drop_undos(s, NULL, p);
}

/* Tries all: 0, -EAGAIN (with *ret_block, the one that stopped it), -ERANGE. On failure as before.
 */
static int try_ops(struct sem_set *set, const struct gsembuf *ops, unsigned n, unsigned *ret_block)
{
	int r = 0;
	unsigned i;

	for (i = 0; i < n && r == 0; i++) {
		int32_t v = set->sems[ops[i].num].value;

		*ret_block = i;
		if (ops[i].op == 0)
			r = v ? -EAGAIN : 0;
		else if (v + ops[i].op < 0)
			r = -EAGAIN;
		else if (v + ops[i].op > SEM_VALUE_MAX)
			r = -ERANGE;
		else
			set->sems[ops[i].num].value = (uint16_t)(v + ops[i].op);
	}
	if (r < 0) {
		for (i = *ret_block; i-- > 0;)
			set->sems[ops[i].num].value =
				(uint16_t)(set->sems[ops[i].num].value - ops[i].op);
	}
	return r;
}

static int count_undo(struct task *task, struct sem_set *set, const struct gsembuf *ops, unsigned n)
{
	struct sem_undo *u = NULL;

	for (unsigned i = 0; i < n; i++) {
		if (!(ops[i].flg & SEM_UNDO) || !ops[i].op)
			continue;
		u = u ? u : undo_of(task->k->ipc, task->proc, set);
		if (!u)
			return -ENOMEM;
		u->adj[ops[i].num] -= ops[i].op;
	}
	return 0;
}

static int check_ops(const struct sem_set *set, const struct gsembuf *ops, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (ops[i].num >= set->n)
			return -EFBIG;
	}
	return 0;
}

/* Who sleeps says what for (see sem_wait()): counting them needs no book that a kill could spoil.
 */
static long count_waiting(const struct sem_set *set, int32_t num, bool zero)
{
	long n = 0;

	for (struct wait_entry *e = set->o.wait.first; e; e = e->next) {
		const struct call *c = e->task ? &e->task->call : NULL;

		n += c && c->u[1] == 1 + (uint64_t)num && (c->u[2] != 0) == zero;
	}
	return n;
}

static long sem_wait(struct task *task, struct sem_set *set, const struct gsembuf *op)
{
	struct call *c = &task->call;
	long r = wait_on(task, &set->o.wait, 0);

	if (r == 0)
		r = wait_block(task);
	if (r == SYS_BLOCK) {
		c->u[1] = 1 + (uint64_t)op->num;
		c->u[2] = op->op == 0;
		return r;
	}
	return r == -ETIMEDOUT ? -EAGAIN : r == -ERESTARTSYS ? -EINTR : r;
}

static long semop_common(struct task *task, int32_t id, gva_t uops, uint64_t n)
{
	own_mem struct gsembuf *ops = NULL;
	struct sem_set *set;
	unsigned block = 0, want = 0444;
	int r;

	if (n < 1 || id < 0)
		return -EINVAL;
	if (n > SEM_OPS_MAX)
		return -E2BIG;
	ops = calloc(n, sizeof(*ops));
	if (!ops)
		return -ENOMEM;
	if (guest_read(task, ops, uops, n * sizeof(*ops)) < 0)
		return -EFAULT;
	for (uint64_t i = 0; i < n; i++) {
		if (ops[i].op)
			want = 0222;
	}
	set = (struct sem_set *)ipc_find(task, IPC_SEM, id, want, &r);
	if (!set)
		return task->call.first ? r : -EIDRM;
	r = check_ops(set, ops, (unsigned)n);
	if (r < 0)
		return r;
	r = try_ops(set, ops, (unsigned)n, &block);
	if (r == -EAGAIN && !(ops[block].flg & IPC_NOWAIT))
		return sem_wait(task, set, &ops[block]);
	if (r < 0)
		return r;
	r = count_undo(task, set, ops, (unsigned)n);
	if (r < 0) {
		for (unsigned i = 0; i < n; i++)
			set->sems[ops[i].num].value =
				(uint16_t)(set->sems[ops[i].num].value - ops[i].op);
		return r;
	}
	for (unsigned i = 0; i < n; i++)
		set->sems[ops[i].num].pid = task->proc->pid;
	set->otime = ipc_seconds(task);
	if (want == 0222)
		wait_wake(&set->o.wait, 0);
	return 0;
}

SYSCALL3(semop, int32_t, id, gva_t, ops, uint64_t, n)
{
	return semop_common(task, id, ops, n);
}

SYSCALL4(semtimedop, int32_t, id, gva_t, ops, uint64_t, n, gva_t, timeout)
{
	int64_t ns;
	int r;

	if (task->call.first && !gva_null(timeout)) {
		r = guest_read_timespec(task, timeout, &ns);
		if (r < 0)
			return r;
		if (n > SEM_OPS_MAX)
			return -E2BIG;
		wait_set_timeout(task, ns);
	}
	return semop_common(task, id, ops, n);
}

static long sem_stat(struct task *task, struct sem_set *set, gva_t out)
{
	struct gsemid_ds ds;

	memset(&ds, 0, sizeof(ds));
	ds.perm = ipc_perm_out(task, &set->o);
	ds.otime = set->otime;
	ds.ctime = set->ctime;
	ds.nsems = set->n;
	return guest_write(task, out, &ds, sizeof(ds));
}

static long sem_info(struct task *task, int cmd, gva_t out)
{
	struct ipc_state *s = ipc_state(task->k);
	int32_t info[10] = { SEM_SETS_MAX, SEM_SETS_MAX, SEM_TOTAL_MAX, SEM_TOTAL_MAX,
		SEM_PER_SET_MAX, SEM_OPS_MAX, SEM_OPS_MAX, 20, SEM_VALUE_MAX, SEM_VALUE_MAX };

	if (!s)
		return -ENOMEM;
	if (cmd == CMD_SEM_INFO) {
		info[7] = (int32_t)ipc_count(task, IPC_SEM);
		info[9] = (int32_t)s->sem_total;
	}
	if (guest_write(task, out, info, sizeof(info)) < 0)
		return -EFAULT;
	return ipc_highest(task, IPC_SEM);
}

static void forget_adjust(struct task *task, struct sem_set *set, int num)
{
	for (struct sem_undo *u = task->k->ipc->undos; u; u = u->next) {
		if (u->set != set)
			continue;
		for (uint32_t i = 0; i < set->n; i++) {
			if (num < 0 || i == (uint32_t)num)
				u->adj[i] = 0;
		}
	}
}

static long sem_all(struct task *task, struct sem_set *set, int cmd, gva_t at)
{
	own_mem uint16_t *v = calloc(set->n, sizeof(*v));

	if (!v)
		return -ENOMEM;
	if (cmd == CMD_GETALL) {
		for (uint32_t i = 0; i < set->n; i++)
			v[i] = set->sems[i].value;
		return guest_write(task, at, v, set->n * sizeof(*v));
	}
	if (guest_read(task, v, at, set->n * sizeof(*v)) < 0)
		return -EFAULT;
	for (uint32_t i = 0; i < set->n; i++) {
		if (v[i] > SEM_VALUE_MAX)
			return -ERANGE;
	}
	for (uint32_t i = 0; i < set->n; i++) {
		set->sems[i].value = v[i];
		set->sems[i].pid = task->proc->pid;
	}
	forget_adjust(task, set, -1);
	set->ctime = ipc_seconds(task);
	wait_wake(&set->o.wait, 0);
	return 0;
}

static long sem_one(struct task *task, struct sem_set *set, int32_t num, int cmd, uint64_t arg)
{
	struct sem *x;
	int32_t v = (int32_t)arg;

	if (cmd == CMD_SETVAL && (v < 0 || v > SEM_VALUE_MAX))
		return -ERANGE;
	if (num < 0 || (uint32_t)num >= set->n)
		return -EINVAL;
	x = &set->sems[num];
	switch (cmd) {
	case CMD_GETVAL:
		return x->value;
	case CMD_GETPID:
		return pid_out(task, x->pid);
	case CMD_GETNCNT:
		return count_waiting(set, num, false);
	case CMD_GETZCNT:
		return count_waiting(set, num, true);
	default:
		x->value = (uint16_t)v;
		x->pid = task->proc->pid;
		forget_adjust(task, set, num);
		set->ctime = ipc_seconds(task);
		wait_wake(&set->o.wait, 0);
		return 0;
	}
}

static long sem_owner_cmd(struct task *task, struct sem_set *set, int cmd, uint64_t arg)
{
	int r;

	if (cmd == IPC_SET) {
		r = ipc_set_perm(task, &set->o, GVA(arg));
		if (r == 0)
			set->ctime = ipc_seconds(task);
		return r;
	}
	r = ipc_owner(task, &set->o);
	if (r < 0)
		return r;
	ipc_remove(task->k, IPC_SEM, &set->o);
	sem_free(task->k, &set->o);
	return 0;
}

SYSCALL4(semctl, int32_t, id, int32_t, num, int32_t, cmd, uint64_t, arg)
{
	struct sem_set *set;
	int r;

	if (id < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case CMD_SEM_INFO:
		return sem_info(task, cmd, GVA(arg));
	case CMD_SEM_STAT:
	case CMD_SEM_STAT_ANY:
		set = (struct sem_set *)ipc_at(task, IPC_SEM, id);
		if (!set)
			return -EINVAL;
		r = (int)sem_stat(task, set, GVA(arg));
		return r < 0 ? r : set->o.id;
	case IPC_STAT:
	case CMD_GETALL:
	case CMD_GETVAL:
	case CMD_GETPID:
	case CMD_GETNCNT:
	case CMD_GETZCNT:
	case CMD_SETVAL:
	case CMD_SETALL:
	case IPC_RMID:
	case IPC_SET:
		break;
	default:
		return -EINVAL;
	}
	set = (struct sem_set *)ipc_find(task, IPC_SEM, id,
		cmd == IPC_RMID || cmd == IPC_SET        ? 0
		: cmd == CMD_SETVAL || cmd == CMD_SETALL ? 0222
							 : 0444,
		&r);
	if (!set)
		return r;
	if (cmd == IPC_STAT)
		return sem_stat(task, set, GVA(arg));
	if (cmd == IPC_RMID || cmd == IPC_SET)
		return sem_owner_cmd(task, set, cmd, arg);
	if (cmd == CMD_GETALL || cmd == CMD_SETALL)
		return sem_all(task, set, cmd, GVA(arg));
	return sem_one(task, set, num, cmd, arg);
}

void sem_show(const struct task *t, struct ipc_obj *o, struct buf *out)
{
	const struct sem_set *s = (const struct sem_set *)o;
	const struct gipc_perm shown = ipc_perm_out(t, o), *p = &shown;

	buf_add_fmt(out, "%10d %10d  %4o %10u %5u %5u %5u %5u %10lld %10lld\n", p->key, o->id,
		p->mode, s->n, p->uid, p->gid, p->cuid, p->cgid, (long long)s->otime,
		(long long)s->ctime);
}

struct ipc_obj *sem_walk(struct kernel *k, struct ipc_obj *o, struct walk *w)
{
	struct sem_set *set = (struct sem_set *)o;
	uint32_t n = set ? set->n : 0;

	walk_list(w, "sems", &n, SEM_PER_SET_MAX);
	if (w->mode == WALK_LOAD) {
		if (!w->err && (n == 0 || n > SEM_TOTAL_MAX - k->ipc->sem_total))
			walk_fail(w, -EBADMSG);
		set = w->err ? NULL : new_set(k->ipc, n);
		if (!set) {
			walk_fail(w, -ENOMEM);
			return NULL;
		}
	}
	walk_i64(w, "otime", &set->otime);
	walk_i64(w, "ctime", &set->ctime);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t value = set->sems[i].value;

		walk_count(w, "value", &value, SEM_VALUE_MAX);
		set->sems[i].value = (uint16_t)value;
		walk_i32(w, "pid", &set->sems[i].pid);
	}
	return &set->o;
}

static struct sem_undo *undo_load(struct ipc_state *s, struct walk *w, struct proc *p, int32_t id)
{
	struct sem_set *set = (struct sem_set *)ipc_by_id(s, IPC_SEM, id);
	struct sem_undo *u;

	if (!set) {
		walk_fail(w, -EBADMSG);
		return NULL;
	}
	u = calloc(1, sizeof(*u) + set->n * sizeof(u->adj[0]));
	if (!u) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	u->proc = p;
	u->set = set;
	return u;
}

void sem_undos_walk(struct kernel *k, struct walk *w)
{
	enum { ADJ_MAX = 1 << 30 };
	struct sem_undo **last = &k->ipc->undos;
	uint32_t n = 0;

	for (struct sem_undo *u = k->ipc->undos; u; u = u->next)
		n++;
	walk_list(w, "undos", &n, UINT32_MAX);
	for (; n > 0 && !w->err; n--) {
		struct sem_undo *u = *last;
		struct proc *p = u ? u->proc : NULL;
		int32_t id = u ? u->set->o.id : 0;

		walk_need(w, "proc", WALK_PROC, (void **)&p);
		walk_i32(w, "id", &id);
		if (w->mode == WALK_LOAD && !w->err)
			*last = undo_load(k->ipc, w, p, id);
		if (w->err)
			return;
		for (uint32_t i = 0; i < (*last)->set->n; i++) {
			walk_i32(w, "adj", &(*last)->adj[i]);
			if ((*last)->adj[i] < -ADJ_MAX || (*last)->adj[i] > ADJ_MAX) {
				(*last)->adj[i] = 0;
				walk_fail(w, -EBADMSG);
			}
		}
		last = &(*last)->next;
	}
}
