/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/doctor.c - `ward doctor`: what this host can do.
 *
 * Owns:  how the findings are shown.
 * Rules: a host that can do little is no error: the exit status is 0 unless the doctor itself
 *        could not work.
 */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/text.h"
#include "core/doctor.h"

enum { STATE_WIDTH = 9, NAME_WIDTH = 16, INDENT = 2 + STATE_WIDTH + NAME_WIDTH };

static int print_json(const struct doctor *d)
{
	own_buf struct buf b;

	buf_init(&b, REPORT_BYTES_MAX);
	json_open(&b, NULL);
	json_array(&b, "checks");
	for (unsigned i = 0; i < d->check_count; i++) {
		const struct doctor_check *c = &d->checks[i];

		json_open(&b, NULL);
		json_str(&b, "name", c->probe->name);
		json_str(&b, "for", c->probe->what);
		json_str(&b, "state", probe_state_name(c->result.state));
		json_str(&b, "found", c->result.found);
		json_str(&b, "hint", c->result.hint[0] ? c->result.hint : NULL);
		json_open(&b, "facts");
		for (unsigned k = 0; k < c->result.fact_count; k++)
			json_str(&b, c->result.facts[k].key, c->result.facts[k].value);
		json_close(&b);
		json_close(&b);
	}
	json_array_end(&b);
	json_array(&b, "tiers");
	for (unsigned i = 0; i < d->tier_count; i++) {
		const struct doctor_tier *t = &d->tiers[i];

		json_open(&b, NULL);
		json_str(&b, "name", wall_name(t->wall));
		json_str(&b, "what", t->what);
		json_bool(&b, "built", t->built);
		json_bool(&b, "available", t->available);
		json_bool(&b, "host_ready", t->host_ready);
		json_str(&b, "missing", t->missing[0] ? t->missing : NULL);
		json_u64(&b, "guest_calls", t->guest_calls);
		json_u64(&b, "kernel_calls", t->own_calls);
		json_close(&b);
	}
	json_array_end(&b);
	json_close(&b);
	return text_report("doctor", &b);
}

static void print_check(const struct doctor_check *c, const struct ink *ink)
{
	const char *const colours[] = {
		[PROBE_UNKNOWN] = ink->warn,
		[PROBE_YES] = ink->good,
		[PROBE_PARTLY] = ink->warn,
		[PROBE_NO] = ink->bad,
	};

	printf("  %s%-*s%s%-*s", colours[c->result.state], STATE_WIDTH,
		probe_state_name(c->result.state), ink->off, NAME_WIDTH, c->probe->name);
	text_wrap(stdout, INDENT, INDENT, c->result.found);
	if (!c->result.hint[0])
		return;
	printf("%*s%s", INDENT, "", ink->dim);
	printf("for %s: ", c->probe->what);
	text_wrap(stdout, INDENT + 6 + (unsigned)strlen(c->probe->what), INDENT, c->result.hint);
	printf("%s", ink->off);
}

static void print_calls(const struct doctor_tier *t, const struct ink *ink)
{
	if (!t->guest_calls)
		return;
	printf("%*s%scalls of the host's kernel: %u from inside", INDENT, "", ink->dim,
		t->guest_calls);
	if (t->own_calls)
		printf(", %u from the kernel process", t->own_calls);
	printf("%s\n", ink->off);
}

static int print_text(const struct doctor *d)
{
	const struct ink *ink = ink_for(stdout);

	printf("%sThis host%s\n", ink->bold, ink->off);
	for (unsigned i = 0; i < d->check_count; i++)
		print_check(&d->checks[i], ink);
	printf("\n%sTiers%s\n", ink->bold, ink->off);
	for (unsigned i = 0; i < d->tier_count; i++) {
		const struct doctor_tier *t = &d->tiers[i];

		printf("  %s%-*s%s%-*s", t->available ? ink->good : ink->bad, STATE_WIDTH,
			t->available ? "yes" : "no", ink->off, NAME_WIDTH, wall_name(t->wall));
		text_wrap(stdout, INDENT, INDENT, t->what);
		print_calls(t, ink);
		if (t->available)
			continue;
		printf("%*s%s", INDENT, "", ink->dim);
		text_wrap(stdout, INDENT, INDENT, t->missing);
		printf("%s", ink->off);
	}
	return text_end("doctor");
}

int cmd_doctor(int argc, char **argv, const struct globals *g)
{
	own_mem struct doctor *d = NULL;
	struct err e = { 0 };
	bool json = false;

	(void)g;
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
			fputs(cmd_help_text("doctor"), stdout);
			return text_end("doctor");
		}
		if (!str_eq(argv[i], "--json"))
			return cmd_usage("doctor",
				"'%.64s' is not known: it takes --json and nothing else", argv[i]);
		json = true;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		err_set(&e, ENOMEM, "room for the findings");
		return cmd_fail("doctor", &e);
	}
	if (doctor_examine(d, g->state_dir, &e) < 0)
		return cmd_fail("doctor", &e);
	return json ? print_json(d) : print_text(d);
}
