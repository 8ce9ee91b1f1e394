/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_QUOTA_H
#define WARD_HUB_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "hub/fail.h"

/*
 * What a tenant may have, what it has, and how fast it may ask. Pure: the clock is an argument.
 * A limit of 0 is no limit; creates that must not happen at all are said as -1.
 */
struct quota_limits {
	int64_t sandboxes, memory_bytes, cpu_milli;
	int64_t creates_micro; /* per 1,000,000 seconds */
};

struct quota_use {
	int64_t sandboxes, memory_bytes, cpu_milli;
};

/* A bucket that holds two seconds' worth, and at least one create. */
struct quota_bucket {
	uint64_t last_ms; /* 0: never used, full */
	int64_t nano;     /* billionths of a create that are left */
};

/* May @more be added to @use? TOO_MANY says which sum would be passed. */
int quota_check(const char *tenant, const struct quota_limits *max, const struct quota_use *use,
	const struct quota_use *more, struct hub_fail *f);
/* Takes one create. TOO_MANY with retry_after_s when the bucket is empty. */
int quota_take(const char *tenant, struct quota_bucket *b, int64_t creates_micro, uint64_t now_ms,
	struct hub_fail *f);

#endif
