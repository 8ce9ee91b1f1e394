/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/boxverbs.c - `ward pause`, `ward resume` and `ward kill`.
 *
 * Owns:  the words on the screen.
 * Rules: each id is tried; one that fails is told in its own line, and makes the status 125.
 */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/client.h"
#include "cmd/common.h"

struct verb {
	const char *name, *method, *rest;
	bool takes_timeout;
};

struct order {
	const struct verb *verb;
	const char *tenant;
	bool json;
	struct buf body, out;
};

static int one(struct client *c, struct order *o, const char *id, struct err *e)
{
	own_jin struct jin *answer = NULL;
	char path[200];
	int r = client_path(path, sizeof(path), id, o->verb->rest, e);

	if (r == 0)
		r = client_call(
			c, o->verb->method, path, o->body.len ? &o->body : NULL, &answer, e);
	if (r == 0 && o->json) {
		own_mem char *text = jin_dump(answer);

		buf_add_fmt(&o->out, "%s%s", o->out.len > 1 ? "," : "", text ? text : "null");
	}
	return r;
}

static int read_timeout(struct order *o, const char *text, struct err *e)
{
	uint64_t ms;

	if (parse_duration(text, 1, 366ull * 24 * 3600 * 1000, &ms) < 0)
		return err_say(e, EINVAL, "--timeout takes a time such as 30s or 5m");
	json_open(&o->body, NULL);
	json_u64(&o->body, "timeout_ms", ms);
	json_close(&o->body);
	return 0;
}

/* 1: an option; 0: an id. */
static int read_option(struct order *o, char **argv, int *at, struct err *e)
{
	const char *v = NULL;
	int r;

	if (str_eq(argv[*at], "--json")) {
		o->json = true;
		return 1;
	}
	r = cmd_value(argv, at, "--tenant", &o->tenant, e);
	if (r != 0)
		return r;
	if (o->verb->takes_timeout && (r = cmd_value(argv, at, "--timeout", &v, e)) != 0)
		return r < 0 ? r : read_timeout(o, v, e) < 0 ? -EINVAL : 1;
	if (argv[*at][0] == '-')
		return err_say(e, EINVAL, "'%s' is not accepted; see 'ward help %s'", argv[*at],
			o->verb->name);
	return 0;
}

static int run(struct order *o, char **ids, int count, const struct globals *g)
{
	struct client *c = NULL;
	struct err e = { 0 };
	int status = 0;

	if (client_open(g, o->tenant, &c, &e) < 0)
		return cmd_fail(o->verb->name, &e);
	buf_add_str(&o->out, "[");
	for (int i = 0; i < count; i++) {
		e = (struct err){ 0 };
		if (one(c, o, ids[i], &e) < 0)
			status = cmd_fail(o->verb->name, &e);
	}
	if (o->json && !o->out.bad)
		printf("%s]\n", o->out.data);
	client_close(c);
	return status;
}

static int verb_main(const struct verb *verb, int argc, char **argv, const struct globals *g)
{
	struct order o = { .verb = verb };
	struct err e = { 0 };
	int ids = 0, r = 0;

	buf_init(&o.body, 4096);
	buf_init(&o.out, 64 << 20);
	for (int i = 1; i < argc && r >= 0; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text(verb->name), stdout);
			return 0;
		}
		r = read_option(&o, argv, &i, &e);
		if (r == 0)
			argv[ids++] = argv[i];
	}
	if (r < 0)
		r = cmd_fail(verb->name, &e);
	else if (!ids)
		r = cmd_usage(verb->name, "which sandbox? ward %s ID...; 'ward ls' shows them",
			verb->name);
	else
		r = run(&o, argv, ids, g);
	buf_done(&o.body);
	buf_done(&o.out);
	return r;
}

int cmd_pause(int argc, char **argv, const struct globals *g)
{
	static const struct verb verb = { "pause", "POST", "/pause", false };

	return verb_main(&verb, argc, argv, g);
}

int cmd_resume(int argc, char **argv, const struct globals *g)
{
	static const struct verb verb = { "resume", "POST", "/resume", true };

	return verb_main(&verb, argc, argv, g);
}

int cmd_kill(int argc, char **argv, const struct globals *g)
{
	static const struct verb verb = { "kill", "DELETE", "", false };

	return verb_main(&verb, argc, argv, g);
}
