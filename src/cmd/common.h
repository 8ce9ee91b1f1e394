/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_COMMON_H
#define WARD_CMD_COMMON_H

#include <stdbool.h>
#include <stdio.h>

#include "base/limits.h"
#include "cmd/cmd.h"

/* Reads --state-dir, --help and --version; the index of the command's name, or a negative errno. */
int globals_read(int argc, char **argv, char state_dir[WARD_PATH_MAX], struct err *e);

/* Becomes ward-full with the same command; returns only on failure, with the exit status. */
int cmd_exec_full(char **argv, const struct globals *g);

/* For ward-full: where `ward` is, beside it or in bin of the same prefix. */
int cmd_find_ward(char ret[WARD_PATH_MAX], struct err *e);

/* A command of verbs: `ward key create ...`. Also answers --help. */
struct cmd_verb {
	const char *name;
	command_fn *fn; /* argv[0] is the verb */
};
int cmd_verbs(const char *name, const struct cmd_verb *verbs, unsigned count, int argc, char **argv,
	const struct globals *g);

/* "--name VALUE" or "--name=VALUE" at argv[*at]: 1 with @ret set (and *at moved), 0 when it is
 * something else, -EINVAL without a value. */
int cmd_value(char **argv, int *at, const char *name, const char **ret, struct err *e);

/* May @f be coloured: a terminal, and neither NO_COLOR nor TERM=dumb says otherwise. */
bool cmd_colour(FILE *f);

#endif
