/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/carry.c - what a call reads and writes goes beside it: the guest's side.
 *
 * Owns:  the guest's half of the memory at PLACE_CARRY_AT.
 * Rules: as in inside.h, on the stack of place_prepare(). Before the call nothing has happened: a
 *        fault or a signal makes it a plain one. Behind it what came is copied, twice if need be.
 */
#include "tier/kernel/shim/inside.h"

enum { EFAULT_ = 14 };

static struct place_carry *page_of(void)
{
	return (struct place_carry *)PLACE_CARRY_AT;
}

static int take_bytes(struct place_carry *c, uint64_t from, uint64_t len)
{
	if (len > CARRY_IN)
		return 0;
	memcpy(c->in, (const void *)from, len);
	c->in_at = from;
	c->in_len = (uint32_t)len;
	return 1;
}

/* As far as its end: the next byte may be nobody's. */
static int take_path(struct place_carry *c, uint64_t from)
{
	const char *p = (const char *)from;
	uint32_t n = 0;

	do {
		if (n == PLACE_PATH_MAX)
			return 0;
		c->in[n] = (uint8_t)p[n];
	} while (p[n++]);
	c->in_at = from;
	c->in_len = n;
	return 1;
}

static void touch(uint64_t at)
{
	__atomic_fetch_or((uint8_t *)at, 0, __ATOMIC_RELAXED);
}

/* Can it be written? Who finds out only behind the call has lost what came. */
static void give_room(struct place_carry *c, uint64_t at, uint64_t len)
{
	if (!len)
		return;
	touch(at);
	touch(at + len - 1);
	c->room_at = at;
	c->room_len = (uint32_t)len;
}

/* Where calls have a path, what they read, and where they write: which argument, from 1 on. The
 * first rows are found first. */
enum {
	MASK = 8,
	EVENT = 12,
	TIME = 16,
	ACTION = 32,
	STAT = 144,
	LINK = 256,
	STATX = 256,
	UNAME = 390
};
enum { ALL = CARRY_ROOM, SYS_faccessat2_ = 439 };
static const struct how {
	uint16_t nr;
	uint8_t path, in, room;
	uint8_t len, unit; /* of @in and @room: which argument, and of how many bytes; 0: @most */
	uint16_t most;     /* of @room */
} table[] = {
	{ SYS_newfstatat, 2, 0, 3, 0, 1, STAT },
	{ SYS_openat, 2, 0, 0, 0, 1, 0 },
	{ SYS_read, 0, 0, 2, 3, 1, ALL },
	{ SYS_write, 0, 2, 0, 3, 1, 0 },
	{ SYS_close, 0, 0, 0, 0, 1, 0 },
	{ SYS_stat, 1, 0, 2, 0, 1, STAT },
	{ SYS_lstat, 1, 0, 2, 0, 1, STAT },
	{ SYS_fstat, 0, 0, 2, 0, 1, STAT },
	{ SYS_open, 1, 0, 0, 0, 1, 0 },
	{ SYS_access, 1, 0, 0, 0, 1, 0 },
	{ SYS_readlink, 1, 0, 2, 3, 1, LINK },
	{ SYS_lseek, 0, 0, 0, 0, 1, 0 },
	{ SYS_ioctl, 0, 0, 0, 0, 1, 0 },
	{ SYS_fcntl, 0, 0, 0, 0, 1, 0 },
	{ SYS_getdents64, 0, 0, 2, 3, 1, ALL },
	{ SYS_rt_sigaction, 0, 2, 3, 0, 1, ACTION },
	{ SYS_rt_sigprocmask, 0, 2, 3, 0, 1, MASK },
	{ SYS_pwrite64, 0, 2, 0, 3, 1, 0 },
	{ SYS_epoll_wait, 0, 0, 2, 3, EVENT, ALL },
	{ SYS_recvfrom, 0, 0, 2, 3, 1, ALL },
	{ SYS_sendto, 0, 2, 0, 3, 1, 0 },
	{ SYS_poll, 0, 1, 1, 2, 8, ALL },
	{ SYS_wait4, 0, 0, 2, 0, 1, 4 },
	{ SYS_statx, 2, 0, 5, 0, 1, STATX },
	{ SYS_epoll_ctl, 0, 4, 0, 0, 1, EVENT },
	{ SYS_epoll_pwait, 0, 0, 2, 3, EVENT, ALL },
	{ SYS_readlinkat, 2, 0, 3, 4, 1, LINK },
	{ SYS_faccessat, 2, 0, 0, 0, 1, 0 },
	{ SYS_faccessat2_, 2, 0, 0, 0, 1, 0 },
	{ SYS_unlink, 1, 0, 0, 0, 1, 0 },
	{ SYS_unlinkat, 2, 0, 0, 0, 1, 0 },
	{ SYS_mkdir, 1, 0, 0, 0, 1, 0 },
	{ SYS_rmdir, 1, 0, 0, 0, 1, 0 },
	{ SYS_chdir, 1, 0, 0, 0, 1, 0 },
	{ SYS_pipe2, 0, 0, 1, 0, 1, 8 },
	{ SYS_pipe, 0, 0, 1, 0, 1, 8 },
	{ SYS_getcwd, 0, 0, 1, 2, 1, LINK },
	{ SYS_getrandom, 0, 0, 1, 2, 1, LINK },
	{ SYS_uname, 0, 0, 1, 0, 1, UNAME },
	{ SYS_clock_nanosleep, 0, 3, 0, 0, 1, TIME },
};

static uint64_t arg(const struct place_state *s, unsigned i)
{
	const uint64_t a[] = { 0, s->rdi, s->rsi, s->rdx, s->r10, s->r8 };

	return a[i];
}

static int take(struct place_carry *c, const struct place_state *s, const struct how *h)
{
	uint64_t len = h->len ? arg(s, h->len) : h->most;

	if (len > CARRY_DATA)
		len = CARRY_DATA;
	len *= h->unit;
	if (h->path && !take_path(c, arg(s, h->path)))
		return 0;
	if (h->in && arg(s, h->in) && !take_bytes(c, arg(s, h->in), len))
		return 0;
	if (h->room && arg(s, h->room))
		give_room(c, arg(s, h->room), len < h->most ? len : h->most);
	return h->path || h->in || h->room || s->lent;
}

/* NULL: such a call is not carried. None of what the filter lets the shim do itself is. */
static const struct how *how_of(uint32_t nr)
{
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].nr == nr)
			return &table[i];
	return 0;
}

/* What was done with files that are lent: the kernel process asks for that first. */
static void take_lent(struct place_carry *c, const struct place_state *s)
{
	const struct place_fd *f = (const struct place_fd *)PLACE_FDS_AT;
	uint64_t lent = s->lent;

	for (unsigned i = 0; lent; i++, lent &= lent - 1) {
		const struct place_fd *one = &f[__builtin_ctzl(lent)];

		if (i == CARRY_LENT)
			return;
		c->files[i].pos = one->pos;
		c->files[i].closed = one->closed;
	}
	c->lent = s->lent;
}

long carry_out(void)
{
	const struct place_state *s = (const struct place_state *)PLACE_STATE;
	const struct place_site *site = site_of(s);
	const struct how *h = how_of(site->nr);
	struct place_carry *c = page_of();

	c->in_len = c->room_len = c->outs = 0;
	c->lent = 0;
	if (!h || !take(c, s, h))
		return 0;
	take_lent(c, s);
	c->ip = site->ret;
	return 1;
}

void carry_back(void)
{
	const struct place_carry *c = page_of();

	for (uint32_t i = 0; i < c->outs && i < CARRY_OUTS; i++)
		if (c->out[i].from <= CARRY_DATA && c->out[i].len <= CARRY_DATA - c->out[i].from &&
			shim_copy((void *)c->out[i].at, c->data + c->out[i].from, c->out[i].len))
			((struct place_state *)PLACE_STATE)->ret = (uint64_t)-EFAULT_;
}

int carry_interrupted(struct ucontext *uc)
{
	struct place_state *s = (struct place_state *)PLACE_STATE;
	uint64_t ip = uc->m.rip;
	int stack = uc->m.rsp > PLACE_STACK_AT && uc->m.rsp <= PLACE_LOG_AT;

	if (!stack && (ip < (uint64_t)place_carry || ip >= (uint64_t)place_carry_done))
		return 0;
	if (!stack && ip == (uint64_t)place_carried) {
		s->ret = uc->m.rax;
	} else if (!s->back && (stack || ip < (uint64_t)place_carried)) {
		begin_again(uc);
		return 1;
	}
	carry_back();
	to_site(uc);
	uc->m.rax = s->ret;
	return 1;
}
