/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place.c - which call sites are answered in place, and with what.
 *
 * Owns:  struct place; the age of answers.
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
#include <sys/syscall.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"

enum { HOT_PATH = 6, HOT_VALUE = 16, SEEN = 128 };
enum { SITE_COUNTED, SITE_CHANGED, SITE_NEVER };

struct place {
	unsigned count;
	struct {
		uint64_t ip;
		uint16_t nr;
		uint8_t again, state;
	} sites[PLACE_SITES];
	uint32_t seen[SEEN]; /* hashes of what was asked */
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
	case SYS_access:
		return PLACE_PATH_ARG;
	case SYS_readlinkat:
		return PLACE_AT;
	case SYS_newfstatat:
		return PLACE_AT_ARG;
	default:
		return -1;
	}
}

/*
 * What no name and nobody's identity depends on; all that is not here is taken for a change. A new
 * call is one until somebody has thought about it.
 */
bool place_is_kept(int64_t nr, const uint64_t args[6])
{
	switch (nr) {
	case SYS_open:
		return !(args[1] & O_CREAT);
	case SYS_openat:
		return !(args[2] & O_CREAT);
	case SYS_read:
	case SYS_write:
	case SYS_close:
	case SYS_stat:
	case SYS_fstat:
	case SYS_lstat:
	case SYS_poll:
	case SYS_lseek:
	case SYS_mmap:
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_readv:
	case SYS_writev:
	case SYS_access:
	case SYS_select:
	case SYS_dup:
	case SYS_dup2:
	case SYS_nanosleep:
	case SYS_getpid:
	case SYS_wait4:
	case SYS_uname:
	case SYS_fcntl:
	case SYS_flock:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_ftruncate:
	case SYS_getdents:
	case SYS_getcwd:
	case SYS_readlink:
	case SYS_umask:
	case SYS_gettimeofday:
	case SYS_getrlimit:
	case SYS_getrusage:
	case SYS_sysinfo:
	case SYS_times:
	case SYS_getuid:
	case SYS_getgid:
	case SYS_geteuid:
	case SYS_getegid:
	case SYS_getppid:
	case SYS_getpgrp:
	case SYS_statfs:
	case SYS_fstatfs:
	case SYS_gettid:
	case SYS_fadvise64:
	case SYS_clock_gettime:
	case SYS_clock_nanosleep:
	case SYS_epoll_wait:
	case SYS_epoll_ctl:
	case SYS_getdents64:
	case SYS_newfstatat:
	case SYS_readlinkat:
	case SYS_faccessat:
	case SYS_pselect6:
	case SYS_ppoll:
	case SYS_epoll_pwait:
	case SYS_dup3:
	case SYS_pipe2:
	case SYS_prlimit64:
	case SYS_getrandom:
	case SYS_statx:
	case SYS_set_tid_address:
		return true;
	default:
		return false;
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

bool place_answer_make(struct place_answer *a, uint32_t nr, uint32_t arg, const char *path,
	uint64_t age, int64_t value)
{
	uint32_t hash = PLACE_HASH_START_;
	size_t len = 0;

	memset(a, 0, sizeof(*a));
	for (; path[len]; len++) {
		if (len + 1 >= sizeof(a->path))
			return false;
		a->path[len] = path[len];
		hash = (hash ^ (uint8_t)path[len]) * PLACE_HASH_TIMES_;
	}
	a->age = age;
	a->nr = nr;
	a->arg = arg;
	a->hash = hash;
	a->len = (uint32_t)len;
	a->value = value;
	return len > 0;
}

void place_change(struct kernel *k)
{
	if (k->age)
		__atomic_store_n(k->age, *k->age + 1, __ATOMIC_RELEASE);
}

void place_shut(struct task *t)
{
	t->mm->place_shut = true;
	place_change(t->k); /* what was left there is old */
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

static void *map_here(uint64_t at, uint64_t len, int prot, int flags, int fd)
{
	void *p = mmap((void *)at, len, prot, MAP_FIXED_NOREPLACE | MAP_NORESERVE | flags, fd, 0);

	if (p != MAP_FAILED && p != (void *)at)
		munmap(p, len);
	return p == (void *)at ? p : NULL;
}

/* Ours is writable; from then on nobody can map it so: SEAL, SHRINK, GROW, FUTURE_WRITE. */
static uint64_t *map_age(int fd)
{
	uint64_t *page = ftruncate(fd, 4096) < 0
				 ? MAP_FAILED
				 : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (fcntl(fd, F_ADD_SEALS, 1 | 2 | 4 | 16) < 0 ||
		!map_here(PLACE_AGE, 4096, PROT_READ, MAP_SHARED, fd)) {
		munmap(page, 4096);
		return NULL;
	}
	*page = 1;
	return page;
}

void place_begin(struct kernel *k, uint64_t stubs)
{
	uint64_t *table;
	int fd;

	if (k->fast == FAST_OFF)
		return;
	fd = (int)syscall(SYS_memfd_create, "age", 3 /* CLOEXEC, ALLOW_SEALING */);
	if (fd < 0)
		return;
	table = map_here(PLACE_BASE, PLACE_AGE - PLACE_BASE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1);
	k->age = table ? map_age(fd) : NULL;
	for (unsigned i = 0; k->age && i < PLACE_SITES; i++)
		table[i] = stubs + i * PLACE_STUB;
	if (table && !k->age)
		munmap(table, PLACE_AGE - PLACE_BASE);
	close(fd);
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

static bool write_text(struct kernel *k, pid_t pid, uint64_t at, const uint8_t bytes[5])
{
	char path[32];
	ssize_t n;
	int fd;

	if (str_fmt(path, sizeof(path), "%d/mem", (int)pid) < 0)
		return false;
	fd = host_openat(k->host_proc, path, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	n = host_pwrite(fd, bytes, 5, (int64_t)at);
	close(fd);
	return n == 5;
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
	return write_text(t->k, mm->host_pid, at, jump);
}

int place_undo(struct task *t)
{
	struct place *p = t->mm->place;

	t->mm->place_off = true;
	for (unsigned i = 0; p && i < p->count; i++) {
		uint8_t mov[5] = { 0xb8, (uint8_t)p->sites[i].nr, (uint8_t)(p->sites[i].nr >> 8) };

		if (p->sites[i].state == SITE_CHANGED &&
			!write_text(t->k, t->mm->host_pid, p->sites[i].ip - SITE_BYTES, mov))
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

static bool is_hot(struct place *p, unsigned i, const struct place_answer *a, int kind)
{
	uint32_t *seen = &p->seen[a->hash >> 25];

	if (kind != PLACE_VALUE && *seen != a->hash) {
		*seen = a->hash;
		return false;
	}
	return ++p->sites[i].again >= (kind == PLACE_VALUE ? HOT_VALUE : HOT_PATH);
}

static bool is_answer(const struct call *c, int kind)
{
	if (kind == PLACE_VALUE)
		return c->ret >= 0;
	if (c->unsteady || !c->path[0])
		return false;
	if (kind == PLACE_AT || kind == PLACE_AT_ARG) {
		if ((int)c->args[0] != AT_FDCWD)
			return false;
	}
	return c->ret == -ENOENT || c->ret == -ENOTDIR ||
	       (c->ret == -EINVAL && (c->nr == SYS_readlink || c->nr == SYS_readlinkat) &&
		       (int)c->args[c->nr == SYS_readlink ? 2 : 3] > 0);
}

static void leave_answer(struct task *t, unsigned i, const struct place_answer *a, int kind)
{
	struct mm *mm = t->mm;
	uint64_t value[2] = { *t->k->age, (uint64_t)t->call.ret };

	if (kind == PLACE_VALUE)
		mm->ops->write(mm,
			PLACE_SITES_AT + i * sizeof(struct place_site) +
				offsetof(struct place_site, age),
			value, sizeof(value));
	else
		mm->ops->write(mm, PLACE_ANSWERS_AT + (a->hash >> 24) * sizeof(*a), a, sizeof(*a));
}

static uint32_t arg_of(const struct call *c, int kind)
{
	return kind == PLACE_PATH_ARG ? (uint32_t)c->args[1]
	       : kind == PLACE_AT_ARG ? (uint32_t)c->args[3]
				      : 0;
}

void place_seen(struct task *t, uint64_t ip)
{
	struct call *c = &t->call;
	int kind = place_kind(c->nr), i;
	struct mm *mm = t->mm;
	struct place_answer a = { 0 };
	struct place *p;

	if (kind < 0 || !t->k->age || mm->place_off || mm->place_shut || t->filters ||
		t->seccomp_strict || (mm->place_many && kind != PLACE_VALUE) || mm->refs != 1 ||
		mm->host_pid <= 1 || ip < SITE_BYTES || !is_answer(c, kind))
		return;
	if (kind != PLACE_VALUE && !place_answer_make(&a, (uint32_t)c->nr, arg_of(c, kind), c->path,
					   *t->k->age, c->ret))
		return;
	i = find_site(mm, ip, c->nr);
	if (i < 0)
		return;
	p = mm->place;
	if (p->sites[i].state == SITE_COUNTED && is_hot(p, (unsigned)i, &a, kind))
		p->sites[i].state = change_site(t, (unsigned)i, ip, (uint32_t)c->nr) ? SITE_CHANGED
										     : SITE_NEVER;
	if (p->sites[i].state == SITE_CHANGED)
		leave_answer(t, (unsigned)i, &a, kind);
}
