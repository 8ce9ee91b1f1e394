/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/rest/boxes.c - /ward/v1/sandboxes: create, list, look, pause, resume, limits, kill, why.
 *
 * Owns:  these handlers.
 * Rules: translates. What only the operator may ask for is the hub's to refuse.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/dict.h"
#include "front/e2b/self.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/rest/handlers.h"
#include "front/rest/shapes.h"

#define DAY_MS (24 * 3600 * INT64_C(1000))
enum { YEAR_DAYS = 366 };

struct wish {
	struct dict metadata, env;
	struct hub_pair metadata_pairs[FRONT_PAIRS_MAX], env_pairs[FRONT_PAIRS_MAX];
	struct hub_mount mounts[MOUNTS_MAX];
	struct hub_create q;
};

void wish_destroy(struct wish *w)
{
	if (!w)
		return;
	dict_done(&w->metadata);
	dict_done(&w->env);
	free(w);
}

static int read_limits(const struct jin *o, struct plan_limits *l, struct err *e)
{
	int64_t memory = 0, disk = 0, pids = 0, cpu = 0;
	int r = jin_i64(o, "memory", 0, INT64_MAX, &memory, e);

	if (r >= 0)
		r = jin_i64(o, "disk", 0, INT64_MAX, &disk, e);
	if (r >= 0)
		r = jin_i64(o, "pids", 0, UINT32_MAX, &pids, e);
	if (r >= 0)
		r = jin_i64(o, "cpu_milli", 0, UINT32_MAX, &cpu, e);
	*l = (struct plan_limits){ .memory_bytes = (uint64_t)memory,
		.disk_bytes = (uint64_t)disk,
		.pids = (uint32_t)pids,
		.cpu_milli = (uint32_t)cpu,
		.memory_asked = memory > 0,
		.disk_asked = disk > 0,
		.pids_asked = pids > 0,
		.cpus_asked = cpu > 0 };
	return r < 0 ? r : 0;
}

static int read_mount(const struct jin *o, struct hub_mount *m, struct err *e)
{
	const char *mode = "ro";
	int r = jin_need_str(o, "src", &m->src, e);

	if (r >= 0)
		r = jin_need_str(o, "dst", &m->dst, e);
	if (r >= 0)
		r = jin_str(o, "mode", &mode, e);
	if (r < 0)
		return r;
	if (str_eq(mode, "ro"))
		m->mode = MOUNT_RO;
	else if (str_eq(mode, "rw"))
		m->mode = MOUNT_RW;
	else if (str_eq(mode, "overlay"))
		m->mode = MOUNT_OVERLAY;
	else
		return err_say(e, EINVAL, "a mount's mode is ro, rw or overlay");
	return 0;
}

static int read_mounts(const struct jin *doc, struct wish *w, struct err *e)
{
	const struct jin *list = NULL, *o = NULL;
	int r = jin_list(doc, "mounts", &list, e);

	if (jin_len(list) > MOUNTS_MAX)
		return err_say(e, EINVAL, "more than %d mounts", MOUNTS_MAX);
	for (size_t i = 0; r >= 0 && i < jin_len(list); i++) {
		r = jin_obj_at(list, "mounts", i, &o, e);
		if (r >= 0)
			r = read_mount(o, &w->mounts[i], e);
	}
	w->q.mounts = w->mounts;
	w->q.mount_count = (unsigned)jin_len(list);
	return r < 0 ? r : 0;
}

static int read_pairs(const struct jin *o, const char *key, struct dict *d, struct hub_pair *out,
	unsigned *ret, struct err *e)
{
	int r = jin_each_str(o, key, FRONT_PAIRS_MAX, dict_add_each, d, e);

	for (size_t i = 0; r > 0 && i < d->count; i++)
		out[i] = (struct hub_pair){ d->names[i], d->values[i] };
	*ret = (unsigned)d->count;
	return r < 0 ? r : 0;
}

static int read_timeout(const struct jin *o, struct hub_create *q, struct err *e)
{
	const char *then = "kill";
	int r;

	q->timeout_ms = HUB_TIMEOUT_DEFAULT;
	r = jin_i64(o, "timeout_ms", 0, YEAR_DAYS * DAY_MS, &q->timeout_ms, e);
	if (r >= 0)
		r = jin_str(o, "on_timeout", &then, e);
	if (r >= 0)
		r = jin_bool(o, "auto_resume", &q->auto_resume, e);
	if (r < 0)
		return r;
	if (!str_eq(then, "kill") && !str_eq(then, "pause"))
		return err_say(e, EINVAL, "field 'on_timeout' is kill or pause");
	q->on_timeout = str_eq(then, "pause") ? HUB_TIMEOUT_PAUSE : HUB_TIMEOUT_KILL;
	return 0;
}

static int read_tier(const struct jin *o, struct hub_create *q, struct err *e)
{
	const char *tier = NULL;
	int r = jin_str(o, "tier", &tier, e);

	if (r > 0 && wall_parse(tier, &q->tier) < 0)
		return err_say(e, EINVAL, "field 'tier' names no tier");
	if (r >= 0)
		r = jin_str(o, "accept_risk", &q->accept_risk, e);
	return r < 0 ? r : 0;
}

static int read_wish(const struct jin *doc, struct wish *w, struct err *e)
{
	struct hub_create *q = &w->q;
	const struct jin *limits = NULL;
	int r = jin_str(doc, "template", &q->template, e);

	if (r >= 0)
		r = jin_str(doc, "user", &q->user, e);
	if (r >= 0)
		r = jin_str(doc, "workdir", &q->workdir, e);
	if (r >= 0)
		r = jin_bool(doc, "no_pool", &q->no_pool, e);
	if (r >= 0)
		r = read_timeout(doc, q, e);
	if (r == 0)
		r = read_tier(doc, q, e);
	if (r == 0)
		r = read_pairs(
			doc, "metadata", &w->metadata, w->metadata_pairs, &q->metadata_count, e);
	if (r == 0)
		r = read_pairs(doc, "env", &w->env, w->env_pairs, &q->env_count, e);
	if (r == 0)
		r = jin_obj(doc, "limits", &limits, e);
	if (r >= 0)
		r = read_limits(limits, &q->limits, e);
	if (r == 0)
		r = read_mounts(doc, w, e);
	q->metadata = w->metadata_pairs;
	q->env = w->env_pairs;
	q->secure = true;
	return r;
}

struct wish *wish_read(const struct jin *doc, struct err *e)
{
	struct wish *w = calloc(1, sizeof(*w));

	if (!w) {
		err_set(e, ENOMEM, "reading what is wanted");
		return NULL;
	}
	if (read_wish(doc, w, e) == 0)
		return w;
	wish_destroy(w);
	return NULL;
}

struct hub_create *wish_create(struct wish *w)
{
	return &w->q;
}

static void send_box(struct call *c, unsigned status, const struct hub_box *box)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_JSON_MAX);
	rest_json_box(&b, NULL, box);
	call_json(c, status, &b);
}

static void on_created(
	void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;

	if (call_verb_failed(c, fail))
		return;
	self_write(c->front, &c->who, box);
	send_box(c, 201, box);
}

void ward_create(struct call *c)
{
	own_jin struct jin *doc = NULL;
	struct err e = { 0 };
	struct wish *w;

	if (!call_parse(c, &doc))
		return;
	w = wish_read(doc, &e);
	if (!call_failed(c, w ? 0 : -e.code, &e))
		c->verb = hub_create(c->front->hub, &c->who, &w->q, on_created, c);
	wish_destroy(w);
}

/* --- Looking ---------------------------------------------------------------------------------- */

static void add_box(void *arg, const struct hub_box *box)
{
	rest_json_box(arg, NULL, box);
}

/* ?all=1 ended ones too; ?tenants=1 of everybody (operator). */
void ward_list(struct call *c)
{
	const char *token = call_query(c, "token"), *all = call_query(c, "all");
	const char *tenants = call_query(c, "tenants");
	struct hub_list q = { .token = token, .all_tenants = tenants && str_eq(tenants, "1") };
	char next[HUB_TOKEN_MAX + 1] = "";
	struct hub_fail f = { 0 };
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	if (all && str_eq(all, "1"))
		q.states = (1u << HUB_STATES) - 1;
	json_open(&b, NULL);
	json_array(&b, "sandboxes");
	if (hub_list(c->front->hub, &c->who, &q, add_box, &b, next, &f) < 0) {
		call_fail_hub(c, &f);
		return;
	}
	json_array_end(&b);
	json_str(&b, "next", next[0] ? next : NULL);
	json_close(&b);
	call_json(c, 200, &b);
}

void ward_info(struct call *c)
{
	struct hub_fail f = { 0 };
	struct hub_box box;

	if (!rest_id(c))
		return;
	if (hub_find(c->front->hub, &c->who, c->id, &box, &f) < 0)
		call_fail_hub(c, &f);
	else
		send_box(c, 200, &box);
}

static void on_usage(void *arg, const struct hub_fail *fail, const struct hub_box *box,
	const struct hub_sample *samples, unsigned count)
{
	struct call *c = arg;
	own_buf struct buf b = { 0 };

	if (call_verb_failed(c, fail))
		return;
	buf_init(&b, FRONT_JSON_MAX);
	json_open(&b, NULL);
	json_array(&b, "samples");
	for (unsigned i = 0; i < count; i++)
		rest_json_sample(&b, NULL, &samples[i]);
	json_array_end(&b);
	json_close(&b);
	call_json(c, 200, &b);
}

void ward_usage(struct call *c)
{
	if (rest_id(c))
		c->verb = hub_metrics(c->front->hub, &c->who, c->id, 0, 0, on_usage, c);
}

static void put_end(struct buf *b, const struct hub_end *end)
{
	json_open(b, "end");
	json_str(b, "cause", end->cause);
	json_str(b, "detail", end->detail);
	json_str(b, "step", end->step);
	json_i64(b, "status", end->status);
	rest_json_time(b, "at", end->at_us);
	json_strn(b, "output", end->output, end->output_len);
	json_array(b, "samples");
	for (unsigned i = 0; i < end->sample_count; i++)
		rest_json_sample(b, NULL, &end->samples[i]);
	json_array_end(b);
	if (end->report && end->report[0])
		buf_add_fmt(b, ",\"report\":%s", end->report); /* JSON that ward wrote */
	json_close(b);
}

static void tell_story(void *arg, const struct hub_story *story)
{
	struct buf *b = arg;

	json_open(b, NULL);
	rest_json_box(b, "sandbox", &story->box);
	json_array(b, "steps");
	for (unsigned i = 0; i < story->step_count; i++) {
		json_open(b, NULL);
		rest_json_time(b, "at", story->steps[i].at_us);
		json_str(b, "from", hub_state_name(story->steps[i].from));
		json_str(b, "to", hub_state_name(story->steps[i].to));
		json_str(b, "reason", story->steps[i].reason);
		json_close(b);
	}
	json_array_end(b);
	if (story->end)
		put_end(b, story->end);
	else
		json_null(b, "end");
	json_close(b);
}

void ward_why(struct call *c)
{
	struct hub_fail f = { 0 };
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	if (!rest_id(c))
		return;
	if (hub_why(c->front->hub, &c->who, c->id, tell_story, &b, &f) < 0)
		call_fail_hub(c, &f);
	else
		call_json(c, 200, &b);
}

/* --- Changing --------------------------------------------------------------------------------- */

static void on_changed(
	void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed)
{
	struct call *c = arg;

	if (!call_verb_failed(c, fail))
		send_box(c, 200, box);
}

void ward_kill(struct call *c)
{
	if (rest_id(c))
		c->verb = hub_kill(c->front->hub, &c->who, c->id, on_changed, c);
}

void ward_pause(struct call *c)
{
	if (rest_id(c))
		c->verb = hub_pause(c->front->hub, &c->who, c->id, on_changed, c);
}

/* The id and "timeout_ms"; false: answered. */
static bool read_time(struct call *c, int64_t *ret_ms)
{
	own_jin struct jin *doc = NULL;
	struct err e = { 0 };

	return rest_id(c) && call_parse(c, &doc) &&
	       !call_failed(c, jin_i64(doc, "timeout_ms", 0, YEAR_DAYS * DAY_MS, ret_ms, &e), &e);
}

void ward_resume(struct call *c)
{
	int64_t ms = HUB_TIMEOUT_DEFAULT;

	if (read_time(c, &ms))
		c->verb = hub_resume(c->front->hub, &c->who, c->id, ms, on_changed, c);
}

void ward_timeout(struct call *c)
{
	int64_t ms = -1;

	if (!read_time(c, &ms))
		return;
	if (ms < 0)
		call_fail(c, 400, "field 'timeout_ms' is missing");
	else
		c->verb = hub_set_timeout(c->front->hub, &c->who, c->id, ms, on_changed, c);
}

void ward_limits(struct call *c)
{
	own_jin struct jin *doc = NULL;
	struct plan_limits limits;
	struct err e = { 0 };

	if (!rest_id(c) || !call_parse(c, &doc) ||
		call_failed(c, read_limits(doc, &limits, &e), &e))
		return;
	if (!limits.memory_asked && !limits.disk_asked && !limits.pids_asked && !limits.cpus_asked)
		call_fail(c, 400, "nothing to change: 'memory', 'cpu_milli' or 'pids'");
	else
		c->verb = hub_set_limits(c->front->hub, &c->who, c->id, &limits, on_changed, c);
}
