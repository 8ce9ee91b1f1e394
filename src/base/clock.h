/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_CLOCK_H
#define WARD_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

enum { CLOCK_TEXT = 28 };

/* Now, in UTC with microseconds: "2025-06-01T10:00:00.125000Z". */
void clock_text(char out[CLOCK_TEXT]);
/* The same for a moment in microseconds since 1970. */
void clock_text_at(int64_t us, char out[CLOCK_TEXT]);
int64_t clock_now_us(void);
/*
 * Reads "2025-06-01", "2025-06-01T10:00", "...T10:00:00" or "...T10:00:00.125", each with or
 * without a Z at the end, as UTC. 0 or -EINVAL; writes the result on success only.
 */
int clock_parse(const char *text, int64_t *ret_us);

#endif
