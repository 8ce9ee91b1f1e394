/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_TEMPLATE_H
#define WARD_CMD_TEMPLATE_H

#include "base/err.h"
#include "cmd/cmd.h"

/* `ward template import` and `ward template build`: argv[0] is the verb. */
int template_import(int argc, char **argv, const struct globals *g);
int template_build(int argc, char **argv, const struct globals *g);

/* --run: commands for the shell of the template, each in a sandbox; its changes become a layer. */
struct build_options;
struct import_result;
struct build_runs {
	const char *const *commands;
	unsigned count;
	const char *net, *disk; /* as `ward run` takes them; NULL: its default */
};
int template_build_runs(const struct globals *g, const char *name, const struct build_options *o,
	const struct build_runs *runs, struct import_result *ret, struct err *e);

#endif
