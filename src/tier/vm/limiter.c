/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/limiter.c - token buckets: bytes and operations of one direction of a device.
 *
 * Owns:  nothing but its numbers; time is given to it.
 * Rules: time is turned into whole tokens only, and what is left of it stays, so that a caller who
 *        asks often gets its fractions too.
 */
#include "tier/vm/limiter.h"

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

bool bucket_init(struct bucket *b, const struct bucket_limit *limit, uint64_t now_ns)
{
	uint64_t ns = limit->refill_ms * 1000000, g;

	*b = (struct bucket){ 0 };
	if (!limit->size)
		return !limit->refill_ms && !limit->burst;
	if (!limit->refill_ms || limit->refill_ms > UINT64_MAX / 1000000 ||
		limit->size > INT64_MAX || limit->burst > INT64_MAX)
		return false;
	g = gcd(limit->size, ns);
	*b = (struct bucket){ .size = limit->size,
		.tokens = limit->size,
		.burst = limit->burst,
		.add = limit->size / g,
		.every = ns / g,
		.at_ns = now_ns };
	return true;
}

static void refill(struct bucket *b, uint64_t now_ns)
{
	uint64_t room = b->size - b->tokens, elapsed;
	unsigned __int128 come;

	if (now_ns <= b->at_ns) /* a debt of time, or a clock that stood still */
		return;
	elapsed = now_ns - b->at_ns;
	come = (unsigned __int128)elapsed * b->add / b->every;
	if (come >= room) {
		b->tokens = b->size;
		b->at_ns = now_ns;
		return;
	}
	b->tokens += (uint64_t)come;
	/* Only the time that became tokens is used up; rounded up, so that nobody gains. */
	b->at_ns += (uint64_t)((come * b->every + b->add - 1) / b->add);
}

bool bucket_take(struct bucket *b, uint64_t n, uint64_t now_ns)
{
	uint64_t from_burst;

	if (!b->size || !n)
		return true;
	refill(b, now_ns);
	if (now_ns < b->at_ns)
		return false;
	if (n > b->size + b->burst) {
		unsigned __int128 debt;

		if (b->tokens < b->size)
			return false;
		/* It could wait for ever: let it pass, and make the next one wait as long. */
		debt = (unsigned __int128)(n - b->burst - b->size) * b->every / b->add;
		b->at_ns = debt > INT64_MAX ? INT64_MAX : now_ns + (uint64_t)debt;
		b->tokens = b->burst = 0;
		return true;
	}
	if (n > b->tokens + b->burst)
		return false;
	from_burst = n < b->burst ? n : b->burst;
	b->burst -= from_burst;
	b->tokens -= n - from_burst;
	return true;
}

void bucket_give_back(struct bucket *b, uint64_t n)
{
	if (b->size)
		b->tokens = n < b->size - b->tokens ? b->tokens + n : b->size;
}

bool limiter_take(struct limiter *l, uint64_t bytes, uint64_t now_ns)
{
	if (!bucket_take(&l->ops, 1, now_ns))
		return false;
	if (bucket_take(&l->bytes, bytes, now_ns))
		return true;
	bucket_give_back(&l->ops, 1);
	return false;
}
