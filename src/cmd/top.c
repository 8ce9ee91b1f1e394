/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/top.c - `ward top`: what the daemon's sandboxes use now.
 *
 * Owns:  the table on the screen.
 * Rules: on a terminal it is drawn again every two seconds until interrupted; elsewhere once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/client.h"
#include "cmd/common.h"

enum { REFRESH_S = 2, OUT_MAX = 64 << 20 };

struct top {
	struct client *client;
	bool json, once;
	struct buf out;
	unsigned rows;
};

static void size_text(int64_t bytes, char out[16])
{
	static const char units[] = "BKMGT";
	double v = (double)bytes;
	unsigned u = 0;

	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	if (bytes < 0 || str_fmt(out, 16, u ? "%.1f%c" : "%.0f%c", v, units[u]) < 0)
		str_copy(out, 16, "-");
}

static int64_t number(const struct jin *o, const char *key)
{
	int64_t v = -1;

	return jin_i64(o, key, 0, INT64_MAX, &v, NULL) > 0 ? v : -1;
}

static void put_row(struct top *t, const struct jin *box, const struct jin *sample)
{
	const char *id = "", *state = "", *template = "";
	char mem[16], limit[16], disk[16];
	int64_t cpu = number(sample, "cpu_milli");

	jin_str(box, "id", &id, NULL);
	jin_str(box, "state", &state, NULL);
	jin_str(box, "template", &template, NULL);
	if (t->json) {
		own_mem char *text = sample ? jin_dump(sample) : NULL;

		buf_add_fmt(&t->out, "%s{\"id\":", t->rows ? "," : "");
		json_str(&t->out, NULL, id);
		json_str(&t->out, "state", state);
		buf_add_fmt(&t->out, ",\"usage\":%s}", text ? text : "null");
		return;
	}
	if (!t->rows)
		buf_add_fmt(&t->out, "%-12s  %-8s  %6s  %8s  %8s  %8s  %5s  %s\n", "ID", "STATE",
			"CPU%", "MEM", "LIMIT", "DISK", "PROCS", "TEMPLATE");
	size_text(number(sample, "mem_used"), mem);
	size_text(number(sample, "mem_total"), limit);
	size_text(number(sample, "disk_used"), disk);
	buf_add_fmt(&t->out, "%-12s  %-8s  ", id, state);
	if (cpu < 0)
		buf_add_fmt(&t->out, "%6s", "-");
	else
		buf_add_fmt(&t->out, "%6.1f", (double)cpu / 10);
	buf_add_fmt(&t->out, "  %8s  %8s  %8s  %5" PRId64 "  %s\n", mem, limit, disk,
		number(sample, "pids") < 0 ? 0 : number(sample, "pids"), template);
}

static int one(struct top *t, const struct jin *box, struct err *e)
{
	own_jin struct jin *answer = NULL;
	const struct jin *samples = NULL, *last = NULL;
	const char *id = NULL;
	char path[200];
	int r = jin_need_str(box, "id", &id, e);

	if (r >= 0)
		r = client_path(path, sizeof(path), id, "/usage", e);
	/* One that ended in between has no row. */
	if (r < 0 || client_call(t->client, "GET", path, NULL, &answer, NULL) < 0)
		return r < 0 ? r : 0;
	if (jin_list(answer, "samples", &samples, NULL) > 0 && jin_len(samples))
		jin_obj_at(samples, "samples", jin_len(samples) - 1, &last, NULL);
	put_row(t, box, last);
	t->rows++;
	return 0;
}

static int draw(struct top *t, struct err *e)
{
	own_jin struct jin *answer = NULL;
	const struct jin *list = NULL, *box = NULL;
	int r = client_call(t->client, "GET", "/ward/v1/sandboxes?tenants=1", NULL, &answer, e);

	buf_cut(&t->out, 0);
	t->rows = 0;
	if (r == 0)
		r = jin_list(answer, "sandboxes", &list, e);
	if (t->json)
		buf_add_str(&t->out, "[");
	for (size_t i = 0; r >= 0 && i < jin_len(list); i++) {
		r = jin_obj_at(list, "sandboxes", i, &box, e);
		if (r >= 0)
			r = one(t, box, e);
	}
	if (t->json)
		buf_add_str(&t->out, "]\n");
	if (r >= 0 && t->out.bad)
		r = err_set(e, ENOMEM, "drawing the table");
	return r < 0 ? r : 0;
}

static int loop(struct top *t, struct err *e)
{
	bool screen = isatty(1) && !t->once && !t->json;
	int r;

	do {
		r = draw(t, e);
		if (r < 0)
			return r;
		if (screen)
			fputs("\033[H\033[2J", stdout);
		if (t->out.len)
			fwrite(t->out.data, 1, t->out.len, stdout);
		if (!t->rows && !t->json)
			puts("no sandbox of the daemon runs");
		if (fflush(stdout) != 0)
			return err_set(e, errno, "writing the table");
	} while (screen && sleep(REFRESH_S) == 0);
	return 0;
}

int cmd_top(int argc, char **argv, const struct globals *g)
{
	struct top t = { 0 };
	struct err e = { 0 };
	int r;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("top"), stdout);
			return 0;
		} else if (str_eq(argv[i], "--json")) {
			t.json = true;
		} else if (str_eq(argv[i], "--once")) {
			t.once = true;
		} else {
			return cmd_usage(
				"top", "'%s' is not accepted: ward top [--once] [--json]", argv[i]);
		}
	}
	buf_init(&t.out, OUT_MAX);
	r = client_open(g, NULL, &t.client, &e);
	if (r == 0)
		r = loop(&t, &e);
	client_close(t.client);
	buf_done(&t.out);
	return r < 0 ? cmd_fail("top", &e) : 0;
}
