/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc/ipc.c - what the three kinds of System V objects share: keys, ids, permissions.
 *
 * Owns:  kernel.ipc and its tables.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>

#include "tier/kernel/ipc/ipc.h"

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/walk.h"

struct ipc_state *ipc_state(struct kernel *k)
{
	struct ipc_state *s = k->ipc;

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->table[IPC_SHM].max = SHM_SEGMENTS_MAX;
	s->table[IPC_SEM].max = SEM_SETS_MAX;
	s->table[IPC_MSG].max = MSG_QUEUES_MAX;
	s->shm_next = SHM_WINDOW;
	for (int kind = 0; kind < IPC_KINDS; kind++)
		s->table[kind].next_id = -1;
	k->ipc = s;
	return s;
}

static void (*const free_of[IPC_KINDS])(
	struct kernel *k, struct ipc_obj *o) = { shm_free, sem_free, msg_free };

void ipc_done(struct kernel *k)
{
	if (!k->ipc)
		return;
	for (int kind = 0; kind < IPC_KINDS; kind++) {
		struct ipc_table *t = &k->ipc->table[kind];

		for (uint32_t i = 0; i < t->cap; i++) {
			if (t->slots[i])
				free_of[kind](k, t->slots[i]);
		}
		free(t->slots);
	}
	mq_done(k);
	free(k->ipc);
	k->ipc = NULL;
}

int64_t ipc_seconds(struct task *t)
{
	return kernel_realtime(t->k) / 1000000000;
}

/* Can @t find it? */
static bool seen(const struct task *t, const struct ipc_obj *o)
{
	return o && o->ns == ns_of(t, NS_IPC) && !o->lost;
}

bool ipc_capable(const struct task *t, int cap)
{
	const struct ns *n = ns_of(t, NS_IPC);

	return task_capable_in(t, n ? n->owner : NULL, cap);
}

static int permitted(struct task *t, const struct ipc_obj *o, unsigned want)
{
	unsigned mode = o->perm.mode;

	if (t->cred->euid == o->perm.cuid || t->cred->euid == o->perm.uid)
		mode >>= 6;
	else if (task_in_group(t, o->perm.cgid) || task_in_group(t, o->perm.gid))
		mode >>= 3;
	want = (want >> 6 | want >> 3 | want) & 7;
	return (want & ~mode) && !ipc_capable(t, CAP_IPC_OWNER) ? -EACCES : 0;
}

static struct ipc_obj *by_key(const struct task *t, struct ipc_table *tab, int32_t key)
{
	for (uint32_t i = 0; i < tab->cap; i++) {
		struct ipc_obj *o = tab->slots[i];

		if (seen(t, o) && o->perm.key == key && key != IPC_PRIVATE)
			return o;
	}
	return NULL;
}

static int slot_room(struct ipc_table *tab, uint32_t i)
{
	uint32_t cap = tab->cap ? tab->cap * 2 : 8;
	struct ipc_obj **p;

	if (i < tab->cap)
		return 0;
	while (cap <= i)
		cap *= 2;
	p = realloc(tab->slots, cap * sizeof(struct ipc_obj *));
	if (!p)
		return -ENOMEM;
	memset(p + tab->cap, 0, (cap - tab->cap) * sizeof(struct ipc_obj *));
	tab->slots = p;
	tab->cap = cap;
	return 0;
}

static int place(struct ipc_table *tab, struct ipc_obj *o)
{
	bool asked = tab->next_id >= 0;
	uint16_t seq = asked ? (uint16_t)(tab->next_id / IPC_ID_STEP) : tab->seq;
	uint32_t i = asked ? (uint32_t)tab->next_id % IPC_ID_STEP : 0;

	while (i < tab->cap && tab->slots[i])
		i++;
	if (i >= IPC_ID_STEP)
		return -ENOSPC;
	if (slot_room(tab, i) < 0)
		return -ENOMEM;
	o->id = (int32_t)(i + (uint32_t)IPC_ID_STEP * seq);
	o->perm.seq = seq;
	if (asked)
		tab->next_id = -1;
	else
		tab->seq = (uint16_t)((seq + 1) % 32768);
	tab->slots[i] = o;
	tab->count++;
	return 0;
}

static long make_new(struct task *t, int kind, const struct ipc_get *g)
{
	struct ipc_table *tab = &t->k->ipc->table[kind];
	struct ipc_obj *o;
	int err = -ENOSPC;

	if (tab->count >= tab->max)
		return -ENOSPC;
	o = g->make(t, g, &err);
	if (!o)
		return err;
	o->ns = ns_of(t, NS_IPC);
	o->perm.key = g->key;
	o->perm.mode = (uint32_t)g->flags & 0777;
	o->perm.uid = o->perm.cuid = t->cred->euid;
	o->perm.gid = o->perm.cgid = t->cred->egid;
	err = place(tab, o);
	if (err < 0) {
		free_of[kind](t->k, o);
		return err;
	}
	return o->id;
}

long ipc_get(struct task *t, int kind, const struct ipc_get *g)
{
	struct ipc_state *s = ipc_state(t->k);
	struct ipc_table *tab;
	struct ipc_obj *o;
	int r;

	if (!s)
		return -ENOMEM;
	tab = &s->table[kind];
	o = by_key(t, tab, g->key);
	if (!o)
		return g->key == IPC_PRIVATE || (g->flags & IPC_CREAT) ? make_new(t, kind, g)
								       : -ENOENT;
	if ((g->flags & IPC_CREAT) && (g->flags & IPC_EXCL))
		return -EEXIST;
	r = g->check(o, g);
	if (r == 0)
		r = permitted(t, o, (unsigned)g->flags & 0777);
	return r < 0 ? r : o->id;
}

struct ipc_obj *ipc_at(struct task *t, int kind, int32_t index)
{
	struct ipc_state *s = ipc_state(t->k);
	struct ipc_obj *o;

	if (!s || index < 0 || (uint32_t)index % IPC_ID_STEP >= s->table[kind].cap)
		return NULL;
	o = s->table[kind].slots[index % IPC_ID_STEP]; /* an id will do, too */
	return seen(t, o) ? o : NULL;
}

struct ipc_obj *ipc_find(struct task *t, int kind, int32_t id, unsigned want, int *ret_err)
{
	struct ipc_obj *o = id < 0 ? NULL : ipc_at(t, kind, id % IPC_ID_STEP);

	*ret_err = -EINVAL;
	if (!o)
		return NULL;
	if (o->id != id) {
		*ret_err = -EIDRM;
		return NULL;
	}
	*ret_err = want ? permitted(t, o, want) : 0;
	return *ret_err < 0 ? NULL : o;
}

void ipc_remove(struct kernel *k, int kind, struct ipc_obj *o)
{
	struct ipc_table *tab = &k->ipc->table[kind];

	tab->slots[o->id % IPC_ID_STEP] = NULL;
	tab->count--;
	wait_wake(&o->wait, 0);
}

int ipc_owner(struct task *t, const struct ipc_obj *o)
{
	if (t->cred->euid == o->perm.uid || t->cred->euid == o->perm.cuid ||
		ipc_capable(t, CAP_SYS_ADMIN))
		return 0;
	return -EPERM;
}

int ipc_set_perm(struct task *t, struct ipc_obj *o, gva_t ds)
{
	struct gipc_perm p;
	int r;

	if (guest_read(t, &p, ds, sizeof(p)) < 0)
		return -EFAULT;
	r = ipc_owner(t, o);
	if (r < 0)
		return r;
	p.uid = uid_in(t, p.uid);
	p.gid = gid_in(t, p.gid);
	if (p.uid == ID_NONE || p.gid == ID_NONE)
		return -EINVAL;
	o->perm.uid = p.uid;
	o->perm.gid = p.gid;
	o->perm.mode = (o->perm.mode & ~0777u) | (p.mode & 0777);
	return 0;
}

struct gipc_perm ipc_perm_out(const struct task *t, const struct ipc_obj *o)
{
	struct gipc_perm p = o->perm;

	p.uid = uid_out(t, p.uid);
	p.gid = gid_out(t, p.gid);
	p.cuid = uid_out(t, p.cuid);
	p.cgid = gid_out(t, p.cgid);
	return p;
}

int ipc_highest(const struct task *t, int kind)
{
	const struct ipc_table *tab = &t->k->ipc->table[kind];
	int highest = 0;

	for (uint32_t i = 0; i < tab->cap; i++) {
		if (seen(t, tab->slots[i]))
			highest = (int)i;
	}
	return highest;
}

uint32_t ipc_count(const struct task *t, int kind)
{
	const struct ipc_table *tab = &t->k->ipc->table[kind];
	uint32_t n = 0;

	for (uint32_t i = 0; i < tab->cap; i++)
		n += seen(t, tab->slots[i]);
	return n;
}

void ipc_ns_gone(struct kernel *k, const struct ns *n)
{
	static void (*const end[IPC_KINDS])(
		struct kernel * k, struct ipc_obj * o) = { shm_lose, sem_free, msg_free };

	for (int kind = 0; kind < IPC_KINDS && k->ipc; kind++) {
		struct ipc_table *tab = &k->ipc->table[kind];

		for (uint32_t i = 0; i < tab->cap; i++) {
			struct ipc_obj *o = tab->slots[i];

			if (!o || o->ns != n)
				continue;
			if (kind != IPC_SHM)
				ipc_remove(k, kind, o);
			end[kind](k, o);
		}
	}
	if (k->ipc)
		mq_ns_gone(k, n);
}

void ipc_show(const struct task *t, int kind, struct buf *out)
{
	static void (*const show[IPC_KINDS])(const struct task *, struct ipc_obj *,
		struct buf *) = { shm_show, sem_show, msg_show };
	const struct ipc_table *tab = t && t->k->ipc ? &t->k->ipc->table[kind] : NULL;

	for (uint32_t i = 0; tab && i < tab->cap; i++)
		if (seen(t, tab->slots[i]))
			show[kind](t, tab->slots[i], out);
}

uint32_t ipc_max(struct kernel *k, int kind, int64_t max)
{
	static const uint32_t most[IPC_KINDS] = { SHM_SEGMENTS_MAX, SEM_SETS_MAX, MSG_QUEUES_MAX };
	struct ipc_state *s = ipc_state(k);

	if (!s)
		return most[kind];
	if (max >= 0)
		s->table[kind].max = max < most[kind] ? (uint32_t)max : most[kind];
	return s->table[kind].max;
}

void ipc_proc_gone(struct proc *p)
{
	if (!p->k->ipc)
		return;
	sem_proc_gone(p);
	shm_proc_gone(p);
}

struct ipc_obj *ipc_by_id(const struct ipc_state *s, int kind, int32_t id)
{
	const struct ipc_table *tab = &s->table[kind];
	uint32_t i = (uint32_t)id % IPC_ID_STEP;

	return id >= 0 && i < tab->cap && tab->slots[i] && tab->slots[i]->id == id ? tab->slots[i]
										   : NULL;
}

static void obj_walk(struct ipc_obj *o, struct walk *w)
{
	walk_bytes(w, "perm", &o->perm, sizeof(o->perm));
	walk_i32(w, "id", &o->id);
	walk_bool(w, "gone", &o->gone);
	walk_bool(w, "lost", &o->lost);
	ns_ref_walk(w, "ns", NS_IPC, &o->ns);
	if (w->mode == WALK_LOAD)
		ns_unref(o->ns); /* it ends with its namespace, and holds none */
}

static void obj_load(struct kernel *k, int kind, struct walk *w,
	struct ipc_obj *(*walk)(struct kernel *k, struct ipc_obj *o, struct walk *w),
	void (*free_one)(struct kernel *k, struct ipc_obj *o))
{
	struct ipc_table *tab = &k->ipc->table[kind];
	struct ipc_obj head = { .id = -1 }, *o;
	uint32_t i;

	obj_walk(&head, w);
	i = (uint32_t)head.id % IPC_ID_STEP;
	if (!w->err && (head.id < 0 || (i < tab->cap && tab->slots[i])))
		walk_fail(w, -EBADMSG);
	o = w->err ? NULL : walk(k, NULL, w);
	if (!o)
		return;
	o->perm = head.perm;
	o->id = head.id;
	o->gone = head.gone;
	o->lost = head.lost;
	o->ns = head.ns;
	if (slot_room(tab, i) < 0)
		walk_fail(w, -ENOMEM);
	if (w->err) {
		free_one(k, o);
		return;
	}
	tab->slots[i] = o;
	tab->count++;
}

static void table_walk(struct kernel *k, int kind, struct walk *w)
{
	static const struct {
		struct ipc_obj *(*walk)(struct kernel *k, struct ipc_obj *o, struct walk *w);
		void (*free_one)(struct kernel *k, struct ipc_obj *o);
	} kinds[IPC_KINDS] = { { shm_walk, shm_free }, { sem_walk, sem_free },
		{ msg_walk, msg_free } };
	struct ipc_table *tab = &k->ipc->table[kind];
	uint32_t n = tab->count, seq = tab->seq;

	walk_count(w, "seq", &seq, IPC_ID_STEP);
	tab->seq = (uint16_t)seq;
	walk_i32(w, "next_id", &tab->next_id);
	walk_count(w, "max", &tab->max, tab->max);
	walk_list(w, "objects", &n, IPC_ID_STEP);
	for (uint32_t i = 0; w->mode == WALK_SAVE && i < tab->cap; i++) {
		if (!tab->slots[i])
			continue;
		obj_walk(tab->slots[i], w);
		kinds[kind].walk(k, tab->slots[i], w);
	}
	for (; w->mode == WALK_LOAD && n > 0 && !w->err; n--)
		obj_load(k, kind, w, kinds[kind].walk, kinds[kind].free_one);
}

void ipc_walk(struct kernel *k, struct walk *w)
{
	bool any = k->ipc != NULL;

	walk_bool(w, "ipc", &any);
	if (!any || w->err)
		return;
	if (!ipc_state(k)) {
		walk_fail(w, -ENOMEM);
		return;
	}
	for (int kind = 0; kind < IPC_KINDS && !w->err; kind++)
		table_walk(k, kind, w);
	shm_attaches_walk(k, w);
	sem_undos_walk(k, w);
	mq_walk(k, w);
}
