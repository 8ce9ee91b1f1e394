/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/rest/daemon.c - /ward/v1: events, pools, templates.
 *
 * Owns:  the stream of events (SSE).
 * Rules: a reader that is too slow loses the oldest events, and is told how many; it holds nobody
 * up.
 */
#include <inttypes.h>

#include "base/json.h"
#include "base/parse.h"
#include "base/str.h"
#include "front/call.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/rest/handlers.h"
#include "front/rest/shapes.h"

enum { BEAT_MS = 15 * 1000, EVENT_BYTES_MAX = 64 * 1024 };

struct reader {
	struct hub_events *events;
	uint64_t lost;
	bool full;
};

static void reader_ended(struct call *c)
{
	struct reader *r = c->state;

	hub_events_close(r->events);
}

static int send_event(struct call *c, const struct hub_event *ev)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, EVENT_BYTES_MAX);
	/* No blank after the colon: the JSON writer would take it for the end of a member. */
	buf_add_fmt(&b, "id: %" PRIu64 "\nevent: %s\ndata:", ev->seq, ev->kind);
	json_open(&b, NULL);
	json_u64(&b, "seq", ev->seq);
	rest_json_time(&b, "at", ev->at_us);
	json_str(&b, "kind", ev->kind);
	json_str(&b, "id", ev->id);
	json_str(&b, "tenant", ev->tenant);
	json_str(&b, "reason", ev->reason);
	json_str(&b, "trace", ev->trace);
	json_close(&b);
	buf_add_str(&b, "\n\n");
	return b.bad ? 0 : wire_reply_write(c->q, b.data, b.len);
}

static void beat(void *ctx)
{
	struct call *c = ctx;

	wire_reply_write(c->q, ": \n\n", 4);
	loop_timer_set(c->front->loop, &c->timers[0], BEAT_MS, beat, c);
}

static void say_lost(struct call *c, struct reader *r)
{
	uint64_t lost = hub_events_lost(r->events);
	own_buf struct buf b = { 0 };

	if (lost == r->lost)
		return;
	buf_init(&b, 256);
	buf_add_fmt(&b, "event: lost\ndata: {\"lost\":%" PRIu64 "}\n\n", lost - r->lost);
	r->lost = lost;
	wire_reply_write(c->q, b.data, b.len);
}

static void take(void *arg)
{
	struct call *c = arg;
	struct reader *r = c->state;
	struct hub_event ev;

	while (!r->full && hub_events_next(r->events, &ev) > 0)
		r->full = send_event(c, &ev) != 0;
	say_lost(c, r);
	loop_timer_set(c->front->loop, &c->timers[0], BEAT_MS, beat, c);
}

static void on_drained(struct call *c)
{
	struct reader *r = c->state;

	r->full = false;
	take(c);
}

/* Last-Event-ID, or ?since=: what came after that. */
void ward_events(struct call *c)
{
	const char *last = wire_header(c->q, "Last-Event-ID"), *since = call_query(c, "since");
	struct reader *r = call_alloc(c, sizeof(*r));
	uint64_t from = 0;

	if (!r)
		return;
	last = last ? last : since;
	if (last && parse_u64(last, 0, UINT64_MAX, &from) < 0) {
		call_fail(c, 400, "the number of an event is no number");
		return;
	}
	r->events = hub_events_open(c->front->hub, &c->who, from, take, c);
	if (!r->events) {
		call_fail(c, 429, "too many readers of events");
		return;
	}
	c->state = r;
	c->on_ended = reader_ended;
	c->on_drained = on_drained;
	wire_reply_header(c->q, "Content-Type", "text/event-stream");
	wire_reply_header(c->q, "Cache-Control", "no-store");
	wire_reply_start(c->q, 200, -1);
	wire_reply_write(c->q, ": ward\n\n", 8);
	take(c);
}

static void add_pool(void *arg, const struct hub_pool *p)
{
	struct buf *b = arg;

	json_open(b, NULL);
	json_str(b, "template", p->template);
	json_u64(b, "min", p->min);
	json_u64(b, "max", p->max);
	json_str(b, "warm_up", p->warm_up);
	json_u64(b, "ready", p->ready);
	json_u64(b, "starting", p->starting);
	json_u64(b, "hits", p->hits);
	json_u64(b, "misses", p->misses);
	json_u64(b, "made", p->made);
	json_u64(b, "shrunk", p->shrunk);
	rest_json_time(b, "oldest", p->oldest_us);
	rest_json_time(b, "newest", p->newest_us);
	json_str(b, "trouble", p->trouble);
	json_close(b);
}

static void add_empty(void *arg, const struct hub_empty *m)
{
	struct buf *b = arg;

	json_open(b, NULL);
	json_str(b, "tier", wall_name(m->tier));
	json_u64(b, "max", m->max);
	json_u64(b, "target", m->target);
	json_u64(b, "ready", m->ready);
	json_u64(b, "starting", m->starting);
	json_u64(b, "hits", m->hits);
	json_u64(b, "misses", m->misses);
	json_u64(b, "made", m->made);
	json_u64(b, "lost", m->lost);
	json_str(b, "trouble", m->trouble);
	json_close(b);
}

void ward_pools(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_JSON_MAX);
	if (!c->who.is_operator) {
		call_fail(c, 403, "pools are the operator's");
		return;
	}
	json_open(&b, NULL);
	json_array(&b, "pools");
	hub_pool_list(c->front->hub, add_pool, &b);
	json_array_end(&b);
	json_array(&b, "empty");
	hub_empty_list(c->front->hub, add_empty, &b);
	json_array_end(&b);
	json_close(&b);
	call_json(c, 200, &b);
}

void ward_pool_set(struct call *c)
{
	own_jin struct jin *doc = NULL;
	const char *warm_up = "";
	int64_t min = 0, max = 0;
	struct hub_fail f = { 0 };
	struct err e = { 0 };
	int r;

	if (!call_parse(c, &doc))
		return;
	r = jin_i64(doc, "min", 0, UINT32_MAX, &min, &e);
	if (r >= 0)
		r = jin_i64(doc, "max", 0, UINT32_MAX, &max, &e);
	if (r >= 0)
		r = jin_str(doc, "warm_up", &warm_up, &e);
	if (call_failed(c, r, &e))
		return;
	if (hub_pool_set(c->front->hub, &c->who, c->args[0], (unsigned)min, (unsigned)max, warm_up,
		    &f) < 0)
		call_fail_hub(c, &f);
	else
		call_empty(c, 204);
}

static void add_template(void *arg, const struct hub_template *t)
{
	struct buf *b = arg;

	json_open(b, NULL);
	json_str(b, "name", t->name);
	json_str(b, "means", t->means);
	json_str(b, "tier", t->tier == WALL_NONE ? NULL : wall_name(t->tier));
	rest_json_time(b, "created", t->created_us);
	json_close(b);
}

void ward_templates(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	json_open(&b, NULL);
	json_array(&b, "templates");
	hub_templates(c->front->hub, &c->who, add_template, &b);
	json_array_end(&b);
	json_close(&b);
	call_json(c, 200, &b);
}
