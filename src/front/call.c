/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/call.c - one request on its way.
 *
 * Owns:  what a request waits for, and how it ends.
 * Rules: loop thread. After an answer nothing of the request is touched but by its `ended`.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/route.h"
#include "wire/envelope.h"
#include "wire/limits.h"

enum { ERROR_BYTES_MAX = 8192 };

static void on_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	struct call *c = ctx;

	if (c->on_body)
		c->on_body(c, data, len);
}

static void on_body_end(void *ctx, struct wire_req *q, int r)
{
	struct call *c = ctx;

	if (c->on_body_end)
		c->on_body_end(c, r);
}

static void on_drained(void *ctx, struct wire_req *q)
{
	struct call *c = ctx;
	uint64_t owed = c->owed;

	c->owed = 0;
	if (owed && c->links[0])
		link_credit(c->links[0], owed);
	if (c->on_drained)
		c->on_drained(c);
}

void call_leave(struct call *c)
{
	hub_forget(c->verb);
	for (unsigned i = 0; i < CALL_LINKS_MAX; i++)
		link_drop(c->links[i]);
	for (unsigned i = 0; i < CALL_TIMERS; i++)
		loop_timer_cancel(&c->timers[i]);
	query_done(&c->query);
	c->front->live--;
}

static void on_ended(void *ctx, struct wire_req *q, enum wire_end how)
{
	struct call *c = ctx;

	if (c->on_ended)
		c->on_ended(c);
	call_leave(c);
}

void front_begin(struct call *c)
{
	static const struct wire_events events = { on_body, on_body_end, on_drained, on_ended };

	c->front->live++;
	wire_on(c->q, &events, c);
}

void *call_alloc(struct call *c, size_t size)
{
	void *p = wire_req_alloc(c->q, size);

	if (!p)
		call_fail_memory(c);
	return p;
}

char *call_copy(struct call *c, const char *text)
{
	size_t len = strlen(text) + 1;
	char *copy = call_alloc(c, len);

	return copy ? memcpy(copy, text, len) : NULL;
}

/* The rules of CORS: no cookie opens anything here, so any page may ask. Not for ward's own API,
 * whose unix socket and loopback need no key. */
static void allow_origin(struct call *c)
{
	if (c->route && c->route->cors)
		wire_reply_header(c->q, "Access-Control-Allow-Origin", "*");
}

void call_json(struct call *c, unsigned status, const struct buf *b)
{
	if (b->bad) {
		call_fail_memory(c);
		return;
	}
	/* It stays until the client has read it. */
	if (b->len > WIRE_REPLY_HIGH && !wire_hold(c->q, b->len)) {
		call_fail_busy(c);
		return;
	}
	allow_origin(c);
	wire_reply(c->q, status, "application/json", b->data, b->len);
}

void call_empty(struct call *c, unsigned status)
{
	allow_origin(c);
	wire_reply(c->q, status, NULL, NULL, 0);
}

static void add_plane(struct call *c, struct buf *b)
{
	json_str(b, "sandboxId", c->id);
	if (c->port)
		json_u64(b, "port", c->port);
}

static void fail_now(struct call *c, unsigned status, enum rpc_code code, const char *msg)
{
	own_buf struct buf b = { 0 };

	if (wire_reply_started(c->q) && !c->stream) {
		wire_reply_abort(c->q); /* too late to say why */
		return;
	}
	buf_init(&b, ERROR_BYTES_MAX);
	if (c->style == STYLE_TEXT) {
		allow_origin(c);
		wire_reply_text(c->q, status, "%s", msg);
		return;
	}
	json_open(&b, NULL);
	if (c->style == STYLE_PLANE)
		add_plane(c, &b);
	if (c->style == STYLE_RPC)
		json_str(&b, "code", rpc_code_name(code));
	else
		json_u64(&b, "code", status);
	json_str(&b, "message", msg);
	json_close(&b);
	if (b.bad)
		wire_reply_text(c->q, 500, "out of memory");
	else
		call_json(c, status, &b);
}

static int stream_write(struct call *c, const struct buf *json, uint8_t flags);

/* Errors of a stream go into its last message, under status 200. */
static void fail_stream(struct call *c, enum rpc_code code, const char *msg)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, ERROR_BYTES_MAX);
	json_open(&b, NULL);
	json_open(&b, "error");
	json_str(&b, "code", rpc_code_name(code));
	json_str(&b, "message", msg);
	json_close(&b);
	json_close(&b);
	stream_write(c, &b, ENVELOPE_END);
	wire_reply_end(c->q);
}

static void fail_text(struct call *c, unsigned status, enum rpc_code code, const char *msg)
{
	if (c->stream)
		fail_stream(c, code, msg);
	else if (c->style == STYLE_RPC)
		fail_now(c, (unsigned)rpc_code_http(code), code, msg);
	else
		fail_now(c, status, code, msg);
}

static enum rpc_code code_of_status(unsigned status)
{
	for (int i = RPC_OK + 1; i < RPC_CODES; i++)
		if (rpc_code_http((enum rpc_code)i) == (int)status)
			return (enum rpc_code)i;
	return status == 413 || status == 415 || status == 408 ? RPC_INVALID_ARGUMENT
							       : RPC_INTERNAL;
}

void call_fail(struct call *c, unsigned status, const char *fmt, ...)
{
	struct err e;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.msg, sizeof(e.msg), fmt, ap);
	va_end(ap);
	fail_text(c, status, code_of_status(status), e.msg);
}

void call_fail_rpc(struct call *c, enum rpc_code code, const char *fmt, ...)
{
	struct err e;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e.msg, sizeof(e.msg), fmt, ap);
	va_end(ap);
	fail_text(c, (unsigned)rpc_code_http(code), code, e.msg);
}

void call_fail_err(struct call *c, const struct err *e)
{
	fail_text(c, (unsigned)http_status_of(e->code), rpc_code_of(e->code), e->msg);
}

void call_fail_hub(struct call *c, const struct hub_fail *f)
{
	bool plane = c->route && c->route->plane != PLANE_CONTROL;
	int status = plane ? hub_code_plane_http(f->code) : hub_code_http(f->code);
	char after[16];

	if (f->retry_after_s && str_fmt(after, sizeof(after), "%u", f->retry_after_s) == 0 &&
		!wire_reply_started(c->q))
		wire_reply_header(c->q, "Retry-After", after);
	/* A sandbox that is gone is told by the bare status, for streams too: that is the one
	 * signal that clients know. */
	if (plane && !wire_reply_started(c->q)) {
		c->stream = false;
		c->style = c->style == STYLE_TEXT ? STYLE_TEXT : STYLE_PLANE;
		fail_now(c, (unsigned)status, RPC_UNAVAILABLE, f->msg);
		return;
	}
	fail_text(c, (unsigned)status, RPC_UNAVAILABLE, f->msg);
}

bool call_verb_failed(struct call *c, const struct hub_fail *fail)
{
	c->verb = NULL;
	if (fail)
		call_fail_hub(c, fail);
	return fail != NULL;
}

void call_fail_link(struct call *c, const struct link_failed *f)
{
	struct hub_fail gone = { .code = HUB_NOT_RUNNING };
	struct err e = { 0 };

	if (f->code == ENOTCONN || f->code == EHOSTDOWN) {
		str_fmt(gone.msg, sizeof(gone.msg), "the sandbox %s",
			f->code == ENOTCONN ? "was not found or has ended" : "is paused");
		call_fail_hub(c, &gone);
		return;
	}
	if (f->text[0])
		err_say(&e, f->code, "%s", f->text);
	else
		err_set(&e, f->code, "the request failed in the sandbox");
	call_fail_err(c, &e);
}

void call_fail_memory(struct call *c)
{
	fail_text(c, 500, RPC_INTERNAL, "out of memory");
}

void call_fail_busy(struct call *c)
{
	if (!wire_reply_started(c->q))
		wire_reply_header(c->q, "Retry-After", "1");
	fail_text(c, 429, RPC_RESOURCE_EXHAUSTED,
		"too many large requests and answers are under way: try again");
}

void call_fail_body(struct call *c, int r, size_t max)
{
	if (r == -ENOBUFS)
		call_fail_busy(c);
	else if (r == -EMSGSIZE)
		call_fail(c, 413, "the body has more than %zu bytes", max);
	else
		call_fail(c, wire_status_of(r), "the body did not arrive whole");
}

bool call_failed(struct call *c, int r, const struct err *e)
{
	if (r < 0)
		call_fail_err(c, e);
	return r < 0;
}

bool call_parse(struct call *c, struct jin **ret)
{
	struct err e = { 0 };
	int r = jin_parse(c->body, c->body_len, FRONT_RPC_MAX, ret, &e);

	return !call_failed(c, r, &e);
}

const char *call_query(const struct call *c, const char *key)
{
	return query_get(&c->query, key);
}

struct link_wait {
	struct call *c;
	void (*go)(struct call *c, struct link *l);
};

static void on_link(void *arg, const struct hub_fail *fail, struct link *link)
{
	struct link_wait *w = arg;
	struct call *c = w->c;

	if (!call_verb_failed(c, fail))
		w->go(c, link);
}

bool call_box_runs(struct call *c)
{
	struct hub_fail f = { 0 };
	struct hub_box box;

	if (hub_find(c->front->hub, &c->who, c->id, &box, &f) == 0 && box.state != HUB_RUNNING)
		hub_fail(&f, HUB_NOT_RUNNING, "the sandbox is %s", hub_state_name(box.state));
	if (f.code)
		call_fail_hub(c, &f);
	return !f.code;
}

void call_with_link(struct call *c, void (*go)(struct call *c, struct link *l))
{
	struct link *l = hub_link_now(c->front->hub, &c->who, c->id);
	struct link_wait *w;

	if (l) {
		go(c, l);
		return;
	}
	w = call_alloc(c, sizeof(*w));
	if (!w)
		return;
	*w = (struct link_wait){ c, go };
	c->verb = hub_link(c->front->hub, &c->who, c->id, on_link, w);
}

bool call_request(struct call *c, unsigned i, struct link *l, const struct proto_request *q,
	const struct link_handler *h)
{
	struct err e = { 0 };
	int r = link_request(l, q, h, c, &c->links[i], &e);

	return !call_failed(c, r, &e);
}

void call_link_over(struct call *c, const struct link_call *l)
{
	for (unsigned i = 0; i < CALL_LINKS_MAX; i++)
		if (c->links[i] == l)
			c->links[i] = NULL;
}

void call_credit(struct call *c, struct link_call *l, uint64_t cost, int r)
{
	if (r == 0)
		link_credit(l, cost);
	else
		c->owed += cost; /* on_drained gives it; when nobody reads any more, nobody does */
}

void call_pass(struct call *c, struct link_call *l, const void *data, size_t len, uint64_t cost)
{
	call_credit(c, l, cost, wire_reply_write(c->q, data, len));
}

static int stream_write(struct call *c, const struct buf *json, uint8_t flags)
{
	uint8_t head[ENVELOPE_HEAD];
	int r;

	if (!wire_reply_started(c->q)) {
		allow_origin(c);
		wire_reply_header(c->q, "Content-Type", "application/connect+json");
		wire_reply_start(c->q, 200, -1);
	}
	if (json->bad) {
		wire_reply_abort(c->q);
		return -ENOMEM;
	}
	envelope_put_head(head, flags, (uint32_t)json->len);
	r = wire_reply_write(c->q, head, sizeof(head));
	return r < 0 ? r : wire_reply_write(c->q, json->data, json->len);
}

static void beat(void *ctx)
{
	struct call *c = ctx;
	own_buf struct buf b = { 0 };

	buf_init(&b, 256);
	buf_add_str(&b, c->keepalive);
	call_message(c, &b);
}

int call_message(struct call *c, const struct buf *json)
{
	if (c->keepalive)
		loop_timer_set(c->front->loop, &c->timers[0], c->keepalive_ms, beat, c);
	return stream_write(c, json, 0);
}

void call_stream_end(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, 16);
	buf_add_str(&b, "{}");
	stream_write(c, &b, ENVELOPE_END);
	wire_reply_end(c->q);
}

void call_keepalive(struct call *c, const char *json)
{
	c->keepalive = json;
	loop_timer_set(c->front->loop, &c->timers[0], c->keepalive_ms, beat, c);
}
