/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/h1_reply.c - HTTP/1.1 on a connection: replies go out.
 *
 * Owns:  nothing.
 * Rules: into the connection's queue, which is flushed at the end of the turn.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/impl.h"

void h1_continue(struct wire_req *q)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (!q->expects || q->reply != REPLY_NONE)
		return;
	q->expects = false;
	if (conn_put(q->conn, text, sizeof(text) - 1) < 0)
		conn_doom(q->conn, WIRE_ABORTED);
}

static void add_headers(struct buf *b, const struct wire_req *q)
{
	const char *p = q->head.data;

	for (unsigned i = 0; i < q->head_count; i++) {
		size_t n = strlen(p);

		buf_add(b, p, n);
		p += n + 1;
		n = strlen(p);
		buf_add(b, ": ", 2);
		buf_add(b, p, n);
		buf_add(b, "\r\n", 2);
		p += n + 1;
	}
}

static void begin_head(struct buf *b, struct wire_req *q)
{
	struct wire_server *s = q->conn->server;

	buf_init(b, WIRE_REPLY_HEAD_MAX * 2);
	buf_add_fmt(b, "HTTP/1.1 %u %s\r\n", q->status, wire_status_text(q->status));
	if (!reply_has(q, "Date"))
		buf_add_fmt(b, "Date: %s\r\n", reply_date(s));
	if (s->config.name && !reply_has(q, "Server"))
		buf_add_fmt(b, "Server: %s\r\n", s->config.name);
	add_headers(b, q);
}

static void send_head(struct buf *b, struct wire_req *q)
{
	buf_add(b, "\r\n", 2);
	if (b->bad || conn_put(q->conn, b->data, b->len) < 0)
		conn_doom(q->conn, WIRE_ABORTED);
}

/* Must the connection end with this reply? Said now, or the peer would send on into the void. */
static bool must_close(const struct wire_req *q, int64_t length)
{
	const struct conn *c = q->conn;

	if (c->close_after || c->server->draining || q->body_fault)
		return true;
	if (length < 0 && q->version == WIRE_HTTP10 && !q->bodiless)
		return true;
	return q->body == BODY_WAITING && c->body_open &&
	       (q->expects || q->length > WIRE_DISCARD_MAX);
}

void h1_reply_start(struct wire_req *q, int64_t length)
{
	struct conn *c = q->conn;
	own_buf struct buf b;

	begin_head(&b, q);
	if (length >= 0 && q->status != 204) {
		buf_add_fmt(&b, "Content-Length: %" PRId64 "\r\n", length);
	} else if (!q->bodiless && q->version == WIRE_HTTP11) {
		q->chunked = true;
		buf_add_str(&b, "Transfer-Encoding: chunked\r\n");
	}
	if (must_close(q, length)) {
		c->close_after = true;
		buf_add_str(&b, "Connection: close\r\n");
	} else if (q->version == WIRE_HTTP10) {
		buf_add_str(&b, "Connection: keep-alive\r\n");
	}
	send_head(&b, q);
}

static int put(struct conn *c, const void *data, size_t len, int r)
{
	return r < 0 ? r : conn_put(c, data, len);
}

int h1_reply_write(struct wire_req *q, const void *data, size_t len)
{
	struct conn *c = q->conn;
	char size[24];
	int n, r;

	if (!q->chunked)
		return conn_put(c, data, len);
	n = snprintf(size, sizeof(size), "%zx\r\n", len);
	r = put(c, size, (size_t)n, 0);
	r = put(c, data, len, r);
	return put(c, "\r\n", 2, r);
}

int h1_reply_file(struct wire_req *q, int fd, uint64_t offset, uint64_t len)
{
	struct conn *c = q->conn;
	char size[24];
	int n, r = 0;

	if (q->chunked) {
		n = snprintf(size, sizeof(size), "%" PRIx64 "\r\n", len);
		r = put(c, size, (size_t)n, 0);
	}
	if (out_is_empty(&c->out))
		c->out_ms = loop_now_ms(c->server->loop);
	if (out_put_file(&c->out, fd, offset, len) < 0)
		r = -ENOMEM;
	return q->chunked ? put(c, "\r\n", 2, r) : r;
}

void h1_reply_end(struct wire_req *q)
{
	if (q->chunked && conn_put(q->conn, "0\r\n\r\n", 5) < 0)
		conn_doom(q->conn, WIRE_ABORTED);
}

int h1_upgrade(struct wire_req *q, const char *protocol)
{
	own_buf struct buf b;

	q->status = 101;
	q->reply = REPLY_OPEN;
	q->raw = true;
	q->reply_left = -1;
	q->body = BODY_FLOWING;
	q->body_max = UINT64_MAX;
	q->conn->kind = CONN_RAW;
	begin_head(&b, q);
	buf_add_fmt(&b, "Connection: Upgrade\r\nUpgrade: %s\r\n", protocol);
	send_head(&b, q);
	return 0;
}
