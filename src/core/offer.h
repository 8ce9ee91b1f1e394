/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_OFFER_H
#define WARD_CORE_OFFER_H

#include "base/err.h"
#include "plan/wall.h"
#include "policy/policy.h"

/* Which walls this build and this host have; policy itself must not look. */
struct offer {
	unsigned available; /* WALL_BIT()s */
	unsigned built;     /* WALL_BIT()s of the tiers in this build */
	const char
		*missing[WALL_COUNT]; /* for walls that are not available; points into the offer */
	char text[WALL_COUNT][376];
};

/* Asks every tier of this build whether it works here. @o must stay where it is. */
void offer_probe(struct offer *o);

/*
 * policy_decide() over what the host really has, asking as few tiers as possible: on the way to a
 * start, one. @in->available is taken as the walls that suit the command (WALLS_ALL when any does);
 * @in->available and @in->missing are not used otherwise. @o is filled as far as was needed.
 */
int offer_decide(
	const struct policy_input *in, struct offer *o, struct decision *ret, struct err *e);

#endif
