/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/h2_req.c - HTTP/2: one stream is one request.
 *
 * Owns:  nothing; streams hang off their connection.
 * Rules: what a handler asks for is noted in the request and handed to nghttp2 in h2_serve(), at
 * the end of the turn. Body bytes are given back to the peer's window when they are delivered.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "wire/impl.h"

enum { NV_MAX = WIRE_REPLY_HEADERS_MAX + 4, PIECE = 16 * 1024 };

/* ---- the head ---- */

struct pseudo {
	const char *method, *path, *authority, *host;
};

/* Takes the collected text apart, into fields and what stands for the request line. */
static int split_fields(struct wire_req *q, struct pseudo *ret)
{
	char *p = q->text.data;

	q->fields = req_alloc(q, (q->text_count + 1) * sizeof(*q->fields));
	if (!q->fields)
		return -ENOMEM;
	for (unsigned i = 0; i < q->text_count; i++) {
		const char *name = p, *value;

		p += strlen(p) + 1;
		value = p;
		p += strlen(p) + 1;
		if (str_eq(name, ":method"))
			ret->method = value;
		else if (str_eq(name, ":path"))
			ret->path = value;
		else if (str_eq(name, ":authority"))
			ret->authority = value;
		else if (*name != ':')
			q->fields[q->count++] = (struct wire_field){ name, value };
	}
	return 0;
}

/* Crumbs of a cookie are one header (RFC 9113, 8.2.3). */
static int join_cookies(struct wire_req *q)
{
	struct wire_field *first = NULL;
	unsigned crumbs = 0, kept = 0;
	size_t total = 0;
	char *joined, *at;

	for (unsigned i = 0; i < q->count; i++)
		if (str_eq(q->fields[i].name, "cookie")) {
			crumbs++;
			total += strlen(q->fields[i].value) + 2;
		}
	if (crumbs < 2)
		return 0;
	joined = at = req_alloc(q, total + 1);
	if (!joined)
		return -ENOMEM;
	for (unsigned i = 0; i < q->count; i++) {
		struct wire_field f = q->fields[i];

		if (str_eq(f.name, "cookie")) {
			at += snprintf(at, total + 1 - (size_t)(at - joined), "%s%s",
				first ? "; " : "", f.value);
			if (first)
				continue;
			f.value = joined;
			first = &q->fields[kept];
		}
		q->fields[kept++] = f;
	}
	q->count = kept;
	return 0;
}

static int fault_is(struct h1_fault *fault, unsigned status, const char *why)
{
	*fault = (struct h1_fault){ status, why };
	return -1;
}

static bool is_path(const char *p)
{
	if (*p != '/' && !str_eq(p, "*"))
		return false;
	for (; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '#')
			return false;
	return true;
}

static int check_fields(struct wire_req *q, const struct pseudo *p, struct h1_fault *fault)
{
	const char *host = wire_header(q, "host");
	const char *authority = p->authority ? p->authority : host;
	char *target;

	if (!p->method || !h1_is_token(p->method))
		return fault_is(fault, 400, "malformed method");
	if (strlen(p->method) > WIRE_METHOD_MAX || str_eq(p->method, "CONNECT"))
		return fault_is(fault, 501, "method not implemented");
	q->method_name = p->method;
	q->method = req_method_of(p->method);
	if (!p->path || !is_path(p->path))
		return fault_is(fault, 400, "malformed path");
	if (strlen(p->path) > WIRE_TARGET_MAX)
		return fault_is(fault, 414, "request target too long");
	if (!authority || !h1_host_is_legal(authority))
		return fault_is(fault, 400, "malformed authority");
	if (host && strcasecmp(host, authority) != 0)
		return fault_is(fault, 400, "host differs from :authority");
	target = req_alloc(q, strlen(p->path) + 1);
	if (!target || join_cookies(q) < 0)
		return fault_is(fault, 503, "out of memory");
	memcpy(target, p->path, strlen(p->path) + 1);
	return req_set_target(q, target, authority, fault);
}

static void read_framing(struct wire_req *q, bool has_body)
{
	const char *length = wire_header(q, "content-length"), *expect = wire_header(q, "expect");

	/* nghttp2 has checked that it is a number, and holds the body against it. */
	q->length = !has_body ? 0 : length ? strtoll(length, NULL, 10) : -1;
	q->body_whole_in = !has_body;
	q->expects = has_body && expect && strcasecmp(expect, "100-continue") == 0;
}

void h2_begin(struct wire_req *q, bool has_body)
{
	struct conn *c = q->conn;
	struct wire_server *s = c->server;
	struct h1_fault fault = { q->refuse,
		q->refuse == 503 ? "too many heads" : "head too large" };
	struct pseudo p = { 0 };

	q->begun = true;
	conn_idle(c, false);
	q->in_ms = q->out_ms = loop_now_ms(s->loop);
	s->stats.live++;
	if (!q->refuse && (q->text.bad || split_fields(q, &p) < 0))
		fault_is(&fault, 503, "out of memory");
	if (!fault.status && check_fields(q, &p, &fault) == 0) {
		s->stats.requests++;
		read_framing(q, has_body);
		s->config.request(s->config.ctx, q);
		return;
	}
	s->stats.refused++;
	conn_note(c, fault.why);
	wire_reply_text(q, fault.status, "%s", fault.why);
}

/* ---- the body ---- */

void h2_body_begin(struct wire_req *q)
{
	nghttp2_session *ng = q->conn->h2->ng;
	const nghttp2_nv go_on = { (uint8_t *)":status", (uint8_t *)"100", 7, 3,
		NGHTTP2_NV_FLAG_NONE };

	if (q->body_whole_in)
		return;
	if (q->expects && q->reply == REPLY_NONE)
		nghttp2_submit_headers(ng, NGHTTP2_FLAG_NONE, q->stream, NULL, &go_on, 1, NULL);
	q->expects = false;
	/* Fails only for want of memory; the window then stays small. */
	nghttp2_session_set_local_window_size(
		ng, NGHTTP2_FLAG_NONE, q->stream, WIRE_H2_WINDOW_BODY);
}

static void give_back(struct wire_req *q, size_t len, bool was_held)
{
	struct h2 *h = q->conn->h2;

	nghttp2_session_consume_stream(h->ng, q->stream, len);
	if (!was_held) {
		nghttp2_session_consume_connection(h->ng, len);
		return;
	}
	h->held -= len;
	if (h->owed && h->held < WIRE_H2_HELD_MAX) {
		nghttp2_session_consume_connection(h->ng, h->owed);
		h->owed = 0;
	}
}

static int hold(struct wire_req *q, const char *data, size_t len)
{
	struct h2 *h = q->conn->h2;

	if (out_put(&q->held, data, len) < 0)
		return -ENOMEM;
	h->held += len;
	/* A body that is not read must not stop the others; but there is an end to that. */
	if (h->held <= WIRE_H2_HELD_MAX &&
		(h->held <= WIRE_QUEUED_EACH || q->conn->server->stats.queued < WIRE_QUEUED_MAX))
		nghttp2_session_consume_connection(h->ng, len);
	else
		h->owed += len;
	return 0;
}

int h2_data(struct wire_req *q, const char *data, size_t len)
{
	if (q->body == BODY_OVER) {
		give_back(q, len, false);
		return 0;
	}
	if (!body_is_wanted(q) || !out_is_empty(&q->held))
		return hold(q, data, len);
	give_back(q, len, false);
	if (!body_deliver(q, data, len))
		req_touch(q);
	return 0;
}

static void deliver_held(struct wire_req *q)
{
	char piece[PIECE];
	ssize_t n;

	while (body_is_wanted(q) && (n = out_read(&q->held, piece, sizeof(piece))) > 0) {
		give_back(q, (size_t)n, true);
		body_deliver(q, piece, (size_t)n);
	}
	if (q->body != BODY_FLOWING || q->paused)
		return;
	if (q->body_fault)
		body_tell_end(q, q->body_fault);
	else if (q->body_whole_in && out_is_empty(&q->held))
		body_tell_end(q, 0);
}

/* ---- the reply ---- */

static ssize_t on_read(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
	nghttp2_data_source *source, void *ctx)
{
	struct wire_req *q = source->ptr;
	size_t before = q->out.bytes;
	ssize_t n = out_read(&q->out, buf, len);

	q->conn->h2->queued -= before - q->out.bytes;
	(void)ng;
	(void)id;
	(void)ctx;
	if (n < 0) { /* a file that became shorter */
		q->end = WIRE_ABORTED;
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	if (n > 0)
		q->out_ms = loop_now_ms(q->conn->server->loop);
	if (q->full && q->out.bytes <= q->drain_at)
		req_touch(q);
	if (out_is_empty(&q->out) && q->reply == REPLY_ENDED)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	else if (n == 0) {
		q->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return n;
}

static nghttp2_nv nv_of(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
		NGHTTP2_NV_FLAG_NONE };
}

static size_t fill_head(struct wire_req *q, nghttp2_nv *nv, char status[8], char length[24])
{
	struct wire_server *s = q->conn->server;
	const char *p = q->head.data;
	size_t n = 0;

	snprintf(status, 8, "%u", q->status % 1000);
	nv[n++] = nv_of(":status", status);
	if (!reply_has(q, "Date"))
		nv[n++] = nv_of("date", reply_date(s));
	if (s->config.name && !reply_has(q, "Server"))
		nv[n++] = nv_of("server", s->config.name);
	for (unsigned i = 0; i < q->head_count; i++) {
		const char *name = p, *value = name + strlen(name) + 1;

		nv[n++] = nv_of(name, value);
		p = value + strlen(value) + 1;
	}
	if (q->reply_declared >= 0 && q->status != 204) {
		snprintf(length, 24, "%lld", (long long)q->reply_declared);
		nv[n++] = nv_of("content-length", length);
	}
	return n;
}

static void submit(struct wire_req *q)
{
	nghttp2_data_provider body = { .source.ptr = q, .read_callback = on_read };
	nghttp2_nv nv[NV_MAX];
	char status[8], length[24];
	size_t n = fill_head(q, nv, status, length);
	bool at_once = q->reply == REPLY_ENDED && out_is_empty(&q->out);

	q->submitted = true;
	q->out_ms = loop_now_ms(q->conn->server->loop);
	if (nghttp2_submit_response(q->conn->h2->ng, q->stream, nv, n, at_once ? NULL : &body) != 0)
		q->abort = true;
}

void h2_serve(struct wire_req *q)
{
	nghttp2_session *ng = q->conn->h2->ng;

	if (!q->begun)
		return;
	deliver_held(q);
	reply_drained(q);
	if (q->reply != REPLY_NONE && !q->submitted && !q->abort)
		submit(q);
	if (q->abort) {
		if (q->end == WIRE_GONE)
			q->end = WIRE_ABORTED;
		nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, q->stream, NGHTTP2_INTERNAL_ERROR);
	} else if (q->deferred && (!out_is_empty(&q->out) || q->reply == REPLY_ENDED)) {
		q->deferred = false;
		q->out_ms = loop_now_ms(q->conn->server->loop);
		nghttp2_session_resume_data(ng, q->stream);
	}
}
