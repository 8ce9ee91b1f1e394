/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/words.c - says in one line what was decided, and what to do about a refusal.
 *
 * Owns:  nothing.
 * Rules: never a line break; a line that grows too long is cut at its end. Every refusal names the
 *        rule, and an option that changes the answer.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/ckd.h"
#include "policy/policy.h"
#include "policy/words.h"

enum { MISSING_SHOWN = 90, MISSING_ALONE_SHOWN = 150 }; /* characters of one "what is missing" */

static void say(struct decision *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct decision *d, const char *fmt, ...)
{
	size_t at = strlen(d->why);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d->why + at, sizeof(d->why) - at, fmt, ap);
	va_end(ap);
	/* What is missing comes from elsewhere, and one line must stay one line. */
	for (char *p = d->why + at; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
}

/* "kernel, vm or wasm" */
static void say_walls(struct decision *d, unsigned mask, const char *last)
{
	for (unsigned w = WALL_WORKSPACE; w < WALL_COUNT; w++) {
		if (!(mask & WALL_BIT(w)))
			continue;
		mask &= ~WALL_BIT(w);
		say(d, "%s%s", wall_name((enum wall)w),
			!mask               ? ""
			: mask & (mask - 1) ? ", "
					    : last);
	}
}

/* "kernel tier or above"; "workspace or container tier"; "vm tier, or js or wasm" */
static void say_tiers(struct decision *d, unsigned mask)
{
	unsigned beside = mask & (WALL_BIT(WALL_JS) | WALL_BIT(WALL_WASM)),
		 ordered = mask & ~beside;
	unsigned low = ordered & -ordered, above = (WALL_BIT(WALL_VM) << 1) - low;

	if (!ordered) {
		say_walls(d, beside, " or ");
		say(d, " tier");
		return;
	}
	say_walls(d, ordered == above ? low : ordered, " or ");
	say(d, " tier%s", ordered == above && low != WALL_BIT(WALL_VM) ? " or above" : "");
	if (beside) {
		say(d, ", or ");
		say_walls(d, beside, " or ");
	}
}

/* "a plugin needs the js or wasm tier (T7.plugin, R5.fast-start)" */
static void say_demand(const struct policy_input *in, struct decision *d, unsigned mask)
{
	const struct policy_rule *rule = decision_demand(d);
	bool assumed = in->traits.code == CODE_UNSET && rule->when[TRAIT_CODE];

	say(d, "%s%s needs the ", rule->who,
		assumed ? " (the reading when --code is not given)" : "");
	say_tiers(d, mask);
	say(d, " (%s", rule->id);
	for (unsigned i = 0; i < d->fired_count; i++)
		if (d->fired[i] != rule && d->fired[i]->cannot & d->safe & ~mask)
			say(d, ", %s", d->fired[i]->id);
	say(d, ")");
}

/* "kernel: not in this build, vm: no /dev/kvm" */
static void say_missing(const struct policy_input *in, struct decision *d, unsigned mask)
{
	int shown = mask & (mask - 1) ? MISSING_SHOWN : MISSING_ALONE_SHOWN;
	const char *between = "";

	for (unsigned w = WALL_WORKSPACE; w < WALL_COUNT; w++) {
		const char *missing = in->missing ? in->missing[w] : NULL;

		if (!(mask & WALL_BIT(w)) || in->available & WALL_BIT(w))
			continue;
		say(d, "%s%s: %.*s", between, wall_name((enum wall)w), shown,
			missing ? missing : "not available here");
		between = ", ";
	}
}

/* Rules other than @demand that leave none of @mask usable: "a run with a GPU (R3.gpu)". */
static void say_blockers(struct decision *d, const struct policy_rule *demand, unsigned mask)
{
	unsigned count = 0;

	for (unsigned i = 0; i < d->fired_count; i++) {
		const struct policy_rule *rule = d->fired[i];

		if (rule != demand && rule->cannot & mask)
			say(d, "%s%s (%s)", count++ ? " and " : "", rule->who, rule->id);
	}
	say(d, " rule%s out", count == 1 ? "s" : "");
}

static const struct policy_rule *first_blocker(const struct decision *d, unsigned mask)
{
	for (unsigned i = 0; i < d->fired_count; i++)
		if (d->fired[i]->cannot & mask)
			return d->fired[i];
	return NULL;
}

void words_rules_chose(const struct policy_input *in, struct decision *d)
{
	const struct policy_rule *demand = decision_demand(d);
	const struct policy_rule *advocate = decision_advocate(d, d->chosen);

	if (d->chosen == d->recommended && advocate)
		say(d, "%s: recommended for %s (%s)", wall_name(d->chosen), advocate->who,
			advocate->id);
	else
		say(d, "%s: enough for %s (%s)", wall_name(d->chosen), demand->who, demand->id);
	if (in->traits.code == CODE_UNSET)
		say(d, "; --code is not given and reads as generated");
	if (d->chosen == d->recommended)
		return;
	say(d, "; recommended, but not available, is ");
	say_missing(in, d, WALL_BIT(d->recommended));
}

void words_operator_chose(const struct policy_input *in, struct decision *d)
{
	say(d, "%s: named by the operator", wall_name(d->chosen));
	if (!traits_any_set(&in->traits)) {
		say(d, ", who said nothing about the run; no rule was applied");
		return;
	}
	say(d, d->accepted_risk ? ", who accepted the risk: " : "; it satisfies the rules: ");
	say_demand(in, d, d->safe);
}

void words_too_weak(const struct policy_input *in, struct decision *d)
{
	enum wall better = decision_prefer(d, d->safe & d->able & in->available);

	say(d, "--tier %s is refused: ", wall_name(in->asked));
	say_demand(in, d, d->safe & d->able ? d->safe & d->able : d->safe);
	if (better != WALL_NONE)
		say(d, "; give --tier %s", wall_name(better));
	say(d, "%s %s, or run it there all the same with --accept-risk REASON",
		better != WALL_NONE ? "," : ";", decision_demand(d)->instead);
}

/* The strongest wall that an operator could take instead. */
static enum wall strongest(unsigned mask)
{
	for (unsigned w = WALL_VM; w > WALL_NONE; w--)
		if (mask & WALL_BIT(w))
			return (enum wall)w;
	return WALL_NONE;
}

void words_nothing_available(const struct policy_input *in, struct decision *d)
{
	unsigned allowed = d->safe & d->able;
	enum wall other = strongest(in->available & d->able);

	say_demand(in, d, allowed);
	say(d, "; ");
	say_missing(in, d, allowed);
	say(d, "; ");
	if (other != WALL_NONE)
		say(d, "decide yourself with --tier %s%s, or ", wall_name(other),
			traits_any_set(&in->traits) ? " --accept-risk REASON" : "");
	say(d, "%s", decision_demand(d)->instead);
}

void words_asked_not_available(const struct policy_input *in, struct decision *d)
{
	say(d, "--tier %s is not available here; ", wall_name(in->asked));
	say_missing(in, d, WALL_BIT(in->asked));
	say(d, "; available: ");
	if (in->available)
		say_walls(d, in->available, " and ");
	else
		say(d, "none, 'ward doctor' says why");
}

void words_conflict(const struct policy_input *in, struct decision *d)
{
	const struct policy_rule *demand = decision_demand(d);
	unsigned needed = d->safe & ~demand->cannot;
	const struct policy_rule *blocker = first_blocker(d, needed);

	say_demand(in, d, needed);
	say(d, ", which ");
	say_blockers(d, demand, needed);
	say(d, "; %s, or %s", blocker->instead, demand->instead);
}

void words_asked_cannot(const struct policy_input *in, struct decision *d)
{
	const struct policy_rule *blocker = first_blocker(d, WALL_BIT(in->asked));

	say(d, "--tier %s cannot do it: %s (%s) needs another; %s", wall_name(in->asked),
		blocker->who, blocker->id, blocker->instead);
	if (d->safe & d->able) {
		say(d, ", or give --tier ");
		say_walls(d, d->safe & d->able, " or ");
	}
}

void words_no_reason(struct decision *d)
{
	say(d, "--accept-risk is empty: say why the risk is acceptable, it goes into the audit "
	       "log");
}

const char *refusal_name(enum refusal r)
{
	static const char *const names[] = {
		[REFUSED_NO] = "no",
		[REFUSED_WEAK] = "too-weak",
		[REFUSED_ABSENT] = "not-available",
		[REFUSED_CONFLICT] = "conflict",
		[REFUSED_INPUT] = "no-reason",
	};

	return names[r];
}
