/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/aio.c - io_setup and its family.
 *
 * Owns:  struct aio_ctx, on the list of its memory.
 * Rules: an operation is carried out when it is submitted, as Linux does with all but direct I/O,
 *        and its event is kept until it is asked for. io_submit blocks like the calls that it
 * makes. A context's number is the address of a page that is mapped for it, since libaio looks
 * there for a ring that it could read by itself. It finds zeros, and asks us.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tier/kernel/sys/aio.h"

#include "base/ckd.h"
#include "tier/kernel/io/event.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/io/polling.h"
#include "tier/kernel/sys/memory.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"

enum { FLAGS_KNOWN = RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND };
enum { PAGE = 4096, NS_PER_S = 1000000000, ASKED_MAX = 0x10000000 / 32, ASKED_MIN = 16 };

struct aio_ctx {
	struct aio_ctx *next;
	struct kernel *k;
	uint64_t id;
	uint32_t asked, max; /* events: counted against AIO_EVENTS_MAX, and how many it takes */
	struct io_event *events;
	uint32_t count, cap;
	struct wait_queue wait;
};

static struct aio_ctx *ctx_find(struct task *t, uint64_t id)
{
	struct aio_ctx *c = t->mm->aio;

	while (c && c->id != id)
		c = c->next;
	return c;
}

static void ctx_free(struct mm *mm, struct aio_ctx *c)
{
	struct aio_ctx **p = &mm->aio;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->k->aio_events -= c->asked;
	wait_wake(&c->wait, 0);
	wait_flush(&c->wait);
	free(c->events);
	free(c);
}

void aio_done(struct mm *mm)
{
	while (mm->aio)
		ctx_free(mm, mm->aio);
}

SYSCALL2(io_setup, uint32_t, count, gva_t, uid)
{
	struct kernel *k = task->k;
	struct aio_ctx *c;
	uint64_t was;
	long r;

	if (guest_read_u64(task, uid, &was) < 0)
		return -EFAULT;
	if (was || !count || count > ASKED_MAX)
		return -EINVAL;
	if (count < ASKED_MIN)
		count = ASKED_MIN;
	if (count > AIO_EVENTS_MAX - k->aio_events)
		return -EAGAIN;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->k = k;
	c->asked = count;
	c->max = 2 * (count < 4 * k->cpus ? 4 * k->cpus : count);
	c->id = memory_gap(task, PAGE);
	r = c->id ? guest_write_u64(task, uid, c->id) : -ENOMEM;
	if (r == 0)
		r = memory_run(task,
			(struct shim_step[]){
				{ SYS_mmap,
					{ c->id, PAGE, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
						~0ULL, 0 } },
				{ SYS_madvise, { c->id, PAGE, MADV_NORMAL } }, /* its 0 is ours */
			},
			2);
	if (r < 0) {
		free(c);
		return r;
	}
	k->aio_events += count;
	c->next = task->mm->aio;
	task->mm->aio = c;
	return 0;
}

SYSCALL1(io_destroy, uint64_t, id)
{
	struct aio_ctx *c = ctx_find(task, id);

	if (!c)
		return -EINVAL;
	ctx_free(task->mm, c);
	return memory_run(task, &(struct shim_step){ SYS_munmap, { id, PAGE } }, 1);
}

static int push(struct aio_ctx *c, const struct iocb *cb, uint64_t at, long res)
{
	if (c->count == c->cap) {
		uint32_t cap = c->cap ? c->cap * 2 : 16;
		struct io_event *more = reallocarray(c->events, cap, sizeof(*more));

		if (!more)
			return -EAGAIN;
		c->events = more;
		c->cap = cap;
	}
	c->events[c->count++] = (struct io_event){ .data = cb->aio_data, .obj = at, .res = res };
	wait_wake(&c->wait, POLLIN);
	return 0;
}

/* The calls that an operation is: at its own position, and where there are no positions. */
syscall_fn sys_pread64, sys_pwrite64, sys_preadv, sys_pwritev, sys_read, sys_write, sys_readv,
	sys_writev, sys_fsync, sys_fdatasync;

static const struct {
	syscall_fn *there, *stream;
	bool writes, vectors;
} ops[] = {
	[IOCB_CMD_PREAD] = { sys_pread64, sys_read, false, false },
	[IOCB_CMD_PWRITE] = { sys_pwrite64, sys_write, true, false },
	[IOCB_CMD_FSYNC] = { .there = sys_fsync },
	[IOCB_CMD_FDSYNC] = { .there = sys_fdatasync },
	[IOCB_CMD_PREADV] = { sys_preadv, sys_readv, false, true },
	[IOCB_CMD_PWRITEV] = { sys_pwritev, sys_writev, true, true },
};

/* What is refused at once; everything else is the event's. */
static long check(struct task *t, const struct iocb *cb)
{
	struct file *f = fd_get(t, (int)cb->aio_fildes), *event;

	if (cb->aio_reserved2 || (int64_t)cb->aio_nbytes < 0)
		return -EINVAL;
	if (!f)
		return -EBADF;
	if (cb->aio_flags & IOCB_FLAG_RESFD) {
		event = fd_get(t, (int)cb->aio_resfd);
		if (!event)
			return -EBADF;
		if (!file_is_eventfd(event))
			return -EINVAL;
	}
	if (cb->aio_lio_opcode >= sizeof(ops) / sizeof(ops[0]) || !ops[cb->aio_lio_opcode].there)
		return -EINVAL;
	if (!ops[cb->aio_lio_opcode].stream)
		return cb->aio_buf || cb->aio_offset || cb->aio_nbytes || cb->aio_rw_flags ||
				       !f->ops->fsync
			       ? -EINVAL
			       : 0;
	if ((uint32_t)cb->aio_rw_flags & ~(uint32_t)FLAGS_KNOWN)
		return -EOPNOTSUPP;
	if (!(ops[cb->aio_lio_opcode].writes ? file_writable(f) : file_readable(f)))
		return -EBADF;
	if (cb->aio_offset < 0)
		return -EINVAL;
	return ops[cb->aio_lio_opcode].vectors || gva_range_ok(GVA(cb->aio_buf), cb->aio_nbytes)
		       ? 0
		       : -EFAULT;
}

static long carry_out(struct task *t, const struct iocb *cb)
{
	struct file *f = fd_get(t, (int)cb->aio_fildes);
	uint64_t a[6] = { (uint64_t)(int)cb->aio_fildes, cb->aio_buf, cb->aio_nbytes,
		(uint64_t)cb->aio_offset };
	bool stream = f && (f->ops->flags & FILE_STREAM) && ops[cb->aio_lio_opcode].stream;
	unsigned was = f ? f->flags : 0;
	long r;

	if (!f)
		return -EBADF; /* closed while it was waited for */
	f->flags |= (cb->aio_rw_flags & RWF_NOWAIT ? O_NONBLOCK : 0) |
		    (cb->aio_rw_flags & RWF_APPEND ? O_APPEND : 0);
	file_ref(f);
	r = stream ? ops[cb->aio_lio_opcode].stream(t, a) : ops[cb->aio_lio_opcode].there(t, a);
	f->flags = was;
	file_unref(f);
	return r;
}

/* One that is on its way, in call.own: read once, also when it blocks. */
struct submitted {
	struct iocb cb;
	uint64_t at, done;
	bool begun;
};

static long next_one(struct task *t, struct submitted *s, uint64_t list)
{
	static const uint32_t key = 0;
	struct call *call = &t->call;
	long r;

	if (guest_read_u64(t, GVA(list + s->done * 8), &s->at) < 0 ||
		guest_read(t, &s->cb, GVA(s->at), sizeof(s->cb)) < 0)
		return -EFAULT;
	r = check(t, &s->cb);
	if (r == 0 &&
		guest_write(t, GVA(s->at + offsetof(struct iocb, aio_key)), &key, sizeof(key)) < 0)
		r = -EFAULT;
	s->begun = r == 0;
	call->done = 0;
	call->fetched = false;
	return r;
}

static void tell(struct task *t, const struct iocb *cb)
{
	struct file *f = fd_get(t, (int)cb->aio_resfd);

	if ((cb->aio_flags & IOCB_FLAG_RESFD) && f && file_is_eventfd(f))
		eventfd_add(f, 1);
}

/* 0: one more is done. */
static long submit_one(struct task *t, struct submitted *s, uint64_t id, uint64_t list)
{
	struct aio_ctx *c = ctx_find(t, id);
	long r;

	if (!c)
		return -EINVAL;
	if (!s->begun) {
		if (c->count >= c->max)
			return -EAGAIN;
		r = next_one(t, s, list);
		if (r < 0)
			return r;
	}
	r = carry_out(t, &s->cb);
	if (r == SYS_BLOCK || r == -ERESTARTSYS)
		return r;
	s->begun = false;
	r = push(c, &s->cb, s->at, r);
	if (r < 0)
		return r;
	tell(t, &s->cb);
	s->done++;
	return 0;
}

SYSCALL3(io_submit, uint64_t, id, int64_t, count, uint64_t, list)
{
	struct submitted *s = task->call.own;
	long r = 0;

	if (count < 0 || !ctx_find(task, id))
		return -EINVAL;
	if (!s) {
		s = task->call.own = calloc(1, sizeof(*s));
		if (!s)
			return -EAGAIN;
	}
	while (r == 0 && s->done < (uint64_t)count)
		r = submit_one(task, s, id, list);
	return r == SYS_BLOCK || !s->done ? r : (long)s->done;
}

SYSCALL3(io_cancel, uint64_t, id, uint64_t, at, gva_t, event)
{
	uint32_t key;

	if (guest_read_u32(task, GVA(at + offsetof(struct iocb, aio_key)), &key) < 0)
		return -EFAULT;
	return -EINVAL; /* whatever was submitted is over */
}

static long take(struct task *t, struct aio_ctx *c, uint64_t count, gva_t out)
{
	uint32_t n = count < c->count ? (uint32_t)count : c->count;

	if (!n)
		return 0;
	if (guest_write(t, out, c->events, n * sizeof(c->events[0])) < 0)
		return -EFAULT;
	c->count -= n;
	memmove(c->events, c->events + n, c->count * sizeof(c->events[0]));
	return n;
}

static long get_events(
	struct task *t, uint64_t id, int64_t least, int64_t most, gva_t out, gva_t timeout)
{
	struct aio_ctx *c = ctx_find(t, id);
	int64_t ts[2], ns;
	long r;

	if (!c || least < 0 || most < least)
		return -EINVAL;
	if (t->call.first && !gva_null(timeout)) {
		if (guest_read(t, ts, timeout, sizeof(ts)) < 0)
			return -EFAULT;
		if (ckd_mul(&ns, ts[0], (int64_t)NS_PER_S) || ckd_add(&ns, ns, ts[1]))
			ns = INT64_MAX;
		t->call.u[0] = ns <= 0;
		if (ns > 0)
			wait_set_timeout(t, ns);
	}
	if (c->count < least && !t->call.u[0]) {
		if (wait_on(t, &c->wait, POLLIN) < 0)
			return -ENOMEM;
		r = wait_block(t);
		if (r == SYS_BLOCK || (r != -ETIMEDOUT && !c->count))
			return r == -ERESTARTSYS ? -EINTR : r;
	}
	return take(t, c, (uint64_t)most, out);
}

SYSCALL5(io_getevents, uint64_t, id, int64_t, least, int64_t, most, gva_t, out, gva_t, timeout)
{
	return get_events(task, id, least, most, out, timeout);
}

SYSCALL6(io_pgetevents, uint64_t, id, int64_t, least, int64_t, most, gva_t, out, gva_t, timeout,
	gva_t, mask)
{
	uint64_t m[2] = { 0, 0 };
	long r;

	if (task->call.first && !gva_null(mask)) {
		if (guest_read(task, m, mask, sizeof(m)) < 0)
			return -EFAULT;
		r = wait_mask_from(task, GVA(m[0]), m[1]);
		if (r < 0)
			return r;
	}
	return get_events(task, id, least, most, out, timeout);
}

static void ctx_walk(struct aio_ctx *c, struct walk *w)
{
	walk_u64(w, "id", &c->id);
	walk_count(w, "max", &c->max, 2 * ASKED_MAX);
	walk_list(w, "events", &c->count, c->max);
	if (w->mode == WALK_LOAD && c->count) {
		c->events = calloc(c->count, sizeof(c->events[0]));
		if (!c->events) {
			c->count = 0;
			walk_fail(w, -ENOMEM);
			return;
		}
		c->cap = c->count;
	}
	walk_bytes(w, "event", c->events, c->count * sizeof(c->events[0]));
}

static struct aio_ctx *ctx_load(struct kernel *k, uint32_t asked, struct walk *w)
{
	struct aio_ctx *c;

	if (w->err || asked > AIO_EVENTS_MAX - k->aio_events) {
		walk_fail(w, -EBADMSG);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	c->k = k;
	c->asked = asked;
	k->aio_events += asked;
	return c;
}

void aio_walk(struct kernel *k, struct mm *mm, struct walk *w)
{
	struct aio_ctx **last = &mm->aio;
	uint32_t n = 0;

	for (struct aio_ctx *c = mm->aio; c; c = c->next)
		n++;
	walk_list(w, "contexts", &n, AIO_EVENTS_MAX);
	for (; n > 0 && !w->err; n--) {
		uint32_t asked = *last ? (*last)->asked : 0;

		walk_u32(w, "asked", &asked);
		if (w->mode == WALK_LOAD)
			*last = ctx_load(k, asked, w);
		if (!*last)
			return;
		ctx_walk(*last, w);
		last = &(*last)->next;
	}
}

bool aio_submit_keeps(const struct task *t)
{
	return t->call.nr == SYS_io_submit && t->call.own;
}

void aio_submit_walk(struct task *t, struct walk *w)
{
	struct submitted *s = t->call.own;
	bool any = aio_submit_keeps(t);

	if (t->call.nr != SYS_io_submit)
		return;
	walk_bool(w, "submitted", &any);
	if (!any || w->err)
		return;
	if (w->mode == WALK_LOAD)
		s = t->call.own = calloc(1, sizeof(*s));
	if (!s) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_bytes(w, "cb", &s->cb, sizeof(s->cb));
	walk_u64(w, "at", &s->at);
	walk_u64(w, "done", &s->done);
	walk_bool(w, "begun", &s->begun);
	if (s->begun && (s->cb.aio_lio_opcode >= sizeof(ops) / sizeof(ops[0]) ||
				!ops[s->cb.aio_lio_opcode].there))
		walk_fail(w, -EBADMSG);
}
