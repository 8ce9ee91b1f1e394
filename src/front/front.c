/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/front.c - from a request to its handler.
 *
 * Owns:  struct front, and the order of questions: whom is it for, is there such a thing, may they,
 *        and only then the body.
 * Rules: nothing of a body is read before the request may be made. Loop thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "front/auth.h"
#include "front/call.h"
#include "front/e2b/handlers.h"
#include "front/e2b/interp.h"
#include "front/e2b/watchers.h"
#include "front/e2b/where.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/route.h"
#include "wire/envelope.h"

enum { ROUTE_ROOM = 4096 };

int front_create(struct hub *hub, struct front **ret, struct err *e)
{
	own_mem struct front *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ENOMEM, "making the front");
	f->hub = hub;
	f->loop = hub_loop(hub);
	hub_metrics_add(hub, front_numbers, f);
	*ret = take_ptr(&f);
	return 0;
}

void front_destroy(struct front *f)
{
	if (!f)
		return;
	watchers_done(f);
	interps_done(f);
	free(f);
}

void front_watch_server(struct front *f, const struct wire_server *s)
{
	f->server = s;
}

/* "Keepalive-Ping-Interval: 50", in seconds, within what keeps clients from giving up. */
static uint64_t keepalive_of(struct wire_req *q)
{
	const char *text = wire_header(q, "Keepalive-Ping-Interval");
	uint64_t s = FRONT_KEEPALIVE_S;

	if (text && parse_u64(text, 1, UINT32_MAX, &s) == 0 && s > FRONT_KEEPALIVE_S_MAX)
		s = FRONT_KEEPALIVE_S_MAX;
	return s * 1000;
}

/* True for "application/json; charset=utf-8" too. */
static bool is_type(struct wire_req *q, const char *want)
{
	const char *type = wire_header(q, "Content-Type");
	size_t n = strlen(want);

	return type && strncasecmp(type, want, n) == 0 &&
	       (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

static bool is_identity(struct wire_req *q, const char *name)
{
	const char *coding = wire_header(q, name);

	return !coding || !*coding || strcasecmp(coding, "identity") == 0;
}

/* The one message in a stream's request. */
static bool open_envelope(struct call *c)
{
	const uint8_t *p = (const uint8_t *)c->body;
	uint32_t len;

	if (c->body_len < ENVELOPE_HEAD) {
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "the request has no message");
		return false;
	}
	len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
	if (p[0] != 0 || len > c->body_len - ENVELOPE_HEAD) {
		call_fail_rpc(c, RPC_INVALID_ARGUMENT,
			p[0] ? "compressed messages are not accepted" : "the message is cut off");
		return false;
	}
	c->body += ENVELOPE_HEAD;
	c->body_len = len;
	return true;
}

static size_t body_max(const struct call *c)
{
	return c->route->body == BODY_JSON ? FRONT_JSON_MAX : FRONT_RPC_MAX + ENVELOPE_HEAD;
}

static void on_whole(void *ctx, struct wire_req *q, const char *data, size_t len, int r)
{
	struct call *c = ctx;

	if (r < 0) {
		call_fail_body(c, r, body_max(c));
		return;
	}
	c->body = data;
	c->body_len = len;
	if (c->route->body == BODY_STREAM && !open_envelope(c))
		return;
	c->route->handler(c);
}

static void read_body(struct call *c)
{
	int r = wire_body_whole(c->q, body_max(c), on_whole);

	if (r < 0)
		call_fail_body(c, r, body_max(c));
}

static bool read_rpc_head(struct call *c)
{
	const char *timeout = wire_header(c->q, "Connect-Timeout-Ms");

	c->style = STYLE_RPC;
	c->stream = c->route->body == BODY_STREAM; /* its errors, too, come in an envelope */
	c->keepalive_ms = keepalive_of(c->q);
	if (timeout && parse_u64(timeout, 0, UINT64_MAX / 2, &c->timeout_ms) < 0) {
		call_fail_rpc(c, RPC_INVALID_ARGUMENT, "Connect-Timeout-Ms is no number");
		return false;
	}
	if (!is_type(c->q, c->route->body == BODY_STREAM ? "application/connect+json"
							 : "application/json")) {
		wire_reply_header(
			c->q, "Accept-Post", "application/json, application/connect+json");
		wire_reply_text(c->q, 415, "only JSON messages are spoken here");
		return false;
	}
	if (!is_identity(c->q, "Content-Encoding") ||
		!is_identity(c->q, "Connect-Content-Encoding")) {
		call_fail_rpc(c, RPC_UNIMPLEMENTED, "compressed messages are not accepted");
		return false;
	}
	return true;
}

static void serve(struct call *c)
{
	switch (c->route->body) {
	case BODY_NONE:
	case BODY_OWN:
		c->route->handler(c);
		break;
	case BODY_JSON:
		read_body(c);
		break;
	case BODY_RPC:
	case BODY_STREAM:
		if (read_rpc_head(c))
			read_body(c);
		break;
	}
}

static void preflight(struct call *c)
{
	const char *headers = wire_header(c->q, "Access-Control-Request-Headers");

	wire_reply_header(c->q, "Access-Control-Allow-Origin", "*");
	wire_reply_header(c->q, "Access-Control-Allow-Methods",
		"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
	wire_reply_header(c->q, "Access-Control-Allow-Headers", headers ? headers : "*");
	wire_reply_header(c->q, "Access-Control-Max-Age", "7200");
	wire_reply(c->q, 204, NULL, NULL, 0);
}

static const enum call_style styles[] = {
	[PLANE_CONTROL] = STYLE_REST,
	[PLANE_ENVD] = STYLE_REST,
	[PLANE_INTERP] = STYLE_TEXT,
	[PLANE_PORT] = STYLE_PLANE,
};

/* 405, and which methods there are. */
static void fail_method(struct call *c, enum plane plane, char *room)
{
	static const struct {
		enum wire_method method;
		const char *name;
	} methods[] = { { WIRE_GET, "GET, HEAD" }, { WIRE_POST, "POST" }, { WIRE_PUT, "PUT" },
		{ WIRE_PATCH, "PATCH" }, { WIRE_DELETE, "DELETE" } };
	own_buf struct buf b = { 0 };
	const struct route *r;

	buf_init(&b, 64);
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (route_find(plane, methods[i].method, wire_path_raw(c->q), room, ROUTE_ROOM,
			    c->args, CALL_ARGS_MAX, &r) == ROUTE_OK)
			buf_add_fmt(&b, "%s%s", b.len ? ", " : "", methods[i].name);
	wire_reply_header(c->q, "Allow", b.data ? b.data : "");
	call_fail(c, 405, "this path does not take %s", wire_method_name(c->q));
}

static void dispatch(struct call *c, enum plane plane)
{
	static const struct route port = { PLANE_PORT, WIRE_GET, "", port_proxy, AUTH_TRAFFIC,
		BODY_OWN, false };
	enum route_found found = ROUTE_OK;
	char *room = NULL;

	c->style = styles[plane];
	c->front->requests[plane]++;
	if (plane == PLANE_PORT) {
		c->route = &port;
	} else if (wire_method(c->q) == WIRE_OPTIONS) {
		preflight(c);
		return;
	} else {
		room = call_alloc(c, ROUTE_ROOM);
		if (!room)
			return;
		found = route_find(plane, wire_method(c->q), wire_path_raw(c->q), room, ROUTE_ROOM,
			c->args, CALL_ARGS_MAX, &c->route);
	}
	if (found == ROUTE_NO_PATH)
		call_fail(c, 404, "there is nothing at this path");
	else if (found == ROUTE_NO_METHOD)
		fail_method(c, plane, room);
	else if (auth_check(c))
		serve(c);
}

static enum plane plane_of(uint16_t port)
{
	return port == PORT_ENVD          ? PLANE_ENVD
	       : port == PORT_INTERPRETER ? PLANE_INTERP
					  : PLANE_PORT;
}

/*
 * What says who asks and for whom stands once: of two values another server on the way, or the
 * next line of ours, might read the other. (Two Hosts and two lengths are refused in wire/.)
 */
static const char *said_twice(const struct wire_req *q)
{
	static const char *const names[] = { "X-API-KEY", "Authorization", "X-Access-Token",
		"X-Ward-Tenant", "E2b-Sandbox-Id", "E2b-Sandbox-Port", "E2b-Traffic-Access-Token",
		"Content-Type", "Content-Encoding", "Connect-Timeout-Ms" };
	unsigned seen = 0;
	const char *name, *value;

	for (unsigned i = 0; wire_header_at(q, i, &name, &value); i++)
		for (unsigned n = 0; n < ARRAY_LEN(names); n++) {
			if (strcasecmp(name, names[n]) != 0)
				continue;
			if (seen & 1u << n)
				return names[n];
			seen |= 1u << n;
		}
	return NULL;
}

void front_request(void *front, struct wire_req *q)
{
	struct front *f = front;
	struct call *c = wire_req_alloc(q, sizeof(struct call));
	const char *twice;
	struct where w;

	if (!c) {
		wire_reply_text(q, 500, "out of memory");
		return;
	}
	c->front = f;
	c->q = q;
	front_begin(c);
	twice = said_twice(q);
	if (twice) {
		call_fail(c, 400, "the header %s is there twice", twice);
		return;
	}
	if (query_parse(&c->query, wire_query(q)) < 0) {
		call_fail(c, 400, "the query has too many parts, or a NUL in it");
		return;
	}
	where_find(&w, wire_header(q, "E2b-Sandbox-Id"), wire_header(q, "E2b-Sandbox-Port"),
		wire_authority(q), wire_path(q),
		call_query(c, "signature") || wire_header(q, "X-Access-Token"));
	c->port = w.port;
	memcpy(c->id, w.id, sizeof(c->id));
	if (!hub_is_ready(f->hub) && w.kind != WHERE_CONTROL) {
		call_fail(c, 503, "the daemon is starting or stopping");
	} else if (w.kind == WHERE_BAD) {
		c->style = STYLE_PLANE;
		call_fail(c, 400, "%s", w.why);
	} else if (w.kind == WHERE_SIGNED) {
		if (auth_find_signed(c))
			dispatch(c, PLANE_ENVD);
	} else {
		dispatch(c, w.kind == WHERE_CONTROL ? PLANE_CONTROL : plane_of(w.port));
	}
}
