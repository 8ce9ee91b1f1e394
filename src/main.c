/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the command table, nothing else.
 *
 * Owns:  the options before the command.
 * Rules: built twice: `ward`, small and static, has the LEAN commands and starts `ward-full` for
 *        the rest; `ward-full` has the FULL ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>

#include "agent/agent.h"
#include "base/ckd.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/common.h"

#ifdef WARD_FULL
#define FN_LEAN(fn) NULL
#define FN_FULL(fn) fn
#else
#define FN_LEAN(fn) fn
#define FN_FULL(fn) NULL
#endif

static const struct {
	const char *name;
	command_fn *fn; /* NULL: the other executable has it */
} commands[] = {
#define COMMAND(name, fn, where, help) { name, FN_##where(fn) },
#include "cmd/commands.def"
#undef COMMAND
};

enum { STACK_LEAST = 256 << 10 };

static int dispatch(int argc, char **argv, const struct globals *g)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (!str_eq(commands[i].name, argv[0]))
			continue;
		if (commands[i].fn)
			return commands[i].fn(argc, argv, g);
		return cmd_exec_full(argv, g);
	}
	return cmd_usage(NULL, "'%s' is not a command; 'ward help' lists them", argv[0]);
}

/* A file of ours must not become the stdin or stdout of somebody's command. */
static bool fill_stdio(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return false;
	return true;
}

/* What is too small for ward ends it without a word. */
static bool stack_is_enough(struct err *e)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_STACK, &l) < 0 || l.rlim_cur >= STACK_LEAST)
		return true;
	err_say(e, ENOMEM,
		"the stack is limited to %u KiB and ward needs %u: raise the limit (ulimit -s)",
		(unsigned)(l.rlim_cur >> 10), STACK_LEAST >> 10);
	return false;
}

/* One piece of memory holds all of it: the kernel put it there. */
static void find_args(struct globals *g, int argc, char **argv)
{
	char *end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;

	for (char **env = g->environ; *env; env++)
		if (*env == end)
			end = *env + strlen(*env) + 1;
	g->args = argv[0];
	g->args_len = (size_t)(end - argv[0]);
}

int main(int argc, char **argv)
{
	char state_dir[WARD_PATH_MAX];
	struct globals g = { .state_dir = state_dir, .environ = environ };
	struct err e = { 0 };
	int at;

	if (argc < 1 || !fill_stdio())
		return EXIT_WARD;
#ifndef WARD_FULL
	/* The kernel tier's first guest process is this program under another name. */
	if (str_eq(argv[0], "ward-agent"))
		return agent_main(argc, argv);
#endif
	if (!stack_is_enough(&e))
		return cmd_fail(NULL, &e);
	signal(SIGXFSZ, SIG_IGN); /* a limit of the caller's is an error to be told */
	find_args(&g, argc, argv);
	at = globals_read(argc, argv, state_dir, &e);

	if (at < 0)
		return cmd_fail(NULL, &e);
	if (at >= argc) {
		char *help[] = { (char *)"help", NULL };

		dispatch(1, help, &g);
		return EXIT_WARD;
	}
	return dispatch(argc - at, argv + at, &g);
}
