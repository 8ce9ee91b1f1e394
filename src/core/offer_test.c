/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/offer_test.c - every tier of this build is offered, or it is said what is missing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "core/offer.h"
#include "tier/tier.h"

static void every_tier_is_offered_or_explained(void **state)
{
	unsigned count, built = 0;
	const struct tier_ops *const *tiers = tier_list(&count);
	struct offer o;

	(void)state;
	offer_probe(&o, "/nowhere");
	for (unsigned i = 0; i < count; i++)
		built |= WALL_BIT(tier_wall(tiers[i]));
	assert_int_equal(o.built, built);
	assert_int_equal(o.available & ~built, 0);
	for (unsigned w = WALL_WORKSPACE; w < WALL_COUNT; w++) {
		assert_true((o.missing[w] == NULL) == ((o.available & WALL_BIT(w)) != 0));
		if (!(built & WALL_BIT(w)))
			assert_string_equal(o.missing[w], "not in this build");
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_tier_is_offered_or_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
