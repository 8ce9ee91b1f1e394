/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/create.c - `ward create`: a sandbox of the daemon.
 *
 * Owns:  the options, as JSON.
 * Rules: decides nothing; the daemon does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/client.h"
#include "cmd/common.h"

enum { BODY_MAX = 1 << 20, LIST_MAX = 256 };
#define YEAR_MS (366ull * 24 * 3600 * 1000)

struct list {
	const char *items[LIST_MAX];
	unsigned count;
};

struct wish {
	const char *tenant, *texts[8];
	uint64_t timeout_ms, memory, disk, pids, cpu_milli;
	bool has_timeout, auto_resume, no_pool, json;
	struct list metadata, env, mounts;
};

/* Options with a text that goes through as it is. */
static const struct {
	const char *option, *field;
} texts[] = {
	{ "--template", "template" },
	{ "--on-timeout", "on_timeout" },
	{ "--user", "user" },
	{ "--workdir", "workdir" },
	{ "--tier", "tier" },
	{ "--accept-risk", "accept_risk" },
};

static int add(struct list *l, const char *option, const char *value, struct err *e)
{
	if (l->count == LIST_MAX)
		return err_say(e, EINVAL, "%s may be given %d times", option, LIST_MAX);
	l->items[l->count++] = value;
	return 1;
}

static int add_pair(struct list *l, const char *option, const char *value, struct err *e)
{
	char shown[60];

	if (!strchr(value, '=') || value[0] == '=')
		return err_say(e, EINVAL, "%s takes NAME=VALUE, not '%s'", option,
			str_show(shown, sizeof(shown), value));
	return add(l, option, value, e);
}

static int number(int r, const char *option, const char *like, struct err *e)
{
	return r < 0 ? err_say(e, EINVAL, "%s takes a value such as %s", option, like) : 1;
}

static int read_numbers(char **argv, int *at, struct wish *w, struct err *e)
{
	const char *v = NULL;
	int r;

	if ((r = cmd_value(argv, at, "--timeout", &v, e)) != 0) {
		w->has_timeout = true;
		return r < 0 ? r
			     : number(parse_duration(v, 0, YEAR_MS, &w->timeout_ms), "--timeout",
				       "30s, 5m or 0 for none", e);
	}
	if ((r = cmd_value(argv, at, "--memory", &v, e)) != 0)
		return r < 0 ? r
			     : number(parse_size(v, 1, 1ull << 50, &w->memory), "--memory", "512M",
				       e);
	if ((r = cmd_value(argv, at, "--disk", &v, e)) != 0)
		return r < 0 ? r
			     : number(parse_size(v, 1, 1ull << 50, &w->disk), "--disk", "2G", e);
	if ((r = cmd_value(argv, at, "--pids", &v, e)) != 0)
		return r < 0 ? r : number(parse_u64(v, 1, 1 << 22, &w->pids), "--pids", "128", e);
	if ((r = cmd_value(argv, at, "--cpus", &v, e)) != 0)
		return r < 0 ? r
			     : number(parse_milli(v, 1, 1 << 20, &w->cpu_milli), "--cpus", "0.5",
				       e);
	return 0;
}

static int read_option(char **argv, int *at, struct wish *w, struct err *e)
{
	const char *v = NULL;
	int r;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if ((r = cmd_value(argv, at, texts[i].option, &w->texts[i], e)) != 0)
			return r;
	if ((r = read_numbers(argv, at, w, e)) != 0)
		return r;
	if ((r = cmd_value(argv, at, "--metadata", &v, e)) != 0)
		return r < 0 ? r : add_pair(&w->metadata, "--metadata", v, e);
	if ((r = cmd_value(argv, at, "--env", &v, e)) != 0)
		return r < 0 ? r : add_pair(&w->env, "--env", v, e);
	if ((r = cmd_value(argv, at, "--mount", &v, e)) != 0)
		return r < 0 ? r : add(&w->mounts, "--mount", v, e);
	if ((r = cmd_value(argv, at, "--tenant", &w->tenant, e)) != 0)
		return r;
	if (str_eq(argv[*at], "--auto-resume"))
		w->auto_resume = true;
	else if (str_eq(argv[*at], "--no-pool"))
		w->no_pool = true;
	else if (str_eq(argv[*at], "--json"))
		w->json = true;
	else if (strncmp(argv[*at], "--tap", 5) == 0)
		return err_say(e, EINVAL,
			"--tap is for 'ward run --tier vm': a tap is one machine's, and the daemon "
			"has none to give");
	else
		return err_say(
			e, EINVAL, "'%s' is not accepted; see 'ward help create'", argv[*at]);
	return 1;
}

static void put_pairs(struct buf *b, const char *key, const struct list *l)
{
	json_open(b, key);
	for (unsigned i = 0; i < l->count; i++) {
		const char *equals = strchr(l->items[i], '=');
		char name[256];

		if (str_fmt(name, sizeof(name), "%.*s", (int)(equals - l->items[i]), l->items[i]) ==
			0)
			json_str(b, name, equals + 1);
	}
	json_close(b);
}

/* SRC:DST[:ro|rw|overlay] */
static void put_mount(struct buf *b, const char *text)
{
	const char *dst = strchr(text, ':'), *mode = dst ? strchr(dst + 1, ':') : NULL;

	json_open(b, NULL);
	json_strn(b, "src", text, dst ? (size_t)(dst - text) : strlen(text));
	if (dst)
		json_strn(b, "dst", dst + 1, mode ? (size_t)(mode - dst - 1) : strlen(dst + 1));
	json_str(b, "mode", mode ? mode + 1 : "ro");
	json_close(b);
}

static void put_wish(struct buf *b, const struct wish *w)
{
	json_open(b, NULL);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (w->texts[i])
			json_str(b, texts[i].field, w->texts[i]);
	if (w->has_timeout)
		json_u64(b, "timeout_ms", w->timeout_ms);
	json_bool(b, "auto_resume", w->auto_resume);
	json_bool(b, "no_pool", w->no_pool);
	put_pairs(b, "metadata", &w->metadata);
	put_pairs(b, "env", &w->env);
	json_open(b, "limits");
	json_u64(b, "memory", w->memory);
	json_u64(b, "disk", w->disk);
	json_u64(b, "pids", w->pids);
	json_u64(b, "cpu_milli", w->cpu_milli);
	json_close(b);
	json_array(b, "mounts");
	for (unsigned i = 0; i < w->mounts.count; i++)
		put_mount(b, w->mounts.items[i]);
	json_array_end(b);
	json_close(b);
}

static int create(const struct globals *g, const struct wish *w, struct err *e)
{
	own_buf struct buf body = { 0 };
	own_jin struct jin *answer = NULL;
	struct client *c = NULL;
	const char *id = NULL;
	int r = client_open(g, w->tenant, &c, e);

	buf_init(&body, BODY_MAX);
	put_wish(&body, w);
	if (r == 0 && body.bad)
		r = err_say(e, E2BIG, "the options are too long");
	if (r == 0)
		r = client_call(c, "POST", "/ward/v1/sandboxes", &body, &answer, e);
	if (r == 0)
		r = jin_need_str(answer, "id", &id, e);
	if (r >= 0) {
		own_mem char *text = w->json ? jin_dump(answer) : NULL;

		printf("%s\n", text ? text : id);
	}
	client_close(c);
	return r < 0 ? r : 0;
}

int cmd_create(int argc, char **argv, const struct globals *g)
{
	struct wish w = { 0 };
	struct err e = { 0 };
	int r = 1;

	for (int i = 1; i < argc && r > 0; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("create"), stdout);
			return 0;
		}
		r = read_option(argv, &i, &w, &e);
	}
	if (r >= 0)
		r = create(g, &w, &e);
	return r < 0 ? cmd_fail("create", &e) : 0;
}
