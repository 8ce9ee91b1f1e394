/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipc/shm.c - System V shared memory.
 *
 * Owns:  struct shm_seg, each with a host memory file; the list of attachments.
 * Rules: the guest maps the file itself, on an order: mmap at an address that we choose, because
 * the kernel does not learn where the host would have put it. The descriptor for that has a number
 *        of its own, and goes when it is mapped; one to read from cannot be mapped to write.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/ipc/ipc.h"

#include "base/buf.h"
#include "base/ckd.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sys/memory.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/walk.h"

enum {
	PAGE = 4096,
	CMD_SHM_LOCK = 11,
	CMD_SHM_UNLOCK = 12,
	CMD_SHM_STAT = 13,
	CMD_SHM_INFO = 14,
	CMD_SHM_STAT_ANY = 15,
	MODE_DEST = 01000,
	MODE_LOCKED = 02000,
	FLAG_RDONLY = 010000,
	FLAG_RND = 020000,
	FLAG_REMAP = 040000,
	FLAG_EXEC = 0100000,
	ROOM_LOOKS = 64
};
#define SHM_BYTES_ALL (8ULL << 30) /* of all segments; pages are charged when they are touched */
#define USER_END 0x7ffffffff000ULL

struct shm_seg {
	struct ipc_obj o;
	uint64_t size;
	int fd; /* host memory file */
	uint64_t attached;
	int64_t atime, dtime, ctime;
	int32_t cpid, lpid;
};

struct shm_attach {
	struct shm_attach *next;
	struct proc *proc;
	struct shm_seg *seg;
	uint64_t at;
};

struct gshmid_ds {
	struct gipc_perm perm;
	uint64_t size;
	int64_t atime, dtime, ctime;
	int32_t cpid, lpid;
	uint64_t attached, unused[2];
};

static uint64_t pages_of(uint64_t size)
{
	return (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static struct shm_seg *new_seg(struct ipc_state *s, uint64_t size)
{
	struct shm_seg *seg = calloc(1, sizeof(*seg));

	if (!seg)
		return NULL;
	seg->fd = (int)syscall(SYS_memfd_create, "shm", MFD_CLOEXEC);
	if (seg->fd < 0 || ftruncate(seg->fd, (off_t)pages_of(size)) < 0) {
		if (seg->fd >= 0)
			close(seg->fd);
		free(seg);
		return NULL;
	}
	seg->size = size;
	s->shm_bytes += pages_of(size);
	return seg;
}

static struct ipc_obj *make_seg(struct task *t, const struct ipc_get *g, int *ret_err)
{
	struct ipc_state *s = ipc_state(t->k);
	struct shm_seg *seg;

	*ret_err = -EINVAL;
	if (g->size == 0 || g->size > INT64_MAX - PAGE ||
		g->size > knob_value(t->k, "sys/kernel/shmmax"))
		return NULL;
	*ret_err = -ENOSPC;
	if (pages_of(g->size) > SHM_BYTES_ALL - s->shm_bytes)
		return NULL;
	*ret_err = -ENOMEM;
	seg = new_seg(s, g->size);
	if (!seg)
		return NULL;
	seg->cpid = t->proc->pid;
	seg->ctime = ipc_seconds(t);
	return &seg->o;
}

static int check_seg(struct ipc_obj *o, const struct ipc_get *g)
{
	return g->size > ((struct shm_seg *)o)->size ? -EINVAL : 0;
}

SYSCALL3(shmget, int32_t, key, uint64_t, size, int32_t, flags)
{
	struct ipc_get g = {
		.make = make_seg, .check = check_seg, .size = size, .key = key, .flags = flags
	};

	if (flags & SHM_HUGETLB)
		return -EINVAL; /* there are no huge pages */
	return ipc_get(task, IPC_SHM, &g);
}

void shm_free(struct kernel *k, struct ipc_obj *o)
{
	struct shm_seg *seg = (struct shm_seg *)o;

	k->ipc->shm_bytes -= pages_of(seg->size);
	wait_flush(&o->wait);
	close(seg->fd);
	free(seg);
}

void shm_lose(struct kernel *k, struct ipc_obj *o)
{
	if (((struct shm_seg *)o)->attached) {
		o->gone = o->lost = true;
		o->ns = NULL;
		return;
	}
	ipc_remove(k, IPC_SHM, o);
	shm_free(k, o);
}

static void detach(struct kernel *k, struct shm_attach **p, int32_t pid)
{
	struct shm_attach *a = *p;
	struct shm_seg *seg = a->seg;

	*p = a->next;
	free(a);
	k->ipc->attach_count--;
	seg->attached--;
	seg->dtime = kernel_realtime(k) / 1000000000;
	seg->lpid = pid;
	if (seg->attached == 0 && seg->o.gone) {
		ipc_remove(k, IPC_SHM, &seg->o);
		shm_free(k, &seg->o);
	}
}

void shm_proc_gone(struct proc *p)
{
	struct shm_attach **a = &p->k->ipc->attaches;

	while (*a) {
		if ((*a)->proc == p)
			detach(p->k, a, p->pid);
		else
			a = &(*a)->next;
	}
}

static struct shm_attach *add_attach(struct proc *p, struct shm_seg *seg, uint64_t at)
{
	struct shm_attach *a =
		p->k->ipc->attach_count < SHM_ATTACHED_MAX ? calloc(1, sizeof(*a)) : NULL;

	if (!a)
		return NULL;
	p->k->ipc->attach_count++;
	*a = (struct shm_attach){ .next = p->k->ipc->attaches, .proc = p, .seg = seg, .at = at };
	p->k->ipc->attaches = a;
	seg->attached++;
	return a;
}

void ipc_proc_forked(struct proc *parent, struct proc *child)
{
	struct ipc_state *s = parent->k->ipc;

	if (!s)
		return;
	for (struct shm_attach *a = s->attaches; a; a = a->next) {
		/* New ones go in front: the walk does not meet them. */
		if (a->proc == parent)
			add_attach(child, a->seg, a->at);
	}
}

/* A fake has the books only. */
static long run(struct task *t, const struct shim_step *steps, unsigned count)
{
	return t->host ? memory_run(t, steps, count) : 0;
}

static long run_attach(struct task *t, const struct shm_seg *seg, uint64_t at, unsigned prot,
	unsigned how, bool writable)
{
	int fd = files_spare(t), copy;
	uint64_t nr = (uint64_t)fd;
	const struct shim_step steps[] = {
		{ SYS_mmap, { at, pages_of(seg->size), prot, how, nr, 0 } },
		{ SYS_close_range, { nr, nr, 0 } },
		{ STEP_VALUE, { at } },
	};

	if (fd < 0)
		return -ENOMEM;
	copy = t->host ? memory_fd(t->k, seg->fd, writable) : -1;
	if (t->host && copy < 0)
		return -ENFILE;
	if (run(t, steps, ARRAY_LEN(steps)) < 0) {
		close(copy);
		return -EFAULT;
	}
	t->call.map_fd = copy + 1;
	t->call.map_at = fd;
	return 0;
}

/* From where the last one went; at the end of the window, from its beginning again. */
static uint64_t window_room(const struct ipc_state *s, const struct proc *p, uint64_t len)
{
	uint64_t at = s->shm_next + len + PAGE > SHM_WINDOW_END ? SHM_WINDOW : s->shm_next;
	unsigned met = 0;

	for (const struct shm_attach *a = s->attaches; a;) {
		uint64_t end = a->at + pages_of(a->seg->size) + PAGE;

		if (a->proc != p || at >= end || a->at >= at + len + PAGE) {
			a = a->next;
			continue;
		}
		at = end;
		if (at + len + PAGE > SHM_WINDOW_END || ++met > ROOM_LOOKS)
			return 0;
		a = s->attaches;
	}
	return at;
}

static int choose_address(struct ipc_state *s, const struct proc *p, struct shm_seg *seg,
	uint64_t want, int flags, uint64_t *ret)
{
	if (want) {
		if (want & (PAGE - 1)) {
			if (!(flags & FLAG_RND))
				return -EINVAL;
			want &= ~(uint64_t)(PAGE - 1);
			if (!want)
				return -EINVAL;
		}
		if (want >= USER_END || pages_of(seg->size) > USER_END - want)
			return -EINVAL;
		*ret = want;
		return 0;
	}
	if (flags & FLAG_REMAP)
		return -EINVAL;
	*ret = window_room(s, p, pages_of(seg->size));
	if (!*ret)
		return -ENOMEM;
	s->shm_next = *ret + pages_of(seg->size) + PAGE;
	return 0;
}

SYSCALL3(shmat, int32_t, id, uint64_t, addr, int32_t, flags)
{
	struct ipc_state *s = ipc_state(task->k);
	unsigned prot = PROT_READ | (flags & FLAG_RDONLY ? 0 : PROT_WRITE) |
			(flags & FLAG_EXEC ? PROT_EXEC : 0);
	unsigned how = MAP_SHARED | MAP_FIXED_NOREPLACE;
	struct shm_seg *seg;
	uint64_t at;
	long r;
	int e;

	if (!s)
		return -ENOMEM;
	seg = (struct shm_seg *)ipc_find(task, IPC_SHM, id, flags & FLAG_RDONLY ? 0444 : 0666, &e);
	if (!seg)
		return e;
	e = choose_address(s, task->proc, seg, addr, flags, &at);
	if (e < 0)
		return e;
	if (flags & FLAG_REMAP)
		how = MAP_SHARED | MAP_FIXED;
	if (!add_attach(task->proc, seg, at))
		return -ENOMEM;
	r = run_attach(task, seg, at, prot, how, !(flags & FLAG_RDONLY));
	if (r < 0) {
		detach(task->k, &s->attaches, task->proc->pid);
		return r;
	}
	seg->atime = ipc_seconds(task);
	seg->lpid = task->proc->pid;
	return (long)at;
}

SYSCALL1(shmdt, uint64_t, addr)
{
	struct ipc_state *s = ipc_state(task->k);
	struct shm_attach **a;
	uint64_t len;
	long r;

	if (!s || (addr & (PAGE - 1)))
		return -EINVAL;
	for (a = &s->attaches; *a && ((*a)->proc != task->proc || (*a)->at != addr);
		a = &(*a)->next)
		;
	if (!*a)
		return -EINVAL;
	len = pages_of((*a)->seg->size);
	r = run(task, &(struct shim_step){ SYS_munmap, { addr, len } }, 1);
	if (r < 0)
		return r;
	detach(task->k, a, task->proc->pid);
	return 0;
}

static long shm_stat(struct task *task, struct shm_seg *seg, gva_t out)
{
	struct gshmid_ds ds;

	memset(&ds, 0, sizeof(ds));
	ds.perm = ipc_perm_out(task, &seg->o);
	ds.size = seg->size;
	ds.atime = seg->atime;
	ds.dtime = seg->dtime;
	ds.ctime = seg->ctime;
	ds.cpid = pid_out(task, seg->cpid);
	ds.lpid = pid_out(task, seg->lpid);
	ds.attached = seg->attached;
	return guest_write(task, out, &ds, sizeof(ds));
}

static long shm_info(struct task *task, int cmd, gva_t out)
{
	struct ipc_state *s = ipc_state(task->k);
	uint64_t info[9] = { knob_value(task->k, "sys/kernel/shmmax"), 1, SHM_SEGMENTS_MAX,
		SHM_SEGMENTS_MAX, UINT64_MAX - (1 << 24) };
	struct {
		int32_t used, pad;
		uint64_t total, resident, swapped, attempts, successes;
	} now = { 0 };

	if (!s)
		return -ENOMEM;
	if (cmd == CMD_SHM_INFO) {
		now.used = (int32_t)ipc_count(task, IPC_SHM);
		now.total = now.resident = s->shm_bytes / PAGE;
		if (guest_write(task, out, &now, sizeof(now)) < 0)
			return -EFAULT;
	} else if (guest_write(task, out, info, sizeof(info)) < 0) {
		return -EFAULT;
	}
	return ipc_highest(task, IPC_SHM);
}

static long shm_owner_cmd(struct task *task, struct shm_seg *seg, int cmd, gva_t arg)
{
	int r;

	if (cmd == IPC_SET) {
		r = ipc_set_perm(task, &seg->o, arg);
		if (r == 0)
			seg->ctime = ipc_seconds(task);
		return r;
	}
	r = ipc_owner(task, &seg->o);
	if (r < 0)
		return r;
	if (cmd == CMD_SHM_LOCK || cmd == CMD_SHM_UNLOCK) {
		seg->o.perm.mode = cmd == CMD_SHM_LOCK ? seg->o.perm.mode | MODE_LOCKED
						       : seg->o.perm.mode & ~(unsigned)MODE_LOCKED;
		return 0;
	}
	if (seg->attached) { /* lives until the last one lets go; its key is free */
		seg->o.gone = true;
		seg->o.perm.mode |= MODE_DEST;
		seg->o.perm.key = IPC_PRIVATE;
		return 0;
	}
	ipc_remove(task->k, IPC_SHM, &seg->o);
	shm_free(task->k, &seg->o);
	return 0;
}

SYSCALL3(shmctl, int32_t, id, int32_t, cmd, gva_t, arg)
{
	struct shm_seg *seg;
	long r;
	int e;

	if (id < 0 || cmd < 0)
		return -EINVAL;
	switch (cmd) {
	case IPC_INFO:
	case CMD_SHM_INFO:
		return shm_info(task, cmd, arg);
	case CMD_SHM_STAT:
	case CMD_SHM_STAT_ANY:
		seg = (struct shm_seg *)ipc_at(task, IPC_SHM, id);
		if (!seg)
			return -EINVAL;
		r = shm_stat(task, seg, arg);
		return r < 0 ? r : seg->o.id;
	case IPC_STAT:
	case IPC_SET:
	case IPC_RMID:
	case CMD_SHM_LOCK:
	case CMD_SHM_UNLOCK:
		break;
	default:
		return -EINVAL;
	}
	seg = (struct shm_seg *)ipc_find(task, IPC_SHM, id, cmd == IPC_STAT ? 0444 : 0, &e);
	if (!seg)
		return e;
	return cmd == IPC_STAT ? shm_stat(task, seg, arg) : shm_owner_cmd(task, seg, cmd, arg);
}

void shm_show(const struct task *t, struct ipc_obj *o, struct buf *out)
{
	const struct shm_seg *s = (const struct shm_seg *)o;
	const struct gipc_perm shown = ipc_perm_out(t, o), *p = &shown;

	buf_add_fmt(out,
		"%10d %10d  %4o %21llu %5d %5d  %5llu %5u %5u %5u %5u %10lld %10lld %10lld %21llu "
		"%21u\n",
		p->key, o->id, p->mode, (unsigned long long)s->size, s->cpid, s->lpid,
		(unsigned long long)s->attached, p->uid, p->gid, p->cuid, p->cgid,
		(long long)s->atime, (long long)s->dtime, (long long)s->ctime,
		(unsigned long long)(s->size + 4095) & ~4095ULL, 0u);
}

struct ipc_obj *shm_walk(struct kernel *k, struct ipc_obj *o, struct walk *w)
{
	struct shm_seg *seg = (struct shm_seg *)o;
	uint64_t size = seg ? seg->size : 0;

	walk_u64(w, "size", &size);
	if (w->mode == WALK_LOAD) {
		if (!w->err && (size == 0 || size > SHM_BYTES_ALL ||
				       pages_of(size) > SHM_BYTES_ALL - k->ipc->shm_bytes))
			walk_fail(w, -EBADMSG);
		seg = w->err ? NULL : new_seg(k->ipc, size);
		if (!seg) {
			walk_fail(w, -ENOMEM);
			return NULL;
		}
	}
	walk_i64(w, "atime", &seg->atime);
	walk_i64(w, "dtime", &seg->dtime);
	walk_i64(w, "ctime", &seg->ctime);
	walk_i32(w, "cpid", &seg->cpid);
	walk_i32(w, "lpid", &seg->lpid);
	walk_sparse(w, "contents", seg->fd, pages_of(size));
	return &seg->o;
}

void shm_attaches_walk(struct kernel *k, struct walk *w)
{
	struct shm_attach **last = &k->ipc->attaches;
	uint32_t n = 0;

	for (struct shm_attach *a = k->ipc->attaches; a; a = a->next)
		n++;
	walk_u64(w, "shm_next", &k->ipc->shm_next);
	if (k->ipc->shm_next < SHM_WINDOW || k->ipc->shm_next > SHM_WINDOW_END)
		walk_fail(w, -EBADMSG);
	walk_list(w, "attaches", &n, SHM_ATTACHED_MAX);
	for (; n > 0 && !w->err; n--) {
		struct shm_attach a = *last ? **last : (struct shm_attach){ 0 };
		int32_t id = a.seg ? a.seg->o.id : 0;

		walk_need(w, "proc", WALK_PROC, (void **)&a.proc);
		walk_i32(w, "id", &id);
		walk_u64(w, "at", &a.at);
		a.seg = (struct shm_seg *)ipc_by_id(k->ipc, IPC_SHM, id);
		if (!a.seg)
			walk_fail(w, -EBADMSG);
		if (w->err)
			return;
		if (w->mode == WALK_LOAD) {
			*last = malloc(sizeof(a));
			if (!*last) {
				walk_fail(w, -ENOMEM);
				return;
			}
			a.next = NULL;
			**last = a;
			k->ipc->attach_count++;
			a.seg->attached++;
		}
		last = &(*last)->next;
	}
}
