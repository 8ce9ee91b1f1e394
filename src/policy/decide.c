/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/decide.c - applies the rules to a run.
 *
 * Owns:  nothing.
 * Rules: pure. A rule that fires takes walls away and never gives one back; what the host does not
 *        have makes the answer "no", never a weaker "yes".
 */
#include <assert.h>
#include <errno.h>

#include "base/ckd.h"
#include "policy/policy.h"
#include "policy/words.h"

/* From the lowest to the highest; the two beside the order come last. */
static const enum wall ladder[] = { WALL_WORKSPACE, WALL_CONTAINER, WALL_KERNEL, WALL_VM, WALL_WASM,
	WALL_JS };

static enum wall lowest(unsigned mask)
{
	for (size_t i = 0; i < ARRAY_LEN(ladder); i++)
		if (mask & WALL_BIT(ladder[i]))
			return ladder[i];
	return WALL_NONE;
}

static unsigned rung(enum wall w)
{
	unsigned i = 0;

	while (ladder[i] != w)
		i++;
	return i;
}

static bool rule_fires(const struct policy_rule *rule, const struct traits *t)
{
	for (int i = 0; i < TRAIT_COUNT; i++) {
		uint8_t v = trait_get(t, (enum trait)i);

		assert(v < TRAIT_VALUES_MAX);
		if (rule->when[i] && !(rule->when[i] & 1u << v))
			return false;
	}
	return true;
}

/* The walls that satisfy @rule: all when it demands nothing. */
static unsigned rule_accepts(const struct policy_rule *rule)
{
	unsigned mask = rule->beside;

	if (rule->least == WALL_NONE)
		return WALLS_ALL;
	for (unsigned w = rule->least; w <= WALL_VM; w++)
		mask |= WALL_BIT(w);
	return mask;
}

static void fire(struct decision *d)
{
	unsigned count;
	const struct policy_rule *rules = policy_rules(&count);

	d->safe = d->able = WALLS_ALL;
	for (unsigned i = 0; i < count; i++) {
		if (!rule_fires(&rules[i], &d->traits))
			continue;
		assert(d->fired_count < POLICY_FIRED_MAX);
		d->fired[d->fired_count++] = &rules[i];
		d->safe &= rule_accepts(&rules[i]);
		d->able &= ~rules[i].cannot;
	}
}

const struct policy_rule *decision_demand(const struct decision *d)
{
	const struct policy_rule *most = d->fired[0];

	for (unsigned i = 1; i < d->fired_count; i++)
		if (d->fired[i]->least > most->least)
			most = d->fired[i];
	return most;
}

/* What @rule would rather have, of the walls in @mask. */
static enum wall rule_wish(const struct policy_rule *rule, unsigned mask)
{
	for (size_t i = 0; i < ARRAY_LEN(rule->best); i++)
		if (rule->best[i] != WALL_NONE && mask & WALL_BIT(rule->best[i]))
			return rule->best[i];
	return WALL_NONE;
}

enum wall decision_prefer(const struct decision *d, unsigned mask)
{
	enum wall best = WALL_NONE;
	enum pull pull = PULL_NONE;

	for (unsigned i = 0; i < d->fired_count; i++) {
		enum wall w = rule_wish(d->fired[i], mask);

		if (w == WALL_NONE || d->fired[i]->pull < pull)
			continue;
		if (d->fired[i]->pull > pull || rung(w) > rung(best))
			best = w;
		pull = d->fired[i]->pull;
	}
	return best != WALL_NONE ? best : lowest(mask);
}

const struct policy_rule *decision_advocate(const struct decision *d, enum wall w)
{
	const struct policy_rule *found = NULL;

	for (unsigned i = 0; i < d->fired_count; i++)
		if (rule_wish(d->fired[i], WALL_BIT(w)) == w &&
			(!found || d->fired[i]->pull > found->pull))
			found = d->fired[i];
	return found;
}

static int refuse(struct decision *d, enum refusal how, struct err *e)
{
	static const int codes[] = {
		[REFUSED_WEAK] = EPERM,
		[REFUSED_ABSENT] = ENODEV,
		[REFUSED_CONFLICT] = EINVAL,
		[REFUSED_INPUT] = EINVAL,
	};

	d->refused = how;
	d->chosen = WALL_NONE;
	return err_say(e, codes[how], "%s", d->why);
}

static int decide_alone(const struct policy_input *in, struct decision *d, struct err *e)
{
	unsigned allowed = d->safe & d->able;

	d->risk_unused = in->accept_risk != NULL;
	if (!allowed) {
		words_conflict(in, d);
		return refuse(d, REFUSED_CONFLICT, e);
	}
	d->chosen = decision_prefer(d, allowed & in->available);
	if (d->chosen == WALL_NONE) {
		words_nothing_available(in, d);
		return refuse(d, REFUSED_ABSENT, e);
	}
	words_rules_chose(in, d);
	return 0;
}

static int decide_by_hand(const struct policy_input *in, struct decision *d, struct err *e)
{
	unsigned bit = WALL_BIT(in->asked);
	bool silent = !traits_any_set(&in->traits), weak = !silent && !(d->safe & bit);

	d->risk_unused = in->accept_risk && !weak;
	if (!silent && !(d->able & bit)) {
		words_asked_cannot(in, d);
		return refuse(d, REFUSED_CONFLICT, e);
	}
	if (weak && !in->accept_risk) {
		words_too_weak(in, d);
		return refuse(d, REFUSED_WEAK, e);
	}
	if (!(in->available & bit)) {
		words_asked_not_available(in, d);
		return refuse(d, REFUSED_ABSENT, e);
	}
	d->chosen = in->asked;
	d->by_operator = silent || weak;
	d->accepted_risk = weak ? in->accept_risk : NULL;
	words_operator_chose(in, d);
	return 0;
}

int policy_decide(const struct policy_input *in, struct decision *ret, struct err *e)
{
	struct decision *d = ret;

	assert(in->asked < WALL_COUNT);
	*d = (struct decision){ .traits = in->traits };
	traits_fill(&d->traits);
	fire(d);
	/* The traits of the code always match one rule; without a rule nothing would be demanded.
	 */
	assert(d->fired_count);
	d->least = lowest(d->safe & d->able);
	d->recommended = decision_prefer(d, d->safe & d->able);
	if (in->accept_risk && !in->accept_risk[strspn(in->accept_risk, " \t\r\n")]) {
		words_no_reason(d);
		return refuse(d, REFUSED_INPUT, e);
	}
	return in->asked == WALL_NONE ? decide_alone(in, d, e) : decide_by_hand(in, d, e);
}
