/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place.c - which call sites are answered in place, and with what.
 *
 * Owns:  struct place.
 * Rules: under the kernel lock. An answer is never more than this guest was just told, and never a
 *        right: who changes it harms himself. A site is only changed in a memory with one thread,
 *        which is in this call, in text that is private, read-only and out of a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sys/stat.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

enum { HOT_PATH = 3, HOT_FD = 3, HOT_SIGNAL = 4, HOT_VALUE = 16 };
enum { SITE_COUNTED, SITE_CHANGED, SITE_NEVER };

struct place {
	unsigned count;
	struct {
		uint64_t ip;
		uint16_t nr;
		uint8_t again, state;
	} sites[PLACE_SITES];
	uint32_t view;                /* as it stands in the guest's memory */
	uint64_t signals_age;         /* when its dispositions were left there; 0: never */
	uint64_t signals_known;       /* which of them still hold, one bit each */
	bool asks_fds;                /* some site that is changed asks by descriptor */
	bool pos_left;                /* the position of some file is there */
	uint16_t fds_left;            /* which files are */
	uint16_t fds_age;             /* where their age is; behind it that of positions */
	uint64_t stat_age[PLACE_FDS]; /* AGE_FILES when stat was asked for last */
};

void place_free(struct place *p)
{
	free(p);
}

struct place *place_copy(const struct place *p)
{
	struct place *n = p ? malloc(sizeof(*n)) : NULL;

	if (n)
		*n = *p;
	return n;
}

int place_kind(int64_t nr)
{
	switch (nr) {
	case SYS_getpid:
	case SYS_gettid:
	case SYS_getppid:
	case SYS_getuid:
	case SYS_geteuid:
	case SYS_getgid:
	case SYS_getegid:
		return PLACE_VALUE;
	case SYS_readlink:
	case SYS_stat:
	case SYS_lstat:
		return PLACE_PATH;
	case SYS_open:
	case SYS_access:
		return PLACE_PATH_ARG;
	case SYS_readlinkat:
		return PLACE_AT;
	case SYS_newfstatat:
		return PLACE_AT_ARG;
	case SYS_openat:
		return PLACE_OPEN;
	case SYS_rt_sigaction:
		return PLACE_SIGNAL;
	case SYS_fstat:
		return PLACE_FSTAT;
	case SYS_ioctl:
		return PLACE_IOCTL;
	case SYS_lseek:
		return PLACE_LSEEK;
	default:
		return -1;
	}
}

bool place_is_site(const uint8_t b[SITE_BYTES], uint32_t nr)
{
	uint8_t want[SITE_BYTES] = { 0xb8, 0, 0, 0, 0, 0x0f, 0x05 };

	memcpy(want + 1, &nr, sizeof(nr));
	return memcmp(b, want, sizeof(want)) == 0;
}

/* ff 24 25 and the slot's address, of which the site has the upper half already. */
void place_jump(unsigned site, uint8_t ret[5])
{
	uint32_t slot = PLACE_BASE + site * 8;

	ret[0] = 0xff;
	ret[1] = 0x24;
	ret[2] = 0x25;
	ret[3] = (uint8_t)slot;
	ret[4] = (uint8_t)(slot >> 8);
}

void place_shut(struct task *t)
{
	t->mm->place_shut = true;
	place_fds_gone(t, -1);
	answers_all(t->k); /* what was left there is old, and the view nobody's */
}

void place_many(struct task *t)
{
	uint32_t yes = 1;

	if (!t->k->age || t->mm->ops != &host_mm_ops || t->mm->place_off || t->mm->place_many)
		return;
	t->mm->place_many = true;
	t->mm->ops->write(t->mm, PLACE_STATE + 4, &yes, sizeof(yes));
}

bool place_is_hit(uint64_t addr, uint64_t len)
{
	return addr < PLACE_BASE + PLACE_SIZE && (addr >= PLACE_BASE || len > PLACE_BASE - addr);
}

static void *map_here(uint64_t at, uint64_t len)
{
	void *p = mmap((void *)at, len, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);

	if (p != MAP_FAILED && p != (void *)at)
		munmap(p, len);
	return p == (void *)at ? p : NULL;
}

void place_begin(struct kernel *k, uint64_t stubs)
{
	uint64_t *table;

	if (k->fast == FAST_OFF)
		return;
	table = map_here(PLACE_BASE, PLACE_AGE - PLACE_BASE);
	if (table && !answers_begin(k))
		munmap(table, PLACE_AGE - PLACE_BASE);
	for (unsigned i = 0; k->age && i < PLACE_SITES; i++)
		table[i] = stubs + i * PLACE_STUB;
}

void place_forked(struct kernel *k)
{
	if (k->age)
		munmap((void *)PLACE_BASE, PLACE_SIZE);
}

/* Is @at in text that is nobody else's, of which only we can change a copy? */
static bool is_plain_text(struct kernel *k, pid_t pid, uint64_t at)
{
	struct {
		uint64_t size, query_flags, query_addr, start, end, flags, page_size, offset, inode;
		uint32_t major, minor, name_size, build_id_size;
		uint64_t name, build_id;
	} q = { .size = sizeof(q), .query_addr = at };
	char path[32];
	int fd, r;

	if (k->host_proc < 0 || str_fmt(path, sizeof(path), "%d/maps", (int)pid) < 0)
		return false;
	fd = host_openat(k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	r = ioctl(fd, PROCMAP_QUERY_, &q);
	close(fd);
	/* 1 readable, 2 writable, 4 executable, 8 shared */
	return r == 0 && (q.flags & 15) == 5 && q.inode && q.start <= at &&
	       at + SITE_BYTES <= q.end;
}

static bool change_site(struct task *t, unsigned i, uint64_t ip, uint32_t nr)
{
	struct place_site site = { .ret = ip, .nr = nr, .kind = (uint32_t)place_kind(nr) };
	uint8_t now[SITE_BYTES], jump[5];
	uint64_t at = ip - SITE_BYTES;
	struct mm *mm = t->mm;

	if (at / 4096 != (ip - 1) / 4096 || guest_read(t, now, GVA(at), sizeof(now)) < 0 ||
		!place_is_site(now, nr) || !is_plain_text(t->k, mm->host_pid, at))
		return false;
	if (mm->ops->write(mm, PLACE_SITES_AT + i * sizeof(site), &site, sizeof(site)) !=
		sizeof(site))
		return false;
	place_jump(i, jump);
	return host_poke(t, at, jump, sizeof(jump));
}

int place_undo(struct task *t)
{
	struct place *p = t->mm->place;

	t->mm->place_off = true;
	for (unsigned i = 0; p && i < p->count; i++) {
		uint8_t mov[5] = { 0xb8, (uint8_t)p->sites[i].nr, (uint8_t)(p->sites[i].nr >> 8) };

		if (p->sites[i].state == SITE_CHANGED &&
			!host_poke(t, p->sites[i].ip - SITE_BYTES, mov, sizeof(mov)))
			return -ENOMEM;
	}
	return 0;
}

/* The site of the call, if there is room for it. */
static int find_site(struct mm *mm, uint64_t ip, int64_t nr)
{
	struct place *p = mm->place;
	unsigned i;

	if (!p)
		p = mm->place = calloc(1, sizeof(*p));
	if (!p)
		return -1;
	for (i = 0; i < p->count; i++)
		if (p->sites[i].ip == ip && p->sites[i].nr == nr)
			return (int)i;
	if (p->count == PLACE_SITES)
		return -1;
	p->sites[i].ip = ip;
	p->sites[i].nr = (uint16_t)nr;
	p->count++;
	return (int)i;
}

/* The site, once it is changed; -1: not yet, or never. @again: it was asked for in vain. */
static int changed_site(struct task *t, uint64_t ip, bool again, unsigned hot)
{
	struct call *c = &t->call;
	int i = find_site(t->mm, ip, c->nr);
	struct place *p = t->mm->place;

	if (i < 0)
		return -1;
	if (p->sites[i].state == SITE_COUNTED && again && ++p->sites[i].again >= hot)
		p->sites[i].state = change_site(t, (unsigned)i, ip, (uint32_t)c->nr) ? SITE_CHANGED
										     : SITE_NEVER;
	return p->sites[i].state == SITE_CHANGED ? i : -1;
}

static void value_seen(struct task *t, uint64_t ip)
{
	uint64_t value[2] = { t->k->age[AGE_WHO], (uint64_t)t->call.ret };
	int i;

	if (t->call.ret < 0)
		return;
	i = changed_site(t, ip, true, HOT_VALUE);
	if (i >= 0)
		t->mm->ops->write(t->mm,
			PLACE_SITES_AT + (unsigned)i * sizeof(struct place_site) +
				offsetof(struct place_site, age),
			value, sizeof(value));
}

static bool is_answer(const struct call *c, int kind)
{
	if (c->unsteady || ((kind == PLACE_AT || kind == PLACE_AT_ARG || kind == PLACE_OPEN) &&
				   (int)c->args[0] != AT_FDCWD))
		return false;
	if (c->nr == SYS_open || c->nr == SYS_openat)
		return c->ret == -ENOENT && !(c->args[c->nr == SYS_open ? 1 : 2] & O_CREAT);
	return c->ret == -ENOENT || c->ret == -ENOTDIR || (c->ret == 0 && c->fixed) ||
	       (c->ret == -EINVAL && (c->nr == SYS_readlink || c->nr == SYS_readlinkat) &&
		       (int)c->args[c->nr == SYS_readlink ? 2 : 3] > 0);
}

static uint32_t arg_of(const struct call *c, int kind)
{
	return kind == PLACE_PATH_ARG ? (uint32_t)c->args[1]
	       : kind == PLACE_AT_ARG ? (uint32_t)c->args[3]
	       : kind == PLACE_OPEN   ? (uint32_t)c->args[2]
				      : 0;
}

static void path_seen(struct task *t, uint64_t ip, int kind)
{
	struct call *c = &t->call;
	struct mm *mm = t->mm;
	struct place_answer a;
	uint32_t view;
	bool known;

	if (!is_answer(c, kind) ||
		!answer_make(&a, (uint32_t)c->nr, arg_of(c, kind), c->path, c->ret))
		return;
	view = answers_view(t);
	if (!view)
		return;
	known = answers_put(t, &a, view);
	if (mm->place_many || mm->refs != 1 || changed_site(t, ip, known, HOT_PATH) < 0 ||
		mm->place->view == view)
		return;
	if (mm->ops->write(mm, PLACE_VIEW, &view, sizeof(view)) == sizeof(view))
		mm->place->view = view;
}

/* A child of vfork runs in its parent's memory while that waits, with dispositions of its own. */
static bool is_alone(struct task *t)
{
	return !t->mm->place_many &&
	       (t->mm->refs == 1 || (t->mm->refs == 2 && t->proc->vfork_waits));
}

/* Who asks for one asks for all. */
static void signal_seen(struct task *t, uint64_t ip)
{
	struct place_signals s = { .age = t->k->age[AGE_SIGNALS] };
	struct place *p;

	if (t->call.ret < 0 || t->call.args[1] || !is_alone(t) ||
		changed_site(t, ip, true, HOT_SIGNAL) < 0)
		return;
	_Static_assert(sizeof(s.act) == sizeof(t->sighand->act), "as rt_sigaction gives them");
	memcpy(s.act, t->sighand->act, sizeof(s.act));
	memset(s.known, 1, sizeof(s.known));
	p = t->mm->place;
	p->signals_age = 0;
	if (t->mm->ops->write(t->mm, PLACE_SIGNALS_AT, &s, sizeof(s)) != sizeof(s))
		return;
	p->signals_age = s.age;
	p->signals_known = ~(uint64_t)0;
}

void place_signal_set(struct task *t, int sig)
{
	struct place *p = t->mm ? t->mm->place : NULL;
	uint64_t bit = (uint64_t)1 << (sig - 1);
	uint8_t no = 0;

	if (!p || !t->k->age || t->mm->place_off || !(p->signals_known & bit) ||
		p->signals_age != t->k->age[AGE_SIGNALS])
		return;
	p->signals_known &= ~bit;
	t->mm->ops->write(t->mm,
		PLACE_SIGNALS_AT + offsetof(struct place_signals, known) + (unsigned)sig - 1, &no,
		sizeof(no));
}

/* What is known of descriptor @fd goes to the guest. @opened: it has just been, so its position is
 * nobody else's. @kept: the call has told what stat says. */
static void leave_fd(struct task *t, unsigned fd, bool opened, bool kept)
{
	struct file *f = fd_get(t, (int)fd);
	struct place *p = t->mm->place;
	struct place_fd e = { 0 };
	struct kstat st;
	size_t len;

	if (!f || !f->path.dentry || (f->path.dentry->sb->flags & SB_NO_CACHE) ||
		(!S_ISREG(f->inode->mode) && !S_ISDIR(f->inode->mode)))
		return;
	if (!p->fds_age)
		p->fds_age = (uint16_t)(AGE_PROC + (unsigned)t->proc->pid % AGE_PROCS * 2);
	e.age = t->k->age[p->fds_age];
	e.age_at = p->fds_age * 8u;
	if (S_ISREG(f->inode->mode))
		e.knows = FD_NO_TTY | (opened ? FD_POS : 0);
	e.pos = f->pos;
	e.pos_age = t->k->age[p->fds_age + 1];
	e.pos_age_at = e.age_at + 8;
	if (answers_fixed(t, f->path) && vfs_fstat(f, &st) == 0) {
		e.stat_age_at = AGE_NEVER * 8;
		stat_lay(&st, e.stat);
		e.knows |= FD_STAT;
	} else if (kept) {
		e.stat_age_at = AGE_FILES * 8;
		memcpy(e.stat, answers_kept(t), sizeof(e.stat));
		e.knows |= FD_STAT;
	}
	e.stat_age = t->k->age[e.stat_age_at / 8];
	len = e.knows & FD_STAT ? sizeof(e) : offsetof(struct place_fd, stat);
	if (!e.knows ||
		t->mm->ops->write(t->mm, PLACE_FDS_AT + fd * sizeof(e), &e, len) != (ssize_t)len)
		return;
	p->fds_left |= (uint16_t)(1u << fd);
	p->pos_left |= opened;
}

static bool has_own_files(struct task *t)
{
	return t->mm->refs == 1 && !t->mm->place_many && t->files->refs == 1;
}

static void opened(struct task *t)
{
	if (t->mm->place && t->mm->place->asks_fds && has_own_files(t) &&
		(uint64_t)t->call.ret < PLACE_FDS)
		leave_fd(t, (unsigned)t->call.ret, true, false);
}

/* Would the stub have had it? Then the next time it shall. */
static void fd_seen(struct task *t, uint64_t ip, int kind)
{
	struct call *c = &t->call;
	struct place *p;
	bool again;

	if (!has_own_files(t) || c->args[0] >= PLACE_FDS ||
		(kind == PLACE_IOCTL ? c->ret != -ENOTTY || (uint32_t)c->args[1] != 0x5401
				     : c->ret < 0) ||
		(kind == PLACE_LSEEK && (c->args[1] || (uint32_t)c->args[2] != SEEK_CUR)) ||
		changed_site(t, ip, true, HOT_FD) < 0)
		return;
	p = t->mm->place;
	p->asks_fds = true;
	if (kind != PLACE_FSTAT && kind != PLACE_AT_ARG)
		return;
	again = p->stat_age[c->args[0]] == t->k->age[AGE_FILES];
	p->stat_age[c->args[0]] = t->k->age[AGE_FILES];
	if (again || c->fixed)
		leave_fd(t, (unsigned)c->args[0], false, c->data_len == PLACE_DATA_MAX);
}

void place_fds_gone(struct task *t, int fd)
{
	struct place *p = t->mm ? t->mm->place : NULL;

	if (!p || !p->fds_left || (fd >= 0 && (fd >= PLACE_FDS || !(p->fds_left >> fd & 1))))
		return;
	answers_proc(t->k, p->fds_age);
	p->fds_left = 0;
}

/* What moves no file's position. */
static bool keeps_pos(int64_t nr)
{
	switch (nr) {
	case SYS_stat:
	case SYS_fstat:
	case SYS_lstat:
	case SYS_ioctl:
	case SYS_access:
	case SYS_mmap:
	case SYS_readlink:
	case SYS_newfstatat:
	case SYS_rt_sigaction:
		return true;
	default:
		return false;
	}
}

void place_call(struct task *t, int64_t nr)
{
	struct place *p = t->mm ? t->mm->place : NULL;

	if (!p || !p->pos_left || keeps_pos(nr))
		return;
	answers_proc(t->k, p->fds_age + 1u);
	p->pos_left = false;
}

void place_seen(struct task *t, uint64_t ip)
{
	int kind = place_kind(t->call.nr);
	struct mm *mm = t->mm;

	if (kind < 0 || !t->k->age || mm->place_off || mm->place_shut || t->filters ||
		t->seccomp_strict || mm->host_pid <= 1 || ip < SITE_BYTES)
		return;
	if (kind == PLACE_SIGNAL)
		signal_seen(t, ip);
	else if ((kind == PLACE_OPEN || t->call.nr == SYS_open) && t->call.ret >= 0)
		opened(t);
	else if (kind >= PLACE_FSTAT ||
		 (kind == PLACE_AT_ARG && !t->call.path[0] && t->call.args[3] == AT_EMPTY_PATH))
		fd_seen(t, ip, kind);
	else if (kind != PLACE_VALUE)
		path_seen(t, ip, kind);
	else if (mm->refs == 1)
		value_seen(t, ip);
}
