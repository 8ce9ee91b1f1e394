/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_CMD_H
#define WARD_CMD_CMD_H

#include <stddef.h>

#include "base/err.h"

enum { EXIT_TIME_LIMIT = 124, EXIT_WARD = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* What the options before the command say; the same for every command. */
struct globals {
	const char *
		state_dir; /* absolute: --state-dir, WARD_STATE_DIR, or the default; not made yet */
	char **environ;
	char *args; /* where the kernel put this process's arguments and environment */
	size_t args_len;
};

/* A command: argv[0] is its name. Returns the exit status of the process. */
typedef int command_fn(int argc, char **argv, const struct globals *g);

#define COMMAND(name, fn, where, help) command_fn fn;
#include "cmd/commands.def"
#undef COMMAND

/* "ward NAME: message" on stderr, one line; returns EXIT_WARD. */
int cmd_fail(const char *name, const struct err *e);
int cmd_usage(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The help text of one command (cmd/help.c), or NULL. */
const char *cmd_help_text(const char *name);

#endif
