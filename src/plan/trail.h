/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PLAN_TRAIL_H
#define WARD_PLAN_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum step {
#define STEP(id, name, what) STEP_##id,
#include "plan/steps.def"
#undef STEP
	STEP_COUNT
};

/*
 * Where a start is, and how long each step took. No pointers in it, so that the first process of a
 * sandbox can write its part into shared memory, and the reader can check every number.
 */
struct trail {
	uint32_t count;
	uint32_t failed; /* 0, or 1 + the step that failed */
	struct {
		uint32_t step;
		uint64_t start_ns;
	} marks[STEP_COUNT * 2];
	int32_t code; /* errno of the failure */
	char msg[200];
};

void trail_begin(struct trail *t, enum step s);
/* Notes that the step that is running has failed; @e says how. */
void trail_fail(struct trail *t, const struct err *e);
enum step trail_current(const struct trail *t);
/* What failed, if anything did, was no step of the start: it was up and running. */
bool trail_ran(const struct trail *t);
const char *step_name(enum step s);
const char *step_what(enum step s);
/* A checked private copy of a trail that a less trusted process may still be writing to. */
void trail_copy(struct trail *dst, const volatile struct trail *src);
/* {"cgroup":123,...}: microseconds of each step, out of two trails merged by time. */
void trail_json(struct buf *b, const char *key, const struct trail *a, const struct trail *child,
	uint64_t end_ns);

#endif
