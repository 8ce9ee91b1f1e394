/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/later.c - calls that are made later, and reads by the host: what the stubs say
 * in C.
 *
 * Owns:  nothing.
 * Rules: as in inside.h. This part has a stack and registers of its own, and whatever interrupts it
 *        makes it begin again: it lays out what is to be made, and the stub adds that to the log
 *        when everything is the guest's again. What it knows and will no longer be so it forgets
 *        before. A position is moved before the read, and back when that begins again.
 */
#include "tier/kernel/shim/inside.h"

enum { NO_ANSWER = -8192, F_SETLK_ = 6, F_SETLKW_ = 7, F_UNLCK_ = 2 };

static struct place_log *log_of(void)
{
	return (struct place_log *)PLACE_LOG_AT;
}

static int is_open_for(uint32_t fd, unsigned what)
{
	return fd < LATER_FDS && (*(volatile uint16_t *)&log_of()->may[fd] & what);
}

static int lay(struct place_state *s, const struct later_entry *e, const void *data, unsigned cost)
{
	struct place_log *l = log_of();
	uint64_t head = __atomic_load_n(&l->head, __ATOMIC_ACQUIRE);
	uint64_t at = (head & 0xffff) * 8, size = sizeof(*e) + ((e->len + 7UL) & ~7UL);

	if ((head >> 16 & 0xffff) + cost > LATER_COST_MAX || at + size > LATER_LOG_BYTES ||
		!is_open_for(e->fd, e->op))
		return 0;
	*(struct later_entry *)&l->entries[at] = *e;
	memcpy(&l->entries[at + sizeof(*e)], data, e->len);
	s->head = head;
	s->next = head + ((uint64_t)cost << 16) + size / 8;
	return 1;
}

static long later_lock(struct place_state *s)
{
	struct {
		int16_t type, whence;
		int32_t pad;
		int64_t start, len;
	} g;
	struct later_entry e = { .op = LATER_LOCK, .fd = (uint8_t)s->rdi };

	if ((uint32_t)s->rsi != F_SETLK_ && (uint32_t)s->rsi != F_SETLKW_)
		return NO_ANSWER;
	memcpy(&g, (const void *)s->rdx, sizeof(g));
	if (g.type < 0 || g.type > F_UNLCK_ || g.whence || g.start < 0 || g.start >> 61 ||
		g.len < 0 || g.len >> 61)
		return NO_ANSWER;
	e.type = (uint16_t)g.type;
	e.at = g.start;
	e.count = g.len;
	return lay(s, &e, NULL, 1) ? 0 : NO_ANSWER;
}

/* What files hold, or how large they are, is not so any more, by whatever descriptor. */
static void forget_contents(void)
{
	struct place_fd *f = (struct place_fd *)PLACE_FDS_AT;

	for (int i = 0; i < PLACE_FDS; i++)
		if (f[i].stat_age_at == AGE_FILES * sizeof(uint64_t))
			f[i].knows &= ~(uint32_t)(FD_STAT | FD_NATIVE);
	for (int i = 0; i < LATER_READS; i++)
		log_of()->reads[i].len = 0;
}

static long later_write(struct place_state *s)
{
	struct later_entry e = { .op = LATER_WRITE, .fd = (uint8_t)s->rdi };

	if (s->rdx - 1 >= LATER_WRITE_MAX || s->r10 > LATER_OFFSET_MAX)
		return NO_ANSWER;
	e.len = (uint32_t)s->rdx;
	e.at = (int64_t)s->r10;
	e.count = (int64_t)__builtin_ia32_rdtsc();
	forget_contents();
	return lay(s, &e, (const void *)s->rsi, LATER_WRITE_COST) ? (long)e.len : NO_ANSWER;
}

static long later_close(struct place_state *s)
{
	struct later_entry e = { .op = LATER_CLOSE, .fd = (uint8_t)s->rdi };

	if (!lay(s, &e, NULL, 1))
		return NO_ANSWER;
	((struct place_fd *)PLACE_FDS_AT)[e.fd].knows = 0;
	for (int i = 0; i < LATER_READS; i++)
		if (log_of()->reads[i].fd == e.fd)
			log_of()->reads[i].len = 0;
	log_of()->may[e.fd] = 0;
	return 0;
}

static long known_read(const struct place_state *s)
{
	uint64_t age = ((volatile uint64_t *)PLACE_AGE)[AGE_FILES];

	for (int i = 0; i < LATER_READS; i++) {
		const struct later_read *r = &log_of()->reads[i];

		if (r->len == 0 || r->len != s->rdx || r->at != (int64_t)s->r10 ||
			r->fd != (uint32_t)s->rdi || r->age != age ||
			(uint64_t)r->value > sizeof(r->data))
			continue;
		memcpy((void *)s->rsi, r->data, (uint64_t)r->value);
		return r->value;
	}
	return NO_ANSWER;
}

static int holds(uint32_t age_at, uint64_t age)
{
	return *(volatile uint64_t *)(PLACE_AGE + (uint64_t)(age_at & 0xff8)) == age;
}

/* Out of the first bytes of a file that is lent. */
static long lent_read(const struct place_state *s, const struct place_fd *f)
{
	int64_t at = (int64_t)s->r10;
	uint64_t n = s->rdx;

	if (!(f->knows & FD_TEXT) || !n || at < 0 || at > f->size || !holds(f->age_at, f->age) ||
		!holds(f->pos_age_at, f->pos_age))
		return NO_ANSWER;
	if (n > (uint64_t)(f->size - at))
		n = (uint64_t)(f->size - at);
	if ((uint64_t)at + n > f->text_len)
		return NO_ANSWER;
	memcpy((void *)s->rsi, (const void *)(uint64_t)(f->text_at + (uint32_t)at), n);
	return (long)n;
}

static long host_read(const struct place_state *s, int64_t at)
{
	long r = call6(SYS_pread64, s->rdi, s->rsi, s->rdx, (uint64_t)at, 0, 0);

	return r < 0 ? NO_ANSWER : r;
}

/* By the host's copy of a descriptor, which is at the same number; @own: where the file is. */
static long native_read(struct place_state *s, uint32_t fd, int own)
{
	struct place_fd *f = &((struct place_fd *)PLACE_FDS_AT)[fd];
	int64_t want;
	long r;

	if (!(f->knows & FD_NATIVE) || !s->rdx || !holds(f->age_at, f->age) ||
		!holds(f->stat_age_at, f->stat_age))
		return NO_ANSWER;
	if (!own)
		return host_read(s, (int64_t)s->r10);
	if (!holds(f->pos_age_at, f->pos_age) || f->pos < 0 || f->pos > f->size)
		return NO_ANSWER;
	want = f->size - f->pos;
	if ((uint64_t)want > s->rdx)
		want = (int64_t)s->rdx;
	s->read_pos = (uint64_t)f->pos;
	s->read_at = (uint64_t)&f->pos;
	f->pos += want;
	r = host_read(s, (int64_t)s->read_pos);
	if (r >= 0 && r != want)
		f->pos = (int64_t)s->read_pos + r;
	return r;
}

static long clock_now(const struct place_state *s)
{
	enum { REALTIME, MONOTONIC, BOOTTIME = 7 };
	long (*vdso)(long id, uint64_t to) = (long (*)(long, uint64_t))s->clock;

	if (!holds(AGE_WHO * sizeof(uint64_t), s->clock_age) ||
		(s->rdi != REALTIME && s->rdi != MONOTONIC && s->rdi != BOOTTIME))
		return NO_ANSWER;
	return vdso((long)s->rdi, s->rsi) == 0 ? 0 : NO_ANSWER;
}

/* The default in place of the default: all that changes is what a question about it says. */
static long set_default(const struct place_state *s)
{
	struct place_signals *g = (struct place_signals *)PLACE_SIGNALS_AT;
	uint32_t i = (uint32_t)s->rdi - 1;
	uint64_t act[4];

	if (i >= PLACE_SIGNALS || s->rdx || s->r10 != 8 || !g->may_set ||
		!holds(AGE_SIGNALS * sizeof(uint64_t), g->age) || !g->known[i] || g->act[i][0] ||
		PLACE_SIGNALS_NEVER >> i & 1)
		return NO_ANSWER;
	memcpy(act, (const void *)s->rsi, sizeof(act));
	if (act[0] || act[1] != PLACE_SA_RESTORER || act[3])
		return NO_ANSWER;
	memcpy(g->act[i], act, sizeof(act));
	g->set |= 1UL << i;
	return 0;
}

static long later(struct place_state *s, uint32_t kind, uint32_t fd)
{
	switch (kind) {
	case PLACE_LOCK:
		return is_open_for(fd, LATER_LOCK) ? later_lock(s) : NO_ANSWER;
	case PLACE_PREAD:
		return is_open_for(fd, LATER_READ) ? known_read(s) : NO_ANSWER;
	case PLACE_PWRITE:
		return is_open_for(fd, LATER_WRITE) ? later_write(s) : NO_ANSWER;
	case PLACE_SYNC:
		return is_open_for(fd, LATER_SYNC) ? 0 : NO_ANSWER;
	case PLACE_CLOSE:
		return is_open_for(fd, LATER_CLOSE) ? later_close(s) : NO_ANSWER;
	default:
		return NO_ANSWER;
	}
}

long place_prepare(uint32_t kind)
{
	struct place_state *s = (struct place_state *)PLACE_STATE;
	uint32_t fd = (uint32_t)s->rdi;
	long r;

	s->next = 0;
	if (kind == PLACE_CLOCK)
		return clock_now(s);
	if (kind == PLACE_SIGNAL)
		return set_default(s);
	if (fd >= PLACE_FDS || ((struct place_fd *)PLACE_FDS_AT)[fd].closed)
		return NO_ANSWER;
	r = s->log ? later(s, kind, fd) : NO_ANSWER;
	if (r == NO_ANSWER && kind == PLACE_PREAD)
		r = lent_read(s, &((const struct place_fd *)PLACE_FDS_AT)[fd]);
	if (r == NO_ANSWER && (kind == PLACE_READ || kind == PLACE_PREAD))
		r = native_read(s, fd, kind == PLACE_READ);
	return r;
}

void to_site(struct ucontext *uc)
{
	struct place_state *s = (struct place_state *)PLACE_STATE;
	const struct place_site *site = site_of(s);
	uint64_t flags = (s->flags >> 8 & 0xd5) | (s->flags & 1) << 11;

	uc->m.rdi = s->rdi;
	uc->m.rsi = s->rsi;
	uc->m.rdx = s->rdx;
	uc->m.rsp = s->rsp;
	uc->m.rbx = s->rbx;
	uc->m.rbp = s->rbp;
	uc->m.r8 = s->r8;
	uc->m.r9 = s->r9;
	uc->m.r10 = s->r10;
	uc->m.r12 = s->r12;
	uc->m.r13 = s->r13;
	uc->m.r14 = s->r14;
	uc->m.r15 = s->r15;
	uc->m.eflags = (uc->m.eflags & ~0x8d5UL) | flags;
	uc->m.rip = site->ret;
	s->back = 0;
	s->busy = 0;
}

void begin_again(struct ucontext *uc)
{
	struct place_state *s = (struct place_state *)PLACE_STATE;

	if (s->read_at) {
		*(uint64_t *)s->read_at = s->read_pos;
		s->read_at = 0;
	}
	to_site(uc);
	uc->m.rip -= 2;
	uc->m.rax = site_of(s)->nr;
}
