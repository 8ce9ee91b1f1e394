/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/lists.c - the control plane: many at once.
 *
 * Owns:  lists of sandboxes, metrics, templates, and what is answered for things ward has none of.
 * Rules: translates.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/boxes.h"
#include "front/e2b/control.h"
#include "front/e2b/handlers.h"
#include "front/e2b/dict.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "wire/text.h"

static void add_listed(void *arg, const struct hub_box *box)
{
	box_json_listed(arg, box);
}

/* "running,paused" */
static int read_states(const char *text, unsigned *ret, struct err *e)
{
	static const struct {
		const char *name;
		unsigned bits;
	} states[] = {
		{ "running", 1u << HUB_RUNNING | 1u << HUB_RESUMING },
		{ "paused", 1u << HUB_PAUSED | 1u << HUB_PAUSING },
	};
	unsigned bits = 0;

	while (*text) {
		size_t n = strcspn(text, ","), i;

		for (i = 0; i < 2; i++)
			if (strlen(states[i].name) == n && memcmp(states[i].name, text, n) == 0)
				break;
		if (i == 2)
			return err_say(e, EINVAL, "'state' must be running, paused or both");
		bits |= states[i].bits;
		text += n + (text[n] == ',');
	}
	*ret = bits;
	return 0;
}

struct filter {
	struct hub_list q;
	struct dict metadata;
	struct hub_pair pairs[FRONT_PAIRS_MAX];
};

static int read_filter(const struct call *c, struct filter *f, struct err *e)
{
	const char *states = call_query(c, "state"), *metadata = call_query(c, "metadata");
	const char *after = call_query(c, "startedAfter"), *order = call_query(c, "order");
	const char *limit = call_query(c, "limit");
	uint64_t n = FRONT_LIST_MAX;
	int r = states ? read_states(states, &f->q.states, e) : 0;

	if (r == 0 && metadata)
		r = dict_from_filter(&f->metadata, metadata, e);
	for (size_t i = 0; r == 0 && i < f->metadata.count; i++)
		f->pairs[i] = (struct hub_pair){ f->metadata.names[i], f->metadata.values[i] };
	if (r == 0 && after && rfc3339_parse(after, &f->q.started_after_us) < 0)
		r = err_say(e, EINVAL, "'startedAfter' is no time");
	if (r == 0 && order && !str_eq(order, "asc") && !str_eq(order, "desc"))
		r = err_say(e, EINVAL, "'order' must be asc or desc");
	if (r == 0 && limit && parse_u64(limit, 1, UINT32_MAX, &n) < 0)
		r = err_say(e, EINVAL, "'limit' must be a number above 0");
	f->q.metadata = f->pairs;
	f->q.metadata_count = (unsigned)f->metadata.count;
	f->q.ascending = order && str_eq(order, "asc");
	f->q.limit = n > FRONT_LIST_MAX ? FRONT_LIST_MAX : (unsigned)n;
	f->q.template = call_query(c, "template");
	f->q.token = call_query(c, "nextToken");
	return r;
}

static void send_list(struct call *c, struct filter *f)
{
	char token[HUB_TOKEN_MAX + 1] = "", running[16];
	struct hub_fail fail = { 0 };
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	json_array(&b, NULL);
	if (hub_list(c->front->hub, &c->who, &f->q, add_listed, &b, token, &fail) < 0) {
		call_fail_hub(c, &fail);
		return;
	}
	json_array_end(&b);
	if (token[0])
		wire_reply_header(c->q, "X-Next-Token", token);
	if (str_fmt(running, sizeof(running), "%u", hub_count_running(c->front->hub, &c->who)) == 0)
		wire_reply_header(c->q, "X-Total-Running", running);
	wire_reply_header(c->q, "Access-Control-Expose-Headers", "X-Next-Token, X-Total-Running");
	call_json(c, 200, &b);
}

static void list(struct call *c, unsigned states)
{
	struct filter *f = calloc(1, sizeof(*f));
	struct err e = { 0 };

	if (!f) {
		call_fail_memory(c);
		return;
	}
	if (!call_failed(c, read_filter(c, f, &e), &e)) {
		if (states)
			f->q.states = states;
		send_list(c, f);
	}
	dict_done(&f->metadata);
	free(f);
}

void e2b_list(struct call *c)
{
	list(c, 0);
}

void e2b_list_running(struct call *c)
{
	list(c, 1u << HUB_RUNNING | 1u << HUB_RESUMING);
}

/* --- Metrics ---------------------------------------------------------------------------------- */

static void on_metrics(void *arg, const struct hub_fail *fail, const struct hub_box *box,
	const struct hub_sample *samples, unsigned count)
{
	struct call *c = arg;
	own_buf struct buf b = { 0 };

	if (call_verb_failed(c, fail))
		return;
	buf_init(&b, FRONT_JSON_MAX);
	json_array(&b, NULL);
	for (unsigned i = 0; i < count; i++)
		box_json_metric(&b, box, &samples[i]);
	json_array_end(&b);
	call_json(c, 200, &b);
}

static int read_seconds(const struct call *c, const char *key, int64_t *ret_us, struct err *e)
{
	const char *text = call_query(c, key);
	uint64_t s = 0;

	if (text && parse_u64(text, 0, INT64_MAX / 1000000, &s) < 0)
		return err_say(e, EINVAL, "'%s' must be seconds since 1970", key);
	*ret_us = (int64_t)s * 1000000;
	return 0;
}

void e2b_metrics(struct call *c)
{
	const char *id = control_id(c);
	int64_t from, to;
	struct err e = { 0 };
	int r;

	if (!id)
		return;
	r = read_seconds(c, "start", &from, &e);
	if (r == 0)
		r = read_seconds(c, "end", &to, &e);
	if (!call_failed(c, r, &e))
		c->verb = hub_metrics(c->front->hub, &c->who, id, from, to, on_metrics, c);
}

/* One after the other: a dashboard asks for few, and each is measured now. */
struct many {
	struct call *c;
	struct buf b;
	char *ids, *next;
	unsigned asked;
};

static void many_next(struct many *m);

static void on_one_of_many(void *arg, const struct hub_fail *fail, const struct hub_box *box,
	const struct hub_sample *samples, unsigned count)
{
	struct many *m = arg;

	m->c->verb = NULL;
	if (!fail && count) {
		size_t at = m->b.len;

		/* The metric is an object without a key: put one in front. */
		buf_add_fmt(&m->b, "%s\"%s\":", m->b.data[at - 1] == '{' ? "" : ",", box->id);
		box_json_metric(&m->b, box, &samples[count - 1]);
	}
	many_next(m);
}

static void many_next(struct many *m)
{
	struct call *c = m->c;
	char *id = m->next;

	if (!id || !*id || ++m->asked > FRONT_LIST_MAX) {
		json_close(&m->b);
		json_close(&m->b);
		call_json(c, 200, &m->b);
		return;
	}
	m->next += strcspn(id, ",");
	if (*m->next)
		*m->next++ = '\0';
	c->verb = hub_metrics(c->front->hub, &c->who, id, 0, 0, on_one_of_many, m);
}

static void many_ended(struct call *c)
{
	struct many *m = c->state;

	buf_done(&m->b);
	free(m->ids);
}

void e2b_metrics_many(struct call *c)
{
	const char *ids = call_query(c, "sandbox_ids");
	struct many *m = call_alloc(c, sizeof(*m));

	if (!m)
		return;
	m->c = c;
	m->ids = m->next = strdup(ids ? ids : "");
	buf_init(&m->b, FRONT_JSON_MAX);
	c->state = m;
	c->on_ended = many_ended;
	json_open(&m->b, NULL);
	json_open(&m->b, "sandboxes");
	many_next(m);
}

/* --- Templates, and what there is none of ----------------------------------------------------- */

static void add_template(void *arg, const struct hub_template *t)
{
	struct buf *b = arg;
	char when[CLOCK_TEXT];

	json_open(b, NULL);
	json_str(b, "templateID", t->name);
	json_str(b, "buildID", t->means);
	json_bool(b, "public", false);
	json_array(b, "names");
	json_str(b, NULL, t->name);
	json_array_end(b);
	json_array(b, "aliases");
	json_str(b, NULL, t->name);
	json_array_end(b);
	json_str(b, "envdVersion", E2B_ENVD_VERSION);
	json_str(b, "buildStatus", "ready");
	json_u64(b, "buildCount", 1);
	json_u64(b, "cpuCount", t->cpu_count);
	json_u64(b, "memoryMB", t->memory_bytes >> 20);
	json_u64(b, "diskSizeMB", t->disk_bytes >> 20);
	clock_text_at(t->created_us, when); /* of what was always there: 1970 */
	json_str(b, "createdAt", when);
	json_str(b, "updatedAt", when);
	json_str(b, "createdBy", NULL);
	json_str(b, "lastSpawnedAt", NULL);
	json_u64(b, "spawnCount", 0); /* not counted */
	json_close(b);
}

void e2b_templates(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	json_array(&b, NULL);
	hub_templates(c->front->hub, &c->who, add_template, &b);
	json_array_end(&b);
	call_json(c, 200, &b);
}

void e2b_template_alias(struct call *c)
{
	char means[TEMPLATE_NAME_MAX + 1];
	struct hub_fail f = { 0 };
	own_buf struct buf b = { 0 };

	if (hub_template_find(c->front->hub, &c->who, c->args[0], means, &f) < 0) {
		call_fail_hub(c, &f);
		return;
	}
	buf_init(&b, FRONT_JSON_MAX);
	json_open(&b, NULL);
	json_str(&b, "templateID", c->args[0]);
	json_bool(&b, "public", false);
	json_close(&b);
	call_json(c, 200, &b);
}

void e2b_nothing(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, 16);
	buf_add_str(&b, "[]");
	call_json(c, 200, &b);
}

void e2b_not_here(struct call *c)
{
	call_fail(c, 501, "%s %s is not supported by ward; see docs/API.md", wire_method_name(c->q),
		wire_path(c->q));
}
