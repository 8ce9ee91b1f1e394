/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/control.c - the control plane: one sandbox at a time.
 *
 * Owns:  the handlers of /sandboxes/{id} and below.
 * Rules: translates. An error's body has its status as `code`, which is what clients look at.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
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

	c->verb = NULL;
	if (fail)
		call_fail_hub(c, fail);
	else
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

	c->verb = NULL;
	if (fail)
		call_fail_hub(c, fail);
	else
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

	c->verb = NULL;
	if (fail)
		call_fail_hub(c, fail);
	else
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

/* The journal of the sandbox is all the log that the daemon has. */
struct log_out {
	struct buf *b;
	bool v2;
};

static void put_entry(struct buf *b, const char *when, const struct hub_step *step)
{
	json_open(b, NULL);
	json_str(b, "timestamp", when);
	json_str(b, "level", step->to == HUB_FAILED ? "error" : "info");
	json_str(b, "message", step->reason);
	json_open(b, "fields");
	json_str(b, "state", hub_state_name(step->to));
	json_close(b);
	json_close(b);
}

static void put_entries(struct buf *b, const struct hub_story *story)
{
	unsigned n = story->step_count, from = n > LOGS_MAX ? n - LOGS_MAX : 0;

	for (unsigned i = from; i < n; i++) {
		char when[CLOCK_TEXT];

		clock_text_at(story->steps[i].at_us, when);
		put_entry(b, when, &story->steps[i]);
	}
}

static void tell_logs(void *arg, const struct hub_story *story)
{
	struct log_out *out = arg;
	struct buf *b = out->b;

	json_open(b, NULL);
	json_array(b, "logs");
	for (unsigned i = 0; !out->v2 && i < story->step_count && i < LOGS_MAX; i++) {
		char when[CLOCK_TEXT];

		clock_text_at(story->steps[i].at_us, when);
		json_open(b, NULL);
		json_str(b, "timestamp", when);
		json_str(b, "line", story->steps[i].reason);
		json_close(b);
	}
	if (out->v2)
		put_entries(b, story);
	json_array_end(b);
	if (!out->v2) {
		json_array(b, "logEntries");
		put_entries(b, story);
		json_array_end(b);
	}
	json_close(b);
}

static void send_logs(struct call *c, bool v2)
{
	const char *id = control_id(c);
	own_buf struct buf b = { 0 };
	struct log_out out = { &b, v2 };
	struct hub_fail f = { 0 };

	buf_init(&b, FRONT_JSON_MAX);
	if (!id)
		return;
	if (hub_why(c->front->hub, &c->who, id, tell_logs, &out, &f) < 0)
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
