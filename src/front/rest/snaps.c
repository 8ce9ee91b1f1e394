/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/rest/snaps.c - /ward/v1/snapshots, and what makes them.
 *
 * Owns:  these handlers.
 * Rules: translates.
 */
#include <errno.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/self.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/rest/handlers.h"
#include "front/rest/shapes.h"

#define YEAR_MS (366 * 24 * 3600 * INT64_C(1000))

static void put_snap(struct buf *b, const struct hub_snap *snap)
{
	json_open(b, NULL);
	json_str(b, "id", snap->id);
	json_str(b, "name", snap->name[0] ? snap->name : NULL);
	json_str(b, "tenant", snap->tenant);
	json_str(b, "sandbox", snap->sandbox);
	json_str(b, "template", snap->template_used);
	json_str(b, "tier", wall_name(snap->tier));
	json_u64(b, "bytes", snap->bytes);
	json_u64(b, "memory_bytes", snap->memory_bytes);
	rest_json_time(b, "created", snap->created_us);
	json_close(b);
}

static void on_snapshot(void *arg, const struct hub_fail *fail, const struct hub_snap *snap)
{
	struct call *c = arg;
	own_buf struct buf b = { 0 };

	if (call_verb_failed(c, fail))
		return;
	buf_init(&b, FRONT_JSON_MAX);
	put_snap(&b, snap);
	call_json(c, 201, &b);
}

void ward_snapshot(struct call *c)
{
	own_jin struct jin *doc = NULL;
	const char *name = NULL;
	struct err e = { 0 };

	if (rest_id(c) && call_parse(c, &doc) &&
		!call_failed(c, jin_str(doc, "name", &name, &e), &e))
		c->verb = hub_snapshot(c->front->hub, &c->who, c->id, name, on_snapshot, c);
}

static void add_snap(void *arg, const struct hub_snap *snap)
{
	put_snap(arg, snap);
}

/* ?tenants=1 of everybody (operator). */
void ward_snapshots(struct call *c)
{
	const char *tenants = call_query(c, "tenants");
	struct hub_snaps q = { .sandbox = call_query(c, "sandbox"),
		.name = call_query(c, "name"),
		.all_tenants = tenants && str_eq(tenants, "1") };
	struct hub_fail f = { 0 };
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	json_open(&b, NULL);
	json_array(&b, "snapshots");
	if (hub_snapshots(c->front->hub, &c->who, &q, add_snap, &b, &f) < 0) {
		call_fail_hub(c, &f);
		return;
	}
	json_array_end(&b);
	json_close(&b);
	call_json(c, 200, &b);
}

void ward_snapshot_remove(struct call *c)
{
	struct hub_fail f = { 0 };

	if (hub_snapshot_remove(c->front->hub, &c->who, c->args[0], &f) < 0)
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
	json_open(&b, NULL);
	json_array(&b, "forks");
	for (unsigned i = 0; i < count; i++) {
		json_open(&b, NULL);
		if (list[i].box) {
			self_write(c->front, &c->who, list[i].box);
			rest_json_box(&b, "sandbox", list[i].box);
		} else {
			json_str(&b, "error", list[i].fail->msg);
		}
		json_close(&b);
	}
	json_array_end(&b);
	json_close(&b);
	call_json(c, 201, &b);
}

void ward_fork(struct call *c)
{
	own_jin struct jin *doc = NULL;
	int64_t count = 1, ms = HUB_TIMEOUT_DEFAULT;
	struct err e = { 0 };
	int r;

	if (!rest_id(c) || !call_parse(c, &doc))
		return;
	r = jin_i64(doc, "count", 1, HUB_FORKS_MAX, &count, &e);
	if (r >= 0)
		r = jin_i64(doc, "timeout_ms", 0, YEAR_MS, &ms, &e);
	if (!call_failed(c, r, &e))
		c->verb =
			hub_fork(c->front->hub, &c->who, c->id, (unsigned)count, ms, on_forked, c);
}
