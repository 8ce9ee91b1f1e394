/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/offer.c - joins the policy to the tiers of this build and host.
 *
 * Owns:  nothing.
 * Rules: a tier that was not asked is never reported as missing something.
 */
#include <stdio.h>

#include "base/str.h"
#include "core/offer.h"
#include "tier/tier.h"

static void offer_init(struct offer *o)
{
	unsigned count;
	const struct tier_ops *const *tiers = tier_list(&count);

	*o = (struct offer){ 0 };
	for (unsigned w = 0; w < WALL_COUNT; w++)
		o->missing[w] = "not in this build";
	for (unsigned i = 0; i < count; i++) {
		o->built |= WALL_BIT(tier_wall(tiers[i]));
		o->missing[tier_wall(tiers[i])] = NULL;
	}
	o->available = o->built;
}

/* Takes the wall of @t out of the offer when it does not work here. */
static bool offer_ask(struct offer *o, const struct tier_ops *t)
{
	enum wall w = tier_wall(t);
	struct err e = { 0 };

	if (tier_probe(t, &e) == 0)
		return true;
	snprintf(o->text[w], sizeof(o->text[w]), "%s", e.msg);
	o->missing[w] = o->text[w];
	o->available &= ~WALL_BIT(w);
	return false;
}

void offer_probe(struct offer *o)
{
	unsigned count;
	const struct tier_ops *const *tiers = tier_list(&count);

	offer_init(o);
	for (unsigned i = 0; i < count; i++)
		offer_ask(o, tiers[i]);
}

/* What does not suit the command is not available to it, whatever the host can do. */
static void limit_to(struct policy_input *in, unsigned suits, const struct offer *o,
	const char *missing[WALL_COUNT])
{
	for (unsigned w = 0; w < WALL_COUNT; w++)
		missing[w] = o->available & ~suits & WALL_BIT(w) ? "not for this command"
								 : o->missing[w];
	in->available = o->available & suits;
	in->missing = missing;
}

int offer_decide(
	const struct policy_input *in, struct offer *o, struct decision *ret, struct err *e)
{
	const char *missing[WALL_COUNT];
	struct policy_input ask = *in;
	int r;

	offer_init(o);
	for (;;) {
		limit_to(&ask, in->available, o, missing);
		r = policy_decide(&ask, ret, e);
		if (r < 0)
			break;
		if (offer_ask(o, tier_by_wall(ret->chosen)))
			return 0;
	}
	/* A refusal tells which tiers there are instead: only now it pays to ask the others. */
	offer_probe(o);
	limit_to(&ask, in->available, o, missing);
	return policy_decide(&ask, ret, e);
}
