/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/carry.c - what a call reads and writes, beside it.
 *
 * Owns:  our half of the memory at the guest's PLACE_CARRY_AT.
 * Rules: under the kernel lock. The page is the guest's, and may change at any time: each of its
 *        words is taken once, into struct carried, and what we leave there we never read again.
 *        Where the guest has said that a call may write is its own word too: what is left for it
 *        there it copies itself.
 */
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "tier/kernel/mm/copy.h"
#include "tier/kernel/task/task.h"
#include "tier/kernel/trap/carry.h"

struct place_carry *carry_map(int fd)
{
	void *p = mmap(
		NULL, PLACE_CARRY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

void carry_unmap(struct place_carry *page)
{
	if (page)
		munmap(page, PLACE_CARRY_SIZE);
}

void carry_drop(struct mm *mm)
{
	if (mm->carried)
		mm->carried->mm = NULL;
	mm->carried = NULL;
	carry_unmap(mm->carry);
	mm->carry = NULL;
}

static bool is_within(uint64_t at, uint64_t len, uint64_t from, uint64_t size)
{
	return at >= from && at - from <= size && len <= size - (at - from);
}

static bool is_apart(uint64_t at, uint64_t len, uint64_t from, uint64_t size)
{
	return at >= from ? at - from >= size : from - at >= len;
}

/* Who watches every call sees it come from where it really does. */
static bool is_watched(const struct task *t)
{
	return t->filters || t->seccomp_strict || t->trace;
}

static void attach(struct carried *c, struct mm *mm, uint64_t room, uint32_t len)
{
	c->mm = mm;
	c->page = mm->carry;
	c->room_at = room;
	c->room_len = len;
	c->in_len = 0;
	c->lent = 0;
	c->outs = c->used = 0;
	mm->carried = c;
}

uint64_t carry_begin(struct carried *c, struct task *t)
{
	struct mm *mm = t->mm;
	struct {
		uint64_t ip, in_at, room_at;
		uint32_t in_len, room_len;
		uint64_t lent;
	} h;

	_Static_assert(sizeof(h) == offsetof(struct place_carry, files), "as the guest has it");
	if (!mm->carry || is_watched(t))
		return 0;
	memcpy(&h, mm->carry, sizeof(h));
	__asm__ volatile("" : : : "memory");
	if (h.in_len > CARRY_IN || h.room_len > CARRY_ROOM ||
		__builtin_popcountll(h.lent) > CARRY_LENT)
		return 0;
	memcpy(c->in, mm->carry->in, h.in_len);
	if (h.lent)
		memcpy(c->files, mm->carry->files, sizeof(c->files));
	__asm__ volatile("" : : : "memory");
	attach(c, mm, h.room_at, h.room_len);
	c->in_at = h.in_at;
	c->in_len = h.in_len;
	c->lent = h.lent;
	return h.ip;
}

void carry_again(struct carried *c, struct task *t, uint64_t room, uint32_t len)
{
	if (t->mm && t->mm->carry && !is_watched(t))
		attach(c, t->mm, room, len);
}

void carry_flush(struct carried *c)
{
	struct mm *mm = c->mm;
	unsigned n = c->outs;

	c->outs = c->used = 0;
	if (!mm)
		return;
	mm->carried = NULL;
	/* From the page: should the guest have changed it, that is what it gets. */
	for (unsigned i = 0; i < n; i++)
		mm->ops->write(mm, c->out[i].at, c->page->data + c->out[i].from, c->out[i].len);
	mm->carried = c;
}

void carry_end(struct carried *c)
{
	if (!c->mm)
		return;
	for (unsigned i = 0; i < c->outs; i++) {
		c->page->out[i].at = c->out[i].at;
		c->page->out[i].len = c->out[i].len;
		c->page->out[i].from = c->out[i].from;
	}
	if (c->outs)
		c->page->outs = c->outs;
	c->mm->carried = NULL;
	c->mm = NULL;
}

/* Does [at, at+len) touch what is on its way to the guest? */
static bool is_pending(const struct carried *c, uint64_t at, uint64_t len)
{
	for (unsigned i = 0; i < c->outs; i++)
		if (!is_apart(at, len, c->out[i].at, c->out[i].len))
			return true;
	return false;
}

size_t carry_read(struct carried *c, void *dst, uint64_t src, size_t len, bool part)
{
	size_t have;

	if (is_pending(c, src, len))
		carry_flush(c);
	if (src < c->in_at || src - c->in_at >= c->in_len)
		return 0;
	have = c->in_len - (src - c->in_at);
	if (have < len && !part)
		return 0;
	if (have > len)
		have = len;
	memcpy(dst, c->in + (src - c->in_at), have);
	return have;
}

static bool may_leave(const struct carried *c, uint64_t at, uint64_t len)
{
	return is_within(at, len, c->room_at, c->room_len) ||
	       is_within(at, len, PLACE_BASE, PLACE_AGE - PLACE_BASE);
}

static void leave(struct carried *c, uint64_t at, const void *bytes, uint32_t len)
{
	c->out[c->outs].at = at;
	c->out[c->outs].len = len;
	c->out[c->outs++].from = c->used;
	memcpy(c->page->data + c->used, bytes, len);
	c->used += (len + 7u) & ~7u;
}

bool carry_write(struct carried *c, const struct iovec *to, const struct iovec *from, unsigned n)
{
	bool may = true, clash = false;
	unsigned parts = 0;
	size_t sum = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t at = (uint64_t)(uintptr_t)to[i].iov_base, len = to[i].iov_len;

		if (!len)
			continue;
		may = may && len <= CARRY_DATA && may_leave(c, at, len);
		clash = clash || is_pending(c, at, len);
		if (!is_apart(at, len, c->in_at, c->in_len))
			c->in_len = 0; /* not what stands there any more */
		sum += (len + 7) & ~7UL;
		parts++;
	}
	if (!may || sum > CARRY_DATA - c->used || parts > CARRY_OUTS - c->outs) {
		if (clash)
			carry_flush(c);
		return false;
	}
	for (unsigned i = 0; i < n; i++)
		if (to[i].iov_len)
			leave(c, (uint64_t)(uintptr_t)to[i].iov_base, from[i].iov_base,
				(uint32_t)to[i].iov_len);
	return true;
}

bool carry_lent(const struct carried *c, unsigned fd, int64_t *ret_pos, bool *ret_closed)
{
	uint64_t bit = (uint64_t)1 << fd;
	int i;

	if (!(c->lent & bit))
		return false;
	i = __builtin_popcountll(c->lent & (bit - 1));
	*ret_pos = c->files[i].pos;
	*ret_closed = c->files[i].closed != 0;
	return true;
}
