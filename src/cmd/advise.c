/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/advise.c - `ward advise`: what the policy would say about a run.
 *
 * Owns:  how the answer is shown.
 * Rules: decides nothing; `ward run` asks the same two functions.
 */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/text.h"
#include "core/offer.h"
#include "policy/policy.h"

enum { NAME_WIDTH = 22, VALUE_WIDTH = 12, OPTION_NAME_MAX = 32 };

struct question {
	struct policy_input in;
	bool json, help;
};

static int set_tier(struct question *q, const char *value, struct err *e)
{
	if (!value || (!str_eq(value, "auto") && wall_parse(value, &q->in.asked) < 0))
		return err_say(e, EINVAL,
			"--tier '%.32s' is not known: give auto, workspace, container, kernel, vm, "
			"js or wasm",
			value ? value : "");
	return 1;
}

/* One option; how many values it used (0 or 1), or a negative errno. */
static int read_option(struct question *q, const char *name, const char *value, struct err *e)
{
	int r = traits_option(&q->in.traits, name, value, e);

	if (r != -ENOENT)
		return r;
	if (str_eq(name, "--tier"))
		return set_tier(q, value, e);
	if (str_eq(name, "--accept-risk")) {
		if (!value)
			return err_say(e, EINVAL, "--accept-risk needs a reason");
		q->in.accept_risk = value;
		return 1;
	}
	if (str_eq(name, "--json"))
		q->json = true;
	else if (str_eq(name, "--help") || str_eq(name, "-h"))
		q->help = true;
	else
		return err_say(
			e, EINVAL, "'%.64s' is not an option; 'ward help advise' lists them", name);
	return 0;
}

static int read_options(struct question *q, int argc, char **argv, struct err *e)
{
	for (int i = 1; i < argc && !q->help; i++) {
		const char *eq = strchr(argv[i], '='), *value = eq ? eq + 1 : argv[i + 1];
		char name[OPTION_NAME_MAX];
		int r;

		if (argv[i][0] != '-')
			return err_say(e, EINVAL,
				"takes options only, not '%.64s'; 'ward help advise' lists them",
				argv[i]);
		if (str_fmt(name, sizeof(name), "%.*s",
			    eq ? (int)(eq - argv[i]) : (int)strlen(argv[i]), argv[i]) < 0)
			return err_say(e, EINVAL,
				"'%.64s' is not an option; 'ward help advise' lists them", argv[i]);
		r = read_option(q, name, value, e);
		if (r < 0)
			return r;
		if (eq && r == 0)
			return err_say(e, EINVAL, "%s takes no value", name);
		if (!eq)
			i += r;
	}
	return 0;
}

static void json_walls(struct buf *b, const char *key, unsigned mask)
{
	json_array(b, key);
	for (unsigned w = WALL_WORKSPACE; w < WALL_COUNT; w++)
		if (mask & WALL_BIT(w))
			json_str(b, NULL, wall_name((enum wall)w));
	json_array_end(b);
}

static void json_wall(struct buf *b, const char *key, enum wall w)
{
	json_str(b, key, w == WALL_NONE ? NULL : wall_name(w));
}

static void json_traits(struct buf *b, const struct traits *given, const struct traits *read)
{
	json_open(b, "traits");
	for (int i = 0; i < TRAIT_COUNT; i++) {
		const struct trait_option *o = trait_option((enum trait)i);

		if (!o->accepts)
			json_bool(b, o->name, trait_get(read, (enum trait)i));
		else
			json_str(b, o->name,
				trait_get(read, (enum trait)i) ? trait_text(read, (enum trait)i)
							       : NULL);
	}
	json_close(b);
	json_array(b, "assumed");
	for (int i = 0; i < TRAIT_COUNT; i++)
		if (trait_get(given, (enum trait)i) != trait_get(read, (enum trait)i))
			json_str(b, NULL, trait_option((enum trait)i)->name);
	json_array_end(b);
}

static void json_rules(struct buf *b, const struct decision *d)
{
	json_array(b, "rules");
	for (unsigned i = 0; i < d->fired_count; i++) {
		const struct policy_rule *r = d->fired[i];

		json_open(b, NULL);
		json_str(b, "id", r->id);
		json_str(b, "covers", r->covers);
		json_wall(b, "least", r->least);
		json_walls(b, "beside", r->beside);
		json_walls(b, "cannot", r->cannot);
		json_wall(b, "recommends", r->best[0]);
		json_str(b, "who", r->who);
		json_str(b, "reason", r->reason);
		json_str(b, "instead", r->instead);
		json_close(b);
	}
	json_array_end(b);
}

static void json_host(struct buf *b, const struct offer *o)
{
	json_array(b, "host");
	for (unsigned w = WALL_WORKSPACE; w < WALL_COUNT; w++) {
		json_open(b, NULL);
		json_str(b, "tier", wall_name((enum wall)w));
		json_bool(b, "built", o->built & WALL_BIT(w));
		json_bool(b, "available", o->available & WALL_BIT(w));
		json_str(b, "missing", o->missing[w]);
		json_close(b);
	}
	json_array_end(b);
}

static int print_json(const struct question *q, const struct offer *o, const struct decision *d)
{
	own_buf struct buf b;

	buf_init(&b, REPORT_BYTES_MAX);
	json_open(&b, NULL);
	json_traits(&b, &q->in.traits, &d->traits);
	json_wall(&b, "least", d->least);
	json_wall(&b, "recommended", d->recommended);
	json_walls(&b, "allowed", d->safe & d->able);
	json_rules(&b, d);
	json_host(&b, o);
	json_open(&b, "run");
	json_wall(&b, "asked", q->in.asked);
	json_wall(&b, "tier", d->chosen);
	json_str(&b, "refused", d->refused ? refusal_name(d->refused) : NULL);
	json_str(&b, "why", d->why);
	json_bool(&b, "by_operator", d->by_operator);
	json_str(&b, "accepted_risk", d->accepted_risk);
	json_bool(&b, "risk_unused", d->risk_unused);
	json_close(&b);
	json_close(&b);
	return text_report("advise", &b);
}

static void print_walls(unsigned mask)
{
	const char *between = "";

	for (unsigned w = WALL_WORKSPACE; w < WALL_COUNT; w++) {
		if (!(mask & WALL_BIT(w)))
			continue;
		printf("%s%s", between, wall_name((enum wall)w));
		between = ", ";
	}
}

static void print_traits(const struct question *q, const struct decision *d, const struct ink *ink)
{
	printf("%sThe run%s\n", ink->bold, ink->off);
	for (int i = 0; i < TRAIT_COUNT; i++) {
		enum trait id = (enum trait)i;
		bool given = trait_get(&q->in.traits, id);

		if (!trait_get(&d->traits, id))
			continue;
		printf("  %-*s%-*s%s%s%s\n", NAME_WIDTH, trait_option(id)->name,
			given ? 0 : VALUE_WIDTH, trait_text(&d->traits, id), ink->dim,
			given ? "" : "not given; the least trusting reading", ink->off);
	}
}

static void print_rules(const struct decision *d, const struct ink *ink)
{
	printf("\n%sRules that apply%s\n", ink->bold, ink->off);
	for (unsigned i = 0; i < d->fired_count; i++) {
		const struct policy_rule *r = d->fired[i];

		printf("  %-*s", NAME_WIDTH, r->id);
		if (r->least != WALL_NONE)
			printf("needs %s%s", wall_name(r->least),
				r->least < WALL_VM ? " or above" : "");
		else
			printf("prefers %s", wall_name(r->best[0]));
		if (r->beside) {
			printf("; or ");
			print_walls(r->beside);
		}
		if (r->cannot) {
			printf("; not ");
			print_walls(r->cannot);
		}
		printf("%s\n%*s", ink->dim, 2 + NAME_WIDTH, "");
		text_wrap(stdout, 2 + NAME_WIDTH, 2 + NAME_WIDTH, r->reason);
		printf("%s", ink->off);
	}
}

static void print_host(const struct offer *o, const struct decision *d, const struct ink *ink)
{
	printf("\n%sThis host%s\n", ink->bold, ink->off);
	for (unsigned w = WALL_WORKSPACE; w < WALL_COUNT; w++) {
		bool here = o->available & WALL_BIT(w), allowed = d->safe & d->able & WALL_BIT(w);

		printf("  %-*s%s%-15s%s", NAME_WIDTH, wall_name((enum wall)w),
			here ? ink->good : ink->bad, here ? "available" : "not available",
			ink->off);
		printf("%s%-13s%s", allowed ? ink->good : ink->dim,
			allowed ? "allowed" : "not allowed", ink->off);
		if (here)
			putchar('\n');
		else
			text_wrap(stdout, 2 + NAME_WIDTH + 28, 2 + NAME_WIDTH, o->missing[w]);
	}
}

static int print_text(const struct question *q, const struct offer *o, const struct decision *d)
{
	const struct ink *ink = ink_for(stdout);

	print_traits(q, d, ink);
	printf("\n%sTiers%s\n", ink->bold, ink->off);
	printf("  %-*s%s\n", NAME_WIDTH, "least allowed",
		d->least == WALL_NONE ? "none: the traits contradict" : wall_name(d->least));
	printf("  %-*s%s\n", NAME_WIDTH, "recommended",
		d->recommended == WALL_NONE ? "none" : wall_name(d->recommended));
	print_rules(d, ink);
	print_host(o, d, ink);
	printf("\n%sward run%s would ", ink->bold, ink->off);
	if (d->refused)
		printf("%srefuse%s: ", ink->bad, ink->off);
	else
		printf("use %s%s%s", ink->good, wall_name(d->chosen), ink->off);
	/* The line starts with the tier's name, which is printed already. */
	text_wrap(stdout, 24, 2, d->refused ? d->why : d->why + strlen(wall_name(d->chosen)));
	if (d->risk_unused)
		puts("  --accept-risk is not needed here and changes nothing");
	return text_end("advise");
}

int cmd_advise(int argc, char **argv, const struct globals *g)
{
	struct question q = { 0 };
	struct err e = { 0 };
	struct decision d;
	struct offer o;
	int r;

	if (read_options(&q, argc, argv, &e) < 0)
		return cmd_fail("advise", &e);
	if (q.help) {
		fputs(cmd_help_text("advise"), stdout);
		return text_end("advise");
	}
	offer_probe(&o, g->state_dir);
	q.in.available = o.available;
	q.in.missing = o.missing;
	r = policy_decide(&q.in, &d, &e);
	/* That a run would be refused is an answer; that the question is wrong is not. */
	if (r < 0 && d.refused == REFUSED_INPUT)
		return cmd_fail("advise", &e);
	return q.json ? print_json(&q, &o, &d) : print_text(&q, &o, &d);
}
