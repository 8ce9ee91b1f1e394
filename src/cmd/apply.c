/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/apply.c - `ward apply`.
 *
 * Owns:  its options, and how the result is told.
 * Rules: says nothing on stdout unless all of it worked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/text.h"
#include "core/apply.h"
#include "plan/source.h"

enum { OUT_BYTES_MAX = 1 << 20 };

struct options {
	struct apply_request req;
	bool json, patch, help;
};

static int read_options(struct options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *value = str_after(a, "--branch=");

		if (str_eq(a, "--help") || str_eq(a, "-h"))
			o->help = true;
		else if (str_eq(a, "--json"))
			o->json = true;
		else if (str_eq(a, "--patch"))
			o->patch = true;
		else if (str_eq(a, "--check"))
			o->req.check = true;
		else if (str_eq(a, "--force"))
			o->req.force = true;
		else if (str_eq(a, "--branch") && i + 1 < argc)
			o->req.branch = argv[++i];
		else if (value)
			o->req.branch = value;
		else if (str_eq(a, "--branch"))
			return cmd_usage("apply", "--branch needs the name of a new branch");
		else if (a[0] == '-')
			return cmd_usage("apply",
				"'%.64s' is not an option: ward apply ID [--branch NAME|--patch] "
				"[--check] [--force]",
				a);
		else if (o->req.id)
			return cmd_usage("apply", "takes one id, not also '%.64s'", a);
		else
			o->req.id = a;
	}
	if (o->help)
		return 0;
	if (o->req.branch && (o->patch || o->req.check || o->req.force))
		return cmd_usage(
			"apply", "--branch goes with none of --patch, --check and --force");
	if (!o->req.id)
		return cmd_usage("apply", "needs the id of a kept workspace; 'ward ls' lists them");
	return 0;
}

static void tell(const struct options *o, const struct apply_result *r)
{
	const char *s = r->files == 1 ? "" : "s";

	if (o->req.check)
		printf("%s: %zu change%s would apply\n", r->src, r->files, s);
	else if (o->req.branch && *r->commit)
		printf("%s: branch %s is at %.12s\n", r->src, o->req.branch, r->commit);
	else if (r->files && !o->req.branch)
		printf("%s: %zu change%s applied\n", r->src, r->files, s);
	else
		printf("%s: nothing to apply\n", r->src);
}

static int tell_json(const struct options *o, const struct apply_result *r, unsigned count)
{
	own_buf struct buf b;

	buf_init(&b, OUT_BYTES_MAX);
	json_open(&b, NULL);
	json_str(&b, "id", o->req.id);
	json_bool(&b, "applied", !o->req.check);
	json_array(&b, "sources");
	for (unsigned i = 0; i < count; i++) {
		json_open(&b, NULL);
		json_str(&b, "name", r[i].name);
		json_str(&b, "kind", source_kind_name(r[i].kind));
		json_str(&b, "src", r[i].src);
		json_u64(&b, "changes", r[i].files);
		json_str(&b, "branch", *r[i].commit ? o->req.branch : NULL);
		json_str(&b, "commit", *r[i].commit ? r[i].commit : NULL);
		json_close(&b);
	}
	json_array_end(&b);
	json_close(&b);
	return text_report("apply", &b);
}

int cmd_apply(int argc, char **argv, const struct globals *g)
{
	struct options o = { .req.state_dir = g->state_dir };
	own_mem struct apply_result *results = calloc(SOURCES_MAX, sizeof(*results));
	struct err e = { 0 };
	int r = read_options(&o, argc, argv);

	if (r)
		return r;
	if (o.help) {
		fputs(cmd_help_text("apply"), stdout);
		return text_end("apply");
	}
	r = results ? core_apply(&o.req, results, &e) : err_say(&e, ENOMEM, "out of memory");
	if (r < 0)
		return cmd_fail("apply", &e);
	if (o.json)
		return tell_json(&o, results, (unsigned)r);
	for (int i = 0; i < r; i++)
		tell(&o, &results[i]);
	return text_end("apply");
}
