/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_POLICY_POLICY_H
#define WARD_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "plan/wall.h"
#include "policy/traits.h"

/*
 * Traits -> the least wall allowed, the recommended one, the one that is used, and why. Pure: no
 * files, no clock, no threads, no allocation. docs/POLICY.md explains the rules to users.
 */
#define WALL_BIT(w) (1u << (w))
#define WALLS_ALL ((WALL_BIT(WALL_COUNT) - 1) & ~WALL_BIT(WALL_NONE))

enum { POLICY_FIRED_MAX = 16, POLICY_WHY_MAX = 376 };

/* Whose recommendation wins: the strongest pull; among equals the highest wall. */
enum pull { PULL_NONE, PULL_RISK, PULL_PLACE, PULL_COST };

/* One row of the table in rules.c. */
struct policy_rule {
	const char *id;            /* "R1.generated"; stable: it is in records and in the docs */
	const char *covers;        /* which rows and rules of the risk document */
	uint8_t when[TRAIT_COUNT]; /* a bit per value that matches; 0: any value */
	enum wall least;           /* WALL_NONE: demands nothing */
	unsigned beside;           /* of js and wasm, those that satisfy the demand as well */
	unsigned cannot;   /* walls that cannot do it at all; no accepted risk changes that */
	enum wall best[2]; /* recommended, the first choice first */
	enum pull pull;
	const char *who;     /* the subject of a sentence: "generated code" */
	const char *reason;  /* one sentence for people */
	const char *instead; /* what the caller may do when the demand cannot be met */
};

const struct policy_rule *policy_rules(unsigned *ret_count);

struct policy_input {
	struct traits traits;
	enum wall asked;         /* named by hand; WALL_NONE: choose */
	const char *accept_risk; /* the reason given with --accept-risk; NULL: not given */
	unsigned available;      /* WALL_BIT()s that this host and build offer for this command */
	/* Optional, [WALL_COUNT]: what is missing for each wall that is not available. */
	const char *const *missing;
};

enum refusal {
	REFUSED_NO = 0,
	REFUSED_WEAK,     /* -EPERM: the named wall is below the demand, and no risk was accepted */
	REFUSED_ABSENT,   /* -ENODEV: no wall that would do is available, or the named one is not */
	REFUSED_CONFLICT, /* -EINVAL: the traits, or the traits and the named wall, contradict */
	REFUSED_INPUT,    /* -EINVAL: --accept-risk without a reason */
};

const char *refusal_name(enum refusal r); /* "no", "too-weak", "not-available", ... */

struct decision {
	struct traits traits; /* as read: nothing in it is unset but the load */
	unsigned safe;        /* walls that every fired rule accepts */
	unsigned able;        /* walls that can do what was asked */
	enum wall least;      /* the lowest of safe & able; WALL_NONE when they contradict */
	enum wall recommended;
	enum wall chosen; /* WALL_NONE when refused */
	const struct policy_rule *fired[POLICY_FIRED_MAX];
	unsigned fired_count;
	bool by_operator;          /* named by hand, and the rules did not confirm it */
	const char *accepted_risk; /* input's reason, when the wall needed it; borrowed */
	bool risk_unused;          /* a reason was given and nothing needed it */
	enum refusal refused;
	char why[POLICY_WHY_MAX]; /* one line; when refused, the same as the error */
};

/*
 * Decides. @ret is filled also when the answer is no, so that `ward advise` can show how it came
 * about. The answer never rests on a wall that is not available, and never on one below the demand
 * unless it was named by hand together with an accepted risk, or named by hand with no traits at
 * all. Probing walls one by one gives the same answer as probing all of them: when the chosen one
 * turns out not to work, drop it from @available and decide again.
 */
int policy_decide(const struct policy_input *in, struct decision *ret, struct err *e);

#endif
