/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_TOUCHED_H
#define WARD_TIER_VM_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tier/vm/gmem.h"
#include "tier/vm/snapfile.h"

/*
 * Which pages a copy had touched when its agent was ready: the first copy of a snapshot finds out,
 * it is kept behind the state. For the next ones they are read from the disk ahead, and of those
 * that it had written to they get their own before they run.
 */
enum {
	TOUCHED_RUNS_MAX = 2048,
	TOUCHED_PAGES_MAX = 32768, /* 128 MiB; what is beyond is not worth the waiting */
	TOUCHED_WRITTEN_MAX = 4096,
};

struct touched {
	uint32_t count;
	struct touched_run {
		uint32_t first; /* page of the memory file */
		uint16_t count, written;
	} runs[TOUCHED_RUNS_MAX];
};

/* Notes that page @n was touched, and perhaps written to; pages come in rising order. What does not
 * fit is left out. */
void touched_add(struct touched *t, uint64_t n, bool written);
/* Rising, apart, within @memory_bytes, and no more than there may be? */
bool touched_is_sound(const struct touched *t, uint64_t memory_bytes);

/* Behind the body of the state file @fd, whose head is @h. */
int touched_write(int fd, const struct snap_head *h, const struct touched *t, struct err *e);
/* False: there is none, or it makes no sense; a copy then does without. */
bool touched_read(int fd, const struct snap_head *h, struct touched *ret);

/* The same of bytes in memory. */
bool touched_take(const void *data, size_t len, const struct snap_head *h, struct touched *ret);

/* Has the kernel read them, now, into its cache, and make private what will be written to; nothing
 * is lost when it will not. */
void touched_fetch(const struct touched *t, const struct gmem *mem);

#endif
