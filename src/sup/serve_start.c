/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_start.c - START of a daemon becomes START for the agent.
 *
 * Owns:  nothing; the process is serve_proc.c's from the moment that it is in the list.
 * Rules: what the request says wins over what the sandbox says, and that over the tier. Everything
 *        is undone when the agent cannot be told.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sup/serve_impl.h"

enum { FIELD_HEAD = 6 };

/* Its fields, as lists that the agent's START takes. */
struct start {
	const char **argv, **env;
	size_t argc, envc;
	void *room;
};

static bool sets_same(const char *a, const char *b)
{
	size_t n = strcspn(a, "=") + 1;

	return strncmp(a, b, n) == 0;
}

static bool is_set(const char *const *env, size_t count, const char *assignment)
{
	for (size_t i = 0; i < count; i++)
		if (sets_same(assignment, env[i]))
			return true;
	return false;
}

/* The request's variables, then those of the sandbox that it does not set. */
static int read_start(
	const struct serve *s, struct start *st, const uint8_t *data, size_t len, size_t extra)
{
	const char *const *tier = box_env(s->box);
	size_t args = 0, env = extra;
	struct fields fs;
	struct field f;

	fields_init(&fs, data, len);
	while (fields_next(&fs, &f) > 0) {
		args += f.tag == TAG_ARG;
		env += f.tag == TAG_ENV;
	}
	for (char **d = s->defaults.env; d && *d; d++)
		env++;
	for (size_t i = 0; tier && tier[i]; i++)
		env++;
	st->room = calloc(args + env + 2, sizeof(char *));
	if (!st->room)
		return -ENOMEM;
	st->argv = st->room;
	st->env = st->argv + args + 1;
	fields_init(&fs, data, len);
	while (fields_next(&fs, &f) > 0) {
		if (f.tag == TAG_ARG)
			st->argv[st->argc++] = f.text;
		else if (f.tag == TAG_ENV && !is_set(st->env, st->envc, f.text))
			st->env[st->envc++] = f.text;
	}
	for (char **d = s->defaults.env; d && *d; d++)
		if (!is_set(st->env, st->envc, *d))
			st->env[st->envc++] = *d;
	for (size_t i = 0; tier && tier[i]; i++)
		if (!is_set(st->env, st->envc, tier[i]))
			st->env[st->envc++] = tier[i];
	return 0;
}

/* What a list shows of it: the fields as they came, as many as fit. */
static int keep_config(struct proc *p, const uint8_t *data, size_t len)
{
	struct fields fs;
	struct field f;

	p->config = malloc(len < SUP_CONFIG_MAX ? len + 1 : SUP_CONFIG_MAX);
	if (!p->config)
		return -ENOMEM;
	fields_init(&fs, data, len);
	while (fields_next(&fs, &f) > 0) {
		const uint8_t *from = f.data - FIELD_HEAD;

		if (f.tag != TAG_ARG && f.tag != TAG_ENV && f.tag != TAG_CWD && f.tag != TAG_USER)
			continue;
		if (p->config_len + FIELD_HEAD + f.len > SUP_CONFIG_MAX)
			continue;
		memcpy(p->config + p->config_len, from, FIELD_HEAD + f.len);
		p->config_len += FIELD_HEAD + f.len;
	}
	return 0;
}

static struct proc *proc_new(
	struct serve *s, const struct ctl_fields *v, const uint8_t *data, size_t len)
{
	const char *label = ctl_text(v, TAG_LABEL);
	struct proc *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->label = label ? strdup(label) : NULL;
	if (keep_config(p, data, len) < 0 || (label && !p->label)) {
		free(p->label);
		free(p->config);
		free(p);
		return NULL;
	}
	proc_add(s, p);
	return p;
}

static void fill_start(struct serve *s, const struct frame *f, const struct ctl_fields *v,
	const struct start *st, uint32_t number, struct proto_start *out)
{
	const char *cwd = ctl_text(v, TAG_CWD), *user = ctl_text(v, TAG_USER);
	bool makes = false;

	if (!user)
		user = s->defaults.user;
	/* Home is somebody's; at the workspace tier there is nobody else to be. */
	if (!user && s->plan->wall != WALL_WORKSPACE)
		user = "0";
	if (!cwd || !*cwd) {
		cwd = s->defaults.workdir ? s->defaults.workdir : box_workdir(s->box);
		/* A copy's agent is whoever's it was copied from, and has started there before. */
		makes = cwd && s->plan->workdir_made && !s->plan->from &&
			str_eq(cwd, s->plan->workdir);
	}
	*out = (struct proto_start){
		.stream = number,
		.flags = f->flags | (makes ? START_MAKE_CWD : 0),
		.argv = st->argv,
		.env = st->env,
		.cwd = cwd,
		.user = user,
		.rows = (uint16_t)ctl_num(v, TAG_ROWS, 0),
		.cols = (uint16_t)ctl_num(v, TAG_COLS, 0),
		.window = SUP_PROC_WINDOW,
	};
	if (user && (!cwd || cwd[0] != '/'))
		out->flags |= START_HOME;
}

static int check_start(const struct serve *s, const struct frame *f, const struct ctl_fields *v)
{
	const char *label = ctl_text(v, TAG_LABEL);

	if (f->flags & ~SUP_STARTS)
		return EOPNOTSUPP;
	if (!ctl_has(v, TAG_ARG) || (label && (!*label || strlen(label) > LABEL_MAX)) ||
		ctl_num(v, TAG_ROWS, 0) > UINT16_MAX || ctl_num(v, TAG_COLS, 0) > UINT16_MAX ||
		ctl_num(v, TAG_WINDOW, 1) - 1 >= FLOW_CREDIT_MAX)
		return EINVAL;
	if (s->running >= SUP_PROCS_MAX)
		return EAGAIN;
	return s->channel_open ? 0 : ENOTCONN;
}

static void note_start(struct serve *s, const struct start *st, const char *label)
{
	flight_note(&s->flight, "start", "%s%s%.60s %.40s %.40s", label ? label : "",
		label ? ": " : "", st->argv[0], st->argc > 1 ? st->argv[1] : "",
		st->argc > 2 ? st->argv[2] : "");
}

/* Sends START to the agent; everything is undone when that fails. */
static void start_on(struct serve *s, const struct frame *f, const struct ctl_fields *v,
	const struct start *st, struct proc *p, uint32_t number)
{
	uint64_t timeout_ms = ctl_num(v, TAG_TIMEOUT_MS, 0);
	struct proto_start out;
	struct err e = { 0 };
	struct call *c;

	fill_start(s, f, v, st, number, &out);
	if (proto_send_start(&s->conn, &out, NULL, 0, &e) < 0) {
		link_error(s, f->stream, e.code, "%s", e.msg);
		proc_free(s, p);
		return;
	}
	s->streams[number] = (struct agent_stream){ .kind = AGENT_PROC, .proc = p };
	p->agent_stream = number;
	p->pty = f->flags & START_PTY;
	p->stdin_open = !(f->flags & START_NULL_STDIN);
	if (timeout_ms && timeout_ms < UINT64_MAX / 2000000) {
		p->kill_ns = clock_ns() + timeout_ms * 1000000;
		if (!s->keep_ns || p->kill_ns < s->keep_ns)
			s->keep_ns = p->kill_ns;
	}
	s->started++;
	s->held = s->bound_now; /* the daemon is not woken for the one, and again for the other */
	note_start(s, st, p->label);
	c = call_open(s, f, CALL_OUTPUT);
	if (c)
		proc_add_output(p, c, 0, (uint32_t)ctl_num(v, TAG_WINDOW, FLOW_WINDOW));
}

int proc_start(struct serve *s, const struct frame *f, const uint8_t *data, size_t len)
{
	struct start st = { 0 };
	struct ctl_fields v;
	uint32_t number = agent_number(s);
	struct proc *p;
	int code;

	if (ctl_fields_read(&v, data, len) < 0)
		return -EPROTO;
	code = check_start(s, f, &v);
	if (!code && !number)
		code = EAGAIN;
	if (code) {
		link_error(
			s, f->stream, code, "this process cannot be started: %s", strerror(code));
		return 0;
	}
	p = proc_new(s, &v, data, len);
	if (!p || read_start(s, &st, data, len, 0) < 0) {
		link_error(s, f->stream, ENOMEM, "the supervisor has no memory for a process");
		if (p)
			proc_free(s, p);
		return 0;
	}
	start_on(s, f, &v, &st, p, number);
	free(st.room);
	return 0;
}
