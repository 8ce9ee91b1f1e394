/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/gc.c - `ward gc`.
 *
 * Owns:  nothing.
 * Rules: prints what was removed; what could not be is the error line, and is tried again next
 * time.
 */
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/common.h"
#include "core/gc.h"
#include "store/state.h"

enum { OUT_BYTES_MAX = 256 << 20 };

struct gc_out {
	bool json;
	unsigned removed;
	struct buf text, errors;
};

static void removed(void *arg, const char *kind, const char *what)
{
	struct gc_out *o = arg;

	o->removed++;
	if (!o->json) {
		buf_add_fmt(&o->text, "removed %s %s\n", kind, what);
		return;
	}
	json_open(&o->text, NULL);
	json_str(&o->text, "kind", kind);
	json_str(&o->text, "what", what);
	json_close(&o->text);
}

static void failed(void *arg, const struct err *e)
{
	struct gc_out *o = arg;

	if (o->json)
		json_str(&o->errors, NULL, e->msg);
	else
		buf_add_fmt(&o->text, "failed: %s\n", e->msg);
}

static void print(struct gc_out *o, const struct sweep_report *rep)
{
	struct buf b;

	buf_init(&b, OUT_BYTES_MAX);
	if (o->json) {
		json_open(&b, NULL);
		json_u64(&b, "swept", rep->swept);
		json_u64(&b, "running", rep->live);
		json_u64(&b, "failed", rep->failed);
		json_array(&b, "removed");
		buf_add(&b, o->text.data, o->text.len);
		json_array_end(&b);
		json_array(&b, "errors");
		buf_add(&b, o->errors.data, o->errors.len);
		json_array_end(&b);
		json_close(&b);
		buf_add(&b, "\n", 1);
	} else {
		buf_add(&b, o->text.data, o->text.len);
		if (rep->swept)
			buf_add_fmt(&b, "swept %u dead sandbox%s\n", rep->swept,
				rep->swept == 1 ? "" : "es");
		if (!rep->swept && !o->removed && !o->text.len)
			buf_add_str(&b, "nothing to remove\n");
	}
	if (b.len)
		fwrite(b.data, 1, b.len, stdout);
	buf_done(&b);
}

int cmd_gc(int argc, char **argv, const struct globals *g)
{
	struct gc_out out = { 0 };
	struct sweep_report rep = { 0 };
	struct gc_hooks hooks;
	struct err e = { 0 };
	own_fd int fd = -1;
	int r;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("gc"), stdout);
			return 0;
		} else if (str_eq(argv[i], "--json")) {
			out.json = true;
		} else {
			return cmd_usage("gc", "'%s' is not accepted: ward gc [--json]", argv[i]);
		}
	}
	gc_hooks_init(&hooks);
	hooks.sweep.removed = removed;
	hooks.sweep.failed = failed;
	hooks.sweep.arg = &out;
	buf_init(&out.text, OUT_BYTES_MAX);
	buf_init(&out.errors, OUT_BYTES_MAX);
	r = state_open_existing(g->state_dir, &fd, &e);
	if (r == 0)
		r = gc_run(fd, g->state_dir, &hooks, &rep, &e);
	else if (r == -ENOENT)
		r = 0; /* nothing was ever run here */
	if (fd >= 0 || r == 0)
		print(&out, &rep);
	buf_done(&out.text);
	buf_done(&out.errors);
	return r < 0 ? cmd_fail("gc", &e) : 0;
}
