/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan/trail.c - where a start is, and how long each step took.
 *
 * Owns:  the step names.
 * Rules: trail_begin and trail_fail run between clone and exec: no allocation, no logging.
 */
#include <string.h>

#include "base/clock.h"
#include "base/ckd.h"
#include "base/json.h"
#include "plan/trail.h"

static const struct {
	const char *name, *what;
} steps[STEP_COUNT] = {
#define STEP(id, name, what) { name, what },
#include "plan/steps.def"
#undef STEP
};

const char *step_name(enum step s)
{
	return steps[s].name;
}

const char *step_what(enum step s)
{
	return steps[s].what;
}

void trail_begin(struct trail *t, enum step s)
{
	if (t->count >= ARRAY_LEN(t->marks))
		return;
	t->marks[t->count].step = s;
	t->marks[t->count].start_ns = clock_ns();
	t->count++;
}

enum step trail_current(const struct trail *t)
{
	return t->count ? (enum step)t->marks[t->count - 1].step : STEP_OPTIONS;
}

bool trail_ran(const struct trail *t)
{
	return t->failed == 1 + STEP_RUN;
}

void trail_fail(struct trail *t, const struct err *e)
{
	size_t n = strnlen(e->msg, sizeof(t->msg) - 1);

	if (t->failed)
		return;
	memcpy(t->msg, e->msg, n);
	t->msg[n] = '\0';
	t->code = e->code;
	t->failed = 1 + (uint32_t)trail_current(t);
}

void trail_copy(struct trail *dst, const volatile struct trail *src)
{
	const volatile unsigned char *from = (const volatile unsigned char *)src;
	unsigned char *to = (unsigned char *)dst;

	for (size_t i = 0; i < sizeof(*dst); i++)
		to[i] = from[i];
	if (dst->count > ARRAY_LEN(dst->marks))
		dst->count = 0;
	for (uint32_t i = 0; i < dst->count; i++)
		if (dst->marks[i].step >= STEP_COUNT)
			dst->count = i;
	if (dst->failed > STEP_COUNT)
		dst->failed = 0;
	if (dst->code < 0 || dst->code > 4095)
		dst->code = 0;
	dst->msg[sizeof(dst->msg) - 1] = '\0';
}

static void add_spans(uint64_t us[STEP_COUNT], const struct trail *t, uint64_t end_ns)
{
	for (uint32_t i = 0; i < t->count; i++) {
		uint64_t stop = i + 1 < t->count ? t->marks[i + 1].start_ns : end_ns;

		if (stop > t->marks[i].start_ns)
			us[t->marks[i].step] += (stop - t->marks[i].start_ns) / 1000;
	}
}

void trail_json(struct buf *b, const char *key, const struct trail *a, const struct trail *child,
	uint64_t end_ns)
{
	uint64_t us[STEP_COUNT] = { 0 }, seen = 0;

	add_spans(us, a, end_ns);
	for (uint32_t i = 0; i < a->count; i++)
		seen |= 1ULL << a->marks[i].step;
	if (child && child->count) {
		/* The child's last mark ends where it handed over to the command. */
		add_spans(us, child, child->marks[child->count - 1].start_ns);
		for (uint32_t i = 0; i < child->count; i++)
			seen |= 1ULL << child->marks[i].step;
	}
	json_open(b, key);
	for (unsigned i = 0; i < STEP_COUNT; i++)
		if (seen & 1ULL << i)
			json_u64(b, steps[i].name, us[i]);
	json_close(b);
}
