/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/exec.c - `ward exec` and `ward logs`.
 *
 * Owns:  the options.
 * Rules: the status is the command's own, 128 and the signal when it was killed, 125 when ward or
 * the daemon failed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/client.h"
#include "cmd/common.h"
#include "cmd/exec.h"

enum { BODY_MAX = 4 << 20 };

struct order {
	const char *tenant, *cwd, *user, *tag;
	uint64_t timeout_ms;
	bool tty, interactive, detach, json;
	struct buf env;
};

static int add_env(struct order *o, const char *text, struct err *e)
{
	const char *equals = strchr(text, '=');
	char name[256];

	if (!equals || equals == text ||
		str_fmt(name, sizeof(name), "%.*s", (int)(equals - text), text) < 0)
		return err_say(e, EINVAL, "--env takes NAME=VALUE");
	json_str(&o->env, name, equals + 1);
	return 1;
}

/* 1: an option; 0: the first word that is none. */
static int read_option(struct order *o, char **argv, int *at, struct err *e)
{
	const char *v = NULL, *a = argv[*at];
	int r;

	if (str_eq(a, "-e"))
		argv[*at] = (char *)"--env";
	if (str_eq(a, "-w"))
		argv[*at] = (char *)"--workdir";
	if (str_eq(a, "-u"))
		argv[*at] = (char *)"--user";
	if ((r = cmd_value(argv, at, "--env", &v, e)) != 0)
		return r < 0 ? r : add_env(o, v, e);
	if ((r = cmd_value(argv, at, "--workdir", &o->cwd, e)) != 0)
		return r;
	if ((r = cmd_value(argv, at, "--user", &o->user, e)) != 0)
		return r;
	if ((r = cmd_value(argv, at, "--tag", &o->tag, e)) != 0)
		return r;
	if ((r = cmd_value(argv, at, "--tenant", &o->tenant, e)) != 0)
		return r;
	if ((r = cmd_value(argv, at, "--timeout", &v, e)) != 0) {
		if (r > 0 && parse_duration(v, 1, UINT32_MAX, &o->timeout_ms) < 0)
			return err_say(e, EINVAL, "--timeout takes a time such as 30s or 5m");
		return r;
	}
	if (str_eq(a, "-t") || str_eq(a, "--tty"))
		o->tty = o->interactive = true;
	else if (str_eq(a, "-i") || str_eq(a, "--interactive"))
		o->interactive = true;
	else if (str_eq(a, "-it") || str_eq(a, "-ti"))
		o->tty = o->interactive = true;
	else if (str_eq(a, "-d") || str_eq(a, "--detach"))
		o->detach = true;
	else if (str_eq(a, "--json"))
		o->json = true;
	else if (a[0] == '-')
		return err_say(e, EINVAL, "'%s' is not accepted; see 'ward help exec'", a);
	else
		return 0;
	return 1;
}

static void put_order(struct buf *b, const struct order *o, char **args)
{
	struct winsize w = { .ws_row = 24, .ws_col = 80 };

	ioctl(1, TIOCGWINSZ, &w); /* without a terminal the usual size holds */
	json_open(b, NULL);
	json_array(b, "args");
	for (; *args; args++)
		json_str(b, NULL, *args);
	json_array_end(b);
	json_bool(b, "tty", o->tty);
	json_bool(b, "stdin", o->interactive);
	json_bool(b, "detach", o->detach);
	json_u64(b, "rows", w.ws_row);
	json_u64(b, "cols", w.ws_col);
	json_u64(b, "timeout_ms", o->timeout_ms);
	json_str(b, "cwd", o->cwd);
	json_str(b, "tag", o->tag);
	json_open(b, "env");
	if (o->env.len)
		buf_add(b, o->env.data, o->env.len);
	json_close(b);
	json_close(b);
}

static int detach(
	struct client *c, const char *path, const struct buf *body, bool json, struct err *e)
{
	own_jin struct jin *answer = NULL;
	int64_t pid = 0;
	int r = client_call(c, "POST", path, body, &answer, e);

	if (r == 0)
		r = jin_i64(answer, "pid", 1, INT32_MAX, &pid, e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_say(e, ENOENT, "the command could not be started");
	printf(json ? "{\"pid\":%lld}\n" : "%lld\n", (long long)pid);
	return 0;
}

static int exec(
	const struct order *o, const char *id, char **args, const struct globals *g, struct err *e)
{
	own_buf struct buf body = { 0 }, path = { 0 };
	struct client *c = NULL;
	char base[200];
	int r = client_open(g, o->tenant, &c, e);

	buf_init(&body, BODY_MAX);
	buf_init(&path, 4096);
	if (r == 0)
		r = client_path(base, sizeof(base), id, "/exec", e);
	if (r == 0) {
		buf_add_str(&path, base);
		if (o->user)
			client_query(&path, '?', "user", o->user);
		put_order(&body, o, args);
		if (body.bad || path.bad)
			r = err_say(e, E2BIG, "the command line is too long");
	}
	if (r == 0 && o->detach)
		r = detach(c, path.data, &body, o->json, e);
	else if (r == 0)
		r = session_run(
			&(struct session){ c, id, path.data, &body, o->interactive, o->tty }, e);
	client_close(c);
	return r;
}

int cmd_exec(int argc, char **argv, const struct globals *g)
{
	struct order o = { 0 };
	struct err e = { 0 };
	int i, r = 1;

	buf_init(&o.env, BODY_MAX);
	for (i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("exec"), stdout);
			return 0;
		}
		r = read_option(&o, argv, &i, &e);
		if (r <= 0)
			break;
	}
	if (r < 0)
		return cmd_fail("exec", &e);
	if (i + 1 < argc && str_eq(argv[i + 1], "--")) {
		argv[i + 1] = argv[i];
		i++;
	}
	if (i + 1 >= argc)
		return cmd_usage(
			"exec", "which command, in which sandbox? ward exec ID COMMAND...");
	r = exec(&o, argv[i], argv + i + 1, g, &e);
	buf_done(&o.env);
	return r < 0 ? cmd_fail("exec", &e) : r;
}

/* --- logs ------------------------------------------------------------------------------------- */

/* The newest process, when none was named. */
static int newest(struct client *c, const char *id, int64_t *ret, struct err *e)
{
	own_jin struct jin *answer = NULL;
	const struct jin *list = NULL, *p = NULL;
	char path[200];
	int r = client_path(path, sizeof(path), id, "/processes", e);

	if (r == 0)
		r = client_call(c, "GET", path, NULL, &answer, e);
	if (r == 0)
		r = jin_list(answer, "processes", &list, e);
	for (size_t i = 0; r >= 0 && i < jin_len(list); i++) {
		int64_t pid = 0;

		r = jin_obj_at(list, "processes", i, &p, e);
		if (r >= 0)
			r = jin_i64(p, "pid", 1, INT32_MAX, &pid, e);
		if (pid > *ret)
			*ret = pid;
	}
	if (r >= 0 && !*ret)
		return err_say(e, ENOENT, "no command of '%s' has any output to show", id);
	return r < 0 ? r : 0;
}

static int logs(const char *tenant, const char *id, const char *pid_text, bool follow,
	const struct globals *g, struct err *e)
{
	struct client *c = NULL;
	char path[200], rest[80];
	int64_t pid = 0;
	uint64_t n = 0;
	int r = client_open(g, tenant, &c, e);

	if (r == 0 && pid_text && parse_u64(pid_text, 1, INT32_MAX, &n) < 0)
		r = err_say(e, EINVAL, "'%s' is no process number", pid_text);
	pid = (int64_t)n;
	if (r == 0 && !pid_text)
		r = newest(c, id, &pid, e);
	if (r == 0 &&
		str_fmt(rest, sizeof(rest), "/logs/%lld?follow=%d", (long long)pid, follow) < 0)
		r = err_say(e, EINVAL, "the process number is too long");
	if (r == 0)
		r = client_path(path, sizeof(path), id, rest, e);
	if (r == 0)
		r = session_run(&(struct session){ .client = c, .id = id, .path = path }, e);
	client_close(c);
	return r;
}

int cmd_logs(int argc, char **argv, const struct globals *g)
{
	const char *tenant = NULL, *words[2] = { NULL };
	bool follow = false;
	struct err e = { 0 };
	unsigned n = 0;
	int r;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("logs"), stdout);
			return 0;
		}
		r = cmd_value(argv, &i, "--tenant", &tenant, &e);
		if (r < 0)
			return cmd_fail("logs", &e);
		if (r > 0)
			continue;
		if (str_eq(argv[i], "--follow") || str_eq(argv[i], "-f"))
			follow = true;
		else if (argv[i][0] == '-' || n == 2)
			return cmd_usage("logs",
				"'%s' is not accepted: ward logs [--follow] ID [PID]", argv[i]);
		else
			words[n++] = argv[i];
	}
	if (!n)
		return cmd_usage("logs", "which sandbox? ward logs [--follow] ID [PID]");
	r = logs(tenant, words[0], words[1], follow, g, &e);
	return r < 0 ? cmd_fail("logs", &e) : follow ? r : 0;
}
