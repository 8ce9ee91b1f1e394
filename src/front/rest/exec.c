/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/rest/exec.c - commands of a sandbox, for the command line.
 *
 * Owns:  the stream of a command: one byte of kind, four of length (big-endian), the bytes.
 * Rules: like every stream of a process: the client may leave, the process goes on.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/download.h"
#include "front/e2b/interp_impl.h"
#include "front/e2b/self.h"
#include "front/e2b/upload.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/rest/handlers.h"
#include "front/rest/shapes.h"
#include "front/rest/stream.h"
#include "wire/envelope.h"

enum { QUIET_MS = 100, QUIET = 1 };

struct command {
	struct jin *doc;
	struct link_start start;
	const char *argv[FRONT_ARGS_MAX + 1];
	char *vars[FRONT_PAIRS_MAX];
	const char *env[FRONT_PAIRS_MAX + SELF_VARS + 1];
	size_t var_count, env_count;
	struct self self;
};

struct stream {
	struct command *command; /* until it has started */
	struct link_who who;
	unsigned flags;
	bool detach; /* one answer with the pid, no stream */
	bool brief;  /* ends when nothing comes any more */
	int sig;
	bool group;
	unsigned rows, cols;
	bool over;          /* the body of stdin is complete */
	bool makes;         /* the sandbox is made for it: its id, which nobody knows, is told */
	struct err refused; /* the sandbox was made, and the command cannot be started in it */
};

static void command_destroy(struct command *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->var_count; i++)
		free(m->vars[i]);
	jin_destroy(m->doc);
	free(m);
}

static void stream_ended(struct call *c)
{
	struct stream *s = c->state;

	command_destroy(s->command);
}

static struct stream *stream_begin(struct call *c)
{
	struct stream *s = call_alloc(c, sizeof(*s));

	if (!s)
		return NULL;
	c->state = s;
	c->on_ended = stream_ended;
	return s;
}

/* The pid in the path. */
static bool read_pid(struct call *c, struct stream *s)
{
	uint64_t pid;

	if (parse_u64(c->args[1], 1, INT32_MAX, &pid) < 0) {
		call_fail(c, 400, "'%s' is no process number", c->args[1]);
		return false;
	}
	s->who.pid = (uint32_t)pid;
	return true;
}

/* --- The stream ------------------------------------------------------------------------------- */

static int put(struct call *c, uint8_t kind, const void *data, size_t len)
{
	uint8_t head[ENVELOPE_HEAD];

	if (!wire_reply_started(c->q)) {
		wire_reply_header(c->q, "Content-Type", REST_STREAM_TYPE);
		wire_reply_start(c->q, 200, -1);
	}
	envelope_put_head(head, kind, (uint32_t)len);
	wire_reply_write(c->q, head, sizeof(head));
	return wire_reply_write(c->q, data, len);
}

static void end_quiet(void *ctx)
{
	struct call *c = ctx;

	link_drop(c->links[0]);
	c->links[0] = NULL;
	wire_reply_end(c->q);
}

static void quiet_later(struct call *c)
{
	const struct stream *s = c->state;

	if (s->brief)
		loop_timer_set(c->front->loop, &c->timers[QUIET], QUIET_MS, end_quiet, c);
}

static void put_made(const struct call *c, struct buf *b)
{
	if (((const struct stream *)c->state)->makes)
		json_str(b, "id", c->id);
}

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct call *c = arg;
	struct stream *s = c->state;
	own_buf struct buf b = { 0 };

	buf_init(&b, 256);
	json_open(&b, NULL);
	put_made(c, &b);
	json_u64(&b, "pid", o->pid);
	json_u64(&b, "lost", o->lost);
	json_close(&b);
	if (s->detach) {
		link_drop(l);
		call_link_over(c, l);
		call_json(c, 200, &b);
		return;
	}
	put(c, REST_EVENT, b.data, b.len);
	quiet_later(c);
}

static void on_data(void *arg, struct link_call *l, const void *data, size_t len, bool of_stderr)
{
	struct call *c = arg;

	quiet_later(c);
	call_credit(c, l, len, put(c, of_stderr ? REST_STDERR : REST_STDOUT, data, len));
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;
	own_buf struct buf b = { 0 };

	call_link_over(c, l);
	buf_init(&b, 256);
	json_open(&b, NULL);
	json_open(&b, "exit");
	json_bool(&b, "signaled", d->exit.signaled);
	json_i64(&b, "code", d->exit.code);
	json_bool(&b, "timed_out", d->timed_out);
	json_u64(&b, "user_us", d->exit.user_us);
	json_u64(&b, "system_us", d->exit.system_us);
	json_u64(&b, "peak_kb", d->exit.peak_kb);
	json_close(&b);
	json_close(&b);
	put(c, REST_EVENT, b.data, b.len);
	wire_reply_end(c->q);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	static const char *const steps[] = { [START_STEP_SETUP] = "setting up",
		[START_STEP_CWD] = "entering the directory",
		[START_STEP_USER] = "becoming the user",
		[START_STEP_EXEC] = "starting the program" };
	struct call *c = arg;

	call_link_over(c, l);
	if (f->step >= START_STEP_SETUP && f->step <= START_STEP_EXEC) {
		/* Like a shell: 127 is not found, 126 is not executable. */
		struct proto_failed p = { .code = f->code, .step = f->step };
		own_buf struct buf b = { 0 };

		buf_init(&b, 1024);
		json_open(&b, NULL);
		put_made(c, &b);
		json_str(&b, "error",
			f->step == START_STEP_USER && f->code == ENOENT
				? "there is no such user inside"
				: strerror(f->code));
		json_str(&b, "step", steps[f->step]);
		json_i64(&b, "status", proto_failed_status(&p));
		json_close(&b);
		put(c, REST_EVENT, b.data, b.len);
		wire_reply_end(c->q);
	} else if (f->code == ESRCH) {
		call_fail(c, 404, "there is no such process in the sandbox");
	} else {
		call_fail_link(c, f);
	}
}

static const struct link_handler handler = {
	.opened = on_opened, .data = on_data, .done = on_done, .failed = on_failed
};

/* --- Starting --------------------------------------------------------------------------------- */

static int add_env(void *arg, const char *name, const char *value, struct err *e)
{
	struct command *m = arg;
	char *text = NULL;

	if (!*name || strchr(name, '='))
		return err_say(e, EINVAL, "a name in 'env' is empty or has a '=' in it");
	if (self_owns(name))
		return 0;
	if (asprintf(&text, "%s=%s", name, value) < 0)
		return err_set(e, ENOMEM, "keeping the environment");
	m->vars[m->var_count++] = text;
	m->env[m->env_count++] = text;
	return 0;
}

static int read_args(struct command *m, struct err *e)
{
	const struct jin *args = NULL;
	int r = jin_list(m->doc, "args", &args, e);
	size_t n = jin_len(args);

	if (r >= 0 && (n < 1 || n > FRONT_ARGS_MAX))
		return err_say(e, EINVAL, "field 'args' has 1 to %d entries", FRONT_ARGS_MAX);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = jin_str_at(args, "args", i, &m->argv[i], e);
	return r < 0 ? r : 0;
}

static int read_command(struct call *c, struct stream *s, struct err *e)
{
	struct command *m = s->command;
	struct link_start *q = &m->start;
	int64_t rows = 24, cols = 80, timeout = 0;
	bool tty = false, in = false;
	int r = read_args(m, e);

	if (r >= 0)
		r = jin_each_str(m->doc, "env", FRONT_PAIRS_MAX, add_env, m, e);
	if (r >= 0)
		r = jin_str(m->doc, "cwd", &q->cwd, e);
	if (r >= 0)
		r = jin_str(m->doc, "tag", &q->tag, e);
	if (r >= 0)
		r = jin_bool(m->doc, "tty", &tty, e);
	if (r >= 0)
		r = jin_bool(m->doc, "stdin", &in, e);
	if (r >= 0)
		r = jin_bool(m->doc, "detach", &s->detach, e);
	if (r >= 0)
		r = jin_i64(m->doc, "rows", 0, UINT16_MAX, &rows, e);
	if (r >= 0)
		r = jin_i64(m->doc, "cols", 0, UINT16_MAX, &cols, e);
	if (r >= 0)
		r = jin_i64(m->doc, "timeout_ms", 0, INT64_MAX, &timeout, e);
	q->flags = tty ? START_PTY : in ? 0 : START_NULL_STDIN;
	q->rows = (uint16_t)rows;
	q->cols = (uint16_t)cols;
	q->timeout_ms = (uint64_t)timeout;
	q->argv = m->argv;
	q->env = m->env;
	q->user = c->user;
	return r < 0 ? r : 0;
}

static int start(struct call *c, struct link *l, struct err *e)
{
	struct stream *s = c->state;
	int r = link_start(l, &s->command->start, &handler, c, &c->links[0], e);

	command_destroy(s->command);
	s->command = NULL;
	wire_release(c->q); /* a stream may last for days */
	return r;
}

static void go_start(struct call *c, struct link *l)
{
	struct err e = { 0 };

	call_failed(c, start(c, l, &e), &e);
}

static void add_self(struct command *m, const struct hub_box *box)
{
	self_vars(&m->self, box->id, box->template_asked);
	for (size_t i = 0; i < SELF_VARS; i++)
		m->env[m->env_count++] = m->self.vars[i];
}

/* False: answered. */
static bool parse_command(struct call *c, struct stream *s)
{
	struct err e = { 0 };

	s->command = calloc(1, sizeof(*s->command));
	if (!s->command) {
		call_fail_memory(c);
		return false;
	}
	return call_parse(c, &s->command->doc) && !call_failed(c, read_command(c, s, &e), &e);
}

void ward_exec(struct call *c)
{
	struct stream *s = rest_box(c) ? stream_begin(c) : NULL;
	struct hub_box box;

	if (!s || !parse_command(c, s))
		return;
	if (hub_find(c->front->hub, &c->who, c->id, &box, NULL) == 0)
		add_self(s->command, &box);
	call_with_link(c, go_start);
}

static void on_begin(void *arg, const struct hub_box *box, struct link *link)
{
	struct call *c = arg;
	struct stream *s = c->state;

	str_copy(c->id, sizeof(c->id), box->id);
	s->makes = true;
	self_write(c->front, &c->who, box);
	add_self(s->command, box);
	start(c, link, &s->refused);
}

static void on_made(void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;
	struct stream *s = c->state;

	if (call_verb_failed(c, fail))
		return;
	/* Whoever asked is told no, and not what was made for it. */
	if (s->refused.code)
		hub_forget(hub_kill(c->front->hub, &c->who, box->id, NULL, NULL));
	call_failed(c, -s->refused.code, &s->refused);
}

/* A sandbox and its first command at once: `sandbox` is what a create says. */
void ward_exec_new(struct call *c)
{
	const char *user = call_query(c, "user");
	const struct jin *wanted = NULL;
	struct stream *s = stream_begin(c);
	struct err e = { 0 };
	struct wish *w;

	if (!s || (user && !(c->user = call_copy(c, user))) || !parse_command(c, s) ||
		call_failed(c, jin_obj(s->command->doc, "sandbox", &wanted, &e), &e))
		return;
	w = wish_read(wanted, &e);
	if (!call_failed(c, w ? 0 : -e.code, &e)) {
		wish_create(w)->begin = on_begin;
		c->verb = hub_create(c->front->hub, &c->who, wish_create(w), on_made, c);
	}
	wish_destroy(w);
}

static void go_attach(struct call *c, struct link *l)
{
	struct stream *s = c->state;
	struct err e = { 0 };

	call_failed(c, link_attach(l, &s->who, s->flags, 0, &handler, c, &c->links[0], &e), &e);
}

/* ?follow=0: what there is, and no more. */
void ward_attach(struct call *c)
{
	struct stream *s = rest_id(c) ? stream_begin(c) : NULL;
	const char *follow = call_query(c, "follow");

	if (!s || !read_pid(c, s))
		return;
	s->flags = LINK_ALL;
	s->brief = follow && str_eq(follow, "0");
	call_with_link(c, go_attach);
}

/* --- Small ones ------------------------------------------------------------------------------- */

static void on_told(void *arg, struct link_call *l, const struct link_done *d)
{
	call_link_over(arg, l);
	call_empty(arg, 204);
}

static void on_not_told(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct call *c = arg;

	call_link_over(c, l);
	if (f->code == ESRCH)
		call_fail(c, 404, "there is no such process in the sandbox");
	else if (f->code == EPIPE)
		call_fail(c, 409, "the process has no open stdin");
	else if (f->code == ENOTTY)
		call_fail(c, 409, "the process has no terminal");
	else
		call_fail_link(c, f);
}

static const struct link_handler told = { .done = on_told, .failed = on_not_told };

static void go_signal(struct call *c, struct link *l)
{
	struct stream *s = c->state;
	struct err e = { 0 };

	call_failed(c, link_signal(l, &s->who, s->sig, s->group, &told, c, &c->links[0], &e), &e);
}

void ward_signal(struct call *c)
{
	struct stream *s = rest_id(c) ? stream_begin(c) : NULL;
	own_jin struct jin *doc = NULL;
	struct err e = { 0 };
	int64_t sig = SIGTERM;
	int r;

	if (!s || !read_pid(c, s) || !call_parse(c, &doc))
		return;
	r = jin_i64(doc, "signal", 1, 64, &sig, &e);
	if (r >= 0)
		r = jin_bool(doc, "group", &s->group, &e);
	s->sig = (int)sig;
	if (!call_failed(c, r, &e))
		call_with_link(c, go_signal);
}

static void go_resize(struct call *c, struct link *l)
{
	struct stream *s = c->state;
	struct err e = { 0 };

	call_failed(c, link_resize(l, &s->who, s->rows, s->cols, &told, c, &c->links[0], &e), &e);
}

void ward_resize(struct call *c)
{
	struct stream *s = rest_id(c) ? stream_begin(c) : NULL;
	own_jin struct jin *doc = NULL;
	int64_t rows = 24, cols = 80;
	struct err e = { 0 };
	int r;

	if (!s || !read_pid(c, s) || !call_parse(c, &doc))
		return;
	r = jin_i64(doc, "rows", 0, UINT16_MAX, &rows, &e);
	if (r >= 0)
		r = jin_i64(doc, "cols", 0, UINT16_MAX, &cols, &e);
	s->rows = (unsigned)rows;
	s->cols = (unsigned)cols;
	if (!call_failed(c, r, &e))
		call_with_link(c, go_resize);
}

/* --- Stdin: the body is what the process reads ------------------------------------------------ */

static void in_body(struct call *c, const void *data, size_t len)
{
	ssize_t n = c->links[0] ? link_send(c->links[0], data, len) : 0;
	struct buf *kept = c->held;

	if (n < 0 || !c->links[0])
		return;
	if ((size_t)n < len) {
		buf_add(kept, (const char *)data + n, len - (size_t)n);
		wire_body_pause(c->q);
	}
}

static void in_room(void *arg, struct link_call *l)
{
	struct call *c = arg;
	struct buf *kept = c->held;
	ssize_t n = kept->len ? link_send(l, kept->data, kept->len) : 0;

	if (n > 0) {
		memmove(kept->data, kept->data + n, kept->len - (size_t)n);
		buf_cut(kept, kept->len - (size_t)n);
	}
	if (!kept->len)
		wire_body_resume(c->q);
}

static void in_body_end(struct call *c, int r)
{
	if (r < 0)
		call_fail(c, wire_status_of(r), "the input did not arrive whole");
	else if (c->links[0])
		link_send_end(c->links[0]);
}

static void in_ended(struct call *c)
{
	buf_done(c->held);
	stream_ended(c);
}

static void go_stdin(struct call *c, struct link *l)
{
	static const struct link_handler in = {
		.room = in_room, .done = on_told, .failed = on_not_told
	};
	struct stream *s = c->state;
	struct err e = { 0 };

	if (call_failed(c, link_input(l, &s->who, s->flags, &in, c, &c->links[0], &e), &e))
		return;
	c->on_body = in_body;
	c->on_body_end = in_body_end;
	if (wire_body_accept(c->q, UINT64_MAX / 2) < 0)
		call_fail(c, 413, "the input is too long");
}

/* ?close=1: the process reads an end after it. */
void ward_stdin(struct call *c)
{
	struct stream *s = rest_id(c) ? stream_begin(c) : NULL;
	const char *close = call_query(c, "close");

	if (!s || !read_pid(c, s))
		return;
	c->held = call_alloc(c, sizeof(*c->held));
	if (!c->held)
		return;
	buf_init(c->held, 4 << 20);
	c->on_ended = in_ended;
	s->flags = close && str_eq(close, "1") ? LINK_CLOSE : 0;
	call_with_link(c, go_stdin);
}

/* --- Processes and files ---------------------------------------------------------------------- */

static void on_process(void *arg, struct link_call *l, const struct link_process *p)
{
	struct call *c = arg;
	struct buf *b = c->held;

	if (p->tag && str_after(p->tag, INTERP_TAG))
		return;
	json_open(b, NULL);
	json_u64(b, "pid", p->pid);
	json_str(b, "tag", p->tag);
	json_array(b, "args");
	for (const char *const *a = p->argv; a && *a; a++)
		json_str(b, NULL, *a);
	json_array_end(b);
	json_str(b, "cwd", p->cwd);
	json_str(b, "user", p->user);
	json_bool(b, "tty", p->pty);
	json_bool(b, "exited", p->exited);
	if (p->exited)
		json_i64(b, "code", p->exit.signaled ? 128 + p->exit.code : p->exit.code);
	json_u64(b, "waiting", p->waiting_bytes);
	json_u64(b, "lost", p->lost_bytes);
	json_u64(b, "attached", p->attached);
	json_close(b);
}

static void on_listed(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;

	call_link_over(c, l);
	json_array_end(c->held);
	json_close(c->held);
	call_json(c, 200, c->held);
}

static void list_ended(struct call *c)
{
	buf_done(c->held);
}

static void go_list(struct call *c, struct link *l)
{
	static const struct link_handler list = {
		.process = on_process, .done = on_listed, .failed = on_not_told
	};
	struct err e = { 0 };

	call_failed(c, link_processes(l, &list, c, &c->links[0], &e), &e);
}

void ward_processes(struct call *c)
{
	if (!rest_id(c))
		return;
	c->held = call_alloc(c, sizeof(*c->held));
	if (!c->held)
		return;
	buf_init(c->held, FRONT_LISTING_MAX);
	c->on_ended = list_ended;
	json_open(c->held, NULL);
	json_array(c->held, "processes");
	call_with_link(c, go_list);
}

void ward_download(struct call *c)
{
	const char *path = call_query(c, "path");

	if (rest_box(c))
		download_start(c, path ? path : "");
}

void ward_upload(struct call *c)
{
	const char *path = call_query(c, "path");

	if (!rest_box(c))
		return;
	if (path && *path)
		upload_start(c, path);
	else
		call_fail(c, 400, "a path is missing");
}
