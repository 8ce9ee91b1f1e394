/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/ls.c - `ward ls`.
 *
 * Owns:  the table on the screen.
 * Rules: looks only: makes no state directory and sweeps nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/ls.h"
#include "core/list.h"
#include "store/state.h"

enum { OUT_BYTES_MAX = 256 << 20, FIELD = 256, COMMAND_COLUMNS = 60 };

static const char *get(const struct record *r, const char *key, char out[FIELD])
{
	return record_get(r, key, out, FIELD) == 0 ? out : NULL;
}

static void json_row(struct buf *b, const struct box_row *row)
{
	static const char *const texts[] = { "tier", "created", "ended", "cause", "detail",
		"template" };
	struct record_line line;
	char text[FIELD], word[RECORD_COMMAND_MAX + 1];

	json_open(b, NULL);
	json_str(b, "id", row->id);
	json_str(b, "state", box_state_name(row->state));
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		json_str(b, texts[i], get(row->record, texts[i], text));
	if (get(row->record, "status", text))
		json_i64(b, "status", strtoll(text, NULL, 10));
	else
		json_null(b, "status");
	if (row->pid)
		json_i64(b, "pid", row->pid);
	else
		json_null(b, "pid");
	json_array(b, "command");
	if (record_find(row->record, "command", &line))
		for (size_t i = 0; record_word(&line, i, word, sizeof(word)) == 0; i++)
			json_str(b, NULL, word);
	json_array_end(b);
	json_close(b);
}

void ls_age(const char *created, char out[16])
{
	static const struct {
		int64_t up_to, unit;
		char name;
	} steps[] = { { 120, 1, 's' }, { 7200, 60, 'm' }, { 172800, 3600, 'h' },
		{ INT64_MAX, 86400, 'd' } };
	int64_t then, age;

	if (!created || clock_parse(created, &then) < 0) {
		str_copy(out, 16, "-");
		return;
	}
	age = (clock_now_us() - then) / 1000000;
	for (unsigned i = 0; i < 4; i++)
		if (age < steps[i].up_to) {
			if (str_fmt(out, 16, "%" PRId64 "%c", age / steps[i].unit, steps[i].name) <
				0)
				str_copy(out, 16, "-");
			return;
		}
}

/* The command on one line: what a terminal could take for more than text is escaped. */
static void add_command(struct buf *b, const struct record *r)
{
	char word[RECORD_COMMAND_MAX + 1];
	struct record_line line;
	size_t start = b->len;

	if (!record_find(r, "command", &line))
		return;
	for (size_t i = 0; record_word(&line, i, word, sizeof(word)) == 0; i++) {
		if (i)
			buf_add(b, " ", 1);
		for (const char *p = word; *p; p++) {
			unsigned char c = (unsigned char)*p;

			if (c < 0x20 || c >= 0x7f)
				buf_add_fmt(b, "\\x%02x", c);
			else
				buf_add(b, p, 1);
		}
	}
	if (b->len - start > COMMAND_COLUMNS) {
		buf_cut(b, start + COMMAND_COLUMNS - 3);
		buf_add_str(b, "...");
	}
}

void ls_head(struct ls *ls)
{
	if (ls->rows == 0)
		buf_add_fmt(&ls->out, "%-12s  %-9s  %-7s  %5s  %-18s  %s\n", "ID", "TIER", "STATE",
			"AGE", "CAUSE", "COMMAND");
}

static void text_row(struct ls *ls, const struct box_row *row)
{
	static const char *const colours[] = {
		[BOX_RUNNING] = "\033[32m", [BOX_KEPT] = "", [BOX_DEAD] = "\033[31m"
	};
	char tier[FIELD], created[FIELD], cause[FIELD], age[16];

	ls_head(ls);
	if (!get(row->record, "tier", tier))
		str_copy(tier, sizeof(tier), "-");
	if (!get(row->record, "cause", cause))
		str_copy(cause, sizeof(cause), "-");
	ls_age(get(row->record, "created", created), age);
	buf_add_fmt(&ls->out, "%-12s  %-9s  %s%-7s%s  %5s  %-18s  ", row->id, tier,
		ls->colour ? colours[row->state] : "", box_state_name(row->state),
		ls->colour && *colours[row->state] ? "\033[0m" : "", age, cause);
	add_command(&ls->out, row->record);
	buf_add(&ls->out, "\n", 1);
}

static int each(void *arg, const struct box_row *row)
{
	struct ls *ls = arg;

	if ((row->state == BOX_DEAD && !ls->all) || (ls->has && ls->has(ls->arg, row->id)))
		return 0;
	if (ls->json)
		json_row(&ls->out, row);
	else
		text_row(ls, row);
	ls->rows++;
	return 0;
}

int ls_options(int argc, char **argv, struct ls *ls, int *ret_status)
{
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("ls"), stdout);
			*ret_status = 0;
			return -1;
		} else if (str_eq(argv[i], "--json")) {
			ls->json = true;
		} else if (str_eq(argv[i], "--all")) {
			ls->all = true;
		} else {
			*ret_status = cmd_usage(
				"ls", "'%s' is not accepted: ward ls [--all] [--json]", argv[i]);
			return -1;
		}
	}
	ls->colour = cmd_colour(stdout);
	buf_init(&ls->out, OUT_BYTES_MAX);
	if (ls->json)
		json_array(&ls->out, NULL);
	return 0;
}

int ls_finish(struct ls *ls, const struct globals *g)
{
	struct err e = { 0 };
	own_fd int fd = -1;
	int r = state_open_existing(g->state_dir, &fd, &e);

	if (r == 0)
		r = box_list(fd, each, ls, &e);
	if (r == -ENOENT)
		r = 0; /* nothing was ever run here */
	if (ls->json)
		buf_add_str(&ls->out, "]\n");
	if (r == 0 && ls->out.bad)
		r = err_set(&e, ENOMEM, "listing sandboxes");
	if (r == 0 && ls->out.len)
		fwrite(ls->out.data, 1, ls->out.len, stdout);
	buf_done(&ls->out);
	return r < 0 ? cmd_fail("ls", &e) : 0;
}

/* Does a daemon listen? Then `ward-full` asks it, and the list is whole. */
static bool has_daemon(const struct globals *g)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	own_fd int fd = -1;

	if (str_fmt(to.sun_path, sizeof(to.sun_path), "%s/ward.sock", g->state_dir) < 0 ||
		access(to.sun_path, F_OK) < 0)
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
}

int cmd_ls(int argc, char **argv, const struct globals *g)
{
	struct ls ls = { 0 };
	int status;

	if (ls_options(argc, argv, &ls, &status) < 0)
		return status;
	if (has_daemon(g)) {
		buf_done(&ls.out);
		argv[0] = (char *)"boxes";
		return cmd_exec_full(argv, g);
	}
	return ls_finish(&ls, g);
}
