/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/later.c - calls that were answered in the guest, and are made now.
 *
 * Owns:  struct later: a log, what its process was told it may do without us, and a piece of the
 *        store that is kept free for its writes.
 * Rules: under the kernel lock. The log is the guest's: it is taken by one exchange, each entry is
 *        copied once and checked, and nothing in it can do more than was allowed for its
 *        descriptor. A log with something else in it is never read again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/ckd.h"
#include "host/host.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/task/signal.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/lock.h"
#include "tier/kernel/vfs/vfs.h"

/* The writes of a full log, each in three blocks of 4 KB that are not there yet. */
enum { RESERVE_BYTES = LATER_COST_MAX / LATER_WRITE_COST * 3 * 4096 };
/* A lock can fall into two, beside the new one. */
enum { LOCKS_LEFT = LATER_MAX * LATER_COST_MAX * 2 };
_Static_assert((int)LOCKS_LEFT <= (int)LOCKS_MAX / 2, "what lies in all logs finds room");
enum { LOOK_MAX = 128 /* descriptors of a table that is looked through */ };
#define IDLE_NS 1000000000LL
#define HEAD_CLOSED ((uint64_t)LATER_CLOSED << 16)

struct later {
	struct kernel *k;
	struct task *task; /* NULL: over */
	struct mm *mm;
	struct place_log *log;
	bool mapped;    /* @log is ours to unmap */
	uint32_t epoch; /* the upper half of the head that the guest was given last */
	bool open, spoiled;
	uint64_t opened_tsc; /* when it was, by the processor's counter and by the clock */
	int64_t opened_ns;
	int64_t used_ns; /* when something lay there last */
	int reserve;     /* a file in the store that takes up room; -1: none, so no writes */
	unsigned next_read;
	uint16_t may[LATER_FDS]; /* what the guest was told */
};

struct later_state {
	struct later *all[LATER_MAX];
	unsigned count;
};

/* What may be made later */

static bool is_watched(const struct file *f)
{
	const struct dentry *up = f->path.dentry->parent;

	return f->k->fan || f->inode->watches || f->dnotify || f->epolls ||
	       (up && up->inode && up->inode->watches);
}

/* Has nobody else @f's inode open? Other descriptors of the same table are no others. */
static bool has_for_itself(const struct task *t, const struct file *f)
{
	const struct files *fs = t->files;
	unsigned mine = 0;

	if (f->refs != 1 || f->inode->opens == 1)
		return f->refs == 1;
	for (unsigned i = 0; fs->cap <= LOOK_MAX && i < fs->cap; i++) {
		const struct file *o = fs->slots[i].file;

		if (o && o->inode == f->inode && o->counted)
			mine += o->refs == 1;
	}
	return mine == f->inode->opens;
}

static bool has_locks_of_others(struct task *t, const struct inode *i)
{
	struct lock_range all = {
		.kind = LOCK_POSIX, .write = true, .owner = t->files, .end = INT64_MAX
	};

	return lock_conflict(i, &all) != NULL;
}

static bool has_room(const struct inode *i)
{
	const struct tree *tree = tree_of(i);

	return !tree->limit ||
	       (tree->limit > tree->used &&
		       tree->limit - tree->used > (uint64_t)LATER_MAX * RESERVE_BYTES);
}

static unsigned may_change(struct task *t, const struct file *f)
{
	const struct inode *i = f->inode;
	unsigned may = 0;

	if (file_readable(f) && !(f->path.mnt->flags & MOUNT_STRICT_ATIME))
		may |= LATER_READ;
	if (file_writable(f) && node_of(i)->content == CONTENT_STORE && !node_of(i)->seals &&
		!(i->mode & (S_ISUID | S_ISGID)) && has_room(i) &&
		t->proc->limits[RLIMIT_FSIZE].rlim_cur == RLIM_INFINITY)
		may |= LATER_WRITE;
	return may;
}

unsigned later_may(struct task *t, int fd)
{
	const struct file *f = fd_get_path(t, fd);
	bool dir = f && f->ops == &tree_dir_ops;
	unsigned may = LATER_SYNC;

	if (!f || !f->path.dentry || (f->ops != &tree_file_ops && !dir) ||
		(f->flags & (O_PATH | O_ASYNC)))
		return 0;
	/* From here on: is this process alone with it? */
	if (!has_for_itself(t, f) || is_watched(f) || f->inode->leases)
		return may;
	if (!t->files->slots[fd].mirror && !has_locks_of_others(t, f->inode))
		may |= LATER_CLOSE;
	if (dir || (f->inode->flags & (INODE_IMMUTABLE | INODE_APPEND)) ||
		(f->flags & (O_APPEND | O_DIRECT | O_SYNC | O_DSYNC)))
		return may;
	if (file_readable(f) && file_writable(f) && !has_locks_of_others(t, f->inode) &&
		t->k->vfs->lock_count < LOCKS_MAX - LOCKS_LEFT)
		may |= LATER_LOCK;
	return f->inode->was_mapped ? may : may | may_change(t, f);
}

/* One thread, one memory, one table of descriptors, and nobody inside who wants to see each call.
 */
static bool is_alone(const struct later *l)
{
	const struct task *t = l->task;
	const struct mm *mm = l->mm;

	return t && !l->spoiled && t->state != TASK_DEAD && !t->proc->exiting && t->mm == mm &&
	       mm->refs == 1 && !mm->place_many && !mm->place_off && !mm->place_shut && t->files &&
	       t->files->refs == 1 && t->proc->task_count == 1 && !t->filters && !t->seccomp_strict;
}

static bool decide(const struct later *l, uint16_t may[LATER_FDS])
{
	bool any = false;

	memset(may, 0, LATER_FDS * sizeof(may[0]));
	if (!is_alone(l))
		return false;
	for (int fd = 0; fd < LATER_FDS && (unsigned)fd < l->task->files->cap; fd++) {
		unsigned m = l->task->files->slots[fd].file ? later_may(l->task, fd) : 0;

		if (l->reserve < 0 && l->k->store >= 0)
			m &= ~(unsigned)LATER_WRITE;
		may[fd] = (uint16_t)m;
		any |= m != 0;
	}
	return any;
}

/* What lies in a log is made */

static bool make_lock(struct later *l, struct file *f, const struct later_entry *e)
{
	struct lock_range want = { .kind = LOCK_POSIX,
		.write = e->type == F_WRLCK,
		.owner = l->task->files,
		.start = e->at,
		.end = INT64_MAX,
		.pid = l->task->proc->pid };

	int r;

	if (e->type > F_UNLCK || e->at < 0 || e->count < 0 ||
		(e->count && ckd_add(&want.end, e->at, e->count - 1)) ||
		(e->type != F_UNLCK && lock_conflict(f->inode, &want)))
		return false;
	r = e->type == F_UNLCK ? lock_clear(l->k, f->inode, &want)
			       : lock_set(l->k, f->inode, &want);
	if (r < 0)
		signal_send_task(l->task, SIGBUS, NULL);
	return true;
}

/* When the guest wrote: where its reading of the counter lies between two of ours. */
static int64_t time_of(const struct later *l, uint64_t tsc)
{
	int64_t now = kernel_realtime(l->k), passed = now - l->opened_ns;
	uint64_t ticks = __builtin_ia32_rdtsc() - l->opened_tsc, at = tsc - l->opened_tsc;

	if (passed <= 0 || !ticks || at >= ticks)
		return now;
	return l->opened_ns + (int64_t)((double)passed * ((double)at / (double)ticks));
}

/* Who looks at the clock after a write finds it later than the file's time. */
static void date(struct inode *i, int64_t before, int64_t when)
{
	i->mtime = i->ctime = when > before ? when : before;
}

/* Bytes may change while they are written: the guest's own business. */
static bool make_write(
	struct later *l, struct file *f, const struct later_entry *e, const uint8_t *bytes)
{
	int64_t before = f->inode->ctime > f->inode->mtime ? f->inode->ctime : f->inode->mtime;
	ssize_t done = 0;

	if (!e->len || e->len > LATER_WRITE_MAX || e->at < 0 || e->at > LATER_OFFSET_MAX)
		return false;
	while (done < (ssize_t)e->len) {
		ssize_t n = file_kwrite(f, bytes + done, e->len - (size_t)done, e->at + done);

		if (n <= 0 && l->reserve >= 0) { /* this is what it was kept for */
			close(l->reserve);
			l->reserve = -1;
			continue;
		}
		if (n <= 0) /* as a mapping whose disk is full */
			signal_send_task(l->task, SIGBUS, NULL);
		if (n <= 0)
			break;
		done += n;
	}
	if (done)
		date(f->inode, before, time_of(l, (uint64_t)e->count));
	answers_files(l->k);
	return true;
}

static bool make_one(struct later *l, const struct later_entry *e, const uint8_t *bytes)
{
	struct file *f;

	if (e->fd >= LATER_FDS || !(l->may[e->fd] & e->op))
		return false;
	f = fd_get_path(l->task, e->fd);
	if (!f)
		return false;
	switch (e->op) {
	case LATER_LOCK:
		return make_lock(l, f, e);
	case LATER_WRITE:
		return make_write(l, f, e, bytes);
	case LATER_CLOSE:
		l->may[e->fd] = 0;
		place_fd_closed(l->task, e->fd);
		return fd_close(l->task, e->fd) == 0;
	default:
		return false;
	}
}

static bool make_all(struct later *l, uint64_t head)
{
	uint64_t end = (head & 0xffff) * 8, at = 0;
	unsigned cost = 0;

	if (head >> 32 != l->epoch || end > LATER_LOG_BYTES)
		return false;
	while (at < end) {
		struct later_entry e;

		if (end - at < sizeof(e))
			return false;
		memcpy(&e, &l->log->entries[at], sizeof(e));
		at += sizeof(e);
		if (e.len > end - at)
			return false;
		cost += e.op == LATER_WRITE ? LATER_WRITE_COST : 1;
		if (cost > LATER_COST_MAX || !make_one(l, &e, &l->log->entries[at]))
			return false;
		at += (e.len + 7u) & ~7u;
	}
	return true;
}

static void shut(struct later *l)
{
	uint64_t head;

	if (!l->open)
		return;
	head = __atomic_exchange_n(&l->log->head, HEAD_CLOSED, __ATOMIC_ACQ_REL);
	l->open = false;
	if (head & 0xffff)
		l->used_ns = kernel_now(l->k);
	if (!make_all(l, head))
		l->spoiled = true;
}

void later_run(struct kernel *k, const struct mm *mm)
{
	struct later_state *s = k->later;

	for (unsigned i = 0; s && i < s->count; i++) {
		struct later *l = s->all[i];

		if (l->open && (l->mm == mm || __atomic_load_n(&l->log->head, __ATOMIC_ACQUIRE) !=
						       (uint64_t)l->epoch << 32))
			shut(l);
	}
}

void later_open(struct kernel *k)
{
	struct later_state *s = k->later;

	for (unsigned i = 0; s && i < s->count; i++) {
		struct later *l = s->all[i];
		uint16_t may[LATER_FDS];
		bool any = decide(l, may);

		if (l->open && memcmp(may, l->may, sizeof(may)) == 0)
			continue;
		if (l->open) {
			shut(l);
			any = decide(l, may);
		}
		memcpy(l->may, may, sizeof(may));
		memcpy(l->log->may, may, sizeof(may)); /* also: nothing */
		if (!any)
			continue;
		/* In this order, as in time_of(): whatever comes in between makes times
		 * earlier, never later. */
		l->opened_ns = kernel_realtime(k);
		l->opened_tsc = __builtin_ia32_rdtsc();
		__atomic_store_n(&l->log->head, (uint64_t)++l->epoch << 32, __ATOMIC_RELEASE);
		l->open = true;
	}
}

/* Begin and end of a log */

static void leave_list(struct later *l)
{
	struct later_state *s = l->k->later;

	for (unsigned i = 0; i < s->count; i++)
		if (s->all[i] == l)
			s->all[i--] = s->all[--s->count];
	l->task = NULL;
}

void later_end(struct task *t)
{
	struct later_state *s = t->k->later;

	for (unsigned i = 0; s && i < s->count; i++) {
		if (s->all[i]->task != t)
			continue;
		if (t->files)
			shut(s->all[i]);
		memset(s->all[i]->log->may, 0, sizeof(s->all[i]->log->may));
		leave_list(s->all[i]);
		return;
	}
}

void later_free(struct later *l)
{
	if (!l)
		return;
	leave_list(l);
	if (l->mapped)
		munmap(l->log, sizeof(*l->log));
	if (l->reserve >= 0)
		close(l->reserve);
	free(l);
}

void later_done(struct kernel *k)
{
	free(k->later);
	k->later = NULL;
}

struct later *later_attach(struct task *t, struct place_log *log)
{
	struct later_state *s = t->k->later;
	struct later *l;

	if (!s)
		s = t->k->later = calloc(1, sizeof(*s));
	l = s && s->count < LATER_MAX ? calloc(1, sizeof(*l)) : NULL;
	if (!l)
		return NULL;
	l->k = t->k;
	l->task = t;
	l->mm = t->mm;
	l->log = log;
	l->log->head = HEAD_CLOSED;
	l->used_ns = kernel_now(t->k);
	l->reserve = t->k->store < 0
			     ? -1
			     : host_openat(t->k->store, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (l->reserve >= 0 && fallocate(l->reserve, 0, 0, RESERVE_BYTES) < 0) {
		close(l->reserve);
		l->reserve = -1;
	}
	s->all[s->count++] = l;
	return l;
}

bool later_is_spoiled(const struct later *l)
{
	return l->spoiled;
}

static struct place_log *log_create(int *ret_fd)
{
	int fd = (int)syscall(SYS_memfd_create, "later", 3 /* CLOEXEC, ALLOW_SEALING */);
	void *p = MAP_FAILED;

	/* Its size is what it is: SEAL, SHRINK, GROW. */
	if (fd >= 0 && ftruncate(fd, PLACE_LOG_SIZE) == 0 && fcntl(fd, F_ADD_SEALS, 1 | 2 | 4) == 0)
		p = mmap(NULL, PLACE_LOG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			fd, 0);
	if (p == MAP_FAILED && fd >= 0)
		close(fd);
	*ret_fd = fd;
	return p == MAP_FAILED ? NULL : p;
}

static bool order(struct task *t, int at)
{
	enum { DONT_FORK = 10 };
	struct slot s;

	memset(&s, 0, sizeof(s));
	s.order = ORDER_LOG;
	s.step_count = 3;
	s.steps[0] = (struct shim_step){ SYS_mmap,
		{ PLACE_LOG_AT, PLACE_LOG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			(uint64_t)at, 0 } };
	/* A log is one process's. */
	s.steps[1] = (struct shim_step){ SYS_madvise, { PLACE_LOG_AT, PLACE_LOG_SIZE, DONT_FORK } };
	s.steps[2] = (struct shim_step){ SYS_close_range, { (uint64_t)at, (uint64_t)at, 0 } };
	return order_write(t, &s, sizeof(s));
}

/* Of many, who has not used his for a while has to do without. */
static bool make_room(struct kernel *k)
{
	struct later_state *s = k->later;
	struct later *idle;

	if (!s || s->count < LATER_MAX)
		return true;
	idle = s->all[0];
	for (unsigned i = 1; i < s->count; i++)
		if (s->all[i]->used_ns < idle->used_ns)
			idle = s->all[i];
	if (kernel_now(k) - idle->used_ns < IDLE_NS)
		return false;
	later_end(idle->task);
	return true;
}

struct later *later_begin(struct task *t)
{
	struct call *c = &t->call;
	struct place_log *log;
	struct later *l;
	int at = files_spare(t), fd;

	if (at < 0 || !t->host || c->ordered || c->go_native || c->map_fd || t->deliver.sig ||
		!make_room(t->k))
		return NULL;
	log = log_create(&fd);
	if (!log)
		return NULL;
	l = order(t, at) ? later_attach(t, log) : NULL;
	if (!l) {
		munmap(log, PLACE_LOG_SIZE);
		close(fd);
		return NULL;
	}
	l->mapped = true;
	c->map_fd = fd + 1;
	c->map_at = at;
	c->ordered = true;
	return l;
}

void later_forget(struct later *l, int fd)
{
	for (unsigned i = 0; i < LATER_READS; i++)
		if (fd < 0 || l->log->reads[i].fd == (uint32_t)fd)
			l->log->reads[i].len = 0;
}

void later_keep_read(struct later *l, int fd, uint32_t len, int64_t at, int64_t value)
{
	struct later_read *r = &l->log->reads[l->next_read], now = { .fd = (uint32_t)fd, .at = at };
	struct file *f = l->task ? fd_get_path(l->task, fd) : NULL;

	if (!f || !len || len > LATER_READ_MAX || value < 0 || value > (int64_t)len ||
		!(later_may(l->task, fd) & LATER_READ) ||
		file_kread(f, now.data, (size_t)value, at) != value)
		return;
	now.len = len;
	now.value = value;
	now.age = l->k->age[AGE_FILES];
	l->next_read = (l->next_read + 1) % LATER_READS;
	memcpy(r, &now, sizeof(now));
}
