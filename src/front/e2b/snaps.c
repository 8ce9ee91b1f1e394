/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/snaps.c - snapshots and forks, as E2B's clients know them.
 *
 * Owns:  these handlers.
 * Rules: translates. A snapshot is named `<id>:default` towards clients; where a template is asked
 *        for, its id and its name are accepted, with and without the tag.
 */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/boxes.h"
#include "front/e2b/control.h"
#include "front/e2b/handlers.h"
#include "front/e2b/self.h"
#include "front/front_impl.h"
#include "front/limits.h"

enum { FORK_S = 300, TIMEOUT_MAX_S = 366 * 24 * 3600, PAGE_MAX = 100 };

static void put_snapshot(struct buf *b, const struct hub_snap *snap)
{
	char id[HUB_SNAP_NAME_MAX + 16];

	json_open(b, NULL);
	if (str_fmt(id, sizeof(id), "%s:default", snap->id) == 0)
		json_str(b, "snapshotID", id);
	json_array(b, "names");
	if (snap->name[0] && str_fmt(id, sizeof(id), "%s:default", snap->name) == 0)
		json_str(b, NULL, id);
	json_array_end(b);
	json_close(b);
}

static void on_snapshot(void *arg, const struct hub_fail *fail, const struct hub_snap *snap)
{
	struct call *c = arg;
	own_buf struct buf b = { 0 };

	if (call_verb_failed(c, fail))
		return;
	buf_init(&b, FRONT_JSON_MAX);
	put_snapshot(&b, snap);
	call_json(c, 201, &b);
}

void e2b_snapshot(struct call *c)
{
	const char *id = control_id(c), *name = NULL;
	own_jin struct jin *doc = NULL;
	struct err e = { 0 };

	if (id && call_parse(c, &doc) && !call_failed(c, jin_str(doc, "name", &name, &e), &e))
		c->verb = hub_snapshot(c->front->hub, &c->who, id, name, on_snapshot, c);
}

struct page {
	struct buf *b;
	uint64_t at, from, until;
};

static void add_snapshot(void *arg, const struct hub_snap *snap)
{
	struct page *p = arg;

	if (p->at >= p->from && p->at < p->until)
		put_snapshot(p->b, snap);
	p->at++;
}

void e2b_snapshots(struct call *c)
{
	const char *limit = call_query(c, "limit"), *token = call_query(c, "nextToken");
	struct hub_snaps q = { .sandbox = call_query(c, "sandboxID"),
		.name = call_query(c, "name") };
	own_buf struct buf b = { 0 };
	struct page p = { .b = &b };
	struct hub_fail f = { 0 };
	uint64_t count = PAGE_MAX;
	char next[24];

	buf_init(&b, FRONT_LISTING_MAX);
	if ((limit && parse_u64(limit, 1, PAGE_MAX, &count) < 0) ||
		(token && token[0] && parse_u64(token, 0, UINT32_MAX, &p.from) < 0)) {
		call_fail(c, 400, "'limit' is 1 to %d, 'nextToken' what the page before said",
			PAGE_MAX);
		return;
	}
	p.until = p.from + count;
	json_array(&b, NULL);
	if (hub_snapshots(c->front->hub, &c->who, &q, add_snapshot, &p, &f) < 0) {
		call_fail_hub(c, &f);
		return;
	}
	json_array_end(&b);
	if (p.at > p.until && str_fmt(next, sizeof(next), "%llu", (unsigned long long)p.until) == 0)
		wire_reply_header(c->q, "X-Next-Token", next);
	call_json(c, 200, &b);
}

/* How clients delete snapshots. A template is the operator's. */
void e2b_template_delete(struct call *c)
{
	char means[TEMPLATE_NAME_MAX + 1];
	struct hub_fail f = { 0 };

	if (hub_template_find(c->front->hub, &c->who, c->args[0], means, &f) == 0)
		call_fail(c, 403, "templates are removed by the operator: ward template rm");
	else if (hub_snapshot_remove(c->front->hub, &c->who, c->args[0], &f) < 0)
		call_fail_hub(c, &f);
	else
		call_empty(c, 204);
}

static void on_forked(
	void *arg, const struct hub_fail *fail, const struct hub_forked *list, unsigned count)
{
	struct call *c = arg;
	own_buf struct buf b = { 0 };

	if (call_verb_failed(c, fail))
		return;
	buf_init(&b, FRONT_LISTING_MAX);
	buf_add_str(&b, "[");
	for (unsigned i = 0; i < count; i++) {
		buf_add_str(&b, i ? ",{" : "{");
		if (list[i].box) {
			self_write(c->front, &c->who, list[i].box);
			buf_add_str(&b, "\"sandbox\":");
			box_json_sandbox(&b, list[i].box, hub_domain(c->front->hub));
		} else {
			json_open(&b, "error");
			json_i64(&b, "code", hub_code_http(list[i].fail->code));
			json_str(&b, "message", list[i].fail->msg);
			json_close(&b);
		}
		buf_add_str(&b, "}");
	}
	buf_add_str(&b, "]");
	call_json(c, 201, &b);
}

void e2b_fork(struct call *c)
{
	const char *id = control_id(c);
	own_jin struct jin *doc = NULL;
	int64_t count = 1, s = FORK_S;
	struct err e = { 0 };
	int r;

	if (!id || !call_parse(c, &doc))
		return;
	r = jin_i64(doc, "count", 1, HUB_FORKS_MAX, &count, &e);
	if (r >= 0)
		r = jin_i64(doc, "timeout", 1, TIMEOUT_MAX_S, &s, &e);
	if (!call_failed(c, r, &e))
		c->verb = hub_fork(
			c->front->hub, &c->who, id, (unsigned)count, s * 1000, on_forked, c);
}
