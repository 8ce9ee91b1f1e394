/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/process_stream.c - process.Process, the two streams: Start and Connect.
 *
 * Owns:  the events of a process on their way to a client.
 * Rules: a client that goes away takes nothing with it: the process goes on. Output waits for slow
 *        clients by credit, in the supervisor's ring and in the process's pipe, not here.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/b64.h"
#include "front/call.h"
#include "front/e2b/handlers.h"
#include "front/e2b/process.h"
#include "front/e2b/self.h"
#include "front/front_impl.h"
#include "front/limits.h"

enum { EVENT_BYTES_MAX = 1 << 20, DEADLINE = 1 };

/* The strings of a Start, until the link has copied them. */
struct words {
	char *owned[FRONT_PAIRS_MAX]; /* "K=V" */
	size_t owned_count;
	const char *argv[FRONT_ARGS_MAX + 2];
	const char *env[FRONT_PAIRS_MAX + SELF_VARS + 1];
	size_t env_count;
	struct self self;
};

struct stream {
	struct jin *doc;     /* until it has begun; @cmd and @start point into it */
	struct link_who who; /* Connect */
	struct link_start start;
	const char *cmd;
	struct words *words;
	bool pty;
	uint64_t ends_ms; /* by the loop's clock; 0: no limit */
};

static void words_destroy(struct words *w)
{
	for (size_t i = 0; w && i < w->owned_count; i++)
		free(w->owned[i]);
	free(w);
}

static void stream_ended(struct call *c)
{
	struct stream *s = c->state;

	jin_destroy(s->doc);
	words_destroy(s->words);
}

static struct stream *stream_begin(struct call *c)
{
	struct stream *s = call_alloc(c, sizeof(*s));

	if (!s)
		return NULL;
	c->state = s;
	c->on_ended = stream_ended;
	return call_parse(c, &s->doc) ? s : NULL;
}

/* --- Events to the client --------------------------------------------------------------------- */

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct call *c = arg;
	struct stream *s = c->state;
	own_buf struct buf b = { 0 };

	s->pty = o->pty;
	jin_destroy(s->doc); /* all of it is said, and a stream may last for days */
	s->doc = NULL;
	s->start.cwd = s->cmd = NULL;
	wire_release(c->q);
	buf_init(&b, 256);
	buf_add_fmt(&b, "{\"event\":{\"start\":{\"pid\":%u}}}", o->pid);
	call_message(c, &b);
	call_keepalive(c, "{\"event\":{\"keepalive\":{}}}");
}

static void on_data(void *arg, struct link_call *l, const void *data, size_t len, bool of_stderr)
{
	struct call *c = arg;
	const struct stream *s = c->state;
	own_buf struct buf b = { 0 };

	buf_init(&b, EVENT_BYTES_MAX);
	buf_add_fmt(&b, "{\"event\":{\"data\":{\"%s\":\"",
		s->pty      ? "pty"
		: of_stderr ? "stderr"
			    : "stdout");
	b64_add(&b, data, len);
	buf_add_str(&b, "\"}}}");
	call_credit(c, l, len, call_message(c, &b));
}

/* What Go's os/exec says, since clients show it. */
static void put_status(struct buf *b, const struct proto_exit *x)
{
	char text[64];

	if (x->signaled)
		str_fmt(text, sizeof(text), "signal: %s",
			x->code == SIGKILL   ? "killed"
			: x->code == SIGTERM ? "terminated"
			: x->code == SIGINT  ? "interrupt"
			: x->code == SIGHUP  ? "hangup"
			: x->code == SIGSEGV ? "segmentation fault"
			: x->code == SIGABRT ? "aborted"
			: x->code == SIGPIPE ? "broken pipe"
					     : strsignal(x->code));
	else
		str_fmt(text, sizeof(text), "exit status %d", x->code);
	json_i64(b, "exitCode", x->signaled ? -1 : x->code);
	json_bool(b, "exited", !x->signaled);
	json_str(b, "status", text);
	if (x->signaled || x->code)
		json_str(b, "error", text);
}

static void fail_deadline(struct call *c)
{
	call_fail_rpc(c, RPC_DEADLINE_EXCEEDED, "the time of %llu ms is over",
		(unsigned long long)c->timeout_ms);
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;
	const struct stream *s = c->state;
	own_buf struct buf b = { 0 };

	call_link_over(c, l);
	if (!d->has_exit) {
		call_fail_rpc(c, RPC_INTERNAL, "the process ended without a status");
		return;
	}
	/* The supervisor's clock may have been a little faster than ours. */
	if (s->ends_ms && d->exit.signaled && d->exit.code == SIGKILL &&
		loop_now_ms(c->front->loop) + 50 >= s->ends_ms) {
		fail_deadline(c);
		return;
	}
	buf_init(&b, 1024);
	json_open(&b, NULL);
	json_open(&b, "event");
	json_open(&b, "end");
	put_status(&b, &d->exit);
	json_close(&b);
	json_close(&b);
	json_close(&b);
	call_message(c, &b);
	call_stream_end(c);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct call *c = arg;
	const struct stream *s = c->state;
	char shown[128];

	call_link_over(c, l);
	if (f->step == START_STEP_USER)
		call_fail_rpc(c, RPC_UNAUTHENTICATED, "there is no such user in the sandbox");
	else if (f->step == START_STEP_CWD)
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "the directory '%s' cannot be entered: %s",
			str_show(shown, sizeof(shown), s->start.cwd ? s->start.cwd : "~"),
			strerror(f->code));
	else if (f->step == START_STEP_EXEC)
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "the program '%s' cannot be started: %s",
			str_show(shown, sizeof(shown), s->cmd ? s->cmd : ""), strerror(f->code));
	else if (f->code == ESRCH)
		call_fail_rpc(c, RPC_NOT_FOUND, "there is no such process");
	else
		call_fail_link(c, f);
}

static const struct link_handler handler = {
	.opened = on_opened, .data = on_data, .done = on_done, .failed = on_failed
};

static void on_deadline(void *ctx)
{
	struct call *c = ctx;

	link_drop(
		c->links[0]); /* a Start's process is killed by the supervisor, by its own clock */
	c->links[0] = NULL;
	fail_deadline(c);
}

static void set_deadline(struct call *c)
{
	struct stream *s = c->state;

	if (!c->timeout_ms)
		return;
	s->ends_ms = loop_now_ms(c->front->loop) + c->timeout_ms;
	if (loop_timer_set(c->front->loop, &c->timers[DEADLINE], c->timeout_ms, on_deadline, c) < 0)
		call_fail_memory(c);
}

/* --- Connect ---------------------------------------------------------------------------------- */

static void go_attach(struct call *c, struct link *l)
{
	struct stream *s = c->state;
	struct err e = { 0 };

	if (!call_failed(c, link_attach(l, &s->who, 0, 0, &handler, c, &c->links[0], &e), &e))
		set_deadline(c);
}

void process_attach(struct call *c)
{
	struct stream *s = stream_begin(c);
	struct err e = { 0 };

	if (s && !call_failed(c, process_who(s->doc, &s->who, &e), &e))
		call_with_link(c, go_attach);
}

/* --- Start ------------------------------------------------------------------------------------ */

static int add_env(void *arg, const char *name, const char *value, struct err *e)
{
	struct words *w = arg;
	char *text = NULL;

	if (!*name || strchr(name, '='))
		return err_say(e, EINVAL, "a name in 'envs' is empty or has a '=' in it");
	if (self_owns(name))
		return 0; /* what a sandbox is told about itself is not theirs to say */
	if (asprintf(&text, "%s=%s", name, value) < 0)
		return err_set(e, ENOMEM, "keeping the environment");
	w->owned[w->owned_count++] = text;
	w->env[w->env_count++] = text;
	return 0;
}

static int read_args(const struct jin *process, struct words *w, struct err *e)
{
	const struct jin *args = NULL;
	int r = jin_need_str(process, "cmd", &w->argv[0], e);

	if (r >= 0)
		r = jin_list(process, "args", &args, e);
	if (r < 0)
		return r;
	if (jin_len(args) > FRONT_ARGS_MAX)
		return err_say(e, EINVAL, "more than %d arguments", FRONT_ARGS_MAX);
	for (size_t i = 0; i < jin_len(args); i++)
		if (jin_str_at(args, "args", i, &w->argv[i + 1], e) < 0)
			return -EINVAL;
	return *w->argv[0] ? 0 : err_say(e, EINVAL, "field 'cmd' is empty");
}

static int read_start(struct call *c, struct stream *s, struct err *e)
{
	const struct jin *process = NULL, *pty = NULL;
	struct link_start *q = &s->start;
	struct words *w = s->words;
	unsigned cols = 0, rows = 0;
	bool has_stdin = true;
	int r = jin_need_obj(s->doc, "process", &process, e);

	if (r >= 0)
		r = read_args(process, w, e);
	if (r >= 0)
		r = jin_each_str(process, "envs", FRONT_PAIRS_MAX, add_env, w, e);
	if (r >= 0)
		r = jin_str(process, "cwd", &q->cwd, e);
	if (r >= 0)
		r = jin_str(s->doc, "tag", &q->tag, e);
	if (r >= 0)
		r = jin_bool(s->doc, "stdin", &has_stdin, e);
	if (r >= 0)
		r = jin_obj(s->doc, "pty", &pty, e);
	if (r > 0)
		r = process_size(pty, &cols, &rows, e);
	if (q->cwd && !*q->cwd)
		q->cwd = NULL;
	/* Of the pipes, their end counts: a command may leave somebody behind who still writes. */
	q->flags = pty ? START_PTY : START_DRAIN | (has_stdin ? 0 : START_NULL_STDIN);
	q->cols = (uint16_t)cols;
	q->rows = (uint16_t)rows;
	q->argv = w->argv;
	s->cmd = w->argv[0];
	q->env = w->env;
	q->user = c->user;
	q->timeout_ms = c->timeout_ms;
	return r < 0 ? r : 0;
}

static void go_start(struct call *c, struct link *l)
{
	struct stream *s = c->state;
	struct err e = { 0 };
	int r = link_start(l, &s->start, &handler, c, &c->links[0], &e);

	words_destroy(s->words);
	s->words = NULL;
	if (!call_failed(c, r, &e))
		set_deadline(c);
}

void process_start(struct call *c)
{
	struct stream *s = stream_begin(c);
	struct err e = { 0 };
	struct hub_box box;

	if (!s)
		return;
	s->words = calloc(1, sizeof(*s->words));
	if (!s->words) {
		call_fail_memory(c);
		return;
	}
	if (call_failed(c, read_start(c, s, &e), &e))
		return;
	if (hub_find(c->front->hub, &c->who, c->id, &box, NULL) == 0) {
		self_vars(&s->words->self, box.id, box.template_asked);
		for (size_t i = 0; i < SELF_VARS; i++)
			s->words->env[s->words->env_count++] = s->words->self.vars[i];
	}
	call_with_link(c, go_start);
}
