/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/body.c - the body of a request, whatever carried it.
 *
 * Owns:  nothing.
 * Rules: `body` and `body_end` are called from here alone, and only inside conn_work(). The end is
 *        told once; after that the rest of the body is nobody's business.
 */
#include <errno.h>

#include "wire/impl.h"

int64_t wire_body_length(const struct wire_req *q)
{
	return q->length;
}

int wire_body_accept(struct wire_req *q, uint64_t max)
{
	if (q->dead)
		return 0;
	if (q->body != BODY_WAITING)
		return -EALREADY;
	if (q->length > 0 && (uint64_t)q->length > max)
		return -EMSGSIZE;
	q->body = BODY_FLOWING;
	q->body_max = max;
	q->in_ms = q->conn->in_ms = loop_now_ms(q->conn->server->loop);
	if (q->version == WIRE_HTTP2)
		h2_body_begin(q);
	else
		h1_continue(q);
	req_touch(q);
	return 0;
}

int wire_body_whole(struct wire_req *q, size_t max,
	void (*whole)(void *ctx, struct wire_req *q, const char *data, size_t len, int r))
{
	int r = wire_body_accept(q, max);

	if (r < 0 || q->dead)
		return r;
	q->whole = whole;
	buf_init(&q->whole_data, max + 1);
	return 0;
}

void wire_body_patience(struct wire_req *q, uint32_t ms)
{
	q->body_ms = ms;
	if (!q->dead)
		req_touch(q);
}

void wire_body_pause(struct wire_req *q)
{
	q->paused = true;
}

void wire_body_resume(struct wire_req *q)
{
	if (!q->paused || q->dead)
		return;
	q->paused = false;
	q->in_ms = q->conn->in_ms = loop_now_ms(q->conn->server->loop);
	req_touch(q);
}

bool body_is_wanted(const struct wire_req *q)
{
	return q->body == BODY_FLOWING && !q->paused && !q->body_fault;
}

bool body_deliver(struct wire_req *q, const char *data, size_t len)
{
	q->body_got += len;
	if (q->body_got > q->body_max) {
		q->body_fault = -EMSGSIZE;
		return false;
	}
	if (q->whole && !wire_hold(q, len)) {
		q->body_fault = -ENOBUFS;
		return false;
	}
	if (q->whole)
		buf_add(&q->whole_data, data, len);
	else if (q->on->body)
		q->on->body(q->ctx, q, data, len);
	return true;
}

void body_tell_end(struct wire_req *q, int r)
{
	if (q->body == BODY_OVER)
		return;
	q->body = BODY_OVER;
	if (q->whole) {
		if (r == 0 && q->whole_data.bad)
			r = -ENOMEM;
		if (r == 0 && q->whole_data.data)
			q->whole(q->ctx, q, q->whole_data.data, q->whole_data.len, 0);
		else
			q->whole(q->ctx, q, "", 0, r);
		buf_done(&q->whole_data);
	} else if (q->on->body_end) {
		q->on->body_end(q->ctx, q, r);
	}
}
