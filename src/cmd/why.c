/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/why.c - `ward why`: what became of a sandbox, and how.
 *
 * Owns:  the words on the screen.
 * Rules: looks only, into the daemon's database; the daemon need not run. What a guest wrote is
 *        escaped before a terminal sees it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/str.h"
#include "cmd/common.h"
#include "db/db.h"
#include "front/jin.h"
#include "hub/hub.h"
#include "hub/lifecycle.h"

enum { CURVE_ROWS = 12, LINE_BYTES = 200 };

struct story {
	struct db *db;
	const char *id;
	bool json, colour;
	struct buf out;
	bool ended;
};

static const char *state_text(int64_t state)
{
	return lifecycle_is_state((int)state) ? hub_state_name((enum hub_state)state) : "unknown";
}

static const char *when(int64_t us, char out[CLOCK_TEXT])
{
	clock_text_at(us, out);
	return out;
}

static const char *tier_text(int64_t tier)
{
	return tier > WALL_NONE && tier < WALL_COUNT ? wall_name((enum wall)tier) : "undecided";
}

static int show_box(void *arg, const struct db_box *box)
{
	struct story *s = arg;
	struct buf *b = &s->out;
	char at[CLOCK_TEXT], line[LINE_BYTES * 4];

	if (s->json) {
		json_str(b, "id", box->id);
		json_str(b, "state", state_text(box->state));
		json_str(b, "reason", box->reason);
		json_str(b, "tenant", box->tenant);
		json_str(b, "template", box->template_asked);
		json_str(b, "tier", tier_text(box->tier));
		json_str(b, "tier_why", box->tier_why);
		json_str(b, "tier_by", box->tier_by[0] ? box->tier_by : NULL);
		json_str(b, "created", when(box->created_us, at));
		return 0;
	}
	buf_add_fmt(b, "%s%s%s is %s since %s: %s\n", s->colour ? "\033[1m" : "", box->id,
		s->colour ? "\033[0m" : "", state_text(box->state), when(box->state_us, at),
		str_show(line, sizeof(line), box->reason));
	buf_add_fmt(b, "  tenant    %s\n", box->tenant[0] ? box->tenant : "- (a pool)");
	buf_add_fmt(b, "  template  %s\n", str_show(line, sizeof(line), box->template_asked));
	str_show(line, sizeof(line), box->tier_why);
	if (str_after(line, tier_text(box->tier))) /* usually it begins with its name */
		buf_add_fmt(b, "  tier      %s\n", line);
	else
		buf_add_fmt(
			b, "  tier      %s%s%s\n", tier_text(box->tier), *line ? ": " : "", line);
	if (box->tier_by[0])
		buf_add_fmt(b, "  named by  %s\n", str_show(line, sizeof(line), box->tier_by));
	buf_add_str(b, "  steps\n");
	return 0;
}

static int show_step(void *arg, const struct db_step *step)
{
	struct story *s = arg;
	char at[CLOCK_TEXT], line[LINE_BYTES * 4];

	if (s->json) {
		json_open(&s->out, NULL);
		json_str(&s->out, "at", when(step->at_us, at));
		json_str(&s->out, "from", state_text(step->from));
		json_str(&s->out, "to", state_text(step->to));
		json_str(&s->out, "reason", step->reason);
		json_close(&s->out);
		return 0;
	}
	buf_add_fmt(&s->out, "    %.23s  %-9s %s\n", when(step->at_us, at), state_text(step->to),
		str_show(line, sizeof(line), step->reason));
	return 0;
}

static void show_output(struct story *s, const char *data, size_t len)
{
	if (!len)
		return;
	buf_add_str(&s->out, "  last output\n");
	for (size_t i = 0; i < len;) {
		const char *end = memchr(data + i, '\n', len - i);
		size_t n = end ? (size_t)(end - data) - i : len - i;
		char raw[LINE_BYTES + 1], shown[LINE_BYTES * 4 + 4];
		size_t part = n < LINE_BYTES ? n : LINE_BYTES;

		for (size_t k = 0; k < part; k++)
			raw[k] = data[i + k] ? data[i + k] : '?';
		raw[part] = '\0';
		buf_add_fmt(&s->out, "    | %s\n", str_show(shown, sizeof(shown), raw));
		i += n + 1;
	}
}

static void known(struct buf *b, const char *key, uint64_t v)
{
	if (v == UINT64_MAX)
		json_null(b, key);
	else
		json_u64(b, key, v);
}

static void mib(char out[16], uint64_t bytes)
{
	if (bytes == UINT64_MAX)
		str_copy(out, 16, "-");
	else
		str_fmt(out, 16, "%.1f", (double)bytes / 1048576);
}

static void show_curve(struct story *s, const struct hub_sample *list, unsigned count)
{
	unsigned step = count / CURVE_ROWS + 1;
	char at[CLOCK_TEXT], mem[16], disk[16];

	if (s->json) {
		json_array(&s->out, "curve");
		for (unsigned i = 0; i < count; i++) {
			json_open(&s->out, NULL);
			json_str(&s->out, "at", when(list[i].at_us, at));
			known(&s->out, "cpu_us", list[i].cpu_us);
			known(&s->out, "mem_used", list[i].mem_used);
			known(&s->out, "disk_used", list[i].disk_used);
			known(&s->out, "pids", list[i].pids);
			json_close(&s->out);
		}
		json_array_end(&s->out);
		return;
	}
	if (count)
		buf_add_fmt(&s->out, "  %-25s %10s %12s %12s %6s\n", "curve", "CPU s", "MEMORY MiB",
			"DISK MiB", "PIDS");
	for (unsigned i = 0; i < count; i += step) {
		mib(mem, list[i].mem_used);
		mib(disk, list[i].disk_used);
		buf_add_fmt(&s->out, "    %.23s %10.2f %12s %12s %6" PRIu64 "\n",
			when(list[i].at_us, at),
			list[i].cpu_us == UINT64_MAX ? 0.0 : (double)list[i].cpu_us / 1e6, mem,
			disk, list[i].pids == UINT64_MAX ? 0 : list[i].pids);
	}
}

/* What its supervisor noted: the last of them, and how many there were. */
static void show_events(struct story *s, const char *report)
{
	own_jin struct jin *doc = NULL;
	const struct jin *list = NULL;
	int64_t count = 0;

	if (jin_parse(report, strlen(report), SIZE_MAX, &doc, NULL) < 0 ||
		jin_list(doc, "events", &list, NULL) <= 0 || !jin_len(list))
		return;
	jin_i64(doc, "event_count", 0, INT64_MAX, &count, NULL);
	buf_add_fmt(&s->out, "  events    %lld\n", (long long)count);
	for (size_t i = 0; i < jin_len(list); i++) {
		char at[CLOCK_TEXT], line[LINE_BYTES * 4];
		const char *kind = "", *text = "";
		const struct jin *o = NULL;
		int64_t us = 0;

		if (jin_obj_at(list, "events", i, &o, NULL) < 0 ||
			jin_i64(o, "at_us", 0, INT64_MAX, &us, NULL) < 0 ||
			jin_str(o, "kind", &kind, NULL) < 0 || jin_str(o, "text", &text, NULL) < 0)
			continue;
		buf_add_fmt(&s->out, "    %.23s  %-12s %s\n", when(us, at), kind,
			str_show(line, sizeof(line), text));
	}
}

static int show_end(void *arg, const struct db_end *end)
{
	struct story *s = arg;
	unsigned count = (unsigned)(end->samples.len / sizeof(struct hub_sample));
	struct hub_sample *samples = calloc(count + 1, sizeof(*samples));
	char at[CLOCK_TEXT], line[LINE_BYTES * 4];

	if (!samples)
		return -ENOMEM;
	if (count)
		memcpy(samples, end->samples.data, count * sizeof(*samples));
	s->ended = true;
	if (s->json) {
		json_open(&s->out, "end");
		json_str(&s->out, "at", when(end->at_us, at));
		json_str(&s->out, "cause", end->cause);
		json_str(&s->out, "detail", end->detail);
		json_str(&s->out, "step", end->step[0] ? end->step : NULL);
		json_i64(&s->out, "exit_status", end->status);
		json_strn(&s->out, "output", end->output.data ? end->output.data : "",
			end->output.len);
		show_curve(s, samples, count);
		if (end->report[0]) {
			buf_add_str(&s->out, ",\"report\":");
			buf_add_str(&s->out, end->report);
		}
		json_close(&s->out);
	} else {
		buf_add_fmt(&s->out, "  end       %s%s%s", end->cause, end->detail[0] ? ": " : "",
			str_show(line, sizeof(line), end->detail));
		buf_add_fmt(&s->out, "%s%s\n", end->step[0] ? ", at step " : "", end->step);
		if (end->report[0])
			show_events(s, end->report);
		show_curve(s, samples, count);
		show_output(s, end->output.data, end->output.len);
	}
	free(samples);
	return 0;
}

static int tell(struct story *s, struct err *e)
{
	int r;

	if (s->json)
		json_open(&s->out, NULL);
	r = db_box_get(s->db, s->id, show_box, s, e);
	if (r == -ENOENT)
		return err_say(e, ENOENT,
			"there is no sandbox '%s' that the daemon knows; old ones are forgotten "
			"(keep "
			"in ward.toml)",
			s->id);
	if (s->json && r == 0)
		json_array(&s->out, "steps");
	if (r == 0)
		r = db_step_each(s->db, s->id, show_step, s, e);
	if (s->json && r == 0)
		json_array_end(&s->out);
	if (r == 0)
		r = db_end_get(s->db, s->id, show_end, s, e);
	if (r == -ENOENT)
		r = 0;
	if (s->json) {
		if (!s->ended)
			json_null(&s->out, "end");
		json_close(&s->out);
		buf_add_str(&s->out, "\n");
	}
	return r == 0 && s->out.bad ? err_set(e, ENOMEM, "telling about '%s'", s->id) : r;
}

int cmd_why(int argc, char **argv, const struct globals *g)
{
	struct story s = { .colour = cmd_colour(stdout) };
	struct err e = { 0 };
	int r;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("why"), stdout);
			return 0;
		}
		if (str_eq(argv[i], "--json"))
			s.json = true;
		else if (argv[i][0] == '-' || s.id)
			return cmd_usage(
				"why", "'%s' is not accepted: one ID, and --json", argv[i]);
		else
			s.id = argv[i];
	}
	if (!s.id || !id_is_valid(s.id))
		return cmd_usage(
			"why", "name one sandbox by its id: %d characters of a-z and 2-7", ID_LEN);
	r = db_open(g->state_dir, DB_LOOK, &s.db, &e);
	if (r == -ENOENT)
		err_say(&e, ENOENT, "no daemon has run on '%s' yet", g->state_dir);
	buf_init(&s.out, SIZE_MAX);
	if (r == 0)
		r = tell(&s, &e);
	db_close(s.db);
	if (r == 0)
		fwrite(s.out.data, 1, s.out.len, stdout);
	buf_done(&s.out);
	return r < 0 ? cmd_fail("why", &e) : 0;
}
