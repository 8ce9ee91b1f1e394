/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/rm.c - `ward rm`.
 *
 * Owns:  nothing.
 * Rules: removes what it can; the first that it cannot is the error line.
 */
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/common.h"
#include "core/gc.h"
#include "core/list.h"
#include "store/state.h"

enum { IDS_BYTES_MAX = 64 << 20 };

struct rm {
	bool json, all;
	int fd;
	struct gc_hooks hooks;
	struct buf out;
	int first;
	struct err e;
};

static void remove_one(struct rm *rm, const char *id)
{
	struct err e = { 0 };
	int r = box_remove(rm->fd, id, &rm->hooks.sweep, &e);

	if (r == 0 && rm->json)
		json_str(&rm->out, NULL, id);
	else if (r == 0)
		buf_add_fmt(&rm->out, "removed %s\n", id);
	if (r < 0 && rm->first == 0) {
		rm->first = r;
		rm->e = e;
	}
}

static int collect(void *arg, const struct box_row *row)
{
	if (row->state == BOX_KEPT)
		buf_add(arg, row->id, sizeof(row->id));
	return 0;
}

/* The list is made before the first is removed: a directory is not changed while it is read. */
static void remove_all(struct rm *rm)
{
	own_buf struct buf ids;
	int r;

	buf_init(&ids, IDS_BYTES_MAX);
	r = box_list(rm->fd, collect, &ids, &rm->e);
	if (r == 0 && ids.bad)
		r = err_set(&rm->e, ENOMEM, "listing sandboxes");
	if (r < 0) {
		rm->first = r;
		return;
	}
	for (size_t at = 0; at < ids.len; at += ID_LEN + 1)
		remove_one(rm, ids.data + at);
}

/* Options may stand anywhere; @ret_ids becomes the number of ids, moved to the front of @argv. */
static int options(int argc, char **argv, struct rm *rm, int *ret_ids)
{
	*ret_ids = 0;
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--json"))
			rm->json = true;
		else if (str_eq(argv[i], "--all"))
			rm->all = true;
		else if (argv[i][0] == '-')
			return cmd_usage("rm",
				"'%s' is not accepted: ward rm ID... [--json], or ward rm --all "
				"[--json]",
				argv[i]);
		else
			argv[++*ret_ids] = argv[i];
	}
	if (rm->all == (*ret_ids > 0))
		return cmd_usage("rm",
			"give either the ids of kept sandboxes ('ward ls' lists them) or --all");
	return 0;
}

int cmd_rm(int argc, char **argv, const struct globals *g)
{
	struct rm rm = { .fd = -1 };
	int ids;

	for (int i = 1; i < argc; i++)
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("rm"), stdout);
			return 0;
		}
	if (options(argc, argv, &rm, &ids))
		return EXIT_WARD;
	gc_hooks_init(&rm.hooks);
	buf_init(&rm.out, IDS_BYTES_MAX);
	if (rm.json)
		json_array(&rm.out, NULL);
	rm.first = state_open_existing(g->state_dir, &rm.fd, &rm.e);
	if (rm.first == 0 && rm.all)
		remove_all(&rm);
	for (int i = 1; rm.fd >= 0 && !rm.all && i <= ids; i++)
		remove_one(&rm, argv[i]);
	if (rm.first == -ENOENT && rm.fd < 0) /* nothing was ever run here */
		rm.first =
			rm.all ? 0
			       : err_say(&rm.e, ENOENT,
					 "there is no kept sandbox '%.64s'; 'ward ls' lists them",
					 argv[1]);
	if (rm.json)
		buf_add_str(&rm.out, "]\n");
	if (rm.out.len)
		fwrite(rm.out.data, 1, rm.out.len, stdout);
	buf_done(&rm.out);
	own_fd_done_(&rm.fd);
	return rm.first < 0 ? cmd_fail("rm", &rm.e) : 0;
}
