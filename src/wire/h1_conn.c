/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/h1_conn.c - HTTP/1.1 on a connection: requests come in.
 *
 * Owns:  where a connection is in its input: before a head, in a body, or raw after an upgrade.
 * Rules: one request at a time; the next head is not looked at before the reply is out. The framing
 *        of a body belongs to the connection, since what a handler left unread must still be
 * passed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/impl.h"

static uint64_t now_of(const struct conn *c)
{
	return loop_now_ms(c->server->loop);
}

void h1_refuse(struct conn *c, unsigned status, const char *why)
{
	char text[512];
	int n = snprintf(text, sizeof(text),
		"HTTP/1.1 %u %s\r\nDate: %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		"Content-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
		status, wire_status_text(status), reply_date(c->server), strlen(why) + 1, why);

	c->server->stats.refused++;
	conn_note(c, why);
	if (n < 0 || (size_t)n >= sizeof(text) || conn_put(c, text, (size_t)n) < 0) {
		conn_doom(c, WIRE_ABORTED);
		return;
	}
	conn_idle(c, false);
	conn_linger(c);
}

/* ---- heads ---- */

static int fill(struct wire_req *q, const struct h1_head *h, struct h1_fault *fault)
{
	size_t size = h->count * sizeof(*q->fields);

	q->fields = req_alloc(q, size ? size : 1);
	if (!q->fields) {
		*fault = (struct h1_fault){ 503, "out of memory" };
		return -1;
	}
	memcpy(q->fields, h->fields, size);
	q->count = h->count;
	q->version = h->minor ? WIRE_HTTP11 : WIRE_HTTP10;
	q->method_name = h->method;
	q->method = req_method_of(h->method);
	q->expects = h->expects && (h->chunked || h->length > 0);
	q->upgrade = h->upgrade;
	q->length = h->chunked ? -1 : h->length < 0 ? 0 : h->length;
	return req_set_target(q, (char *)h->target, h->host, fault);
}

static int parse(struct wire_req *q, const char *data, size_t len, struct h1_fault *fault)
{
	char *text = req_alloc(q, len + 1);
	struct h1_head h;

	*fault = (struct h1_fault){ 503, "out of memory" };
	if (!text)
		return -1;
	memcpy(text, data, len);
	if (h1_parse_request(&h, text, len, fault) < 0 || fill(q, &h, fault) < 0)
		return -1;
	q->conn->close_after |= h.close;
	return 0;
}

static void begin(struct conn *c, struct wire_req *q)
{
	struct wire_server *s = c->server;

	c->req = q;
	c->chunks = (struct h1_chunks){ 0 };
	c->body_chunked = q->length < 0;
	c->body_left = q->length > 0 ? (uint64_t)q->length : 0;
	c->body_open = c->body_chunked || c->body_left;
	q->body_whole_in = !c->body_open;
	c->dropped = 0;
	c->blanks = 0;
	c->in_ms = now_of(c);
	if (++c->requests >= WIRE_REQUESTS_PER_CONN || s->draining)
		c->close_after = true;
	s->stats.requests++;
	s->stats.live++;
	s->config.request(s->config.ctx, q);
}

/* Empty lines before a request: some clients sent them once. Returns what was skipped, or -1. */
static int skip_blanks(struct conn *c, const char *data, size_t len)
{
	size_t at = 0;

	while (len - at >= 2 && data[at] == '\r' && data[at + 1] == '\n') {
		at += 2;
		if (++c->blanks > WIRE_BLANK_LINES_MAX)
			return -1;
	}
	return (int)at;
}

/* A head, if it is complete; how much was used. */
static size_t take_head(struct conn *c, const char *data, size_t len)
{
	int blank = c->head_seen ? 0 : skip_blanks(c, data, len), n;
	struct h1_fault fault = { 400, "empty lines" };
	struct wire_req *q;

	if (blank > 0)
		return (size_t)blank;
	n = blank < 0 ? -1 : h1_head_end(data, len, &c->head_seen, &fault);
	if (n < 0) {
		h1_refuse(c, fault.status, fault.why);
		return len;
	}
	if (n == 0)
		return 0;
	c->head_seen = 0;
	q = req_create(c);
	if (!q) {
		conn_doom(c, WIRE_ABORTED);
		return len;
	}
	if (parse(q, data, (size_t)n, &fault) < 0) {
		req_destroy(q);
		h1_refuse(c, fault.status, fault.why);
		return len;
	}
	begin(c, q);
	return (size_t)n;
}

/* ---- bodies ---- */

static void body_arrived(struct conn *c)
{
	c->body_open = false;
	if (c->req)
		c->req->body_whole_in = true;
}

/*
 * The next piece of a body of either kind. H1_DATA, H1_MORE, H1_END, -EPROTO; *@data is moved on.
 */
static int next_piece(
	struct conn *c, const char **data, size_t *len, const char **ret, size_t *ret_len)
{
	if (c->body_chunked)
		return h1_chunks_next(&c->chunks, data, len, ret, ret_len);
	if (!c->body_left)
		return H1_END;
	*ret = *data;
	*ret_len = c->body_left < *len ? (size_t)c->body_left : *len;
	*data += *ret_len;
	*len -= *ret_len;
	c->body_left -= *ret_len;
	return *ret_len ? H1_DATA : H1_MORE;
}

/* Nobody reads it: pass it by, up to a limit. */
static size_t drop_body(struct conn *c, const char *data, size_t len)
{
	const char *at = data, *piece;
	size_t left = len, n;
	int r;

	while ((r = next_piece(c, &at, &left, &piece, &n)) == H1_DATA)
		;
	c->dropped += len - left;
	if (r == H1_END) {
		body_arrived(c);
	} else if (r < 0 || c->dropped > WIRE_DISCARD_MAX) {
		c->close_after = true;
		body_arrived(c);
		if (!c->req)
			conn_linger(c);
		return len;
	}
	return len - left;
}

static size_t pass_body(struct conn *c, const char *data, size_t len)
{
	struct wire_req *q = c->req;
	const char *at = data, *piece;
	size_t left = len, n;

	while (body_is_wanted(q) && !c->doomed) {
		int r = next_piece(c, &at, &left, &piece, &n);

		if (r == H1_DATA) {
			body_deliver(q, piece, n);
			if (c->body_chunked || c->body_left)
				continue;
			/* Also when the handler has just paused it: no byte follows that would
			 * bring us here again. */
			r = H1_END;
		}
		if (r == H1_END)
			body_arrived(c);
		else if (r < 0)
			q->body_fault = -EPROTO;
		break;
	}
	if (q->body_fault)
		c->close_after = true;
	return len - left;
}

/* The end of the body, or its failure, once the handler has had all before it. */
static void tell_end(struct conn *c)
{
	struct wire_req *q = c->req;

	if (!q || q->body != BODY_FLOWING || q->paused)
		return;
	if (q->raw) {
		if (c->eof && !c->held_len)
			body_tell_end(q, 0);
	} else if (q->body_fault) {
		body_tell_end(q, q->body_fault);
	} else if (q->body_whole_in) {
		body_tell_end(q, 0);
	}
}

static size_t step(struct conn *c, const char *data, size_t len)
{
	struct wire_req *q = c->req;

	if (c->kind == CONN_RAW) {
		if (!body_is_wanted(q))
			return q->body == BODY_OVER ? len : 0;
		body_deliver(q, data, len);
		return len;
	}
	if (c->body_open && (!q || (q->body == BODY_OVER && !q->body_fault)))
		return drop_body(c, data, len);
	if (q) {
		size_t used = c->body_open && body_is_wanted(q) ? pass_body(c, data, len) : 0;

		tell_end(c);
		return used;
	}
	return c->close_after ? len : take_head(c, data, len);
}

size_t h1_input(struct conn *c, const char *data, size_t len)
{
	size_t used = 0;

	while (used < len && !c->doomed) {
		size_t n = c->kind == CONN_LINGER ? len - used : step(c, data + used, len - used);

		if (!n)
			break;
		used += n;
	}
	return used;
}

bool h1_wants_input(const struct conn *c)
{
	const struct wire_req *q = c->req;

	if (c->held_len)
		return !q && !c->body_open; /* half a head */
	if (!q)
		return true;
	if (c->kind == CONN_RAW || c->body_open)
		return q->body == BODY_OVER || body_is_wanted(q);
	return true; /* to see the peer hang up, or the next request, of which a little is held */
}

/* ---- after a flush ---- */

static void raw_settle(struct conn *c)
{
	struct wire_req *q = c->req;

	if (q->reply != REPLY_ENDED || !out_is_empty(&c->out))
		return;
	if (!c->shut) {
		conn_shut(c);
		c->since_ms = now_of(c);
	}
	if (c->eof)
		conn_doom(c, WIRE_DONE);
}

static bool finish(struct conn *c)
{
	struct wire_req *q = c->req;

	c->req = NULL;
	c->since_ms = c->in_ms = now_of(c);
	if (q->body_fault)
		c->body_open = false; /* there is no telling what follows */
	if (q->expects)
		c->close_after = true; /* the body may come, or not */
	req_end(q, WIRE_DONE);
	if (c->close_after || c->server->draining || c->dropped > WIRE_DISCARD_MAX ||
		(c->body_open && !c->body_chunked && c->body_left > WIRE_DISCARD_MAX)) {
		if (c->eof)
			conn_doom(c, WIRE_DONE);
		else
			conn_linger(c);
		return true;
	}
	conn_idle(c, !c->held_len && !c->body_open && !c->eof);
	return true;
}

bool h1_settle(struct conn *c)
{
	struct wire_req *q = c->req;

	tell_end(c);
	if (!q) {
		if (c->eof && !c->held_len)
			conn_doom(c, WIRE_DONE);
		return false;
	}
	reply_drained(q);
	if (c->kind == CONN_RAW) {
		raw_settle(c);
		return false;
	}
	if (q->reply != REPLY_ENDED || !out_is_empty(&c->out))
		return false;
	return finish(c);
}
