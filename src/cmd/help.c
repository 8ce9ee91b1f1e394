/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/help.c - `ward help [COMMAND]`.
 *
 * Owns:  the overview; the text of each command is cmd/help/NAME.txt, built in.
 * Rules: every command in commands.def has its text, or the build fails.
 */
#include <stdio.h>

#include "base/ckd.h"
#include "base/str.h"
#include "cmd/cmd.h"

static const struct {
	const char *name, *line;
} commands[] = {
#define COMMAND(name, fn, where, help) { name, help },
#include "cmd/commands.def"
#undef COMMAND
};

static const struct {
	const char *name, *text;
} texts[] = {
#include "cmd/help_texts.def"
};

const char *cmd_help_text(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (str_eq(texts[i].name, name))
			return texts[i].text;
	return NULL;
}

static void overview(void)
{
	fputs(cmd_help_text("ward"), stdout);
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (commands[i].line[0])
			printf("  %-12s %s\n", commands[i].name, commands[i].line);
	fputs("\n'ward help COMMAND' explains one of them.\n", stdout);
}

int cmd_help(int argc, char **argv, const struct globals *g)
{
	const char *text;

	(void)g;
	if (argc < 2) {
		overview();
		return 0;
	}
	text = cmd_help_text(argv[1]);
	if (!text)
		return cmd_usage("help", "'%s' is not a command; 'ward help' lists them", argv[1]);
	fputs(text, stdout);
	return 0;
}
