/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/control.c - the control plane: one sandbox at a time.
 *
 * Owns:  the handlers of /sandboxes/{id} and below.
 * Rules: translates. An error's body has its status as `code`, which is what clients look at.
 */
#include <errno.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/boxes.h"
#include "front/e2b/control.h"
#include "front/e2b/handlers.h"
#include "front/front_impl.h"
#include "front/limits.h"

enum { CONNECT_V1_S = 300, TIMEOUT_MAX_S = 366 * 24 * 3600, LOGS_MAX = 1000 };

const char *control_id(struct call *c)
{
	size_t n = strspn(c->args[0], "abcdefghijklmnopqrstuvwxyz0123456789");

	if (n == 0 || (c->args[0][n] != '\0' && c->args[0][n] != '-')) {
		call_fail(c, 400, "this is no sandbox id");
		return NULL;
	}
	((char *)c->args[0])[n] = '\0'; /* it lies in the request's own memory */
	return c->args[0];
}

/* 204 for those whose success has no body. */
static void on_done(void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;

	if (!call_verb_failed(c, fail))
		call_empty(c, 204);
}

static void send_sandbox(struct call *c, unsigned status, const struct hub_box *box)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_JSON_MAX);
	box_json_sandbox(&b, box, hub_domain(c->front->hub));
	call_json(c, status, &b);
}

/* 201: it had to be resumed. */
static void on_connected(
	void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;

	if (!call_verb_failed(c, fail))
		send_sandbox(c, changed ? 201 : 200, box);
}

void e2b_info(struct call *c)
{
	const char *id = control_id(c);
	struct hub_fail f = { 0 };
	own_buf struct buf b = { 0 };
	struct hub_box box;

	buf_init(&b, FRONT_JSON_MAX);
	if (!id)
		return;
	if (hub_find(c->front->hub, &c->who, id, &box, &f) == 0 &&
		(box.state == HUB_STOPPED || box.state == HUB_FAILED))
		hub_fail(&f, HUB_NOT_FOUND, "sandbox '%s' was not found", id);
	if (f.code) {
		call_fail_hub(c, &f);
		return;
	}
	box_json_detail(&b, &box, hub_domain(c->front->hub));
	call_json(c, 200, &b);
}

void e2b_kill(struct call *c)
{
	const char *id = control_id(c);

	if (id)
		c->verb = hub_kill(c->front->hub, &c->who, id, on_done, c);
}

void e2b_pause(struct call *c)
{
	const char *id = control_id(c);
	own_jin struct jin *doc = NULL;
	bool memory = true;
	struct err e = { 0 };

	/* `memory: false` asks for less than we do: nothing of it is lost. */
	if (id && call_parse(c, &doc) && !call_failed(c, jin_bool(doc, "memory", &memory, &e), &e))
		c->verb = hub_pause(c->front->hub, &c->who, id, on_done, c);
}

/* The id, and the seconds in @field as milliseconds; NULL: answered. */
static const char *read_time(
	struct call *c, const char *field, int64_t min_s, int64_t fallback_ms, int64_t *ret_ms)
{
	const char *id = control_id(c);
	own_jin struct jin *doc = NULL;
	struct err e = { 0 };
	int64_t s;
	int r;

	if (!id || !call_parse(c, &doc))
		return NULL;
	r = jin_i64(doc, field, min_s, TIMEOUT_MAX_S, &s, &e);
	if (call_failed(c, r, &e))
		return NULL;
	*ret_ms = r ? s * 1000 : fallback_ms;
	return id;
}

void e2b_connect(struct call *c)
{
	int64_t ms;
	const char *id = read_time(c, "timeout", 0, CONNECT_V1_S * 1000, &ms);

	if (id)
		c->verb = hub_connect(c->front->hub, &c->who, id, ms, on_connected, c);
}

static void on_resumed(
	void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;

	if (!call_verb_failed(c, fail))
		send_sandbox(c, 201, box);
}

void e2b_resume(struct call *c)
{
	int64_t ms;
	const char *id = read_time(c, "timeout", 1, 15 * 1000, &ms);

	if (id)
		c->verb = hub_resume(c->front->hub, &c->who, id, ms, on_resumed, c);
}

void e2b_timeout(struct call *c)
{
	int64_t ms;
	const char *id = read_time(c, "timeout", -TIMEOUT_MAX_S, INT64_MIN, &ms);

	if (id && ms == INT64_MIN)
		call_fail(c, 400, "field 'timeout' is missing");
	else if (id)
		c->verb = hub_set_timeout(c->front->hub, &c->who, id, ms, on_done, c);
}

void e2b_refresh(struct call *c)
{
	int64_t ms;
	const char *id = read_time(c, "duration", 0, 15 * 1000, &ms);

	if (id)
		c->verb = hub_extend(c->front->hub, &c->who, id, ms, on_done, c);
}

/* --- Logs: the journal of the sandbox is all the log that the daemon has ---------------------- */

static const char *const levels[] = { "debug", "info", "warn", "error" };

struct log_query {
	bool v2, backward;
	int64_t from_ms; /* forward: not before; backward: not after (0: from the end) */
	int64_t limit;
	unsigned level;     /* at least */
	const char *search; /* NULL: any */
	struct buf *b;
};

static unsigned level_of(const struct hub_step *step)
{
	return step->to == HUB_FAILED ? 3 : 1;
}

static bool is_wanted(const struct log_query *q, const struct hub_step *step)
{
	int64_t ms = step->at_us / 1000;

	return level_of(step) >= q->level && (!q->search || strstr(step->reason, q->search)) &&
	       (q->backward ? !q->from_ms || ms <= q->from_ms : ms >= q->from_ms);
}

static void put_entry(struct buf *b, const struct hub_step *step)
{
	char when[CLOCK_TEXT];

	clock_text_at(step->at_us, when);
	json_open(b, NULL);
	json_str(b, "timestamp", when);
	json_str(b, "level", levels[level_of(step)]);
	json_str(b, "message", step->reason);
	json_open(b, "fields");
	json_str(b, "state", hub_state_name(step->to));
	json_close(b);
	json_close(b);
}

/* Clients read a line as JSON, in which they look for a level. */
static void put_line(struct buf *b, const struct hub_step *step)
{
	own_buf struct buf line = { 0 };
	char when[CLOCK_TEXT];

	clock_text_at(step->at_us, when);
	buf_init(&line, FRONT_TEXT_MAX);
	json_open(&line, NULL);
	json_str(&line, "level", levels[level_of(step)]);
	json_str(&line, "logger", "ward");
	json_str(&line, "message", step->reason);
	json_str(&line, "state", hub_state_name(step->to));
	json_close(&line);
	json_open(b, NULL);
	json_str(b, "timestamp", when);
	json_str(b, "line", line.bad ? "{}" : line.data);
	json_close(b);
}

static void put_steps(const struct log_query *q, const struct hub_story *story, const char *key,
	void (*one)(struct buf *b, const struct hub_step *step))
{
	unsigned n = story->step_count;
	int64_t left = q->limit;

	json_array(q->b, key);
	for (unsigned i = 0; i < n && left > 0; i++) {
		const struct hub_step *step = &story->steps[q->backward ? n - 1 - i : i];

		if (is_wanted(q, step)) {
			one(q->b, step);
			left--;
		}
	}
	json_array_end(q->b);
}

static void tell_logs(void *arg, const struct hub_story *story)
{
	const struct log_query *q = arg;

	json_open(q->b, NULL);
	put_steps(q, story, "logs", q->v2 ? put_entry : put_line);
	if (!q->v2)
		put_steps(q, story, "logEntries", put_entry);
	json_close(q->b);
}

static int read_ms(const char *text, int64_t *ret)
{
	uint64_t v = 0;
	int r = text && *text ? parse_u64(text, 0, INT64_MAX, &v) : 0;

	*ret = (int64_t)v;
	return r;
}

/* False: answered. */
static bool read_log_query(struct call *c, struct log_query *q)
{
	const char *limit = call_query(c, "limit"), *level = call_query(c, "level");
	const char *way = call_query(c, "direction");
	uint64_t most = LOGS_MAX;

	q->search = q->v2 ? call_query(c, "search") : NULL;
	q->backward = q->v2 && way && str_eq(way, "backward");
	while (q->v2 && level && q->level < ARRAY_LEN(levels) && !str_eq(level, levels[q->level]))
		q->level++;
	if (q->level == ARRAY_LEN(levels) || (way && !q->backward && !str_eq(way, "forward")) ||
		(limit && parse_u64(limit, 1, LOGS_MAX, &most) < 0) ||
		read_ms(call_query(c, q->v2 ? "cursor" : "start"), &q->from_ms) < 0) {
		call_fail(c, 400,
			"'limit' is 1 to %d, 'level' debug, info, warn or error, 'direction' "
			"forward or backward, 'cursor' and 'start' milliseconds",
			LOGS_MAX);
		return false;
	}
	q->limit = (int64_t)most;
	return true;
}

static void send_logs(struct call *c, bool v2)
{
	const char *id = control_id(c);
	own_buf struct buf b = { 0 };
	struct log_query q = { .v2 = v2, .b = &b };
	struct hub_fail f = { 0 };

	buf_init(&b, FRONT_JSON_MAX);
	if (!id || !read_log_query(c, &q))
		return;
	if (hub_why(c->front->hub, &c->who, id, tell_logs, &q, &f) < 0)
		call_fail_hub(c, &f);
	else
		call_json(c, 200, &b);
}

void e2b_logs(struct call *c)
{
	send_logs(c, false);
}

void e2b_logs_v2(struct call *c)
{
	send_logs(c, true);
}
