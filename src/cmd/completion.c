/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/completion.c - `ward completion bash|zsh|fish`.
 *
 * Owns:  the shape of the three scripts; commands.def and options.def say what is in them.
 * Rules: a command without options still shows up; no table of its own beyond what stands after a
 *        command's name.
 */
#include <stdio.h>

#include "base/ckd.h"
#include "base/str.h"
#include "cmd/cmd.h"

static const struct {
	const char *name, *help;
} commands[] = {
#define COMMAND(name, fn, where, help) { name, help },
#include "cmd/commands.def"
#undef COMMAND
};

struct option {
	const char *command, *name, *letter, *value, *help;
};

static const struct option options[] = {
#define OPTION(command, name, letter, value, help) { command, name, letter, value, help },
#include "cmd/options.def"
#undef OPTION
};

/* What may follow a command's name. A command that is not here takes no words. */
static const struct {
	const char *command, *words;
} followers[] = {
	{ "run", "COMMAND" },
	{ "rm", "ID" },
	{ "diff", "ID" },
	{ "apply", "ID" },
	{ "help", "COMMANDS" },
	{ "template", "build import ls rm" },
	{ "audit", "verify show" },
	{ "key", "create ls revoke" },
	{ "pool", "set rm ls" },
	{ "why", "ID" },
	{ "exec", "ID" },
	{ "logs", "ID" },
	{ "pause", "ID" },
	{ "resume", "ID" },
	{ "kill", "ID" },
	{ "fork", "ID" },
	{ "snapshot", "ls rm" },
	{ "kernel", "use build ls rm" },
	{ "completion", "bash zsh fish" },
};

/* Kept and running sandboxes, as every script asks for them. */
#define IDS "$(ward ls 2>/dev/null | grep -oE '^[a-z2-7]{12}')"

/* Commands that are not for people have no help. */
static bool is_shown(size_t i)
{
	return commands[i].help[0];
}

static const char *follower(const char *command)
{
	for (size_t i = 0; i < ARRAY_LEN(followers); i++)
		if (str_eq(followers[i].command, command))
			return followers[i].words;
	return "";
}

static bool is_flag(const struct option *o)
{
	return !*o->value;
}

static void print_command_names(void)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (is_shown(i))
			printf("%s%s", i ? " " : "", commands[i].name);
}

static void bash_values(const struct option *o)
{
	printf("\t%s:--%s", o->command, o->name);
	if (*o->letter)
		printf("|%s:-%s", o->command, o->letter);
	if (str_eq(o->value, "FILE"))
		puts(") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;");
	else if (str_eq(o->value, "DIR"))
		puts(") COMPREPLY=($(compgen -d -- \"$cur\")); return ;;");
	else if (str_eq(o->value, "TEXT"))
		puts(") COMPREPLY=(); return ;;");
	else
		printf(") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", o->value);
}

static void bash_command(const char *name)
{
	const char *words = follower(name);

	printf("\t%s)\n\t\tif [[ $cur == -* ]]; then words='--help", name);
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (str_eq(options[i].command, name))
			printf(" --%s", options[i].name);
	fputs("'; else ", stdout);
	if (str_eq(words, "COMMAND")) {
		puts("COMPREPLY=($(compgen -c -f -- \"$cur\")); return; fi ;;");
		return;
	}
	fputs("words=\"", stdout);
	if (str_eq(words, "ID"))
		fputs(IDS, stdout);
	else if (str_eq(words, "COMMANDS"))
		print_command_names();
	else
		fputs(words, stdout);
	puts("\"; fi ;;");
}

static void bash_script(void)
{
	puts("# bash completion for ward: ward completion bash > /etc/bash_completion.d/ward\n"
	     "_ward() {\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= words= "
	     "i\n"
	     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	     "\t\tcase ${COMP_WORDS[i]} in\n"
	     "\t\t--state-dir) ((i++)) ;;\n"
	     "\t\t-*) ;;\n"
	     "\t\t*) cmd=${COMP_WORDS[i]}; break ;;\n"
	     "\t\tesac\n"
	     "\tdone\n"
	     "\tcase $cmd:$prev in\n"
	     "\t:--state-dir) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;");
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (!is_flag(&options[i]))
			bash_values(&options[i]);
	fputs("\tesac\n\tcase $cmd in\n\t'') words='--state-dir --help --version ", stdout);
	print_command_names();
	puts("' ;;");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (is_shown(i))
			bash_command(commands[i].name);
	puts("\tesac\n"
	     "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	     "}\n"
	     "complete -o filenames -o bashdefault -F _ward ward");
}

static void zsh_option(const struct option *o)
{
	/* "(-t --tty)"{-t,--tty}"[help]:what:values" */
	if (*o->letter)
		printf(" \\\n\t\t\t'(-%s --%s)'{-%s,--%s}'", o->letter, o->name, o->letter,
			o->name);
	else
		printf(" \\\n\t\t\t'*--%s", o->name);
	printf("[%s]", o->help);
	if (str_eq(o->value, "FILE"))
		fputs(":file:_files", stdout);
	else if (str_eq(o->value, "DIR"))
		fputs(":directory:_directories", stdout);
	else if (str_eq(o->value, "TEXT"))
		printf(":%s: ", o->name);
	else if (!is_flag(o))
		printf(":%s:(%s)", o->name, o->value);
	putchar('\'');
}

static void zsh_command(const char *name)
{
	const char *words = follower(name);

	printf("\t%s)\n\t\t_arguments '--help[explain]'", name);
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (str_eq(options[i].command, name))
			zsh_option(&options[i]);
	if (str_eq(words, "COMMAND"))
		fputs(" \\\n\t\t\t'*::command:_normal'", stdout);
	else if (str_eq(words, "ID"))
		fputs(" \\\n\t\t\t\"*:sandbox:(" IDS ")\"", stdout);
	else if (str_eq(words, "COMMANDS")) {
		fputs(" \\\n\t\t\t'1:command:(", stdout);
		print_command_names();
		fputs(")'", stdout);
	} else if (*words)
		printf(" \\\n\t\t\t'1:what:(%s)' '*: :_files'", words);
	puts(" ;;");
}

static void zsh_script(void)
{
	puts("#compdef ward\n"
	     "# zsh completion for ward: ward completion zsh > _ward, somewhere in $fpath\n"
	     "_ward() {\n"
	     "\tlocal context state line\n"
	     "\tlocal -a names\n"
	     "\tnames=(");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (is_shown(i))
			printf("\t\t'%s:%s'\n", commands[i].name, commands[i].help);
	puts("\t)\n"
	     "\t_arguments -C '--state-dir[where state lives]:directory:_directories' '--help[list "
	     "commands]' \\\n"
	     "\t\t'--version[print the version]' '1:command:->command' '*::argument:->argument'\n"
	     "\tcase $state in\n"
	     "\tcommand) _describe command names; return ;;\n"
	     "\tesac\n"
	     "\tcase $line[1] in");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (is_shown(i))
			zsh_command(commands[i].name);
	puts("\tesac\n}\n_ward \"$@\"");
}

static void fish_command(const char *name, const char *help)
{
	const char *words = follower(name);

	printf("complete -c ward -n __fish_use_subcommand -f -a %s -d '%s'\n", name, help);
	if (str_eq(words, "COMMAND"))
		printf("complete -c ward -n '__fish_seen_subcommand_from %s' -F -a "
		       "'(__fish_complete_subcommand)'\n",
			name);
	else if (str_eq(words, "ID"))
		printf("complete -c ward -n '__fish_seen_subcommand_from %s' -f -a "
		       "\"(ward ls 2>/dev/null | string match -r '^[a-z2-7]{12}')\"\n",
			name);
	else if (str_eq(words, "COMMANDS")) {
		printf("complete -c ward -n '__fish_seen_subcommand_from %s' -f -a '", name);
		print_command_names();
		puts("'");
	} else if (*words)
		printf("complete -c ward -n '__fish_seen_subcommand_from %s' -f -a '%s'\n", name,
			words);
	printf("complete -c ward -n '__fish_seen_subcommand_from %s' -l help -d 'explain'\n", name);
}

static void fish_option(const struct option *o)
{
	printf("complete -c ward -n '__fish_seen_subcommand_from %s' -l %s", o->command, o->name);
	if (*o->letter)
		printf(" -s %s", o->letter);
	if (str_eq(o->value, "FILE"))
		fputs(" -r -F", stdout);
	else if (str_eq(o->value, "DIR"))
		fputs(" -x -a '(__fish_complete_directories)'", stdout);
	else if (str_eq(o->value, "TEXT"))
		fputs(" -x", stdout);
	else if (!is_flag(o))
		printf(" -x -a '%s'", o->value);
	printf(" -d '%s'\n", o->help);
}

static void fish_script(void)
{
	puts("# fish completion for ward: ward completion fish > "
	     "~/.config/fish/completions/ward.fish\n"
	     "complete -c ward -n __fish_use_subcommand -l state-dir -x -a "
	     "'(__fish_complete_directories)' "
	     "-d 'where state lives'\n"
	     "complete -c ward -n __fish_use_subcommand -l version -d 'print the version'");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (is_shown(i))
			fish_command(commands[i].name, commands[i].help);
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		fish_option(&options[i]);
}

int cmd_completion(int argc, char **argv, const struct globals *g)
{
	static const struct {
		const char *shell;
		void (*print)(void);
	} shells[] = {
		{ "bash", bash_script },
		{ "zsh", zsh_script },
		{ "fish", fish_script },
	};

	(void)g;
	if (argc == 2 && str_eq(argv[1], "--help")) {
		fputs(cmd_help_text("completion"), stdout);
		return 0;
	}
	if (argc != 2)
		return cmd_usage("completion", "needs the name of one shell: bash, zsh or fish");
	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		if (!str_eq(shells[i].shell, argv[1]))
			continue;
		shells[i].print();
		return 0;
	}
	return cmd_usage(
		"completion", "'%s' is not a shell that it knows: give bash, zsh or fish", argv[1]);
}
