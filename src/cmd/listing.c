/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/listing.c - rows of the database on the screen.
 *
 * Owns:  what the listings have in common: options, heading, brackets.
 */
#include "cmd/listing.h"

#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/str.h"

static void begin(struct listing *l, const char *head)
{
	bool colour = cmd_colour(stdout);

	if (l->json)
		json_array(&l->out, NULL);
	else
		buf_add_fmt(&l->out, "%s%s%s\n", colour ? "\033[1m" : "", head,
			colour ? "\033[0m" : "");
}

static void end(struct listing *l)
{
	if (!l->json)
		return;
	json_array_end(&l->out);
	buf_add_str(&l->out, "\n");
}

static int fill(
	struct listing *l, const struct listing_of *of, const char *state_dir, struct err *e)
{
	int r = db_open(state_dir, DB_LOOK, &l->db, e);

	begin(l, of->head);
	if (r == 0)
		r = of->each(l, e);
	else if (r == -ENOENT)
		r = 0; /* no daemon was here yet */
	db_close(l->db);
	end(l);
	return r == 0 && l->out.bad ? err_set(e, ENOMEM, "listing %s", of->what) : r;
}

int listing_show(const struct listing_of *of, int argc, char **argv, const struct globals *g)
{
	struct listing l = { 0 };
	struct err e = { 0 };
	int r;

	for (int i = 1; i < argc; i++) {
		if (!str_eq(argv[i], "--json"))
			return cmd_usage(
				of->command, "ls: '%s' is not accepted: only --json", argv[i]);
		l.json = true;
	}
	buf_init(&l.out, SIZE_MAX);
	r = fill(&l, of, g->state_dir, &e);
	if (r == 0)
		fwrite(l.out.data, 1, l.out.len, stdout);
	buf_done(&l.out);
	return r < 0 ? cmd_fail(of->command, &e) : 0;
}
