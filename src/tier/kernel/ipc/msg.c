/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc/msg.c - System V message queues.
 *
 * Owns:  struct msg_queue and its messages.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>

#include "tier/kernel/ipc/ipc.h"

#include "base/buf.h"
#include "base/own.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/walk.h"

enum {
	CMD_MSG_STAT = 11,
	CMD_MSG_INFO = 12,
	CMD_MSG_STAT_ANY = 13,
	FLAG_NOERROR = 010000,
	FLAG_EXCEPT = 020000,
	FLAG_COPY = 040000
};

struct message {
	struct message *next;
	int64_t type;
	uint32_t len;
	uint8_t text[];
};

struct msg_queue {
	struct ipc_obj o;
	struct message *first, *last;
	uint64_t count, bytes, limit;
	int64_t stime, rtime, ctime;
	int32_t lspid, lrpid;
};

struct gmsqid_ds {
	struct gipc_perm perm;
	int64_t stime, rtime, ctime;
	uint64_t cbytes, qnum, qbytes;
	int32_t lspid, lrpid;
	uint64_t unused[2];
};

static struct ipc_obj *make_queue(struct task *t, const struct ipc_get *g, int *ret_err)
{
	struct msg_queue *q = calloc(1, sizeof(*q));

	*ret_err = -ENOMEM;
	if (!q)
		return NULL;
	q->limit = MSG_QUEUE_BYTES;
	q->ctime = ipc_seconds(t);
	return &q->o;
}

static int check_queue(struct ipc_obj *o, const struct ipc_get *g)
{
	return 0;
}

SYSCALL2(msgget, int32_t, key, int32_t, flags)
{
	struct ipc_get g = { .make = make_queue, .check = check_queue, .key = key, .flags = flags };

	return ipc_get(task, IPC_MSG, &g);
}

void msg_free(struct kernel *k, struct ipc_obj *o)
{
	struct msg_queue *q = (struct msg_queue *)o;

	while (q->first) {
		struct message *m = q->first;

		q->first = m->next;
		free(m);
	}
	wait_flush(&o->wait);
	free(q);
}

static void append(struct msg_queue *q, struct message *m)
{
	m->next = NULL;
	if (q->last)
		q->last->next = m;
	else
		q->first = m;
	q->last = m;
	q->count++;
	q->bytes += m->len;
}

static long msg_wait(struct task *task, struct msg_queue *q)
{
	long r = wait_on(task, &q->o.wait, 0);

	if (r == 0)
		r = wait_block(task);
	return r == -ERESTARTSYS ? -EINTR : r;
}

SYSCALL4(msgsnd, int32_t, id, gva_t, umsg, uint64_t, len, int32_t, flags)
{
	struct message *m;
	struct msg_queue *q;
	int64_t type;
	int r;

	if (guest_read(task, &type, umsg, sizeof(type)) < 0)
		return -EFAULT;
	if (len > MSG_BYTES_MAX || id < 0 || type < 1)
		return -EINVAL;
	q = (struct msg_queue *)ipc_find(task, IPC_MSG, id, 0222, &r);
	if (!q)
		return task->call.first ? r : -EIDRM;
	if (q->bytes + len > q->limit || q->count + 1 > q->limit)
		return flags & IPC_NOWAIT ? -EAGAIN : msg_wait(task, q);
	m = malloc(sizeof(*m) + len);
	if (!m)
		return -ENOMEM;
	if (len && guest_read(task, m->text, gva_add(umsg, sizeof(type)), len) < 0) {
		free(m);
		return -EFAULT;
	}
	m->type = type;
	m->len = (uint32_t)len;
	append(q, m);
	q->stime = ipc_seconds(task);
	q->lspid = task->proc->pid;
	wait_wake(&q->o.wait, 0);
	return 0;
}

/* The message that @type asks for; *ret_before is what stands before it. */
static struct message *choose(
	struct msg_queue *q, int64_t type, int flags, struct message **ret_before)
{
	struct message *best = NULL, *before = NULL;
	int64_t n = 0;

	for (struct message *m = q->first; m; before = m, m = m->next, n++) {
		bool fits;

		if (flags & FLAG_COPY)
			fits = n == type;
		else if (type == 0)
			fits = true;
		else if (type < 0)
			fits = m->type <= -type && (!best || m->type < best->type);
		else
			fits = (flags & FLAG_EXCEPT) ? m->type != type : m->type == type;
		if (!fits)
			continue;
		best = m;
		*ret_before = before;
		if (type >= 0 || (flags & FLAG_COPY))
			break;
	}
	return best;
}

static long msg_out(struct task *task, gva_t umsg, const struct message *m, size_t n)
{
	if (guest_write(task, umsg, &m->type, sizeof(m->type)) < 0 ||
		(n && guest_write(task, gva_add(umsg, sizeof(m->type)), m->text, n) < 0))
		return -EFAULT;
	return (long)n;
}

SYSCALL5(msgrcv, int32_t, id, gva_t, umsg, uint64_t, len, int64_t, type, int32_t, flags)
{
	struct message *m, *before = NULL;
	struct msg_queue *q;
	size_t n;
	long r;
	int e;

	if (id < 0 || (int64_t)len < 0)
		return -EINVAL;
	if ((flags & FLAG_COPY) && ((flags & FLAG_EXCEPT) || !(flags & IPC_NOWAIT)))
		return -EINVAL;
	if (type == INT64_MIN)
		type = INT64_MIN + 1;
	q = (struct msg_queue *)ipc_find(task, IPC_MSG, id, 0444, &e);
	if (!q)
		return task->call.first ? e : -EIDRM;
	m = choose(q, type, flags, &before);
	if (!m)
		return flags & IPC_NOWAIT ? -ENOMSG : msg_wait(task, q);
	if (m->len > len && !(flags & FLAG_NOERROR))
		return -E2BIG;
	n = m->len < len ? m->len : len;
	r = msg_out(task, umsg, m, n);
	if (flags & FLAG_COPY)
		return r;
	/* Linux takes it off before it copies: a bad address loses it. */
	if (before)
		before->next = m->next;
	else
		q->first = m->next;
	if (q->last == m)
		q->last = before;
	q->count--;
	q->bytes -= m->len;
	q->rtime = ipc_seconds(task);
	q->lrpid = task->proc->pid;
	free(m);
	wait_wake(&q->o.wait, 0);
	return r;
}

static long msg_stat(struct task *task, struct msg_queue *q, gva_t out)
{
	struct gmsqid_ds ds;

	memset(&ds, 0, sizeof(ds));
	ds.perm = ipc_perm_out(task, &q->o);
	ds.stime = q->stime;
	ds.rtime = q->rtime;
	ds.ctime = q->ctime;
	ds.cbytes = q->bytes;
	ds.qnum = q->count;
	ds.qbytes = q->limit;
	ds.lspid = pid_out(task, q->lspid);
	ds.lrpid = pid_out(task, q->lrpid);
	return guest_write(task, out, &ds, sizeof(ds));
}

static long msg_info(struct task *task, int cmd, gva_t out)
{
	struct ipc_state *s = ipc_state(task->k);
	struct {
		int32_t pool, map, max, mnb, mni, ssz, tql;
		uint16_t seg, pad;
	} info = { .max = MSG_BYTES_MAX,
		.mnb = MSG_QUEUE_BYTES,
		.mni = MSG_QUEUES_MAX,
		.ssz = 16,
		.seg = 0xffff,
		.pool = MSG_QUEUES_MAX * (MSG_QUEUE_BYTES / 1024),
		.map = MSG_QUEUE_BYTES,
		.tql = MSG_QUEUE_BYTES };

	if (!s)
		return -ENOMEM;
	if (cmd == CMD_MSG_INFO) {
		info.pool = (int32_t)ipc_count(task, IPC_MSG);
		info.map = info.tql = 0;
		for (uint32_t i = 0; i < s->table[IPC_MSG].cap; i++) {
			struct msg_queue *q = (struct msg_queue *)ipc_at(task, IPC_MSG, (int32_t)i);

			info.map += q ? (int32_t)q->count : 0;
			info.tql += q ? (int32_t)q->bytes : 0;
		}
	}
	if (guest_write(task, out, &info, sizeof(info)) < 0)
		return -EFAULT;
	return ipc_highest(task, IPC_MSG);
}

static long msg_set(struct task *task, struct msg_queue *q, gva_t in)
{
	struct gmsqid_ds ds;
	int r;

	if (guest_read(task, &ds, in, sizeof(ds)) < 0)
		return -EFAULT;
	r = ipc_owner(task, &q->o);
	if (r < 0)
		return r;
	if (ds.qbytes > MSG_QUEUE_BYTES && !ipc_capable(task, CAP_SYS_RESOURCE))
		return -EPERM;
	r = ipc_set_perm(task, &q->o, in);
	if (r < 0)
		return r;
	q->limit = ds.qbytes < MSG_QUEUE_BYTES * 64 ? ds.qbytes : MSG_QUEUE_BYTES * 64;
	q->ctime = ipc_seconds(task);
	wait_wake(&q->o.wait, 0);
	return 0;
}

SYSCALL3(msgctl, int32_t, id, int32_t, cmd, gva_t, arg)
{
	struct msg_queue *q;
	long r;
	int e;

	if (id < 0 || cmd < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case CMD_MSG_INFO:
		return msg_info(task, cmd, arg);
	case CMD_MSG_STAT:
	case CMD_MSG_STAT_ANY:
		q = (struct msg_queue *)ipc_at(task, IPC_MSG, id);
		if (!q)
			return -EINVAL;
		r = msg_stat(task, q, arg);
		return r < 0 ? r : q->o.id;
	case IPC_STAT:
	case IPC_SET:
	case IPC_RMID:
		break;
	default:
		return -EINVAL;
	}
	q = (struct msg_queue *)ipc_find(task, IPC_MSG, id, cmd == IPC_STAT ? 0444 : 0, &e);
	if (!q)
		return e;
	if (cmd == IPC_STAT)
		return msg_stat(task, q, arg);
	if (cmd == IPC_SET)
		return msg_set(task, q, arg);
	e = ipc_owner(task, &q->o);
	if (e < 0)
		return e;
	ipc_remove(task->k, IPC_MSG, &q->o);
	msg_free(task->k, &q->o);
	return 0;
}

void msg_show(const struct task *t, struct ipc_obj *o, struct buf *out)
{
	const struct msg_queue *q = (const struct msg_queue *)o;
	const struct gipc_perm shown = ipc_perm_out(t, o), *p = &shown;

	buf_add_fmt(out,
		"%10d %10d  %4o  %10llu %10llu %5d %5d %5u %5u %5u %5u %10lld %10lld %10lld\n",
		p->key, o->id, p->mode, (unsigned long long)q->bytes, (unsigned long long)q->count,
		q->lspid, q->lrpid, p->uid, p->gid, p->cuid, p->cgid, (long long)q->stime,
		(long long)q->rtime, (long long)q->ctime);
}

static void message_load(struct msg_queue *q, struct walk *w)
{
	struct message *m;
	uint32_t len = 0;

	walk_list(w, "len", &len, MSG_BYTES_MAX);
	m = w->err ? NULL : malloc(sizeof(*m) + len);
	if (!m) {
		walk_fail(w, -ENOMEM);
		return;
	}
	m->len = len;
	walk_i64(w, "type", &m->type);
	walk_bytes(w, "text", m->text, len);
	if (m->type < 1)
		walk_fail(w, -EBADMSG);
	append(q, m);
}

struct ipc_obj *msg_walk(struct kernel *k, struct ipc_obj *o, struct walk *w)
{
	struct msg_queue *q = (struct msg_queue *)o;
	uint32_t n = q ? (uint32_t)q->count : 0;

	if (!q)
		q = calloc(1, sizeof(*q));
	if (!q) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	walk_u64(w, "limit", &q->limit);
	walk_i64(w, "stime", &q->stime);
	walk_i64(w, "rtime", &q->rtime);
	walk_i64(w, "ctime", &q->ctime);
	walk_i32(w, "lspid", &q->lspid);
	walk_i32(w, "lrpid", &q->lrpid);
	walk_list(w, "messages", &n, UINT32_MAX);
	for (struct message *m = q->first; m && w->mode == WALK_SAVE; m = m->next) {
		walk_list(w, "len", &m->len, MSG_BYTES_MAX);
		walk_i64(w, "type", &m->type);
		walk_bytes(w, "text", m->text, m->len);
	}
	for (; n > 0 && w->mode == WALK_LOAD && !w->err; n--)
		message_load(q, w);
	return &q->o;
}
