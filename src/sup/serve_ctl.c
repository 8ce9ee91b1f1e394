/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_ctl.c - requests that a supervisor answers itself.
 *
 * Owns:  the table of them, and the defaults of processes.
 * Rules: each gets exactly one final frame, at once (SNAPSHOT: when it is done). What the kernel
 *        refuses is an ERROR with the kernel's errno and changes nothing that was not told.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "proto/le.h"
#include "sup/serve_impl.h"

enum {
	USAGE_NUMBERS = 11,
	SOON_US = 500, /* after a SOON: the claim is written down by then, or is not in a hurry */
	BOUND_MS = 20, /* after a BIND: its first command has come by then, or is not in a hurry */
};

/* 10 years: longer than any host stays up. */
static const uint64_t deadline_max_ms = 1000ull * 86400 * 3650;

/* --- Defaults --------------------------------------------------------------------------------- */

void defaults_done(struct defaults *d)
{
	free(d->room);
	*d = (struct defaults){ 0 };
}

static char *put(char **at, const char *text)
{
	char *to = *at;
	size_t n;

	if (!text)
		return NULL;
	n = strlen(text) + 1;
	memcpy(to, text, n);
	*at += n;
	return to;
}

int defaults_set(struct defaults *d, const char *const *env, const char *user, const char *workdir)
{
	size_t count = 0, bytes = (user ? strlen(user) : 0) + (workdir ? strlen(workdir) : 0) + 2;
	struct defaults new = { 0 };
	char *at;

	for (; env && env[count]; count++)
		bytes += strlen(env[count]) + 1;
	new.room = malloc((count + 1) * sizeof(char *) + bytes);
	if (!new.room)
		return -ENOMEM;
	new.env = new.room;
	at = (char *)(new.env + count + 1);
	for (size_t i = 0; i < count; i++)
		new.env[i] = put(&at, env[i]);
	new.env[count] = NULL;
	new.user = put(&at, user);
	new.workdir = put(&at, workdir);
	defaults_done(d);
	*d = new;
	return 0;
}

/* --- BIND ------------------------------------------------------------------------------------- */

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=") + 1;

	return strncmp(a, b, n) == 0;
}

/* Variables of @f over those that are there, into a new list; NULL: no memory. */
static const char **merge_env(const struct serve *s, const struct frame *f)
{
	size_t count = 0, n = 0;
	const char **list;
	struct fields fs;
	struct field fld;

	for (char **d = s->defaults.env; d && *d; d++)
		count++;
	fields_init(&fs, f->data, f->len);
	while (fields_next(&fs, &fld) > 0)
		count += fld.tag == TAG_ENV;
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (char **d = s->defaults.env; d && *d; d++)
		list[n++] = *d;
	fields_init(&fs, f->data, f->len);
	while (fields_next(&fs, &fld) > 0) {
		size_t i = 0;

		if (fld.tag != TAG_ENV)
			continue;
		while (i < n && !same_name(fld.text, list[i]))
			i++;
		list[i] = fld.text;
		n += i == n;
	}
	return list;
}

static bool env_is_sound(const struct frame *f)
{
	unsigned count = 0;
	struct fields fs;
	struct field fld;

	fields_init(&fs, f->data, f->len);
	while (fields_next(&fs, &fld) > 0)
		if (fld.tag == TAG_ENV &&
			(++count > ENV_VARS_MAX || *fld.text == '=' || !strchr(fld.text, '=')))
			return false;
	return true;
}

static int change_limits(struct serve *s, const struct ctl_fields *v, struct err *e);

static int read_deadline(
	const struct ctl_fields *v, uint64_t *ret_ms, enum sup_action *ret_action, struct err *e)
{
	uint64_t action = ctl_num(v, TAG_ACTION, SUP_KILL);

	*ret_ms = ctl_num(v, TAG_TIMEOUT_MS, 0);
	*ret_action = (enum sup_action)action;
	if (*ret_ms > deadline_max_ms || action < SUP_KILL || action > SUP_PAUSE)
		return err_say(e, EINVAL, "a deadline is at most 10 years away; kill or pause");
	return 0;
}

static int on_bind(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	const char *user = ctl_text(v, TAG_USER), *workdir = ctl_text(v, TAG_CWD);
	const char *hostname = ctl_text(v, TAG_HOSTNAME);
	enum sup_action action;
	const char **env;
	uint64_t ms;
	int r = read_deadline(v, &ms, &action, e);

	if (r < 0)
		return r;
	if (s->state == SUP_PAUSED)
		return err_say(e, EHOSTDOWN, "the sandbox is paused");
	if (!env_is_sound(f))
		return err_say(e, EINVAL, "at most %d variables, each NAME=VALUE", ENV_VARS_MAX);
	r = change_limits(s, v, e);
	if (r == 0 && hostname)
		r = box_set_hostname(s->box, hostname, e);
	if (r < 0)
		return r;
	env = merge_env(s, f);
	if (!env || defaults_set(&s->defaults, env, user ? user : s->defaults.user,
			    workdir ? workdir : s->defaults.workdir) < 0)
		r = err_set(e, ENOMEM, "binding the sandbox");
	free(env);
	if (r < 0)
		return r;
	serve_set_deadline(s, ms, action);
	ctl_line(s->bound_caller, sizeof(s->bound_caller), ctl_text(v, TAG_CALLER));
	ctl_line(s->bound_trace, sizeof(s->bound_trace), ctl_text(v, TAG_TRACE));
	s->bound_now = true;
	s->bound_ns = clock_ns() + BOUND_MS * 1000000ull;
	flight_note(&s->flight, "bound", "%s", s->bound_caller);
	return 0;
}

static int on_soon(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	(void)f;
	(void)e;
	/* On the CPU that the daemon needs for writing it down, waiting would only delay it. */
	if (ctl_num(v, TAG_CPU, UINT32_MAX) != (uint64_t)sched_getcpu())
		s->soon_ns = clock_ns() + SOON_US * 1000ull;
	return 0;
}

/* --- Limits, time, usage ---------------------------------------------------------------------- */

static int change_limits(struct serve *s, const struct ctl_fields *v, struct err *e)
{
	struct plan_limits want = {
		.memory_bytes = ctl_num(v, TAG_MEMORY, 0),
		.output_bytes = ctl_num(v, TAG_OUTPUT, 0),
		.pids = (uint32_t)ctl_num(v, TAG_PIDS, 0),
		.cpu_milli = (uint32_t)ctl_num(v, TAG_CPU_MILLI, 0),
		.cpu_weight = (uint32_t)ctl_num(v, TAG_CPU_WEIGHT, 0),
	};
	int r;

	if (ctl_num(v, TAG_DISK, 0))
		return err_say(e, EOPNOTSUPP, "the disk limit cannot change while it runs");
	r = sup_limits_check(&want, e);
	if (r < 0)
		return r;
	if (want.memory_bytes || want.pids || want.cpu_milli || want.cpu_weight)
		r = box_set_limits(s->box, &want, e);
	if (r < 0)
		return r;
	if (want.memory_bytes)
		s->limits.memory_bytes = want.memory_bytes;
	if (want.output_bytes)
		s->limits.output_bytes = want.output_bytes;
	if (want.pids)
		s->limits.pids = want.pids;
	if (want.cpu_milli)
		s->limits.cpu_milli = want.cpu_milli;
	if (want.cpu_weight)
		s->limits.cpu_weight = want.cpu_weight;
	return 0;
}

static int on_limits(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	int r = change_limits(s, v, e);

	(void)f;
	if (r == 0)
		flight_note(&s->flight, "limits", "changed by the daemon");
	return r;
}

static int on_deadline(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	enum sup_action action;
	uint64_t ms;
	int r = read_deadline(v, &ms, &action, e);

	(void)f;
	if (r < 0)
		return r;
	if (s->state == SUP_PAUSED)
		return err_say(e, EHOSTDOWN, "the sandbox is paused: give its time with RESUME");
	serve_set_deadline(s, ms, action);
	return 0;
}

static int on_pause(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	(void)f;
	(void)v;
	return serve_pause(s, "the daemon", e);
}

/* The files, which came with the message; a part that the tier does not need is empty. */
static int on_snapshot(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	own_fd int state = ctl_take_fd(&s->link), memory = ctl_take_fd(&s->link);
	own_fd int disk = ctl_take_fd(&s->link);
	struct snap into = { state, memory, disk };

	(void)v;
	(void)e;
	if (state < 0 || memory < 0 || disk < 0)
		return -EPROTO;
	take_fd(&state);
	take_fd(&memory);
	take_fd(&disk);
	still_ask(s, f, &into);
	return 1;
}

static int on_resume(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	enum sup_action action;
	uint64_t ms;
	int r = read_deadline(v, &ms, &action, e);

	(void)f;
	return r < 0 ? r : serve_resume(s, ms, action, e);
}

static int on_stop(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	uint64_t grace_ms = ctl_num(v, TAG_GRACE_MS, 0);
	char text[LINK_TEXT];

	(void)f;
	(void)e;
	ctl_line(text, sizeof(text), ctl_text(v, TAG_TEXT));
	if (grace_ms && s->state == SUP_RUNNING &&
		proto_send_shutdown(&s->conn, (uint32_t)grace_ms, NULL) == 0) {
		if (!s->stop_text[0])
			str_copy(s->stop_text, sizeof(s->stop_text), text[0] ? text : "stopped");
		s->stop_cause = END_KILLED;
		/* The agent sees to it; this is for one that does not. */
		s->kill_ns = clock_ns() + (grace_ms + AGENT_KILL_MS) * 1000000ull;
		return 0;
	}
	serve_kill(s, END_KILLED, "%s", text[0] ? text : "stopped");
	return 0;
}

static int on_usage(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	uint8_t buf[FRAME_HEAD + 128], numbers[USAGE_NUMBERS * 8];
	struct usage_now u;
	struct msg m;

	(void)v;
	(void)e;
	box_usage_now(s->box, &u);
	const uint64_t list[USAGE_NUMBERS] = { u.cpu_us, u.mem_used, u.mem_cache, u.mem_limit,
		u.disk_used, u.disk_total, u.pids, u.pids_limit, u.net_in, u.net_out, u.mem_peak };

	for (unsigned i = 0; i < USAGE_NUMBERS; i++)
		le_put64(numbers + i * 8, list[i]);
	msg_begin(&m, buf, sizeof(buf), PROTO_OK, 0, f->stream);
	msg_bytes(&m, TAG_NUMBERS, numbers, sizeof(numbers));
	ctl_put_msg(&s->link, &m);
	return 1;
}

/* --- Processes -------------------------------------------------------------------------------- */

static int on_tell(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	struct proc *p = serve_find(s, v);
	uint64_t sig = ctl_num(v, TAG_SIGNAL, 0);

	if (!p || p->exited || !p->pid)
		return err_say(e, ESRCH, "no such process is running");
	if (s->state == SUP_PAUSED)
		return err_say(e, EHOSTDOWN, "the sandbox is paused");
	if (sig < 1 || sig > 64)
		return err_say(e, EINVAL, "a signal is 1 to 64");
	return proto_send_signal(&s->conn, p->agent_stream, (int)sig, f->flags & SIGNAL_GROUP, e);
}

static int on_shape(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	struct proc *p = serve_find(s, v);
	uint64_t rows = ctl_num(v, TAG_ROWS, 0), cols = ctl_num(v, TAG_COLS, 0);

	(void)f;
	if (!p || p->exited)
		return err_say(e, ESRCH, "no such process is running");
	if (!p->pty)
		return err_say(e, ENOTTY, "process %u has no terminal", p->pid);
	if (s->state == SUP_PAUSED)
		return err_say(e, EHOSTDOWN, "the sandbox is paused");
	if (rows > UINT16_MAX || cols > UINT16_MAX)
		return err_say(e, EINVAL, "a terminal has at most 65535 rows and columns");
	return proto_send_resize(&s->conn, p->agent_stream, (unsigned)rows, (unsigned)cols, e);
}

static int on_started(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	(void)v;
	(void)e;
	proc_list(s, f->stream);
	return 1;
}

/* These answer in their own time. */
static int on_attach(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	(void)e;
	return proc_attach(s, f, v) < 0 ? -EPROTO : 1;
}

static int on_input(
	struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e)
{
	(void)e;
	return proc_input(s, f, v) < 0 ? -EPROTO : 1;
}

/* clang-format off */
static const struct {
	uint16_t type, flags;
	bool tells; /* the state has changed for whoever looks */
	/* 0: OK is the answer. 1: it was answered. */
	int (*fn)(struct serve *s, const struct frame *f, const struct ctl_fields *v, struct err *e);
} rows[] = {
	{ PROTO_ATTACH, LINK_ALL, false, on_attach },
	{ PROTO_INPUT, LINK_CLOSE, false, on_input },
	{ PROTO_TELL, SIGNAL_GROUP, false, on_tell },
	{ PROTO_SHAPE, 0, false, on_shape },
	{ PROTO_STARTED, 0, false, on_started },
	{ PROTO_SOON, 0, false, on_soon },
	{ PROTO_BIND, 0, true, on_bind },
	{ PROTO_LIMITS, 0, true, on_limits },
	{ PROTO_DEADLINE, 0, true, on_deadline },
	{ PROTO_PAUSE, 0, false, on_pause },
	{ PROTO_RESUME, 0, false, on_resume },
	{ PROTO_SNAPSHOT, SNAP_DIFF | SNAP_STAY, false, on_snapshot },
	{ PROTO_STOP, 0, false, on_stop },
	{ PROTO_USAGE, 0, false, on_usage },
};
/* clang-format on */

int ctl_request(struct serve *s, const struct frame *f, const struct ctl_fields *v)
{
	struct err e = { 0 };
	size_t i = 0;
	int r;

	while (i < ARRAY_LEN(rows) && rows[i].type != f->type)
		i++;
	if (i == ARRAY_LEN(rows)) {
		link_error(s, f->stream, ENOSYS, "no request has number %u", f->type);
		return 0;
	}
	if (f->flags & ~rows[i].flags) {
		link_error(s, f->stream, EOPNOTSUPP, "request %u does not take flags %#x", f->type,
			f->flags);
		return 0;
	}
	r = rows[i].fn(s, f, v, &e);
	if (r == -EPROTO)
		return r;
	if (r < 0)
		link_error(s, f->stream, e.code ? e.code : -r, "%s", e.msg);
	else if (r == 0)
		link_ok(s, f->stream);
	if (r >= 0 && rows[i].tells)
		link_status_send(s);
	return 0;
}
