/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/mm/lock.c - what of a memory is locked, in words.
 *
 * Owns:  mm->locks: ranges of whole pages, sorted, that do not touch.
 * Rules: under the kernel lock. What a guest unmaps stays in the books: whoever counts takes what
 *        is mapped only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/mm/lock.h"

static int room(struct mm *mm)
{
	struct mm_range *more;

	if (mm->lock_count >= MM_LOCKS_MAX)
		return -ENOMEM;
	more = realloc(mm->locks, (mm->lock_count + 2) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	mm->locks = more;
	return 0;
}

static void drop(struct mm *mm, unsigned i)
{
	mm->lock_count--;
	memmove(&mm->locks[i], &mm->locks[i + 1], (mm->lock_count - i) * sizeof(mm->locks[0]));
}

static void put(struct mm *mm, unsigned i, uint64_t from, uint64_t to)
{
	memmove(&mm->locks[i + 1], &mm->locks[i], (mm->lock_count - i) * sizeof(mm->locks[0]));
	mm->locks[i] = (struct mm_range){ from, to };
	mm->lock_count++;
}

int mm_unlock(struct mm *mm, uint64_t from, uint64_t to)
{
	int r = room(mm); /* one may become two */

	if (r < 0)
		return mm->lock_count ? r : 0;
	for (unsigned i = 0; i < mm->lock_count;) {
		struct mm_range *l = &mm->locks[i], old = *l;

		if (l->to <= from || l->from >= to) {
			i++;
			continue;
		}
		drop(mm, i);
		if (old.from < from)
			put(mm, i++, old.from, from);
		if (old.to > to)
			put(mm, i++, to, old.to);
	}
	return 0;
}

int mm_lock(struct mm *mm, uint64_t from, uint64_t to)
{
	unsigned i = 0;
	int r = room(mm);

	if (r < 0)
		return r;
	while (i < mm->lock_count && mm->locks[i].to < from)
		i++;
	while (i < mm->lock_count && mm->locks[i].from <= to) { /* joined */
		if (mm->locks[i].from < from)
			from = mm->locks[i].from;
		if (mm->locks[i].to > to)
			to = mm->locks[i].to;
		drop(mm, i);
	}
	put(mm, i, from, to);
	return 0;
}

void mm_unlock_all(struct mm *mm)
{
	free(mm->locks);
	mm->locks = NULL;
	mm->lock_count = 0;
	mm->lock_future = false;
}

uint64_t mm_locked(const struct mm *mm, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	if (mm->lock_future)
		return to - from;
	for (unsigned i = 0; i < mm->lock_count; i++) {
		const struct mm_range *l = &mm->locks[i];
		uint64_t a = l->from > from ? l->from : from, b = l->to < to ? l->to : to;

		if (a < b)
			sum += b - a;
	}
	return sum;
}
