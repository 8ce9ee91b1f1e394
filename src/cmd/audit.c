/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/audit.c - `ward audit verify` and `ward audit show`.
 *
 * Owns:  the words on the screen.
 * Rules: looks only. A text from the log is escaped before a terminal sees it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/common.h"
#include "store/audit.h"
#include "store/state.h"

enum { TAIL_MAX = 100000000, EXIT_BROKEN = 1 };

struct show {
	const char *id, *event;
	char since[CLOCK_TEXT]; /* "": from the start */
	bool json;
	uint64_t tail;    /* 0: all */
	uint64_t matched; /* so far */
	uint64_t skip;    /* of the matching ones, not printed */
	uint64_t stop;    /* after that many, matching ones */
	bool counting;
};

static const char *const state_names[] = {
	[AUDIT_OK] = "ok", [AUDIT_TORN] = "torn", [AUDIT_BROKEN] = "broken"
};

static int print_report_json(const struct audit_report *rep)
{
	bool ok = rep->state == AUDIT_OK;
	json_t *o = json_pack("{s:s, s:I, s:I, s:I}", "state", state_names[rep->state], "lines",
		(json_int_t)rep->lines, "repairs", (json_int_t)rep->repairs, "torn_bytes",
		(json_int_t)rep->torn_bytes);
	int r = -1;

	if (o && json_object_set_new(o, "file", ok ? json_null() : json_string(rep->file)) == 0 &&
		json_object_set_new(
			o, "line", ok ? json_null() : json_integer((json_int_t)rep->line)) == 0 &&
		json_object_set_new(o, "why", ok ? json_null() : json_string(rep->why)) == 0)
		r = json_dumpf(o, stdout, JSON_COMPACT);
	json_decref(o);
	putchar('\n');
	return r < 0 ? -ENOMEM : 0;
}

static void print_report(const struct audit_report *rep)
{
	const char *red = "", *green = "", *plain = "";

	if (cmd_colour(stdout)) {
		red = "\033[31m";
		green = "\033[32m";
		plain = "\033[0m";
	}
	printf("%s%s%s: ", rep->state == AUDIT_OK ? green : red, state_names[rep->state], plain);
	if (rep->state == AUDIT_OK)
		printf("%" PRIu64 " lines, each with the hash of the one before, up to the end\n",
			rep->lines);
	else if (rep->line)
		printf("%s line %" PRIu64 ": %s\n", rep->file, rep->line, rep->why);
	else
		printf("%s: %s\n", rep->file, rep->why);
	if (rep->state == AUDIT_OK && rep->repairs)
		printf("note: its end was repaired %" PRIu64
		       " times; see 'ward audit show --event audit.repaired'\n",
			rep->repairs);
}

static int verify(int argc, char **argv, const struct globals *g)
{
	struct audit_report rep = { 0 };
	struct err e = { 0 };
	own_fd int fd = -1;
	bool json = false;
	int r;

	for (int i = 1; i < argc; i++) {
		if (!str_eq(argv[i], "--json"))
			return cmd_usage("audit",
				"'%s' is not accepted: ward audit verify [--json]", argv[i]);
		json = true;
	}
	r = state_open_existing(g->state_dir, &fd, &e);
	if (r == 0)
		r = audit_verify(fd, &rep, &e);
	else if (r == -ENOENT)
		r = 0; /* nothing was ever run here: an empty log is whole */
	if (r < 0)
		return cmd_fail("audit", &e);
	if (json && print_report_json(&rep) < 0) {
		err_set(&e, ENOMEM, "printing the report");
		return cmd_fail("audit", &e);
	}
	if (!json)
		print_report(&rep);
	return rep.state == AUDIT_OK ? 0 : EXIT_BROKEN;
}

/* Prints @text so that a terminal takes it for nothing but text. */
static void print_safe(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p < 0x20 || *p == 0x7f || *p == 0x9b)
			printf("\\x%02x", *p);
		else
			putchar(*p);
	}
}

static void print_member(const char *key, const json_t *value)
{
	char *text;

	printf(" ");
	print_safe(key);
	printf("=");
	if (json_is_string(value)) {
		print_safe(json_string_value(value));
		return;
	}
	text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	if (text)
		print_safe(text);
	free(text);
}

static void print_row(const struct audit_line *line, json_t *object)
{
	static const char *const front[] = { "seq", "ts", "prev", "event", "id" };
	const char *id = json_string_value(json_object_get(object, "id")), *key;
	json_t *value;

	printf("%6" PRIu64 "  %.19s  %-14s  %-12s ", line->seq, line->ts, line->event,
		id ? id : "-");
	json_object_foreach (object, key, value) {
		bool shown = false;

		for (size_t i = 0; i < sizeof(front) / sizeof(front[0]); i++)
			shown |= str_eq(front[i], key);
		if (!shown)
			print_member(key, value);
	}
	putchar('\n');
}

static bool event_matches(const char *want, const char *event)
{
	size_t n = strlen(want);

	return n && want[n - 1] == '.' ? str_after(event, want) != NULL : str_eq(event, want);
}

static bool matches(const struct show *s, const struct audit_line *line, json_t *object)
{
	const char *id;

	if (s->event && !event_matches(s->event, line->event))
		return false;
	/* Both are of fixed width and in UTC: text order is time order. */
	if (s->since[0] && strcmp(line->ts, s->since) < 0)
		return false;
	if (!s->id)
		return true;
	id = json_string_value(json_object_get(object, "id"));
	return id && str_eq(id, s->id);
}

static int show_line(void *arg, const char *text, size_t len, const struct audit_line *line)
{
	struct show *s = arg;
	json_t *object = NULL;

	if (line && (s->id || !s->json))
		object = json_loadb(text, len, 0, NULL);
	if (!line || ((s->id || !s->json) && !json_is_object(object))) {
		/* Not a line of ours: verify says more. It is not hidden, and matches nothing. */
		if (!s->counting && !s->json && !s->id && !s->event && !s->since[0] && !s->tail)
			printf("     ?  a line that ward does not write, %zu bytes\n", len);
		json_decref(object);
		return 0;
	}
	if (matches(s, line, object)) {
		s->matched++;
		if (!s->counting && s->matched > s->skip && s->json) {
			fwrite(text, 1, len, stdout);
			putchar('\n');
		} else if (!s->counting && s->matched > s->skip) {
			print_row(line, object);
		}
	}
	json_decref(object);
	return !s->counting && s->tail && s->matched >= s->stop;
}

/* Twice over the log when only its end is wanted, rather than keeping lines in memory. */
static int show_all(int fd, struct show *s, struct err *e)
{
	int r;

	if (s->tail) {
		s->counting = true;
		r = audit_each(fd, show_line, s, e);
		if (r < 0)
			return r;
		s->stop = s->matched;
		s->skip = s->matched > s->tail ? s->matched - s->tail : 0;
		s->matched = 0;
		s->counting = false;
		if (s->stop == 0)
			return 0;
	}
	r = audit_each(fd, show_line, s, e);
	return r < 0 ? r : 0;
}

static int parse_since(const char *text, char out[CLOCK_TEXT])
{
	uint64_t ms;
	int64_t us;

	if (clock_parse(text, &us) == 0) {
		clock_text_at(us, out);
		return 0;
	}
	if (parse_duration(text, 0, (uint64_t)100 * 365 * 86400 * 1000, &ms) < 0)
		return -EINVAL;
	clock_text_at(clock_now_us() - (int64_t)ms * 1000, out);
	return 0;
}

static int show_option(struct show *s, const char *name, const char *value)
{
	if (str_eq(name, "--id")) {
		if (!id_is_valid(value))
			return cmd_usage("audit",
				"--id '%.64s' is not a sandbox id: %d characters out of a-z and "
				"2-7",
				value, ID_LEN);
		s->id = value;
	} else if (str_eq(name, "--event")) {
		if (!*value)
			return cmd_usage(
				"audit", "--event needs a name, such as run.start or run.");
		s->event = value;
	} else if (str_eq(name, "--since")) {
		if (parse_since(value, s->since) < 0)
			return cmd_usage("audit",
				"--since '%.64s' is not a time: 2025-06-01, 2025-06-01T10:00, 90s, "
				"5m or 2h",
				value);
	} else if (parse_u64(value, 1, TAIL_MAX, &s->tail) < 0) {
		return cmd_usage(
			"audit", "--tail '%.64s' is not a number of lines from 1 on", value);
	}
	return 0;
}

static int show(int argc, char **argv, const struct globals *g)
{
	static const char *const names[] = { "--id", "--event", "--since", "--tail" };
	struct show s = { 0 };
	struct err e = { 0 };
	own_fd int fd = -1;
	int r;

	for (int i = 1; i < argc; i++) {
		const char *name = NULL, *rest = NULL;

		if (str_eq(argv[i], "--json")) {
			s.json = true;
			continue;
		}
		for (unsigned n = 0; n < 4 && !name; n++) {
			rest = str_after(argv[i], names[n]);
			if (rest && (!*rest || *rest == '='))
				name = names[n];
		}
		if (!name)
			return cmd_usage("audit",
				"'%s' is not accepted: ward audit show [--id ID] [--event NAME] "
				"[--since T] "
				"[--tail N] [--json]",
				argv[i]);
		if (!*rest && i + 1 >= argc)
			return cmd_usage("audit", "%s needs a value", name);
		if (show_option(&s, name, *rest ? rest + 1 : argv[++i]))
			return EXIT_WARD;
	}
	r = state_open_existing(g->state_dir, &fd, &e);
	if (r == 0)
		r = show_all(fd, &s, &e);
	else if (r == -ENOENT)
		r = 0;
	return r < 0 ? cmd_fail("audit", &e) : 0;
}

int cmd_audit(int argc, char **argv, const struct globals *g)
{
	for (int i = 1; i < argc; i++)
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("audit"), stdout);
			return 0;
		}
	if (argc > 1 && str_eq(argv[1], "verify"))
		return verify(argc - 1, argv + 1, g);
	if (argc > 1 && str_eq(argv[1], "show"))
		return show(argc - 1, argv + 1, g);
	return cmd_usage("audit", "say what to do: ward audit verify, or ward audit show");
}
