/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/snapshot.c - `ward snapshot`, `ward restore` and `ward fork`.
 *
 * Owns:  the words on the screen.
 * Rules: prints ids, one per line, so that they can be passed on; with --json all about them.
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
#include "hub/limits.h"

struct line {
	const char *command;
	const char *tenant;
	bool json, takes_timeout, takes_count;
	uint64_t timeout_ms, count;
	char **words;
	int word_count;
};

static int read_number(struct line *l, char **argv, int *at, struct err *e)
{
	const char *v = NULL;
	int r = 0;

	if (l->takes_timeout && (r = cmd_value(argv, at, "--timeout", &v, e)) != 0) {
		if (r > 0 && parse_duration(v, 1, 366ull * 24 * 3600 * 1000, &l->timeout_ms) < 0)
			r = err_say(e, EINVAL, "--timeout takes a time such as 30s or 5m");
		return r;
	}
	if (l->takes_count && str_eq(argv[*at], "-n")) {
		v = argv[*at + 1];
		*at += v != NULL;
		r = v ? 1 : err_say(e, EINVAL, "-n needs a number");
	} else if (l->takes_count) {
		r = cmd_value(argv, at, "--count", &v, e);
	}
	if (r > 0 && parse_u64(v, 1, HUB_FORKS_MAX, &l->count) < 0)
		r = err_say(e, EINVAL, "--count takes a number from 1 to %d", HUB_FORKS_MAX);
	return r;
}

/* The words that are no options, into the front of argv. 0, 1: helped, or a negative errno. */
static int read_line(struct line *l, int argc, char **argv, struct err *e)
{
	int r = 0;

	l->words = argv;
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text(l->command), stdout);
			return 1;
		}
		if (str_eq(argv[i], "--json")) {
			l->json = true;
			continue;
		}
		r = cmd_value(argv, &i, "--tenant", &l->tenant, e);
		if (r == 0)
			r = read_number(l, argv, &i, e);
		if (r < 0)
			return r;
		if (r > 0)
			continue;
		if (argv[i][0] == '-')
			return err_say(e, EINVAL, "'%s' is not accepted; see 'ward help %s'",
				argv[i], l->command);
		argv[l->word_count++] = argv[i];
	}
	return 0;
}

static int print_json(const struct jin *v)
{
	own_mem char *text = jin_dump(v);

	return puts(text ? text : "null") < 0 ? -EIO : 0;
}

/* What was made: its id, or all about it. */
static int print_made(const struct line *l, const struct jin *answer, struct err *e)
{
	const char *id = "";
	int r = jin_need_str(answer, "id", &id, e);

	if (r < 0)
		return r;
	if (l->json)
		return print_json(answer);
	puts(id);
	return 0;
}

/* --- snapshot --- */

static int take(struct client *c, const struct line *l, struct err *e)
{
	own_jin struct jin *answer = NULL;
	own_buf struct buf body = { 0 };
	char path[200];
	int r = client_path(path, sizeof(path), l->words[0], "/snapshots", e);

	buf_init(&body, 4096);
	json_open(&body, NULL);
	if (l->word_count > 1)
		json_str(&body, "name", l->words[1]);
	json_close(&body);
	if (r == 0)
		r = client_call(c, "POST", path, &body, &answer, e);
	return r < 0 ? r : print_made(l, answer, e);
}

static int print_rows(const struct jin *list, struct err *e)
{
	printf("%-14s %-24s %-14s %-10s %12s\n", "ID", "NAME", "SANDBOX", "TIER", "BYTES");
	for (size_t i = 0; i < jin_len(list); i++) {
		const char *id = "", *name = "-", *sandbox = "", *tier = "";
		const struct jin *o = NULL;
		int64_t bytes = 0;

		if (jin_obj_at(list, "snapshots", i, &o, e) < 0 || jin_str(o, "id", &id, e) < 0 ||
			jin_str(o, "sandbox", &sandbox, e) < 0 ||
			jin_str(o, "tier", &tier, e) < 0 ||
			jin_i64(o, "bytes", 0, INT64_MAX, &bytes, e) < 0)
			return -EINVAL;
		if (jin_str(o, "name", &name, NULL) < 0 || !name)
			name = "-";
		printf("%-14s %-24s %-14s %-10s %12lld\n", id, name, sandbox, tier,
			(long long)bytes);
	}
	return 0;
}

static int list(struct client *c, const struct line *l, struct err *e)
{
	own_jin struct jin *answer = NULL;
	const struct jin *rows = NULL;
	int r = client_call(c, "GET", "/ward/v1/snapshots", NULL, &answer, e);

	if (r == 0)
		r = jin_list(answer, "snapshots", &rows, e);
	if (r < 0)
		return r;
	return l->json ? print_json(rows) : print_rows(rows, e);
}

/* A name may have slashes: its own part of the path takes them all. */
static int remove_one(struct client *c, const char *word, struct err *e)
{
	char path[HUB_SNAP_NAME_MAX + 64];
	size_t n =
		strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:");

	if (!n || word[n] || str_fmt(path, sizeof(path), "/ward/v1/snapshots/%s", word) < 0)
		return err_say(
			e, EINVAL, "'%.60s' is no snapshot; 'ward snapshot ls' shows them", word);
	return client_call(c, "DELETE", path, NULL, NULL, e);
}

int cmd_snapshot(int argc, char **argv, const struct globals *g)
{
	struct line l = { .command = "snapshot" };
	struct client *c = NULL;
	struct err e = { 0 };
	bool ls, rm;
	int r = read_line(&l, argc, argv, &e), status = 0;

	if (r != 0)
		return r < 0 ? cmd_fail("snapshot", &e) : 0;
	ls = l.word_count == 1 && str_eq(l.words[0], "ls");
	rm = l.word_count >= 1 && str_eq(l.words[0], "rm");
	if (!l.word_count || (rm && l.word_count < 2) || (!rm && l.word_count > 2))
		return cmd_usage("snapshot",
			"which sandbox? ward snapshot ID [NAME], ls, or rm SNAPSHOT...");
	if (client_open(g, l.tenant, &c, &e) < 0)
		return cmd_fail("snapshot", &e);
	if (!rm && (ls ? list(c, &l, &e) : take(c, &l, &e)) < 0)
		status = cmd_fail("snapshot", &e);
	for (int i = 1; rm && i < l.word_count; i++) {
		e = (struct err){ 0 };
		if (remove_one(c, l.words[i], &e) < 0)
			status = cmd_fail("snapshot", &e);
	}
	client_close(c);
	return status;
}

/* --- restore --- */

static int restore(struct client *c, const struct line *l, struct err *e)
{
	own_jin struct jin *answer = NULL;
	own_buf struct buf body = { 0 };
	int r;

	buf_init(&body, 4096);
	json_open(&body, NULL);
	json_str(&body, "template", l->words[0]);
	if (l->timeout_ms)
		json_u64(&body, "timeout_ms", l->timeout_ms);
	json_close(&body);
	r = client_call(c, "POST", "/ward/v1/sandboxes", &body, &answer, e);
	return r < 0 ? r : print_made(l, answer, e);
}

/* --- fork --- */

/* The ids of the copies; one that failed is a line on standard error. */
static int print_forks(const struct jin *forks, int *ret_status, struct err *e)
{
	for (size_t i = 0; i < jin_len(forks); i++) {
		const struct jin *o = NULL, *box = NULL;
		const char *id = "", *why = NULL;
		struct err failed = { 0 };

		if (jin_obj_at(forks, "forks", i, &o, e) < 0 ||
			jin_obj(o, "sandbox", &box, e) < 0 || jin_str(o, "error", &why, e) < 0 ||
			jin_str(box, "id", &id, e) < 0)
			return -EINVAL;
		if (why) {
			err_say(&failed, EREMOTEIO, "%s", why);
			*ret_status = cmd_fail("fork", &failed);
		} else {
			puts(id);
		}
	}
	return 0;
}

static int fork_one(struct client *c, const struct line *l, int *ret_status, struct err *e)
{
	own_jin struct jin *answer = NULL;
	const struct jin *forks = NULL;
	own_buf struct buf body = { 0 };
	char path[200];
	int r = client_path(path, sizeof(path), l->words[0], "/fork", e);

	buf_init(&body, 4096);
	json_open(&body, NULL);
	json_u64(&body, "count", l->count);
	if (l->timeout_ms)
		json_u64(&body, "timeout_ms", l->timeout_ms);
	json_close(&body);
	if (r == 0)
		r = client_call(c, "POST", path, &body, &answer, e);
	if (r == 0)
		r = jin_list(answer, "forks", &forks, e);
	if (r < 0)
		return r;
	return l->json ? print_json(forks) : print_forks(forks, ret_status, e);
}

static int one_word(
	struct line *l, int argc, char **argv, const struct globals *g, const char *what)
{
	struct client *c = NULL;
	struct err e = { 0 };
	int r = read_line(l, argc, argv, &e), status = 0;

	if (r != 0)
		return r < 0 ? cmd_fail(l->command, &e) : 0;
	if (l->word_count != 1)
		return cmd_usage(l->command, "%s", what);
	if (client_open(g, l->tenant, &c, &e) < 0)
		return cmd_fail(l->command, &e);
	r = l->takes_count ? fork_one(c, l, &status, &e) : restore(c, l, &e);
	if (r < 0)
		status = cmd_fail(l->command, &e);
	client_close(c);
	return status;
}

int cmd_restore(int argc, char **argv, const struct globals *g)
{
	struct line l = { .command = "restore", .takes_timeout = true };

	return one_word(&l, argc, argv, g,
		"which snapshot? ward restore SNAPSHOT; 'ward snapshot ls' shows them");
}

int cmd_fork(int argc, char **argv, const struct globals *g)
{
	struct line l = {
		.command = "fork", .takes_timeout = true, .takes_count = true, .count = 1
	};

	return one_word(&l, argc, argv, g, "which sandbox? ward fork ID; 'ward ls' shows them");
}
