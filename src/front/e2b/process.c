/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/process.c - process.Process, the calls with one answer.
 *
 * Owns:  List, SendInput, CloseStdin, SendSignal, Update.
 * Rules: translates to calls on the link; the supervisor knows the processes.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/handlers.h"
#include "front/e2b/interp_impl.h"
#include "front/e2b/process.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "wire/text.h"

int process_who(const struct jin *doc, struct link_who *ret, struct err *e)
{
	const struct jin *who = NULL;
	int64_t pid = 0;
	int r = jin_need_obj(doc, "process", &who, e);

	if (r >= 0)
		r = jin_i64(who, "pid", 0, INT32_MAX, &pid, e);
	if (r >= 0)
		r = jin_str(who, "tag", &ret->tag, e);
	if (r < 0)
		return r;
	if (!pid && !ret->tag)
		return err_say(e, EINVAL, "field 'process' needs a pid or a tag");
	ret->pid = (uint32_t)pid;
	if (pid)
		ret->tag = NULL;
	return 0;
}

int process_size(const struct jin *pty, unsigned *ret_cols, unsigned *ret_rows, struct err *e)
{
	const struct jin *size = NULL;
	int64_t cols = 80, rows = 24;
	int r = jin_obj(pty, "size", &size, e);

	if (r >= 0)
		r = jin_i64(size, "cols", 0, UINT16_MAX, &cols, e);
	if (r >= 0)
		r = jin_i64(size, "rows", 0, UINT16_MAX, &rows, e);
	*ret_cols = (unsigned)cols;
	*ret_rows = (unsigned)rows;
	return r < 0 ? r : 0;
}

/* What a call with one answer carries until its link is there. */
struct order {
	struct jin *doc;
	struct link_who who;
	struct buf bytes; /* SendInput */
	size_t sent;
	int sig;
	unsigned cols, rows;
};

static void order_ended(struct call *c)
{
	struct order *o = c->state;

	jin_destroy(o->doc);
	buf_done(&o->bytes);
}

static struct order *order_begin(struct call *c)
{
	struct order *o = call_alloc(c, sizeof(*o));
	struct err e = { 0 };

	if (!o)
		return NULL;
	buf_init(&o->bytes, FRONT_RPC_MAX);
	c->state = o;
	c->on_ended = order_ended;
	if (!call_parse(c, &o->doc) || call_failed(c, process_who(o->doc, &o->who, &e), &e))
		return NULL;
	return o;
}

static void send_nothing(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, 16);
	buf_add_str(&b, "{}");
	call_json(c, 200, &b);
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	call_link_over(arg, l);
	send_nothing(arg);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct call *c = arg;

	call_link_over(c, l);
	if (f->code == EPIPE)
		call_fail_rpc(c, RPC_INTERNAL, "the process has no open stdin");
	else if (f->code == ENOTTY)
		call_fail_rpc(c, RPC_FAILED_PRECONDITION, "the process has no terminal");
	else if (f->code == ESRCH)
		call_fail_rpc(c, RPC_NOT_FOUND, "there is no such process");
	else
		call_fail_link(c, f);
}

/* --- Input ------------------------------------------------------------------------------------ */

static void on_room(void *arg, struct link_call *l)
{
	struct call *c = arg;
	struct order *o = c->state;
	ssize_t n = 1;

	while (o->sent < o->bytes.len && n > 0) {
		n = link_send(l, o->bytes.data + o->sent, o->bytes.len - o->sent);
		if (n > 0)
			o->sent += (size_t)n;
	}
	if (o->sent == o->bytes.len && n >= 0) {
		o->sent++; /* once */
		link_send_end(l);
	}
}

static const struct link_handler input_handler = {
	.room = on_room, .done = on_done, .failed = on_failed
};

static void open_input(struct call *c, struct link *l, unsigned flags)
{
	struct order *o = c->state;
	struct err e = { 0 };
	int r = link_input(l, &o->who, flags, &input_handler, c, &c->links[0], &e);

	if (!call_failed(c, r, &e))
		on_room(c, c->links[0]);
}

static void go_input(struct call *c, struct link *l)
{
	open_input(c, l, 0);
}

static void go_close(struct call *c, struct link *l)
{
	open_input(c, l, LINK_CLOSE);
}

static int read_bytes(const struct jin *doc, struct buf *out, struct err *e)
{
	const struct jin *input = NULL;
	const char *text = "";
	own_mem char *room = NULL;
	ssize_t n;
	int r = jin_need_obj(doc, "input", &input, e);

	if (r >= 0)
		r = jin_str(input, "stdin", &text, e);
	if (r == 0)
		r = jin_str(input, "pty", &text, e);
	if (r < 0)
		return r;
	room = malloc(BASE64_BYTES(strlen(text)) + 1);
	if (!room)
		return err_set(e, ENOMEM, "reading the input");
	n = base64_decode(text, strlen(text), room);
	if (n < 0)
		return err_say(e, EINVAL, "the input is not base64");
	buf_add(out, room, (size_t)n);
	return out->bad ? err_set(e, ENOMEM, "reading the input") : 0;
}

void process_input(struct call *c)
{
	struct order *o = order_begin(c);
	struct err e = { 0 };

	if (!o || call_failed(c, read_bytes(o->doc, &o->bytes, &e), &e))
		return;
	if (wire_hold(c->q, o->bytes.len)) /* the process may not read it for long */
		call_with_link(c, go_input);
	else
		call_fail_busy(c);
}

void process_close(struct call *c)
{
	if (order_begin(c))
		call_with_link(c, go_close);
}

/* --- Signals and sizes ------------------------------------------------------------------------ */

static const struct link_handler plain_handler = { .done = on_done, .failed = on_failed };

static void go_signal(struct call *c, struct link *l)
{
	struct order *o = c->state;
	struct err e = { 0 };

	call_failed(
		c, link_signal(l, &o->who, o->sig, false, &plain_handler, c, &c->links[0], &e), &e);
}

void process_send_signal(struct call *c)
{
	struct order *o = order_begin(c);
	const char *name = NULL;
	struct err e = { 0 };

	if (!o || call_failed(c, jin_need_str(o->doc, "signal", &name, &e), &e))
		return;
	if (str_eq(name, "SIGNAL_SIGKILL"))
		o->sig = SIGKILL;
	else if (str_eq(name, "SIGNAL_SIGTERM"))
		o->sig = SIGTERM;
	if (o->sig)
		call_with_link(c, go_signal);
	else
		call_fail_rpc(c, RPC_UNIMPLEMENTED, "a signal is SIGNAL_SIGKILL or SIGNAL_SIGTERM");
}

static void go_resize(struct call *c, struct link *l)
{
	struct order *o = c->state;
	struct err e = { 0 };

	call_failed(c,
		link_resize(l, &o->who, o->rows, o->cols, &plain_handler, c, &c->links[0], &e), &e);
}

void process_update(struct call *c)
{
	struct order *o = order_begin(c);
	const struct jin *pty = NULL;
	struct err e = { 0 };
	int r;

	if (!o)
		return;
	r = jin_obj(o->doc, "pty", &pty, &e);
	if (r > 0)
		r = process_size(pty, &o->cols, &o->rows, &e);
	if (call_failed(c, r, &e))
		return;
	if (pty)
		call_with_link(c, go_resize);
	else
		send_nothing(c);
}

/* No client uses it: input comes with SendInput. */
void process_stream(struct call *c)
{
	call_fail_rpc(c, RPC_UNIMPLEMENTED, "StreamInput is not supported: use SendInput");
}

/* --- List ------------------------------------------------------------------------------------- */

static void put_env(struct buf *b, const char *const *env)
{
	json_open(b, "envs");
	for (; env && *env; env++) {
		const char *equals = strchr(*env, '=');
		char name[256];

		if (equals && str_fmt(name, sizeof(name), "%.*s", (int)(equals - *env), *env) == 0)
			json_str(b, name, equals + 1);
	}
	json_close(b);
}

static void on_process(void *arg, struct link_call *l, const struct link_process *p)
{
	struct call *c = arg;
	struct buf *b = c->state;

	if (p->exited || !p->argv || !p->argv[0] || (p->tag && str_after(p->tag, INTERP_TAG)))
		return; /* the interpreter's drivers are ours, not the client's */
	json_open(b, NULL);
	json_open(b, "config");
	json_str(b, "cmd", p->argv[0]);
	json_array(b, "args");
	for (const char *const *a = p->argv + 1; *a; a++)
		json_str(b, NULL, *a);
	json_array_end(b);
	put_env(b, p->env);
	if (p->cwd)
		json_str(b, "cwd", p->cwd);
	json_close(b);
	json_u64(b, "pid", p->pid);
	if (p->tag)
		json_str(b, "tag", p->tag);
	json_close(b);
}

static void on_listed(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;
	struct buf *b = c->state;

	call_link_over(c, l);
	json_array_end(b);
	json_close(b);
	call_json(c, 200, b);
}

static void list_ended(struct call *c)
{
	buf_done(c->state);
}

static void go_list(struct call *c, struct link *l)
{
	static const struct link_handler handler = {
		.process = on_process, .done = on_listed, .failed = on_failed
	};
	struct err e = { 0 };

	call_failed(c, link_processes(l, &handler, c, &c->links[0], &e), &e);
}

void process_list(struct call *c)
{
	struct buf *b = call_alloc(c, sizeof(*b));

	if (!b)
		return;
	buf_init(b, FRONT_LISTING_MAX);
	c->state = b;
	c->on_ended = list_ended;
	json_open(b, NULL);
	json_array(b, "processes");
	call_with_link(c, go_list);
}
