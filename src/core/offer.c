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
static void offer_ask(struct offer *o, const struct tier_ops *t, const char *state_dir)
{
	enum wall w = tier_wall(t);
	struct err e = { 0 };

	if (tier_probe(t, &e) == 0 && tier_ready(t, state_dir, &e) == 0)
		return;
	snprintf(o->text[w], sizeof(o->text[w]), "%s", e.msg);
	o->missing[w] = o->text[w];
	o->available &= ~WALL_BIT(w);
}

void offer_probe(struct offer *o, const char *state_dir)
{
	unsigned count;
	const struct tier_ops *const *tiers = tier_list(&count);

	offer_init(o);
	for (unsigned i = 0; i < count; i++)
		offer_ask(o, tiers[i], state_dir);
}
