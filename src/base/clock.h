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

#endif
