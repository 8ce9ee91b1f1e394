/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/diff.c - `ward diff`.
 *
 * Owns:  its options.
 * Rules: what is shown comes from git, straight to stdout.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/text.h"
#include "core/diff.h"

enum { OUT_BYTES_MAX = 256 << 20 };

int cmd_diff(int argc, char **argv, const struct globals *g)
{
	static const struct {
		const char *option;
		enum diff_form form;
	} forms[] = { { "--stat", DIFF_STAT }, { "--name-only", DIFF_NAMES },
		{ "--json", DIFF_JSON } };
	struct diff_request req = { .state_dir = g->state_dir, .out = STDOUT_FILENO };
	struct err e = { 0 };
	own_buf struct buf json;
	int r;

	buf_init(&json, OUT_BYTES_MAX);
	for (int i = 1; i < argc; i++) {
		bool known = false;

		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
			fputs(cmd_help_text("diff"), stdout);
			return text_end("diff");
		}
		for (size_t k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
			if (!str_eq(argv[i], forms[k].option))
				continue;
			if (req.form != DIFF_PATCH && req.form != forms[k].form)
				return cmd_usage(
					"diff", "give one of --stat, --name-only and --json");
			req.form = forms[k].form;
			known = true;
		}
		if (known)
			continue;
		if (argv[i][0] == '-')
			return cmd_usage("diff",
				"'%.64s' is not an option: ward diff ID "
				"[--stat|--name-only|--json]",
				argv[i]);
		if (req.id)
			return cmd_usage("diff", "takes one id, not also '%.64s'", argv[i]);
		req.id = argv[i];
	}
	if (!req.id)
		return cmd_usage("diff", "needs the id of a kept workspace; 'ward ls' lists them");
	req.colour = cmd_colour(stdout);
	req.json = &json;
	r = core_diff(&req, &e);
	if (r < 0)
		return cmd_fail("diff", &e);
	return req.form == DIFF_JSON ? text_report("diff", &json) : 0;
}
