/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/quota.c - may this tenant have one more?
 *
 * Owns:  the arithmetic of quotas; the sums themselves are kept by tenant.c.
 */
#include <errno.h>

#include "base/ckd.h"
#include "hub/quota.h"

enum { BURST_S = 2 };
#define NANO 1000000000ll

static bool is_over(int64_t max, int64_t use, int64_t more)
{
	int64_t sum;

	if (max == 0)
		return false;
	return max < 0 || ckd_add(&sum, use, more) || sum > max;
}

int quota_check(const char *tenant, const struct quota_limits *max, const struct quota_use *use,
	const struct quota_use *more, struct hub_fail *f)
{
	/* What is not asked for is not held against the caller: limits may be lowered at any time.
	 */
	if (more->sandboxes > 0 && is_over(max->sandboxes, use->sandboxes, more->sandboxes))
		return hub_fail(f, HUB_TOO_MANY,
			"tenant '%s' has %lld sandboxes and may have %lld; kill one first", tenant,
			(long long)use->sandboxes,
			(long long)(max->sandboxes > 0 ? max->sandboxes : 0));
	if (more->memory_bytes > 0 &&
		is_over(max->memory_bytes, use->memory_bytes, more->memory_bytes))
		return hub_fail(f, HUB_TOO_MANY,
			"tenant '%s' holds %lld MiB of memory, asks for %lld more and may have "
			"%lld",
			tenant, (long long)(use->memory_bytes >> 20),
			(long long)(more->memory_bytes >> 20),
			(long long)(max->memory_bytes >> 20));
	if (more->cpu_milli > 0 && is_over(max->cpu_milli, use->cpu_milli, more->cpu_milli))
		return hub_fail(f, HUB_TOO_MANY,
			"tenant '%s' holds %.2f CPUs, asks for %.2f more and may have %.2f", tenant,
			(double)use->cpu_milli / 1000, (double)more->cpu_milli / 1000,
			(double)max->cpu_milli / 1000);
	return 0;
}

int quota_take(const char *tenant, struct quota_bucket *b, int64_t creates_micro, uint64_t now_ms,
	struct hub_fail *f)
{
	/* So many billionths of a create come back each millisecond. */
	int64_t full = creates_micro * 1000 * BURST_S, gain;
	uint64_t passed = now_ms - b->last_ms;

	if (creates_micro == 0)
		return 0;
	if (creates_micro < 0)
		return hub_fail(f, HUB_TOO_MANY, "tenant '%s' may not create sandboxes", tenant);
	if (full < NANO)
		full = NANO;
	if (b->last_ms == 0 || passed > 3600 * 1000 ||
		ckd_mul(&gain, (int64_t)passed, creates_micro))
		gain = full;
	b->last_ms = now_ms ? now_ms : 1;
	b->nano = b->nano + gain > full ? full : b->nano + gain;
	if (b->nano >= NANO) {
		b->nano -= NANO;
		return 0;
	}
	hub_fail(f, HUB_TOO_MANY, "tenant '%s' may create %.2f sandboxes per second", tenant,
		(double)creates_micro / 1e6);
	if (f)
		f->retry_after_s = (unsigned)((NANO - b->nano + creates_micro * 1000 - 1) /
					      (creates_micro * 1000));
	return -EDQUOT;
}
