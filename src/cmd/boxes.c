/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/boxes.c - `ward ls` when a daemon runs: its sandboxes, then those of `ward run`.
 *
 * Owns:  the daemon's rows.
 * Rules: a sandbox is listed once: what the daemon says about its own is better than what the state
 *        directory does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/client.h"
#include "cmd/common.h"
#include "cmd/ls.h"

struct page {
	struct jin **docs;
	size_t count;
};

static bool has(void *arg, const char *id)
{
	const struct page *p = arg;

	for (size_t d = 0; d < p->count; d++) {
		const struct jin *list = NULL, *box = NULL;
		const char *name = NULL;

		jin_list(p->docs[d], "sandboxes", &list, NULL);
		for (size_t i = 0; i < jin_len(list); i++)
			if (jin_obj_at(list, "sandboxes", i, &box, NULL) > 0 &&
				jin_str(box, "id", &name, NULL) > 0 && str_eq(name, id))
				return true;
	}
	return false;
}

static const char *text(const struct jin *box, const char *key)
{
	const char *v = NULL;

	return jin_str(box, key, &v, NULL) > 0 ? v : NULL;
}

/* The fields of `ward ls --json`, then the daemon's own. */
static void json_row(struct ls *ls, const struct jin *box)
{
	static const char *const ours[] = { "tier", "created", "template", "tenant", "reason",
		"ends", "means" };
	struct buf *b = &ls->out;

	json_open(b, NULL);
	json_str(b, "id", text(box, "id"));
	json_str(b, "state", text(box, "state"));
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		json_str(b, ours[i], text(box, ours[i]));
	json_null(b, "ended");
	json_null(b, "cause");
	json_null(b, "detail");
	json_null(b, "status");
	json_null(b, "pid");
	json_array(b, "command");
	json_array_end(b);
	json_close(b);
}

static void text_row(struct ls *ls, const struct jin *box)
{
	const char *state = text(box, "state"), *tier = text(box, "tier");
	bool green = ls->colour && state && str_eq(state, "running");
	char age[16], shown[80];

	ls_head(ls);
	ls_age(text(box, "created"), age);
	buf_add_fmt(&ls->out, "%-12s  %-9s  %s%-7s%s  %5s  %-18s  ", text(box, "id"),
		tier ? tier : "-", green ? "\033[32m" : "", state ? state : "-",
		green ? "\033[0m" : "", age, "-");
	buf_add_fmt(&ls->out, "(template %s)\n",
		str_show(shown, sizeof(shown), text(box, "template") ? text(box, "template") : ""));
}

static int add_page(struct ls *ls, const struct jin *doc, struct err *e)
{
	const struct jin *list = NULL, *box = NULL;
	int r = jin_list(doc, "sandboxes", &list, e);

	for (size_t i = 0; r >= 0 && i < jin_len(list); i++) {
		r = jin_obj_at(list, "sandboxes", i, &box, e);
		if (r < 0 || !text(box, "id"))
			continue;
		if (ls->json)
			json_row(ls, box);
		else
			text_row(ls, box);
		ls->rows++;
	}
	return r < 0 ? r : 0;
}

static int add_all(struct ls *ls, struct client *c, struct page *p, struct err *e)
{
	char path[160] = "/ward/v1/sandboxes?tenants=1";

	for (;;) {
		struct jin **docs = realloc(p->docs, (p->count + 1) * sizeof(*docs));
		const char *next = NULL;
		int r;

		if (!docs)
			return err_set(e, ENOMEM, "listing sandboxes");
		p->docs = docs;
		r = client_call(c, "GET", path, NULL, &p->docs[p->count], e);
		if (r < 0)
			return r;
		r = add_page(ls, p->docs[p->count++], e);
		if (r < 0)
			return r;
		next = text(p->docs[p->count - 1], "next");
		if (!next)
			return 0;
		if (str_fmt(path, sizeof(path), "/ward/v1/sandboxes?tenants=1&token=%s", next) < 0)
			return err_say(e, EPROTO, "the daemon's list does not end");
	}
}

int cmd_boxes(int argc, char **argv, const struct globals *g)
{
	struct page p = { 0 };
	struct ls ls = { .has = has, .arg = &p };
	struct client *c = NULL;
	struct err e = { 0 };
	int status, r;

	if (ls_options(argc, argv, &ls, &status) < 0)
		return status;
	r = client_open(g, NULL, &c, &e);
	if (r == 0)
		r = add_all(&ls, c, &p, &e);
	client_close(c);
	status = r < 0 ? cmd_fail("ls", &e) : ls_finish(&ls, g);
	for (size_t i = 0; i < p.count; i++)
		jin_destroy(p.docs[i]);
	free(p.docs);
	return status;
}
