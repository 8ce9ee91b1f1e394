/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/conn_time.c - how long a connection may take for what.
 *
 * Owns:  the connection's timer.
 * Rules: what is going on decides what is waited for; the moment is worked out anew whenever the
 * timer fires. While bytes flow the timer is left alone, and finds out that it is early.
 */
#include <errno.h>

#include "wire/impl.h"

static uint64_t now_of(const struct conn *c)
{
	return loop_now_ms(c->server->loop);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

static uint64_t h1_deadline(const struct conn *c)
{
	const struct wire_config *f = &c->server->config;
	const struct wire_req *q = c->req;
	uint64_t at = 0;

	if (!out_is_empty(&c->out))
		at = c->out_ms + f->write_ms;
	if (c->kind == CONN_RAW)
		return c->shut ? least(at, c->since_ms + f->idle_ms) : at;
	if (!q && !c->body_open)
		return least(at, c->since_ms + (c->held_len ? f->head_ms : f->idle_ms));
	if (!c->body_open)
		return at;
	if (!q)
		return least(at, c->in_ms + f->body_ms);
	return body_is_wanted(q) && q->body_ms ? least(at, c->in_ms + q->body_ms) : at;
}

/* When something must have happened; 0: nothing need ever happen. */
static uint64_t deadline(struct conn *c)
{
	const struct wire_config *f = &c->server->config;
	uint64_t at = 0;

	switch (c->kind) {
	case CONN_TLS:
	case CONN_NEW:
		return c->since_ms + f->head_ms;
	case CONN_LINGER:
		at = c->in_ms > c->since_ms ? c->in_ms : c->since_ms;
		return least(at + WIRE_LINGER_MS, c->since_ms + WIRE_LINGER_ALL_MS);
	case CONN_H1:
	case CONN_RAW:
		return h1_deadline(c);
	case CONN_H2:
		if (!out_is_empty(&c->out))
			at = c->out_ms + f->write_ms;
		if (!c->h2->count)
			at = least(at, c->since_ms + f->idle_ms);
		return least(at, h2_check_at(c));
	}
	return at;
}

static void timed_out(struct conn *c)
{
	struct wire_req *q = c->req;
	uint64_t now = now_of(c);
	bool stuck = !out_is_empty(&c->out) && c->out_ms + c->server->config.write_ms <= now;

	c->server->stats.timeouts++;
	if (stuck) {
		conn_note(c, "peer does not read");
		conn_doom(c, WIRE_TIMEOUT);
	} else if (c->kind == CONN_H1 && q && body_is_wanted(q)) {
		q->body_fault = -ETIMEDOUT;
		c->close_after = true;
	} else if (c->kind == CONN_H1 && !q && !c->body_open && c->held_len) {
		conn_note(c, "head did not come in time");
		h1_refuse(c, 408, "the head did not come in time");
	} else {
		conn_doom(c, c->kind == CONN_RAW ? WIRE_DONE : WIRE_TIMEOUT);
	}
}

static void h2_timed_out(struct conn *c)
{
	const struct wire_config *f = &c->server->config;
	uint64_t now = now_of(c);
	bool idle = !c->h2->count && c->since_ms + f->idle_ms <= now;
	bool stuck = !out_is_empty(&c->out) && c->out_ms + f->write_ms <= now;

	h2_check(c);
	if (stuck || (idle && c->close_after))
		timed_out(c);
	else if (idle)
		h2_goaway(c);
}

static void timer_work(void *ctx)
{
	struct conn *c = ctx;
	uint64_t at;

	c->working = true;
	at = deadline(c);
	if (at && at <= now_of(c)) {
		if (c->kind == CONN_H2)
			h2_timed_out(c);
		else
			timed_out(c);
	}
	if (c->kind != CONN_TLS)
		conn_progress(c);
	conn_work_end(c);
}

/* A timer that is early looks again; so it is left alone while bytes flow. */
void conn_arm(struct conn *c)
{
	uint64_t at = deadline(c), now = now_of(c);

	if (!at || (c->timer.loop && c->timer.at_ms <= at + 1))
		return;
	if (loop_timer_set(c->server->loop, &c->timer, at > now ? at - now : 0, timer_work, c) < 0)
		conn_doom(c, WIRE_ABORTED);
}
