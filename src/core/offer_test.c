/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/offer_test.c - asking few tiers gives the answer that asking all of them gives.
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
	offer_probe(&o);
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

static void few_questions_same_answer(void **state)
{
	static const struct traits traits[] = {
		{ 0 },
		{ .code = CODE_NONE },
		{ .code = CODE_TRUSTED },
		{ .code = CODE_TRUSTED, .load = LOAD_COMPUTE },
		{ .code = CODE_PLUGIN },
		{ .tenants = TENANTS_MANY },
		{ .gpu = 1, .tenants = TENANTS_MANY },
	};
	struct offer all, few;

	(void)state;
	offer_probe(&all);
	for (size_t i = 0; i < ARRAY_LEN(traits); i++) {
		for (unsigned w = WALL_NONE; w < WALL_COUNT; w++) {
			struct policy_input in = { .traits = traits[i], .asked = (enum wall)w };
			struct err e1 = { 0 }, e2 = { 0 };
			struct decision a, b;
			int r1, r2;

			in.available = all.available;
			in.missing = all.missing;
			r1 = policy_decide(&in, &a, &e1);
			in.available = WALLS_ALL;
			in.missing = NULL;
			r2 = offer_decide(&in, &few, &b, &e2);
			assert_int_equal(r1, r2);
			assert_int_equal(a.chosen, b.chosen);
			assert_string_equal(a.why, b.why);
			assert_string_equal(e1.msg, e2.msg);
		}
	}
}

static void what_does_not_suit_is_not_taken(void **state)
{
	struct policy_input in = { .asked = WALL_CONTAINER,
		.available = WALLS_ALL & ~WALL_BIT(WALL_CONTAINER) };
	struct decision d;
	struct offer o;
	struct err e;

	(void)state;
	assert_int_equal(offer_decide(&in, &o, &d, &e), -ENODEV);
	assert_int_equal(d.chosen, WALL_NONE);
	if (o.available & WALL_BIT(WALL_CONTAINER))
		assert_non_null(strstr(e.msg, "not for this command"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_tier_is_offered_or_explained),
		cmocka_unit_test(few_questions_same_answer),
		cmocka_unit_test(what_does_not_suit_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
