/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/proxy.c - requests to servers inside a sandbox.
 *
 * Owns:  one connection to a port inside, for one request.
 * Rules: the secrets that let a request through do not go on to the server. What the server answers
 *        is its own business, also when it is an error.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/handlers.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "hub/key.h"
#include "wire/limits.h"
#include "wire/proxy.h"

enum { PROXY_WINDOW = 128 * 1024, HOST_TEXT = WIRE_HOST_MAX + 1 };

struct tunnel {
	struct call *c; /* until the port has answered the call; then the proxy has the request */
	struct link_call *link;
	struct wire_proxy *proxy;
	bool tried_v6, eof;
	char id[ID_LEN + 1];
	uint16_t port;
};

/* --- The proxy's stream is a call on the link ------------------------------------------------- */

static ssize_t io_write(void *io, const void *data, size_t len)
{
	struct tunnel *t = io;

	return t->link ? link_send(t->link, data, len) : -EPIPE;
}

static void io_took(void *io, size_t bytes)
{
	struct tunnel *t = io;

	if (t->link)
		link_credit(t->link, bytes);
}

static void io_shut(void *io)
{
	struct tunnel *t = io;

	if (t->link)
		link_send_end(t->link);
}

static void io_close(void *io)
{
	struct tunnel *t = io;

	link_drop(t->link);
	free(t);
}

/* The server inside does not behave: told as the rest of the plane tells it. */
static void io_refuse(void *io, struct wire_req *q, unsigned status, const char *why)
{
	const struct tunnel *t = io;
	own_buf struct buf b = { 0 };

	buf_init(&b, 1024);
	json_open(&b, NULL);
	json_str(&b, "sandboxId", t->id);
	json_u64(&b, "port", t->port);
	json_u64(&b, "code", status);
	json_str(&b, "message", why);
	json_close(&b);
	wire_reply(q, status, "application/json", b.data, b.len);
}

/* --- From the link: each may be the last thing, since the proxy may close in it ----------------
 */

static void on_data(void *arg, struct link_call *l, const void *data, size_t len, bool of_stderr)
{
	struct tunnel *t = arg;

	wire_proxy_input(t->proxy, data, len);
}

static void on_end(void *arg, struct link_call *l, bool of_stderr)
{
	struct tunnel *t = arg;

	t->eof = true;
	wire_proxy_eof(t->proxy);
}

static void on_room(void *arg, struct link_call *l)
{
	struct tunnel *t = arg;

	if (t->proxy)
		wire_proxy_writable(t->proxy);
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	struct tunnel *t = arg;

	t->link = NULL;
	if (t->proxy && !t->eof)
		wire_proxy_eof(t->proxy);
}

/* A key of ours, as the control plane takes it; any other word is the server's inside. */
static bool is_key_bearer(const char *value)
{
	char id[KEY_ID_LEN + 1];

	return strncasecmp(value, "Bearer ", 7) == 0 && key_parse(value + 7, id);
}

/* "${PORT}.example" with the port put in; @out is empty when it does not fit. */
static void mask_host(const char *mask, uint16_t port, char out[HOST_TEXT])
{
	const char *at = strstr(mask, "${PORT}");

	if (at)
		str_fmt(out, HOST_TEXT, "%.*s%u%s", (int)(at - mask), mask, port, at + 7);
	else
		str_copy(out, HOST_TEXT, mask);
}

static int start_proxy(struct tunnel *t)
{
	static const struct wire_stream_ops ops = { io_write, io_took, io_shut, io_close,
		io_refuse };
	struct call *c = t->c;
	const char *bearer = wire_header(c->q, "Authorization");
	const char *const drop[] = { "E2b-Traffic-Access-Token", "E2b-Sandbox-Id",
		"E2b-Sandbox-Port", "X-Access-Token", "X-API-KEY",
		bearer && is_key_bearer(bearer) ? "Authorization" : NULL, NULL };
	const struct wire_peer *peer = wire_peer(c->q);
	const char *add[] = { "X-Forwarded-For", peer->is_unix ? "127.0.0.1" : peer->addr,
		"X-Forwarded-Host", wire_authority(c->q), "X-Forwarded-Proto",
		peer->is_tls ? "https" : "http", NULL };
	struct wire_proxy_options options = { .drop = drop, .add = add };
	char host[HOST_TEXT] = "";
	struct hub_box box;

	if (hub_find(c->front->hub, &c->who, c->id, &box, NULL) == 0 && box.network.mask_host)
		mask_host(box.network.mask_host, c->port, host);
	if (host[0])
		options.host = host;
	return wire_proxy_start(c->q, &ops, t, &options, &t->proxy, NULL);
}

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct tunnel *t = arg;
	struct call *c = t->c;

	if (start_proxy(t) < 0) {
		call_fail_memory(c);
		return;
	}
	t->c = NULL;
	call_leave(c);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f);

static const struct link_handler handler = { .opened = on_opened,
	.data = on_data,
	.end = on_end,
	.room = on_room,
	.done = on_done,
	.failed = on_failed };

static void dial(struct tunnel *t, struct link *l)
{
	struct proto_request q = { .type = PROTO_DIAL,
		.flags = t->tried_v6 ? DIAL_V6 : 0,
		.port = t->c->port,
		.window = PROXY_WINDOW };
	struct err e = { 0 };

	call_failed(t->c, link_request(l, &q, &handler, t, &t->link, &e), &e);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct tunnel *t = arg;
	struct link *link = link_of(l);

	t->link = NULL;
	if (t->proxy) {
		wire_proxy_failed(t->proxy, "the connection to the server in the sandbox broke");
	} else if (f->code == ECONNREFUSED && !t->tried_v6) {
		t->tried_v6 = true; /* many a server listens on [::1] alone */
		dial(t, link);
	} else if (f->code == ECONNREFUSED) {
		call_fail(t->c, 502, "nothing in the sandbox listens on port %u", t->c->port);
	} else if (f->code == EAGAIN) {
		call_fail(t->c, 429, "too many connections to this sandbox");
	} else {
		call_fail_link(t->c, f);
	}
}

static void go_dial(struct call *c, struct link *l)
{
	dial(c->state, l);
}

static void tunnel_ended(struct call *c)
{
	struct tunnel *t = c->state;

	link_drop(t->link);
	free(t);
}

void port_proxy(struct call *c)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t) {
		call_fail_memory(c);
		return;
	}
	t->c = c;
	memcpy(t->id, c->id, sizeof(t->id));
	t->port = c->port;
	c->state = t;
	c->on_ended = tunnel_ended;
	call_with_link(c, go_dial);
}
