/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_POLICY_TRAITS_H
#define WARD_POLICY_TRAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * What is known about a run. Zero is "nothing was said"; traits_fill() then reads it in the least
 * trusting way.
 */
enum trait_code { CODE_UNSET, CODE_NONE, CODE_TRUSTED, CODE_GENERATED, CODE_PLUGIN };
enum trait_tenants { TENANTS_UNSET, TENANTS_ONE, TENANTS_MANY };
enum trait_data { DATA_UNSET, DATA_PUBLIC, DATA_SENSITIVE };
enum trait_load { LOAD_UNSET, LOAD_COMPUTE, LOAD_IO };

struct traits {
	uint8_t code;       /* enum trait_code: who wrote what runs */
	uint8_t tenants;    /* enum trait_tenants: who shares the host */
	uint8_t data;       /* enum trait_data: what it touches */
	uint8_t load;       /* enum trait_load: what it mostly does */
	uint8_t gpu;        /* the rest are 0 or 1: needs a GPU */
	uint8_t kubernetes; /* Kubernetes places it */
	uint8_t fast_start; /* must start in less than 10 ms */
	uint8_t compliance; /* somebody audits the isolation */
	uint8_t browser;    /* the browser-side part of an agent */
};

/* The same fields by number, for tables. */
enum trait {
	TRAIT_CODE,
	TRAIT_TENANTS,
	TRAIT_DATA,
	TRAIT_LOAD,
	TRAIT_GPU,
	TRAIT_KUBERNETES,
	TRAIT_FAST_START,
	TRAIT_COMPLIANCE,
	TRAIT_BROWSER,
	TRAIT_COUNT,
};

enum { TRAIT_VALUES_MAX = 5 }; /* values of one trait, "unset" included */

/* One option of `ward advise` and `ward run`; their help and completion are made from these. */
struct trait_option {
	const char *name;                     /* "code"; the option is "--code" */
	const char *values[TRAIT_VALUES_MAX]; /* by value, [0] is NULL; all NULL: a flag */
	const char *accepts; /* "none, trusted, generated or plugin"; NULL: a flag */
	const char *help;
};

const struct trait_option *trait_option(enum trait id);

/*
 * Takes one option. @name is with or without its dashes; @value is what follows it, or NULL when
 * nothing does, and is not looked at for a flag. Returns 1 when it used the value, 0 when it was a
 * flag, -ENOENT (and leaves @e alone) when @name is not a trait, and -EINVAL with a message that
 * names the option and what it accepts. A trait that is given twice must say the same twice.
 */
int traits_option(struct traits *t, const char *name, const char *value, struct err *e);

/* Was anything said at all? */
bool traits_any_set(const struct traits *t);

/* The number of a trait's value; "generated", "yes", "no", or "unset" as text. */
uint8_t trait_get(const struct traits *t, enum trait id);
const char *trait_text(const struct traits *t, enum trait id);

/* Nothing said: generated code, one tenant, public data. */
void traits_fill(struct traits *t);

#endif
