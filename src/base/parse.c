/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/parse.c - numbers with units, from options and files.
 *
 * Owns:  nothing.
 * Rules: hostile input; every multiplication is checked, and nothing is written on failure.
 */
#include <errno.h>
#include <stddef.h>
#include <strings.h>

#include "base/ckd.h"
#include "base/parse.h"

/* Reads digits; returns the first character after them, or NULL when there is none or it wraps. */
static const char *digits(const char *p, uint64_t *ret, int *ret_err)
{
	uint64_t v = 0;

	if (*p < '0' || *p > '9') {
		*ret_err = -EINVAL;
		return NULL;
	}
	for (; *p >= '0' && *p <= '9'; p++) {
		if (ckd_mul(&v, v, 10) || ckd_add(&v, v, (uint64_t)(*p - '0'))) {
			*ret_err = -ERANGE;
			return NULL;
		}
	}
	*ret = v;
	return p;
}

/* Reads up to three digits of a fraction, as thousandths; further digits must be there but count
 * for nothing. */
static const char *thousandths(const char *p, uint64_t *ret, int *ret_err)
{
	uint64_t v = 0, scale = 100;

	if (*p < '0' || *p > '9') {
		*ret_err = -EINVAL;
		return NULL;
	}
	for (; *p >= '0' && *p <= '9'; p++) {
		v += (uint64_t)(*p - '0') * scale;
		scale /= 10;
	}
	*ret = v;
	return p;
}

static int in_range(uint64_t v, uint64_t min, uint64_t max, uint64_t *ret)
{
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v;
	int r = 0;
	const char *p = digits(text, &v, &r);

	if (!p)
		return r;
	if (*p)
		return -EINVAL;
	return in_range(v, min, max, ret);
}

static int size_unit(const char *unit, uint64_t *ret_factor)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = {
		{ "", 0 },
		{ "b", 0 },
		{ "k", 10 },
		{ "kb", 10 },
		{ "kib", 10 },
		{ "m", 20 },
		{ "mb", 20 },
		{ "mib", 20 },
		{ "g", 30 },
		{ "gb", 30 },
		{ "gib", 30 },
		{ "t", 40 },
		{ "tb", 40 },
		{ "tib", 40 },
	};

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (strcasecmp(unit, units[i].name) == 0) {
			*ret_factor = 1ULL << units[i].shift;
			return 0;
		}
	}
	return -EINVAL;
}

int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *ret_bytes)
{
	uint64_t v, factor;
	int r = 0;
	const char *p = digits(text, &v, &r);

	if (!p)
		return r;
	r = size_unit(p, &factor);
	if (r < 0)
		return r;
	if (ckd_mul(&v, v, factor))
		return -ERANGE;
	return in_range(v, min, max, ret_bytes);
}

static int duration_unit(const char *unit, uint64_t *ret_ms)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
		{ "", 1000 },
		{ "ms", 1 },
		{ "s", 1000 },
		{ "m", 60000 },
		{ "min", 60000 },
		{ "h", 3600000 },
	};

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (strcasecmp(unit, units[i].name) == 0) {
			*ret_ms = units[i].ms;
			return 0;
		}
	}
	return -EINVAL;
}

int parse_duration(const char *text, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms)
{
	uint64_t whole, part = 0, factor, v;
	int r = 0;
	const char *p = digits(text, &whole, &r);

	if (p && *p == '.')
		p = thousandths(p + 1, &part, &r);
	if (!p)
		return r;
	r = duration_unit(p, &factor);
	if (r < 0)
		return r;
	if (ckd_mul(&v, whole, factor) || ckd_add(&v, v, part * factor / 1000))
		return -ERANGE;
	return in_range(v, min_ms, max_ms, ret_ms);
}

int parse_milli(const char *text, uint64_t min, uint64_t max, uint64_t *ret_milli)
{
	uint64_t whole, part = 0, v;
	int r = 0;
	const char *p = digits(text, &whole, &r);

	if (p && *p == '.')
		p = thousandths(p + 1, &part, &r);
	if (!p)
		return r;
	if (*p)
		return -EINVAL;
	if (ckd_mul(&v, whole, 1000) || ckd_add(&v, v, part))
		return -ERANGE;
	return in_range(v, min, max, ret_milli);
}
