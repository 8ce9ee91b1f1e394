/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/policy_test.c - every combination of traits, tiers and hosts, and the document's words.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "policy/policy.h"

#define WS WALL_BIT(WALL_WORKSPACE)
#define CT WALL_BIT(WALL_CONTAINER)
#define KN WALL_BIT(WALL_KERNEL)
#define VM WALL_BIT(WALL_VM)
#define JS WALL_BIT(WALL_JS)
#define WA WALL_BIT(WALL_WASM)

static struct traits traits_of(const char *words)
{
	struct traits t = { 0 };
	char text[128], *at = text, *word;

	assert_int_equal(str_copy(text, sizeof(text), words), 0);
	while ((word = strsep(&at, " "))) {
		char *eq = strchr(word, '=');

		if (!*word)
			continue;
		if (eq)
			*eq++ = '\0';
		if (traits_option(&t, word, eq, NULL) != (eq != NULL))
			fail_msg("'%s' is no trait", word);
	}
	return t;
}

/*
 * The rows of the risk table and the seven rules, and what follows when they meet. @also are the
 * walls beside the order that are allowed; @chosen is on a host that has every tier.
 */
static const struct {
	const char *traits;
	enum wall least;
	unsigned also;
	enum wall chosen;
	const char *fired;
} expected[] = {
	/* clang-format off */
	{ "", WALL_KERNEL, 0, WALL_VM, "R1.generated" },
	/* the risk table */
	{ "code=none", WALL_WORKSPACE, JS | WA, WALL_CONTAINER, "T1.text-only" },
	{ "code=trusted", WALL_WORKSPACE, JS | WA, WALL_CONTAINER, "T2.trusted" },
	{ "code=generated", WALL_KERNEL, 0, WALL_VM, "R1.generated" },
	{ "code=generated tenants=many", WALL_VM, 0, WALL_VM, "R1.generated R2.tenants" },
	{ "code=trusted data=sensitive", WALL_VM, 0, WALL_VM, "T2.trusted T5.sensitive" },
	{ "code=trusted gpu", WALL_KERNEL, 0, WALL_KERNEL, "T2.trusted R3.gpu" },
	{ "code=generated gpu", WALL_KERNEL, 0, WALL_KERNEL, "R1.generated R3.gpu" },
	{ "code=plugin", WALL_VM, JS | WA, WALL_WASM, "T7.plugin" },
	{ "browser", WALL_KERNEL, JS | WA, WALL_WASM, "R1.generated-browser T8.browser" },
	{ "code=trusted browser", WALL_CONTAINER, JS | WA, WALL_WASM, "T2.trusted T8.browser" },
	{ "code=none browser", WALL_CONTAINER, JS | WA, WALL_WASM, "T1.text-only T8.browser" },
	/* the seven rules */
	{ "tenants=one data=public", WALL_KERNEL, 0, WALL_VM, "R1.generated" },
	{ "code=none tenants=many", WALL_VM, 0, WALL_VM, "T1.text-only R2.tenants" },
	{ "code=plugin tenants=many", WALL_VM, 0, WALL_VM, "R2.tenants T7.plugin" },
	{ "code=trusted kubernetes", WALL_KERNEL, 0, WALL_KERNEL, "T2.trusted R4.kubernetes" },
	{ "code=generated kubernetes", WALL_KERNEL, 0, WALL_VM, "R1.generated R4.kubernetes" },
	{ "code=trusted fast-start", WALL_WORKSPACE, JS | WA, WALL_CONTAINER, "T2.trusted R5.fast-start" },
	{ "code=plugin fast-start", WALL_WASM, JS | WA, WALL_WASM, "T7.plugin R5.fast-start" },
	{ "code=generated load=compute", WALL_KERNEL, 0, WALL_KERNEL, "R1.generated R6.compute" },
	{ "code=trusted load=compute", WALL_WORKSPACE, JS | WA, WALL_KERNEL, "T2.trusted R6.compute" },
	{ "tenants=many load=compute", WALL_VM, 0, WALL_VM, "R1.generated R2.tenants R6.compute" },
	{ "code=generated load=io", WALL_KERNEL, 0, WALL_VM, "R1.generated S6.io" },
	{ "code=trusted load=io", WALL_WORKSPACE, JS | WA, WALL_CONTAINER, "T2.trusted S6.io" },
	{ "code=trusted kubernetes load=io", WALL_KERNEL, 0, WALL_VM, "T2.trusted R4.kubernetes S6.io" },
	{ "code=trusted compliance", WALL_VM, 0, WALL_VM, "T2.trusted R7.compliance" },
	/* what contradicts */
	{ "gpu tenants=many", WALL_NONE, 0, WALL_NONE, "R1.generated R2.tenants R3.gpu" },
	{ "code=trusted gpu data=sensitive", WALL_NONE, 0, WALL_NONE, "T2.trusted T5.sensitive R3.gpu" },
	{ "code=trusted gpu compliance", WALL_NONE, 0, WALL_NONE, "T2.trusted R3.gpu R7.compliance" },
	{ "code=plugin gpu", WALL_NONE, 0, WALL_NONE, "R3.gpu T7.plugin" },
	{ "code=generated fast-start", WALL_NONE, 0, WALL_NONE, "R1.generated R5.fast-start" },
	{ "code=trusted gpu fast-start", WALL_NONE, 0, WALL_NONE, "T2.trusted R3.gpu R5.fast-start" },
	/* clang-format on */
};

static void the_document_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		struct policy_input in = { .traits = traits_of(expected[i].traits),
			.available = WALLS_ALL };
		bool ok = expected[i].chosen != WALL_NONE;
		char fired[128] = "";
		struct decision d;

		print_message("  '%s'\n", expected[i].traits);
		assert_int_equal(policy_decide(&in, &d, NULL), ok ? 0 : -EINVAL);
		assert_int_equal(d.refused, ok ? REFUSED_NO : REFUSED_CONFLICT);
		assert_int_equal(d.least, expected[i].least);
		assert_int_equal(d.safe & d.able & (JS | WA), expected[i].also);
		assert_int_equal(d.recommended, expected[i].chosen);
		assert_int_equal(d.chosen, expected[i].chosen);
		for (unsigned k = 0; k < d.fired_count; k++) {
			size_t at = strlen(fired);

			assert_int_equal(str_fmt(fired + at, sizeof(fired) - at, "%s%s",
						 k ? " " : "", d.fired[k]->id),
				0);
		}
		assert_string_equal(fired, expected[i].fired);
	}
}

static const char *const not_built[WALL_COUNT] = {
	[WALL_KERNEL] = "not in this build",
	[WALL_VM] = "not in this build",
	[WALL_JS] = "not in this build",
	[WALL_WASM] = "not in this build",
};

/* What is said to people, word for word: options that are named here must exist and help. */
static const struct {
	const char *traits;
	enum wall asked;
	const char *risk;
	unsigned available;
	int code;
	enum wall chosen;
	const char *why;
} said[] = {
	/* clang-format off */
	{ "", WALL_NONE, NULL, WS | CT, -ENODEV, WALL_NONE,
		"generated code (the reading when --code is not given) needs the kernel tier or above "
		"(R1.generated); kernel: not in this build, vm: not in this build; decide yourself with "
		"--tier container, or say --code trusted if a person has reviewed it" },
	{ "code=generated", WALL_NONE, NULL, WS | CT, -ENODEV, WALL_NONE,
		"generated code needs the kernel tier or above (R1.generated); kernel: not in this build, "
		"vm: not in this build; decide yourself with --tier container --accept-risk REASON, or "
		"say --code trusted if a person has reviewed it" },
	{ "code=generated", WALL_NONE, "risk", WS | CT, -ENODEV, WALL_NONE, NULL },
	{ "code=generated", WALL_NONE, NULL, 0, -ENODEV, WALL_NONE, NULL },
	{ "code=generated", WALL_NONE, NULL, WS | CT | KN, 0, WALL_KERNEL,
		"kernel: enough for generated code (R1.generated); recommended, but not available, is "
		"vm: not in this build" },
	{ "code=trusted", WALL_NONE, NULL, WS | CT, 0, WALL_CONTAINER,
		"container: recommended for trusted code (T2.trusted)" },
	{ "code=trusted", WALL_NONE, NULL, WS, 0, WALL_WORKSPACE,
		"workspace: enough for trusted code (T2.trusted); recommended, but not available, is "
		"container: not available here" },
	{ "code=trusted load=compute", WALL_NONE, NULL, WS | CT, 0, WALL_CONTAINER, NULL },
	{ "code=plugin", WALL_NONE, NULL, WS | CT | KN | VM, 0, WALL_VM, NULL },
	{ "code=plugin", WALL_NONE, NULL, WS | CT | JS, 0, WALL_JS, NULL },
	{ "code=plugin", WALL_NONE, NULL, WS | CT | KN, -ENODEV, WALL_NONE,
		"a plugin needs the vm tier, or js or wasm (T7.plugin); vm: not in this build, js: not in "
		"this build, wasm: not in this build; decide yourself with --tier kernel --accept-risk "
		"REASON, or say --code trusted if a person has reviewed it" },
	{ "code=plugin fast-start", WALL_NONE, NULL, WS | CT, -ENODEV, WALL_NONE,
		"a plugin needs the js or wasm tier (T7.plugin, R5.fast-start); js: not in this build, "
		"wasm: not in this build; decide yourself with --tier container --accept-risk REASON, or "
		"say --code trusted if a person has reviewed it" },
	{ "gpu tenants=many", WALL_NONE, NULL, WALLS_ALL, -EINVAL, WALL_NONE,
		"a host that tenants share needs the vm tier (R2.tenants), which a run with a GPU (R3.gpu) "
		"rules out; leave --gpu out, or give each tenant a host of its own and say --tenants one" },
	{ "gpu fast-start code=generated", WALL_NONE, NULL, WALLS_ALL, -EINVAL, WALL_NONE,
		"generated code needs the kernel tier or above (R1.generated), which a run with a GPU "
		"(R3.gpu) and a start below 10 ms (R5.fast-start) rule out; leave --gpu out, or say --code "
		"trusted if a person has reviewed it" },
	/* named by hand, nothing said */
	{ "", WALL_WORKSPACE, NULL, WS | CT, 0, WALL_WORKSPACE,
		"workspace: named by the operator, who said nothing about the run; no rule was applied" },
	{ "", WALL_VM, NULL, WS | CT, -ENODEV, WALL_NONE,
		"--tier vm is not available here; vm: not in this build; available: workspace and container" },
	{ "", WALL_CONTAINER, NULL, 0, -ENODEV, WALL_NONE,
		"--tier container is not available here; container: not available here; available: none, "
		"'ward doctor' says why" },
	/* named by hand, with traits */
	{ "code=generated", WALL_CONTAINER, NULL, WS | CT, -EPERM, WALL_NONE,
		"--tier container is refused: generated code needs the kernel tier or above (R1.generated); "
		"say --code trusted if a person has reviewed it, or run it there all the same with "
		"--accept-risk REASON" },
	{ "code=generated", WALL_CONTAINER, NULL, WS | CT | KN, -EPERM, WALL_NONE,
		"--tier container is refused: generated code needs the kernel tier or above (R1.generated); "
		"give --tier kernel, say --code trusted if a person has reviewed it, or run it there all "
		"the same with --accept-risk REASON" },
	{ "code=generated", WALL_CONTAINER, "nightly, no secrets", WS | CT, 0, WALL_CONTAINER,
		"container: named by the operator, who accepted the risk: generated code needs the kernel "
		"tier or above (R1.generated)" },
	{ "code=generated", WALL_KERNEL, NULL, KN, 0, WALL_KERNEL,
		"kernel: named by the operator; it satisfies the rules: generated code needs the kernel "
		"tier or above (R1.generated)" },
	{ "code=generated", WALL_WASM, NULL, WALLS_ALL, -EPERM, WALL_NONE, NULL },
	{ "code=plugin", WALL_WASM, NULL, WALLS_ALL, 0, WALL_WASM, NULL },
	{ "tenants=one", WALL_CONTAINER, NULL, WALLS_ALL, -EPERM, WALL_NONE, NULL },
	{ "code=trusted", WALL_WORKSPACE, "needless", WALLS_ALL, 0, WALL_WORKSPACE, NULL },
	{ "code=generated", WALL_CONTAINER, "risk", WS, -ENODEV, WALL_NONE, NULL },
	{ "gpu", WALL_VM, NULL, WALLS_ALL, -EINVAL, WALL_NONE,
		"--tier vm cannot do it: a run with a GPU (R3.gpu) needs another; leave --gpu out, or give "
		"--tier kernel" },
	{ "gpu", WALL_VM, "risk", WALLS_ALL, -EINVAL, WALL_NONE, NULL },
	{ "gpu tenants=many", WALL_KERNEL, "risk", WALLS_ALL, 0, WALL_KERNEL, NULL },
	{ "code=trusted fast-start", WALL_VM, NULL, WALLS_ALL, -EINVAL, WALL_NONE, NULL },
	{ "code=generated", WALL_CONTAINER, "", WALLS_ALL, -EINVAL, WALL_NONE,
		"--accept-risk is empty: say why the risk is acceptable, it goes into the audit log" },
	{ "", WALL_NONE, " \t", WALLS_ALL, -EINVAL, WALL_NONE, NULL },
	/* clang-format on */
};

static void people_are_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(said); i++) {
		struct policy_input in = { traits_of(said[i].traits), said[i].asked, said[i].risk,
			said[i].available, not_built };
		struct err e = { 0 };
		struct decision d;

		print_message("  '%s' --tier %s\n", said[i].traits, wall_name(said[i].asked));
		assert_int_equal(policy_decide(&in, &d, &e), said[i].code);
		assert_int_equal(d.chosen, said[i].chosen);
		assert_int_equal(e.code, -said[i].code);
		assert_string_equal(e.msg, said[i].code ? d.why : "");
		if (said[i].why)
			assert_string_equal(d.why, said[i].why);
	}
}

/* One combination: what must hold whatever the rules say. */
static void check_one(const struct policy_input *in)
{
	bool silent = !traits_any_set(&in->traits), named = in->asked != WALL_NONE;
	unsigned chosen, allowed;
	struct decision d;
	int r = policy_decide(in, &d, NULL);

	allowed = d.safe & d.able;
	chosen = d.chosen != WALL_NONE ? WALL_BIT(d.chosen) : 0;
	assert_true((r == 0) == (d.refused == REFUSED_NO));
	assert_true((r == 0) == (chosen != 0));
	assert_true(d.why[0] && !strpbrk(d.why, "\n\r\t"));
	assert_true(d.fired_count > 0);
	assert_true((d.least != WALL_NONE) == (allowed != 0));
	assert_true((d.recommended != WALL_NONE) == (allowed != 0));
	if (allowed)
		assert_true(allowed & WALL_BIT(d.least) && allowed & WALL_BIT(d.recommended));
	/* never an unavailable wall; a wall by hand is that wall or none */
	assert_true(!(chosen & ~in->available));
	assert_true(!named || !chosen || d.chosen == in->asked);
	/* never below the demand without the operator's word for it */
	assert_true(!(chosen & ~d.safe) || d.accepted_risk || (silent && named));
	assert_true(!(chosen & ~d.able) || (silent && named));
	/* the operator's word is on record exactly then, and only counts for a named wall */
	assert_true(!d.accepted_risk || (named && !silent && chosen && !(chosen & d.safe)));
	assert_true(d.by_operator == (named && chosen && (silent || d.accepted_risk)));
	assert_true(!(d.accepted_risk && d.risk_unused));
	/* a refusal has a cause */
	if (!named && d.refused == REFUSED_ABSENT)
		assert_true(allowed && !(allowed & in->available));
	if (!named && d.refused == REFUSED_CONFLICT)
		assert_true(!allowed);
	/* the recommended wall is taken where there is one */
	if (!named && allowed && in->available & WALL_BIT(d.recommended))
		assert_true(d.chosen == d.recommended);
}

/* Not probing what is not needed is safe: a wall that was not chosen changes nothing by going. */
static void check_lazy(const struct policy_input *in)
{
	struct policy_input lazy = *in;
	struct decision d, want;

	policy_decide(in, &want, NULL);
	lazy.available = WALLS_ALL;
	while (policy_decide(&lazy, &d, NULL) == 0 && !(in->available & WALL_BIT(d.chosen)))
		lazy.available &= ~WALL_BIT(d.chosen);
	assert_true(d.chosen == want.chosen && d.refused == want.refused);
	/* A refusal may name a tier to take instead, and that one was not probed. */
	if (!d.refused)
		assert_string_equal(d.why, want.why);
}

/* What was not said is read in the least trusting way; saying so changes the reading in nothing. */
static void check_unset(const struct policy_input *in)
{
	struct policy_input spelled = *in;
	struct decision a, b;

	traits_fill(&spelled.traits);
	policy_decide(in, &a, NULL);
	policy_decide(&spelled, &b, NULL);
	assert_true(a.safe == b.safe && a.able == b.able && a.least == b.least);
	assert_true(a.recommended == b.recommended && a.fired_count == b.fired_count);
	assert_memory_equal(a.fired, b.fired, sizeof(a.fired));
	if (in->asked == WALL_NONE)
		assert_true(a.chosen == b.chosen && a.refused == b.refused);
}

/* Every combination of trait values, by counting through them; false when all are done. */
static bool traits_next(struct traits *t)
{
	static const uint8_t last[TRAIT_COUNT] = {
		[TRAIT_CODE] = CODE_PLUGIN,
		[TRAIT_TENANTS] = TENANTS_MANY,
		[TRAIT_DATA] = DATA_SENSITIVE,
		[TRAIT_LOAD] = LOAD_IO,
		[TRAIT_GPU] = 1,
		[TRAIT_KUBERNETES] = 1,
		[TRAIT_FAST_START] = 1,
		[TRAIT_COMPLIANCE] = 1,
		[TRAIT_BROWSER] = 1,
	};
	uint8_t *fields[TRAIT_COUNT] = { &t->code, &t->tenants, &t->data, &t->load, &t->gpu,
		&t->kubernetes, &t->fast_start, &t->compliance, &t->browser };

	for (int i = 0; i < TRAIT_COUNT; i++) {
		if (*fields[i] < last[i]) {
			++*fields[i];
			return true;
		}
		*fields[i] = 0;
	}
	return false;
}

static void every_combination_holds(void **state)
{
	static const char *const risks[] = { NULL, "because" };
	struct policy_input in = { .missing = not_built };
	unsigned count = 0;

	(void)state;
	do {
		for (unsigned m = 0; m <= WALLS_ALL; m += 2) {
			in.available = m;
			for (unsigned w = WALL_NONE; w < WALL_COUNT; w++) {
				in.asked = (enum wall)w;
				for (size_t r = 0; r < ARRAY_LEN(risks); r++) {
					in.accept_risk = risks[r];
					check_one(&in);
				}
			}
			in.accept_risk = NULL;
			in.asked = WALL_NONE;
			check_lazy(&in);
		}
		for (unsigned w = WALL_NONE; w < WALL_COUNT; w++) {
			in.asked = (enum wall)w;
			in.available = WALLS_ALL;
			check_unset(&in);
		}
		count++;
	} while (traits_next(&in.traits));
	assert_int_equal(count, 5 * 3 * 3 * 3 * 2 * 2 * 2 * 2 * 2);
}

/* More caution never means a weaker wall: each trait in turn made worse. */
static void more_risk_never_weakens(void **state)
{
	struct policy_input in = { .available = WALLS_ALL };

	(void)state;
	do {
		struct traits worse[] = { in.traits, in.traits, in.traits };
		struct decision a, b;

		worse[0].tenants = TENANTS_MANY;
		worse[1].data = DATA_SENSITIVE;
		worse[2].compliance = 1;
		policy_decide(&in, &a, NULL);
		for (size_t i = 0; i < ARRAY_LEN(worse); i++) {
			struct policy_input w = { .traits = worse[i], .available = WALLS_ALL };

			policy_decide(&w, &b, NULL);
			assert_int_equal(b.safe & ~a.safe, 0);
		}
	} while (traits_next(&in.traits));
}

static void the_table_is_sound(void **state)
{
	unsigned count;
	const struct policy_rule *rules = policy_rules(&count);

	(void)state;
	assert_in_range(count, 8, POLICY_FIRED_MAX);
	for (unsigned i = 0; i < count; i++) {
		const struct policy_rule *r = &rules[i];
		unsigned conditions = 0;

		assert_true(r->id && r->covers && r->who && r->reason && r->instead);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(r->id, rules[k].id);
		for (int t = 0; t < TRAIT_COUNT; t++)
			conditions += r->when[t] != 0;
		assert_true(conditions > 0);
		assert_true(r->least <= WALL_VM);
		assert_int_equal(r->beside & ~(JS | WA), 0);
		assert_true(r->best[0] != WALL_NONE && r->pull != PULL_NONE);
	}
}

static void a_long_reason_is_cut(void **state)
{
	static const char *const long_missing[WALL_COUNT] = {
		[WALL_KERNEL] =
			"a\nvery long reason with a line break, which goes on and on and on and on "
			"and on and on and on and on and on and on and on and on and on and on",
		[WALL_VM] = "another very long reason, which goes on and on and on and on and on "
			    "and on "
			    "and on and on and on and on and on and on and on and on and on and on",
	};
	struct policy_input in = { .available = WS | CT, .missing = long_missing };
	struct decision d;
	struct err e;

	(void)state;
	assert_int_equal(policy_decide(&in, &d, &e), -ENODEV);
	assert_null(strchr(d.why, '\n'));
	assert_true(strlen(d.why) < POLICY_WHY_MAX);
	assert_non_null(strstr(d.why, "a very long reason"));
	assert_non_null(strstr(d.why, "another very"));
}

static void options_are_read(void **state)
{
	static const struct {
		const char *name, *value;
		int want;
		const char *msg;
	} cases[] = {
		{ "--code", "generated", 1, "" },
		{ "code", "generated", 1, "" },
		{ "--code", "trusted", -EINVAL,
			"--code is given as generated and as trusted: say one" },
		{ "--code", "mine", -EINVAL,
			"--code 'mine' is not known: give none, trusted, generated or plugin" },
		{ "--code", "", -EINVAL,
			"--code '' is not known: give none, trusted, generated or plugin" },
		{ "--code", "Generated", -EINVAL,
			"--code 'Generated' is not known: give none, trusted, generated or "
			"plugin" },
		{ "--code", NULL, -EINVAL,
			"--code needs a value: none, trusted, generated or plugin" },
		{ "--tenants", "two", -EINVAL, "--tenants 'two' is not known: give one or many" },
		{ "--data", "secret", -EINVAL,
			"--data 'secret' is not known: give public or sensitive" },
		{ "--load", "net", -EINVAL, "--load 'net' is not known: give compute or io" },
		{ "--tenants", "many", 1, "" },
		{ "--data", "sensitive", 1, "" },
		{ "--load", "io", 1, "" },
		{ "--gpu", "many", 0, "" },
		{ "--gpu", NULL, 0, "" },
		{ "--kubernetes", NULL, 0, "" },
		{ "--fast-start", NULL, 0, "" },
		{ "--compliance", NULL, 0, "" },
		{ "--browser", NULL, 0, "" },
		{ "--tier", "vm", -ENOENT, "" },
		{ "--fast_start", NULL, -ENOENT, "" },
		{ "--", NULL, -ENOENT, "" },
		{ "", NULL, -ENOENT, "" },
	};
	struct traits t = { 0 };

	(void)state;
	assert_false(traits_any_set(&t));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		assert_int_equal(
			traits_option(&t, cases[i].name, cases[i].value, &e), cases[i].want);
		assert_string_equal(e.msg, cases[i].msg);
		assert_true(traits_any_set(&t));
	}
	assert_memory_equal(&t,
		&((struct traits){
			CODE_GENERATED, TENANTS_MANY, DATA_SENSITIVE, LOAD_IO, 1, 1, 1, 1, 1 }),
		sizeof(t));
	assert_string_equal(trait_text(&t, TRAIT_CODE), "generated");
	assert_string_equal(trait_text(&t, TRAIT_GPU), "yes");
	assert_string_equal(trait_text(&(struct traits){ 0 }, TRAIT_LOAD), "unset");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_read),
		cmocka_unit_test(the_table_is_sound),
		cmocka_unit_test(the_document_says),
		cmocka_unit_test(people_are_told),
		cmocka_unit_test(a_long_reason_is_cut),
		cmocka_unit_test(more_risk_never_weakens),
		cmocka_unit_test(every_combination_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
