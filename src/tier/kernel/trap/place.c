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

#include "base/ckd.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sys/stat.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/trap/place_impl.h"
#include "tier/kernel/trap/vdso.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

enum { SYS_faccessat2_ = 439 };
enum { HOT_PATH = 2, HOT_CARRY = 4, HOT_VALUE = 16 };

void place_free(struct place *p)
{
	if (p)
		later_free(p->later);
	free(p);
}

struct place *place_copy(const struct place *p)
{
	struct place *n = p ? malloc(sizeof(*n)) : NULL;

	if (n)
		*n = *p;
	if (n) {
		n->later = NULL; /* a log is one process's */
		n->later_wanted = 0;
	}
	return n;
}

bool place_has_log(const struct task *t)
{
	return t->mm->place && t->mm->place->later;
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
	case SYS_read:
		return PLACE_READ;
	case SYS_close:
		return PLACE_CLOSE;
	case SYS_mmap:
		return PLACE_MMAP;
	case SYS_getdents64:
		return PLACE_DENTS;
	case SYS_fcntl:
		return PLACE_LOCK;
	case SYS_pread64:
		return PLACE_PREAD;
	case SYS_pwrite64:
		return PLACE_PWRITE;
	case SYS_fsync:
	case SYS_fdatasync:
		return PLACE_SYNC;
	case SYS_clock_gettime:
		return PLACE_CLOCK;
	case SYS_write:
	case SYS_rt_sigprocmask:
	case SYS_poll:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_ctl:
	case SYS_recvfrom:
	case SYS_sendto:
	case SYS_wait4:
	case SYS_statx:
	case SYS_faccessat:
	case SYS_faccessat2_:
	case SYS_unlink:
	case SYS_unlinkat:
	case SYS_mkdir:
	case SYS_rmdir:
	case SYS_chdir:
	case SYS_pipe:
	case SYS_pipe2:
	case SYS_getcwd:
	case SYS_getrandom:
	case SYS_uname:
	case SYS_clock_nanosleep:
		return PLACE_MADE;
	default:
		return -1;
	}
}

/* Its stubs make every call where it stands, whatever they know. */
static void stop_stubs(struct task *t)
{
	uint32_t yes = 1;

	t->mm->ops->write(
		t->mm, PLACE_STATE + offsetof(struct place_state, threads), &yes, sizeof(yes));
}

void place_shut(struct task *t)
{
	if (t->k->age && t->mm->ops == &host_mm_ops && !t->mm->place_off && !t->mm->place_shut)
		stop_stubs(t);
	t->mm->place_shut = true;
	place_fds_gone(t, -1);
	answers_all(t->k); /* what was left there is old, and the view nobody's */
}

void place_many(struct task *t)
{
	if (!t->k->age || t->mm->ops != &host_mm_ops || t->mm->place_off || t->mm->place_many)
		return;
	t->mm->place_many = true;
	stop_stubs(t);
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
	void *log;

	if (k->fast == FAST_OFF)
		return;
	table = map_here(PLACE_BASE, PLACE_AGE - PLACE_BASE);
	log = table ? map_here(PLACE_STACK_AT, PLACE_BASE + PLACE_SIZE - PLACE_STACK_AT) : NULL;
	if (!log || !answers_begin(k)) {
		if (log)
			munmap(log, PLACE_BASE + PLACE_SIZE - PLACE_STACK_AT);
		if (table)
			munmap(table, PLACE_AGE - PLACE_BASE);
	}
	for (unsigned i = 0; k->age && i < PLACE_SITES; i++)
		table[i] = stubs + i * PLACE_STUB;
}

void place_forked(struct kernel *k)
{
	if (k->age)
		munmap((void *)PLACE_BASE, PLACE_SIZE);
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
		if (p->sites[i].ip == ip && p->sites[i].nr == SITE_ANY)
			return (int)i;
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
int place_changed_site(struct task *t, uint64_t ip, bool again, unsigned hot)
{
	struct call *c = &t->call;
	int i = find_site(t->mm, ip, c->nr);
	struct place *p = t->mm->place;

	if (i < 0)
		return -1;
	if (p->sites[i].state == SITE_COUNTED && again && ++p->sites[i].again >= hot)
		p->sites[i].state = place_change(t, (unsigned)i, ip, (uint32_t)c->nr) ? SITE_CHANGED
										      : SITE_NEVER;
	return p->sites[i].state == SITE_CHANGED ? i : -1;
}

static void value_seen(struct task *t, uint64_t ip)
{
	uint64_t value[2] = { t->k->age[AGE_WHO], (uint64_t)t->call.ret };
	struct place_value any = {
		.nr = (uint32_t)t->call.nr, .age = value[0], .value = t->call.ret
	};
	int i;

	if (t->call.ret < 0)
		return;
	i = place_changed_site(t, ip, true, HOT_VALUE);
	if (i >= 0 && t->mm->place->sites[i].nr == SITE_ANY)
		t->mm->ops->write(t->mm, PLACE_VALUES_AT + any.nr % PLACE_VALUES * sizeof(any),
			&any, sizeof(any));
	else if (i >= 0)
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
	if (mm->place_many || mm->refs != 1 || place_changed_site(t, ip, known, HOT_PATH) < 0 ||
		mm->place->view == view)
		return;
	if (mm->ops->write(mm, PLACE_VIEW, &view, sizeof(view)) == sizeof(view))
		mm->place->view = view;
}

/* Who asks by number is shown the way that everybody else goes. */
static void clock_seen(struct task *t, uint64_t ip)
{
	uint64_t way[2];

	_Static_assert(offsetof(struct place_state, clock_age) ==
			       offsetof(struct place_state, clock) + sizeof(way[0]),
		"one write");
	if (t->call.ret < 0 || !place_is_alone(t) || place_changed_site(t, ip, true, HOT_VALUE) < 0)
		return;
	way[0] = vdso_find(engine_of(t->k)->vdso, "__vdso_clock_gettime");
	way[1] = t->k->age[AGE_WHO];
	if (way[0])
		t->mm->ops->write(
			t->mm, PLACE_STATE + offsetof(struct place_state, clock), way, sizeof(way));
}

/* Also what nobody can know can be carried: to change a site costs as much as that saves in some
 * calls. */
static void carry_seen(struct task *t, uint64_t ip, int kind)
{
	switch (kind) {
	case PLACE_PATH:
	case PLACE_PATH_ARG:
	case PLACE_AT:
	case PLACE_AT_ARG:
	case PLACE_OPEN:
	case PLACE_FSTAT:
	case PLACE_READ:
	case PLACE_DENTS:
	case PLACE_MADE:
		if (t->mm->carry && t->call.ret <= CARRY_ROOM && place_is_alone(t))
			place_changed_site(t, ip, true, HOT_CARRY);
	}
}

void place_seen(struct task *t, uint64_t ip)
{
	int kind = place_kind(t->call.nr);
	struct mm *mm = t->mm;

	if (kind < 0 || !t->k->age || mm->place_off || mm->place_shut || t->filters ||
		t->cred->landlock || t->seccomp_strict || mm->host_pid <= 1 || ip < SITE_BYTES)
		return;
	if (kind == PLACE_SIGNAL)
		place_signal_seen(t, ip);
	else if (kind == PLACE_CLOCK)
		clock_seen(t, ip);
	else if (kind >= PLACE_LOCK && kind < PLACE_MADE)
		place_later_seen(t, ip, kind);
	else if ((kind == PLACE_OPEN || t->call.nr == SYS_open) && t->call.ret >= 0)
		place_opened(t);
	else if ((kind >= PLACE_FSTAT && kind < PLACE_MADE) ||
		 (kind == PLACE_AT_ARG && !t->call.path[0] && t->call.args[3] == AT_EMPTY_PATH))
		place_fd_seen(t, ip, kind);
	else if (kind > PLACE_VALUE && kind < PLACE_MADE)
		path_seen(t, ip, kind);
	else if (kind == PLACE_VALUE && mm->refs == 1)
		value_seen(t, ip);
	carry_seen(t, ip, kind);
	if (kind == PLACE_READ || kind == PLACE_PREAD)
		place_read_seen(t, ip, kind);
}
