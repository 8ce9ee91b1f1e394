/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/debug.c - the debug registers of a tracee, without the processor's.
 *
 * Owns:  trace.debug, trace.watched.
 * Rules: a tracee that has one switched on goes on step by step, and after each we look: is it at
 *        the instruction, is another value there? So who only reads is not found, and to watch for
 *        that is refused.
 */
#include <errno.h>
#include <string.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/task/trace.h"

enum { ADDRESSES = 4, STATUS = 6, CONTROL = 7 };
enum { KIND_EXECUTE = 0, KIND_WRITE = 1, ON_ANY = 0xff };

static bool is_on(uint64_t control, unsigned i)
{
	return control >> (2 * i) & 3;
}

static unsigned kind_of(uint64_t control, unsigned i)
{
	return control >> (16 + 4 * i) & 3;
}

static unsigned length_of(uint64_t control, unsigned i)
{
	static const unsigned lengths[] = { 1, 2, 8, 4 };

	return lengths[control >> (18 + 4 * i) & 3];
}

/* Could breakpoint @i be at @at? */
static bool fits(uint64_t control, unsigned i, uint64_t at)
{
	unsigned kind = kind_of(control, i), length = length_of(control, i);

	if (!is_on(control, i))
		return true;
	return kind == KIND_EXECUTE ? length == 1 : kind == KIND_WRITE && at % length == 0;
}

bool debug_is_on(const struct trace *tr)
{
	return tr->debug[CONTROL] & ON_ANY;
}

long debug_poke(struct trace *tr, unsigned i, uint64_t v)
{
	if (i < ADDRESSES && (v >= GUEST_ADDR_END || !fits(tr->debug[CONTROL], i, v)))
		return -EINVAL;
	if (i == ADDRESSES || i == ADDRESSES + 1)
		return -EIO;
	for (unsigned n = 0; i == CONTROL && n < ADDRESSES; n++)
		if (!fits(v, n, tr->debug[n]))
			return -EINVAL;
	tr->debug[i] = v;
	return 0;
}

static uint64_t value_at(struct trace *tr, unsigned i)
{
	uint64_t v = 0;

	guest_read(tr->task, &v, GVA(tr->debug[i]), length_of(tr->debug[CONTROL], i));
	return v;
}

void debug_look(struct trace *tr)
{
	for (unsigned i = 0; i < ADDRESSES; i++)
		if (is_on(tr->debug[CONTROL], i) && kind_of(tr->debug[CONTROL], i) == KIND_WRITE)
			tr->watched[i] = value_at(tr, i);
}

bool debug_hit(struct trace *tr, uint64_t ip)
{
	unsigned hits = 0;

	for (unsigned i = 0; i < ADDRESSES; i++) {
		if (!is_on(tr->debug[CONTROL], i))
			continue;
		if (kind_of(tr->debug[CONTROL], i) == KIND_EXECUTE
				? ip == tr->debug[i]
				: value_at(tr, i) != tr->watched[i])
			hits |= 1u << i;
	}
	tr->debug[STATUS] = (tr->debug[STATUS] & ~0xfULL) | hits;
	return hits;
}

void debug_off(struct trace *tr)
{
	memset(tr->debug, 0, sizeof(tr->debug));
}
