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

/* Asks every tier of this build whether it works here, and is set up in @state_dir. @o must stay
 * where it is. */
void offer_probe(struct offer *o, const char *state_dir);

#endif
