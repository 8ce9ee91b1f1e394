/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/reply.c - replies, whatever carries them.
 *
 * Owns:  nothing.
 * Rules: nothing is sent from here: it is queued, and the connection is told to look at the end of
 *        the turn. That makes one write of a status, headers and body that come in three calls.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "wire/impl.h"
#include "wire/text.h"

static const struct {
	unsigned status;
	const char *text;
} statuses[] = {
	{ 100, "Continue" },
	{ 101, "Switching Protocols" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 206, "Partial Content" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 422, "Unprocessable Content" },
	{ 426, "Upgrade Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 499, "Client Closed Request" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
};

const char *wire_status_text(unsigned status)
{
	for (unsigned i = 0; i < ARRAY_LEN(statuses); i++)
		if (statuses[i].status == status)
			return statuses[i].text;
	return "Status";
}

unsigned wire_status_of(int r)
{
	switch (r) {
	case -EMSGSIZE:
		return 413;
	case -EPROTO:
		return 400;
	case -ETIMEDOUT:
		return 408;
	case -ENOMEM:
	case -ENOBUFS:
		return 503;
	default:
		return 500;
	}
}

const char *reply_date(struct wire_server *s)
{
	int64_t now = clock_now_us() / 1000000;

	if (now != s->date_s) {
		s->date_s = now;
		http_date(now, s->date);
	}
	return s->date;
}

/* What describes the connection or the body's framing is written by those who know it. */
static bool is_ours(const char *name)
{
	static const char *const ours[] = { "Connection", "Content-Length", "Keep-Alive",
		"Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "Upgrade" };

	for (unsigned i = 0; i < ARRAY_LEN(ours); i++)
		if (strcasecmp(ours[i], name) == 0)
			return true;
	return false;
}

bool reply_has(const struct wire_req *q, const char *name)
{
	const char *p = q->head.data;

	for (unsigned i = 0; i < q->head_count; i++) {
		if (strcasecmp(p, name) == 0)
			return true;
		p += strlen(p) + 1;
		p += strlen(p) + 1;
	}
	return false;
}

int wire_reply_header(struct wire_req *q, const char *name, const char *value)
{
	size_t before = q->head.len;

	if (!h1_is_token(name) || !h1_is_value(value) || is_ours(name))
		return -EINVAL;
	if (q->reply != REPLY_NONE || q->dead)
		return -EALREADY;
	if (q->head_count == WIRE_REPLY_HEADERS_MAX)
		return -ENOBUFS;
	buf_add(&q->head, name, strlen(name) + 1);
	buf_add(&q->head, value, strlen(value) + 1);
	if (q->head.bad) {
		q->head.bad = false;
		buf_cut(&q->head, before);
		return -ENOBUFS;
	}
	q->head_count++;
	return 0;
}

int wire_reply_start(struct wire_req *q, unsigned status, int64_t length)
{
	if (q->dead)
		return -EPIPE;
	if (q->reply != REPLY_NONE)
		return -EALREADY;
	q->reply = REPLY_OPEN;
	q->status = status;
	q->bodiless = q->method == WIRE_HEAD || status == 204 || status == 304;
	q->reply_left = q->reply_declared = length;
	if (q->version != WIRE_HTTP2)
		h1_reply_start(q, length);
	req_touch(q);
	return 0;
}

/* May @len more bytes of body go out? 1: yes; 0: drop them; or a negative errno. */
static int may_write(struct wire_req *q, uint64_t len)
{
	if (q->dead || q->abort || q->conn->doomed || q->reply != REPLY_OPEN)
		return -EPIPE;
	if (q->bodiless || !len)
		return 0;
	if (q->reply_left < 0)
		return 1;
	if (len > (uint64_t)q->reply_left) { /* more than was promised: the framing would break */
		wire_reply_abort(q);
		return -EPIPE;
	}
	q->reply_left -= (int64_t)len;
	return 1;
}

size_t wire_reply_queued(const struct wire_req *q)
{
	return q->version == WIRE_HTTP2 ? q->out.bytes : q->conn->out.bytes;
}

/* Whether its writer has to wait until something is sent. Where many streams share a connection, or
 * many clients do not read, each may have less in the queue. */
static bool is_full(const struct wire_req *q)
{
	size_t queued = wire_reply_queued(q);

	if (queued >= WIRE_REPLY_HIGH ||
		(q->conn->server->stats.queued >= WIRE_QUEUED_MAX && queued >= WIRE_QUEUED_EACH))
		return true;
	return q->version == WIRE_HTTP2 && q->conn->h2->queued >= WIRE_H2_QUEUED_MAX &&
	       queued >= WIRE_H2_QUEUED_EACH;
}

void reply_drained(struct wire_req *q)
{
	if (!q->full || q->reply != REPLY_OPEN || wire_reply_queued(q) > q->drain_at)
		return;
	q->full = false;
	if (q->on->drained)
		q->on->drained(q->ctx, q);
}

static int put(struct wire_req *q, const void *data, size_t len)
{
	if (q->version != WIRE_HTTP2)
		return h1_reply_write(q, data, len);
	if (out_put(&q->out, data, len) < 0)
		return -ENOMEM;
	q->conn->h2->queued += len;
	return 0;
}

int wire_reply_write(struct wire_req *q, const void *data, size_t len)
{
	int r = may_write(q, len);

	if (r <= 0)
		return r;
	r = put(q, data, len);
	if (r < 0 || wire_reply_queued(q) > WIRE_REPLY_MAX) {
		wire_reply_abort(q);
		return -EPIPE;
	}
	req_touch(q);
	if (!q->full && is_full(q)) {
		q->full = true;
		q->drain_at = wire_reply_queued(q) / 4;
		if (q->drain_at > WIRE_REPLY_LOW)
			q->drain_at = WIRE_REPLY_LOW;
	}
	return q->full;
}

int wire_reply_file(struct wire_req *q, int fd, uint64_t offset, uint64_t len)
{
	int r = may_write(q, len);

	if (r <= 0) {
		close(fd);
		return r;
	}
	r = q->version == WIRE_HTTP2 ? out_put_file(&q->out, fd, offset, len)
				     : h1_reply_file(q, fd, offset, len);
	if (r < 0) {
		wire_reply_abort(q);
		return -EPIPE;
	}
	req_touch(q);
	return 0;
}

void wire_reply_end(struct wire_req *q)
{
	if (q->dead || q->reply != REPLY_OPEN)
		return;
	if (q->reply_left > 0 && !q->bodiless && !q->raw) {
		wire_reply_abort(q);
		return;
	}
	q->reply = REPLY_ENDED;
	if (q->version != WIRE_HTTP2)
		h1_reply_end(q);
	req_touch(q);
}

void wire_reply(struct wire_req *q, unsigned status, const char *type, const void *data, size_t len)
{
	if (type)
		wire_reply_header(q, "Content-Type", type);
	if (wire_reply_start(q, status, (int64_t)len) < 0)
		return;
	wire_reply_write(q, data, len);
	wire_reply_end(q);
}

void wire_reply_text(struct wire_req *q, unsigned status, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, args);
	va_end(args);
	if (n < 0)
		n = 0;
	if ((size_t)n > sizeof(text) - 2)
		n = (int)sizeof(text) - 2;
	text[n++] = '\n';
	wire_reply(q, status, "text/plain; charset=utf-8", text, (size_t)n);
}

void wire_reply_abort(struct wire_req *q)
{
	if (q->dead)
		return;
	if (q->version == WIRE_HTTP2)
		q->abort = true;
	else
		conn_doom(q->conn, WIRE_ABORTED);
	req_touch(q);
}

bool wire_reply_started(const struct wire_req *q)
{
	return q->reply != REPLY_NONE;
}

unsigned wire_reply_status(const struct wire_req *q)
{
	return q->status;
}

int wire_reply_upgrade(struct wire_req *q, const char *protocol)
{
	int r;

	if (q->dead)
		return -EPIPE;
	if (!q->upgrade || q->reply != REPLY_NONE || !h1_is_value(protocol))
		return -EINVAL;
	r = h1_upgrade(q, protocol);
	req_touch(q);
	return r;
}
