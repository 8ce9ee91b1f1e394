/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_LIMITER_H
#define WARD_TIER_VM_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

/* How much may pass: so many tokens in so much time, and once so many more. 0 size: no limit. */
struct bucket_limit {
	uint64_t size;      /* tokens that it holds when full */
	uint64_t refill_ms; /* from empty to full */
	uint64_t burst;     /* on top, once */
};

struct bucket {
	uint64_t size, tokens, burst;
	uint64_t add, every; /* @add tokens come every @every nanoseconds; reduced */
	uint64_t at_ns;      /* time that has been turned into tokens already */
};

/* One direction of a device. */
struct limiter {
	struct bucket bytes, ops;
};

enum { LIMITER_RETRY_MS = 100 };

/* False: the numbers make no sense (a size without a time, or too large). */
bool bucket_init(struct bucket *b, const struct bucket_limit *limit, uint64_t now_ns);
/* Takes @n tokens. False: they are not there; nothing is taken. More than it can ever hold passes
 * when it is full, and leaves it empty with a debt of time. */
bool bucket_take(struct bucket *b, uint64_t n, uint64_t now_ns);
void bucket_give_back(struct bucket *b, uint64_t n);

/* One request of @bytes. False: try again after LIMITER_RETRY_MS; nothing is taken. */
bool limiter_take(struct limiter *l, uint64_t bytes, uint64_t now_ns);

#endif
