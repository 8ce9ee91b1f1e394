/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/proxy.c - one request through a byte stream to another server.
 *
 * Owns:  struct wire_proxy: what waits for the stream, and what came from it and waits for the
 * client. Rules: the ops are called in proxy_work() and when the request ends, both from the loop.
 * Bytes of the client are held back (pause) while the stream takes none, bytes of the stream (no
 * `took`) while the client takes none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "loop/loop.h"
#include "wire/out.h"
#include "wire/proxy_impl.h"

enum phase {
	IN_HEAD,   /* of the answer */
	IN_LENGTH, /* @left bytes of body */
	IN_CHUNKS,
	IN_ALL, /* body until the end of the stream */
	IN_RAW, /* upgraded */
	IN_NONE /* whatever comes is dropped */
};

struct wire_proxy {
	struct wire_req *q;
	const struct wire_stream_ops *ops;
	void *io;
	struct loop *loop;
	struct loop_later later;
	struct loop_timer timer;
	struct out to_far; /* written, and not taken by the stream */
	bool chunked;      /* the request's body is sent in chunks */
	bool paused;       /* the client's body waits for the stream */
	bool raw;          /* upgraded */
	bool shut_asked, shut, deaf;
	enum phase phase;
	struct buf head;
	size_t head_seen;
	struct h1_chunks chunks;
	uint64_t left;
	struct out held; /* from the far side, for a client that is full */
	size_t took;     /* to be told */
	bool full, eof;
};

static void proxy_work(void *ctx);

static void touch(struct wire_proxy *p)
{
	loop_later_set(p->loop, &p->later, proxy_work, p);
}

/* No way on: an answer if none has begun, else a cut. */
static void give_up(struct wire_proxy *p, unsigned status, const char *why)
{
	p->phase = IN_NONE;
	loop_timer_cancel(&p->timer);
	if (wire_reply_started(p->q))
		wire_reply_abort(p->q);
	else if (p->ops->refuse)
		p->ops->refuse(p->io, p->q, status, why);
	else
		wire_reply_text(p->q, status, "%s", why);
}

/* Often it is a server of another protocol, such as HTTP/2 alone: who reads this should know. */
static void no_answer(struct wire_proxy *p, const char *why)
{
	char text[128];

	snprintf(text, sizeof(text), "the server's answer cannot be read as HTTP/1.1: %s", why);
	give_up(p, 502, text);
}

/* ---- from the client ---- */

static void to_far(struct wire_proxy *p, const void *data, size_t len)
{
	if (p->deaf)
		return;
	if (out_put(&p->to_far, data, len) < 0)
		wire_reply_abort(p->q);
	touch(p);
}

static void on_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	struct wire_proxy *p = ctx;
	char size[24];

	if (p->chunked) {
		int n = snprintf(size, sizeof(size), "%zx\r\n", len);

		to_far(p, size, (size_t)n);
	}
	to_far(p, data, len);
	if (p->chunked)
		to_far(p, "\r\n", 2);
	if (p->to_far.bytes >= WIRE_PROXY_HELD_MAX && !p->paused) {
		p->paused = true;
		wire_body_pause(q);
	}
}

static void on_body_end(void *ctx, struct wire_req *q, int r)
{
	struct wire_proxy *p = ctx;

	(void)q;
	if (p->raw) {
		p->shut_asked = true;
		touch(p);
	} else if (r < 0) {
		give_up(p, wire_status_of(r), "the request's body did not come whole");
	} else if (p->chunked) {
		to_far(p, "0\r\n\r\n", 5);
	}
}

static void on_drained(void *ctx, struct wire_req *q)
{
	struct wire_proxy *p = ctx;

	(void)q;
	p->full = false;
	touch(p);
}

static void on_ended(void *ctx, struct wire_req *q, enum wire_end how)
{
	struct wire_proxy *p = ctx;

	(void)q;
	(void)how;
	loop_later_cancel(&p->later);
	loop_timer_cancel(&p->timer);
	p->ops->close(p->io);
	out_done(&p->to_far);
	out_done(&p->held);
	buf_done(&p->head);
	free(p);
}

static const struct wire_events events = { on_body, on_body_end, on_drained, on_ended };

/* ---- from the far side ---- */

static void answer_over(struct wire_proxy *p)
{
	p->phase = IN_NONE;
	wire_reply_end(p->q);
}

static void begin_raw(struct wire_proxy *p, const struct h1_head *h)
{
	proxy_copy_headers(p->q, h);
	if (!wire_upgrade_asked(p->q) || !h->upgrade || wire_reply_upgrade(p->q, h->upgrade) < 0) {
		give_up(p, 502, "an upgrade that was not asked for");
		return;
	}
	p->phase = IN_RAW;
	p->raw = true;
}

static void begin_answer(struct wire_proxy *p, const struct h1_head *h)
{
	bool bodiless = wire_method(p->q) == WIRE_HEAD || h->status == 204 || h->status == 304;

	proxy_copy_headers(p->q, h);
	if (wire_reply_start(p->q, h->status, h->chunked ? -1 : h->length) < 0) {
		p->phase = IN_NONE;
		return;
	}
	p->left = h->length > 0 ? (uint64_t)h->length : 0;
	p->phase = h->chunked ? IN_CHUNKS : h->length < 0 ? IN_ALL : IN_LENGTH;
	if (bodiless || (p->phase == IN_LENGTH && !p->left))
		answer_over(p);
}

static void head_over(struct wire_proxy *p, size_t len)
{
	struct h1_fault fault = { 502, "" };
	struct h1_head h;

	if (h1_parse_response(&h, p->head.data, len, &fault) < 0) {
		no_answer(p, fault.why);
		return;
	}
	if (h.status >= 200 || h.status == 101)
		loop_timer_cancel(&p->timer);
	if (h.status == 101)
		begin_raw(p, &h);
	else if (h.status >= 200)
		begin_answer(p, &h);
	/* else: 100 Continue and its like are between the two of us */
	buf_cut(&p->head, 0);
	p->head_seen = 0;
	if (p->phase != IN_HEAD)
		buf_done(&p->head);
}

/* Bytes of a head; how many of them belong to it. */
static size_t take_head(struct wire_proxy *p, const char *data, size_t len)
{
	size_t before = p->head.len;
	struct h1_fault fault = { 502, "the answer's head is too large" };
	int n;

	/* No more than the limit is kept, so that what follows the head stays where it is. */
	if (len > WIRE_HEAD_MAX + 1 - before)
		len = WIRE_HEAD_MAX + 1 - before;
	buf_add(&p->head, data, len);
	n = p->head.bad ? -1 : h1_head_end(p->head.data, p->head.len, &p->head_seen, &fault);
	if (n < 0) {
		no_answer(p, fault.why);
		return len;
	}
	if (n == 0)
		return len;
	head_over(p, (size_t)n);
	return (size_t)n - before;
}

static void reply(struct wire_proxy *p, const char *data, size_t len)
{
	int r = wire_reply_write(p->q, data, len);

	p->full |= r == 1;
	if (r < 0)
		p->phase = IN_NONE;
}

static size_t take_chunks(struct wire_proxy *p, const char *data, size_t len)
{
	const char *at = data, *piece;
	size_t left = len, n;
	int r = H1_DATA;

	while (!p->full && p->phase == IN_CHUNKS &&
		(r = h1_chunks_next(&p->chunks, &at, &left, &piece, &n)) == H1_DATA)
		reply(p, piece, n);
	if (r == H1_END)
		answer_over(p);
	else if (r < 0)
		give_up(p, 502, "malformed chunks in the answer");
	return len - left;
}

/* How many bytes were used; fewer than there are when the client is full. */
static size_t use_input(struct wire_proxy *p, const char *data, size_t len)
{
	switch (p->phase) {
	case IN_HEAD:
		return take_head(p, data, len);
	case IN_CHUNKS:
		return take_chunks(p, data, len);
	case IN_LENGTH:
		if (len > p->left)
			len = (size_t)p->left;
		p->left -= len;
		reply(p, data, len);
		if (!p->left)
			answer_over(p);
		return len;
	case IN_ALL:
	case IN_RAW:
		reply(p, data, len);
		return len;
	case IN_NONE:
		break;
	}
	return len;
}

static size_t use_all(struct wire_proxy *p, const char *data, size_t len)
{
	size_t used = 0;

	while (used < len && !p->full)
		used += use_input(p, data + used, len - used);
	p->took += used;
	return used;
}

void wire_proxy_input(struct wire_proxy *p, const void *data, size_t len)
{
	size_t used = out_is_empty(&p->held) ? use_all(p, data, len) : 0;

	touch(p);
	if (used == len)
		return;
	if (p->held.bytes + len - used > WIRE_PROXY_HELD_MAX ||
		out_put(&p->held, (const char *)data + used, len - used) < 0)
		give_up(p, 502, "the stream sends more than it may");
}

static void use_held(struct wire_proxy *p)
{
	struct iovec piece;

	while (!p->full && out_front(&p->held, &piece, 1) == 1)
		out_gone(&p->held, use_all(p, piece.iov_base, piece.iov_len));
}

/* The stream has ended, and all before its end has been used. */
static void far_ended(struct wire_proxy *p)
{
	switch (p->phase) {
	case IN_HEAD:
		give_up(p, 502, "the server closed the connection without an answer");
		break;
	case IN_LENGTH:
	case IN_CHUNKS:
		give_up(p, 502, "the answer is cut short");
		break;
	case IN_ALL:
	case IN_RAW:
		answer_over(p);
		break;
	case IN_NONE:
		break;
	}
}

void wire_proxy_eof(struct wire_proxy *p)
{
	p->eof = true;
	touch(p);
}

void wire_proxy_failed(struct wire_proxy *p, const char *why)
{
	p->deaf = p->eof = true;
	out_done(&p->to_far);
	if (p->phase == IN_HEAD)
		give_up(p, 502, why);
	touch(p);
}

void wire_proxy_writable(struct wire_proxy *p)
{
	touch(p);
}

/* ---- the stream ---- */

static void write_far(struct wire_proxy *p)
{
	struct iovec piece;

	while (!p->deaf && out_front(&p->to_far, &piece, 1) == 1) {
		ssize_t n = p->ops->write(p->io, piece.iov_base, piece.iov_len);

		if (n == 0)
			break;
		if (n < 0) { /* it may have answered before it stopped to listen */
			p->deaf = true;
			out_done(&p->to_far);
			break;
		}
		out_gone(&p->to_far, (uint64_t)n);
	}
	if (p->paused && p->to_far.bytes < WIRE_PROXY_HELD_MAX / 4) {
		p->paused = false;
		wire_body_resume(p->q);
	}
	if (p->shut_asked && !p->shut && !p->deaf && out_is_empty(&p->to_far)) {
		p->shut = true;
		p->ops->shut(p->io);
	}
}

static void proxy_work(void *ctx)
{
	struct wire_proxy *p = ctx;
	size_t took;

	write_far(p);
	use_held(p);
	if (p->eof && out_is_empty(&p->held))
		far_ended(p);
	took = p->took;
	p->took = 0;
	if (took)
		p->ops->took(p->io, took);
}

static void head_late(void *ctx)
{
	give_up(ctx, 504, "the server did not answer in time");
}

/* ---- begin ---- */

static int begin(struct wire_proxy *p, const struct wire_proxy_options *o, struct err *e)
{
	own_buf struct buf head;
	int r;

	buf_init(&head, WIRE_HEAD_MAX * 2);
	r = proxy_write_head(&head, p->q, o);
	if (r == 0)
		r = out_put(&p->to_far, head.data, head.len);
	if (r == 0)
		r = loop_timer_set(p->loop, &p->timer, o->head_ms ? o->head_ms : WIRE_PROXY_HEAD_MS,
			head_late, p);
	return r < 0 ? err_set(e, -r, "passing a request on") : 0;
}

int wire_proxy_start(struct wire_req *q, const struct wire_stream_ops *ops, void *io,
	const struct wire_proxy_options *options, struct wire_proxy **ret, struct err *e)
{
	static const struct wire_proxy_options none;
	const struct wire_proxy_options *o = options ? options : &none;
	struct wire_proxy *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(e, ENOMEM, "passing a request on");
	p->q = q;
	p->ops = ops;
	p->io = io;
	p->loop = wire_req_loop(q);
	p->chunked = wire_body_length(q) < 0;
	buf_init(&p->head, WIRE_HEAD_MAX + 1);
	r = begin(p, o, e);
	if (r < 0) {
		out_done(&p->to_far);
		free(p);
		return r;
	}
	wire_on(q, &events, p);
	wire_body_patience(q, 0); /* how slow is too slow, the far side decides */
	if (!wire_upgrade_asked(q) &&
		wire_body_accept(q, o->body_max ? o->body_max : UINT64_MAX) < 0) {
		out_done(&p->to_far);
		give_up(p, 413, "the request's body is too long");
	}
	touch(p);
	*ret = p;
	return 0;
}
