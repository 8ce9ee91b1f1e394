/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/common.c - what every command shares: global options, errors, the other executable.
 *
 * Owns:  nothing.
 * Rules: an error is one line on stderr and exit status 125.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/str.h"
#include "cmd/common.h"
#include "host/host.h"

/* What a user wrote is in these messages: one line, and nothing that a terminal would obey. */
int cmd_fail(const char *name, const struct err *e)
{
	char line[sizeof(e->msg)];
	size_t n = 0;

	for (; n < sizeof(line) - 1 && e->msg[n]; n++)
		line[n] = (unsigned char)e->msg[n] < 0x20 || e->msg[n] == 0x7f ? '?' : e->msg[n];
	line[n] = '\0';
	fprintf(stderr, "ward%s%s: %s\n", name ? " " : "", name ? name : "", line);
	return EXIT_WARD;
}

int cmd_usage(const char *name, const char *fmt, ...)
{
	struct err e = { 0 };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.msg, sizeof(e.msg), fmt, ap);
	va_end(ap);
	return cmd_fail(name, &e);
}

/* Asked by the few commands that start another. */
static int find_self(char ret[WARD_PATH_MAX], struct err *e)
{
	int r = host_self_dir(ret, WARD_PATH_MAX);

	return r < 0 ? err_set(e, -r, "finding this executable through /proc/self/exe") : 0;
}

/* Root keeps its state in /var/lib/ward, others below XDG_STATE_HOME. */
static int default_state_dir(char out[WARD_PATH_MAX], struct err *e)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		return str_copy(out, WARD_PATH_MAX, "/var/lib/ward");
	if (xdg && xdg[0] == '/')
		return str_fmt(out, WARD_PATH_MAX, "%s/ward", xdg);
	if (home && home[0] == '/')
		return str_fmt(out, WARD_PATH_MAX, "%s/.local/state/ward", home);
	return err_say(e, ENOENT, "no place for state: set HOME, WARD_STATE_DIR or --state-dir");
}

static int set_state_dir(
	const char *value, const char *from, char out[WARD_PATH_MAX], struct err *e)
{
	char cwd[WARD_PATH_MAX];
	size_t n;
	int r;

	if (!*value)
		return err_say(e, EINVAL, "%s is empty: give a directory", from);
	if (value[0] == '/')
		r = str_copy(out, WARD_PATH_MAX, value);
	else if (!getcwd(cwd, sizeof(cwd)))
		return err_set(e, errno, "finding the working directory for %s", from);
	else
		r = str_fmt(out, WARD_PATH_MAX, "%s/%s", cwd, value);
	if (r < 0)
		return err_say(e, ENAMETOOLONG, "%s is too long: at most %d bytes", from,
			WARD_PATH_MAX - 1);
	for (n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
		out[n - 1] = '\0';
	return 0;
}

int globals_read(int argc, char **argv, char state_dir[WARD_PATH_MAX], struct err *e)
{
	const char *dir = getenv("WARD_STATE_DIR"), *from = "WARD_STATE_DIR", *rest;
	int i, r;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h") ||
			str_eq(argv[i], "--version")) {
			argv[i] += strspn(argv[i], "-");
			if (str_eq(argv[i], "h"))
				argv[i] = (char *)"help";
			break;
		}
		rest = str_after(argv[i], "--state-dir");
		if (rest && *rest == '=') {
			dir = rest + 1;
		} else if (rest && !*rest && i + 1 < argc) {
			dir = argv[++i];
		} else if (rest && !*rest) {
			return err_say(e, EINVAL, "--state-dir needs a directory");
		} else {
			return err_say(e, EINVAL,
				"'%s' is not an option here: ward [--state-dir DIR] COMMAND; see "
				"'ward help'",
				argv[i]);
		}
		from = "--state-dir";
	}
	r = dir ? set_state_dir(dir, from, state_dir, e) : default_state_dir(state_dir, e);
	return r < 0 ? r : i;
}

int cmd_exec_full(char **argv, const struct globals *g)
{
	static const char *const places[] = { "", "/../libexec/ward" };
	char self[WARD_PATH_MAX], path[WARD_PATH_MAX];
	struct err e = { 0 };
	char **full_argv;
	size_t n = 0;

	if (find_self(self, &e) < 0)
		return cmd_fail(argv[0], &e);
	while (argv[n])
		n++;
	full_argv = calloc(n + 2, sizeof(*full_argv));
	if (!full_argv || setenv("WARD_STATE_DIR", g->state_dir, 1) < 0) {
		free(full_argv);
		err_set(&e, ENOMEM, "starting ward-full");
		return cmd_fail(argv[0], &e);
	}
	full_argv[0] = path;
	memcpy(full_argv + 1, argv, n * sizeof(*argv));
	errno = ENOENT;
	for (size_t i = 0; i < ARRAY_LEN(places) && errno == ENOENT; i++)
		if (str_fmt(path, sizeof(path), "%s%s/ward-full", self, places[i]) == 0)
			execv(path, full_argv);
	err_set(&e, errno, "starting ward-full, looked for beside %s/ward and in libexec", self);
	free(full_argv);
	return cmd_fail(argv[0], &e);
}

int cmd_find_ward(char ret[WARD_PATH_MAX], struct err *e)
{
	static const char *const places[] = { "", "/../../bin" };
	char self[WARD_PATH_MAX];
	int r = find_self(self, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (str_fmt(ret, WARD_PATH_MAX, "%s%s/ward", self, places[i]) == 0 &&
			access(ret, X_OK) == 0)
			return 0;
	return err_say(
		e, ENOENT, "the 'ward' executable is neither beside %s/ward-full nor in bin", self);
}

bool cmd_colour(FILE *f)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fileno(f)) && !(no && *no) && !(term && str_eq(term, "dumb"));
}

int cmd_value(char **argv, int *at, const char *name, const char **ret, struct err *e)
{
	const char *rest = str_after(argv[*at], name);

	if (!rest || (*rest && *rest != '='))
		return 0;
	if (*rest) {
		*ret = rest + 1;
		return 1;
	}
	if (!argv[*at + 1])
		return err_say(e, EINVAL, "%s needs a value", name);
	*ret = argv[++*at];
	return 1;
}

static void list_verbs(const struct cmd_verb *verbs, unsigned count, char *out, size_t cap)
{
	size_t at = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < count && at < cap; i++)
		at += (size_t)snprintf(out + at, cap - at, "%s%s",
			i == 0           ? ""
			: i + 1 == count ? " or "
					 : ", ",
			verbs[i].name);
}

int cmd_verbs(const char *name, const struct cmd_verb *verbs, unsigned count, int argc, char **argv,
	const struct globals *g)
{
	char words[128];

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text(name), stdout);
			return 0;
		}
	}
	list_verbs(verbs, count, words, sizeof(words));
	if (argc < 2)
		return cmd_usage(name, "say what to do: %s; see 'ward help %s'", words, name);
	for (unsigned i = 0; i < count; i++)
		if (str_eq(verbs[i].name, argv[1]))
			return verbs[i].fn(argc - 1, argv + 1, g);
	return cmd_usage(name, "'%s' is not accepted: %s", argv[1], words);
}
