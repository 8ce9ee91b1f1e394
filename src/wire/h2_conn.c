/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/h2_conn.c - HTTP/2 on a connection: the session, its frames and its limits.
 *
 * Owns:  the nghttp2 session.
 * Rules: nghttp2 checks the protocol; what it lets through in any amount is counted here: frames
 * that carry nothing, streams that are opened to be cancelled. The window of a stream is small
 * until a handler has asked for its body, so that strangers cannot fill memory.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "wire/impl.h"

enum { OUTPUT_BYTES = 128 * 1024, CHECK_MS = 5000 };

/* RFC 9113, 3.4 */
const char h2_preface[24] = { 'P', 'R', 'I', ' ', '*', ' ', 'H', 'T', 'T', 'P', '/', '2', '.', '0',
	'\r', '\n', '\r', '\n', 'S', 'M', '\r', '\n', '\r', '\n' };

static struct wire_req *stream_of(nghttp2_session *ng, int32_t id)
{
	return nghttp2_session_get_stream_user_data(ng, id);
}

static uint64_t next_check(const struct conn *c)
{
	const struct wire_config *f = &c->server->config;
	uint64_t wait = CHECK_MS;

	wait = f->body_ms < wait ? f->body_ms : wait;
	wait = f->write_ms < wait ? f->write_ms : wait;
	return loop_now_ms(c->server->loop) + wait;
}

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *f, void *ctx)
{
	struct conn *c = ctx;
	struct wire_req *q;

	if (f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	q = req_create(c);
	if (!q)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	q->version = WIRE_HTTP2;
	q->stream = f->hd.stream_id;
	q->end = WIRE_GONE;
	q->next = c->h2->streams;
	if (q->next)
		q->next->prev = q;
	c->h2->streams = q;
	if (!c->h2->count++)
		c->h2->check_ms = next_check(c);
	nghttp2_session_set_stream_user_data(ng, q->stream, q);
	return 0;
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *f, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *ctx)
{
	struct wire_req *q = stream_of(ng, f->hd.stream_id);
	struct conn *c = ctx;
	struct wire_server *s = c->server;
	struct h2 *h = c->h2;
	size_t before;

	(void)flags;
	if (!q || q->begun)
		return 0; /* a trailer */
	before = q->text.len;
	q->head_bytes += (unsigned)(name_len + value_len) + 32; /* as RFC 9113, 6.5.2 counts */
	if (q->head_bytes > WIRE_HEAD_MAX || q->text_count == WIRE_HEADERS_MAX)
		q->refuse = 431;
	else if (h->heads + name_len + value_len + 2 >
		 (s->heads > WIRE_H2_HEADS_SUM ? WIRE_H2_HEADS_EACH : WIRE_H2_HEADS_MAX))
		q->refuse = 503;
	if (q->refuse)
		return 0;
	buf_add(&q->text, name, name_len);
	buf_add(&q->text, "", 1);
	buf_add(&q->text, value, value_len);
	buf_add(&q->text, "", 1);
	h->heads += q->text.len - before;
	s->heads += q->text.len - before;
	q->text_count++;
	return 0;
}

/* Frames that make work and carry nothing: an allowance that comes back with time. */
static bool spend_frame(struct conn *c)
{
	struct h2 *h = c->h2;
	uint64_t now = loop_now_ms(c->server->loop), full = WIRE_H2_FRAMES_BURST * 1000ULL;
	uint64_t have = h->frames + (now - h->frames_ms) * WIRE_H2_FRAMES_PER_S;

	h->frames_ms = now;
	h->frames = (unsigned)(have < full ? have : full);
	if (h->frames < 1000)
		return false;
	h->frames -= 1000;
	return true;
}

static bool is_empty_frame(const nghttp2_frame *f)
{
	switch (f->hd.type) {
	case NGHTTP2_DATA:
		return f->hd.length == 0 && !(f->hd.flags & NGHTTP2_FLAG_END_STREAM);
	case NGHTTP2_PING:
	case NGHTTP2_SETTINGS:
	case NGHTTP2_PRIORITY:
	case NGHTTP2_RST_STREAM:
		return true;
	default:
		return false;
	}
}

static int on_frame_recv(nghttp2_session *ng, const nghttp2_frame *f, void *ctx)
{
	struct conn *c = ctx;
	struct wire_req *q;

	if (is_empty_frame(f) && !spend_frame(c)) {
		conn_note(c, "too many frames without data");
		nghttp2_session_terminate_session(ng, NGHTTP2_ENHANCE_YOUR_CALM);
		return 0;
	}
	if (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA)
		return 0;
	q = stream_of(ng, f->hd.stream_id);
	if (!q)
		return 0;
	if (f->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		q->body_whole_in = true;
		req_touch(q);
	}
	if (f->hd.type == NGHTTP2_HEADERS && !q->begun)
		h2_begin(q, !(f->hd.flags & NGHTTP2_FLAG_END_STREAM));
	return 0;
}

static int on_data(
	nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *ctx)
{
	struct conn *c = ctx;
	struct wire_req *q = stream_of(ng, id);

	(void)flags;
	if (!q) { /* answered: it gets no more window of its own, but others need theirs */
		nghttp2_session_consume_connection(ng, len);
		return 0;
	}
	q->in_ms = c->in_ms;
	return h2_data(q, (const char *)data, len) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void unread_reset(struct conn *c)
{
	struct h2 *h = c->h2;
	int32_t id = h->unread[0].stream;

	/* The rest of the body is not wanted (RFC 9113, 8.1). */
	if (nghttp2_session_find_stream(h->ng, id))
		nghttp2_submit_rst_stream(h->ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
	h->unread_count--;
	memmove(h->unread, h->unread + 1, h->unread_count * sizeof(h->unread[0]));
}

static void unread_add(struct conn *c, int32_t id)
{
	struct h2 *h = c->h2;

	if (h->unread_count == H2_UNREAD_MAX)
		unread_reset(c);
	h->unread[h->unread_count].stream = id;
	h->unread[h->unread_count++].at_ms = loop_now_ms(c->server->loop) + WIRE_LINGER_MS;
}

static int on_frame_send(nghttp2_session *ng, const nghttp2_frame *f, void *ctx)
{
	struct wire_req *q;

	(void)ctx;
	if ((f->hd.type != NGHTTP2_DATA && f->hd.type != NGHTTP2_HEADERS) ||
		!(f->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	q = stream_of(ng, f->hd.stream_id);
	if (!q)
		return 0;
	q->end_sent = true;
	if (!q->body_whole_in) {
		/* The stream stays open without us, for the peer to see the answer before the
		 * reset. */
		nghttp2_session_set_stream_user_data(ng, q->stream, NULL);
		unread_add(q->conn, q->stream);
		h2_stream_gone(q, WIRE_DONE);
	}
	return 0;
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *ctx)
{
	struct wire_req *q = stream_of(ng, id);

	(void)ctx;
	(void)code;
	if (q) {
		nghttp2_session_set_stream_user_data(ng, id, NULL);
		h2_stream_gone(q, q->end_sent ? WIRE_DONE : q->end);
	}
	return 0;
}

void h2_stream_gone(struct wire_req *q, enum wire_end how)
{
	struct conn *c = q->conn;
	struct h2 *h = c->h2;

	*(q->prev ? &q->prev->next : &h->streams) = q->next;
	if (q->next)
		q->next->prev = q->prev;
	h->held -= q->held.bytes;
	h->heads -= q->text.len;
	c->server->heads -= q->text.len;
	h->queued -= q->out.bytes;
	if (!--h->count)
		c->since_ms = loop_now_ms(c->server->loop);
	conn_idle(c, !h->count && !c->close_after);
	if (q->begun) {
		req_end(q, how);
		return;
	}
	q->dead = true; /* no handler has seen it */
	req_destroy(q);
}

static nghttp2_session_callbacks *make_callbacks(void)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&cb) != 0)
		return NULL;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	return cb;
}

static int make_session(struct conn *c)
{
	nghttp2_session_callbacks *cb = make_callbacks();
	nghttp2_option *opt = NULL;
	int r = -1;

	if (cb && nghttp2_option_new(&opt) == 0) {
		nghttp2_option_set_no_auto_window_update(opt, 1);
		nghttp2_option_set_no_closed_streams(opt, 1);
		nghttp2_option_set_max_outbound_ack(opt, WIRE_H2_ACKS_MAX);
		nghttp2_option_set_max_settings(opt, WIRE_H2_SETTINGS_MAX);
		nghttp2_option_set_stream_reset_rate_limit(
			opt, WIRE_H2_RESETS_BURST, WIRE_H2_RESETS_PER_S);
		r = nghttp2_session_server_new2(&c->h2->ng, cb, c, opt);
	}
	nghttp2_option_del(opt);
	nghttp2_session_callbacks_del(cb);
	return r == 0 ? 0 : -ENOMEM;
}

static int send_settings(nghttp2_session *ng)
{
	static const nghttp2_settings_entry s[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, WIRE_H2_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WIRE_H2_WINDOW_FIRST },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, WIRE_HEAD_MAX },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
	};

	if (nghttp2_submit_settings(ng, NGHTTP2_FLAG_NONE, s, sizeof(s) / sizeof(s[0])) != 0)
		return -ENOMEM;
	return nghttp2_session_set_local_window_size(
		       ng, NGHTTP2_FLAG_NONE, 0, WIRE_H2_WINDOW_CONN) == 0
		       ? 0
		       : -ENOMEM;
}

int h2_create(struct conn *c)
{
	c->h2 = calloc(1, sizeof(*c->h2));
	if (!c->h2 || make_session(c) < 0 || send_settings(c->h2->ng) < 0)
		return -ENOMEM;
	c->kind = CONN_H2;
	c->since_ms = c->h2->frames_ms = loop_now_ms(c->server->loop);
	c->h2->frames = WIRE_H2_FRAMES_BURST * 1000;
	return 0;
}

void h2_destroy(struct conn *c, enum wire_end how)
{
	while (c->h2->streams)
		h2_stream_gone(c->h2->streams, how);
	nghttp2_session_del(c->h2->ng);
	free(c->h2);
	c->h2 = NULL;
}

int h2_input(struct conn *c, const char *data, size_t len)
{
	ssize_t n = nghttp2_session_mem_recv(c->h2->ng, (const uint8_t *)data, len);

	if (n < 0)
		conn_note(c, nghttp2_strerror((int)n));
	return n < 0 ? -EPROTO : 0;
}

int h2_output(struct conn *c)
{
	while (c->out.bytes < OUTPUT_BYTES) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(c->h2->ng, &data);

		if (n < 0)
			return -EPROTO;
		if (n == 0)
			return 0;
		if (conn_put(c, data, (size_t)n) < 0)
			return -ENOMEM;
	}
	return 1;
}

bool h2_is_over(const struct conn *c)
{
	return !nghttp2_session_want_read(c->h2->ng) && !nghttp2_session_want_write(c->h2->ng);
}

void h2_goaway(struct conn *c)
{
	nghttp2_session *ng = c->h2->ng;

	c->close_after = true;
	c->since_ms = loop_now_ms(c->server->loop);
	conn_idle(c, false);
	if (nghttp2_submit_goaway(ng, NGHTTP2_FLAG_NONE,
		    nghttp2_session_get_last_proc_stream_id(ng), NGHTTP2_NO_ERROR, NULL, 0) != 0)
		conn_doom(c, WIRE_ABORTED);
}

void h2_check(struct conn *c)
{
	const struct wire_config *f = &c->server->config;
	uint64_t now = loop_now_ms(c->server->loop);

	while (c->h2->unread_count && c->h2->unread[0].at_ms <= now)
		unread_reset(c);
	if (c->h2->check_ms > now)
		return;
	for (struct wire_req *q = c->h2->streams; q; q = q->next) {
		if (!q->body_whole_in && body_is_wanted(q) && q->body_ms &&
			q->in_ms + q->body_ms <= now) {
			c->server->stats.timeouts++;
			q->body_fault = -ETIMEDOUT;
			req_touch(q);
		}
		if (!out_is_empty(&q->out) && q->out_ms + f->write_ms <= now) {
			c->server->stats.timeouts++;
			q->abort = true;
			q->end = WIRE_TIMEOUT;
			req_touch(q);
		}
	}
	c->h2->check_ms = next_check(c);
}

uint64_t h2_check_at(const struct conn *c)
{
	const struct h2 *h = c->h2;
	uint64_t at = h->count ? h->check_ms : 0;

	if (h->unread_count && (!at || h->unread[0].at_ms < at))
		at = h->unread[0].at_ms;
	return at;
}
