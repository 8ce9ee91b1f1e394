/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/rest/shapes.c - sandboxes as ward's own command line reads them.
 *
 * Owns:  the objects of /ward/v1.
 * Rules: tokens and the values of variables are not in them.
 */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/control.h"
#include "front/front_impl.h"
#include "front/rest/shapes.h"

bool rest_id(struct call *c)
{
	const char *id = control_id(c);

	if (!id)
		return false;
	if (str_copy(c->id, sizeof(c->id), id) < 0)
		c->id[0] = '\0'; /* too long to be one: the hub says that there is none */
	return true;
}

bool rest_box(struct call *c)
{
	const char *user = call_query(c, "user");
	struct hub_fail f = { 0 };
	struct hub_box box;

	if (!rest_id(c))
		return false;
	if (hub_find(c->front->hub, &c->who, c->id, &box, &f) < 0) {
		call_fail_hub(c, &f);
		return false;
	}
	user = user ? user : box.user;
	if (!user)
		return true;
	c->user = call_copy(c, user);
	return c->user;
}

void rest_json_time(struct buf *b, const char *key, int64_t us)
{
	char text[CLOCK_TEXT];

	clock_text_at(us, text);
	json_str(b, key, us ? text : NULL);
}

static void put_limits(struct buf *b, const struct plan_limits *l)
{
	json_open(b, "limits");
	json_u64(b, "memory", l->memory_bytes);
	json_u64(b, "disk", l->disk_bytes);
	json_u64(b, "pids", l->pids);
	json_u64(b, "cpu_milli", l->cpu_milli);
	json_close(b);
}

void rest_json_box(struct buf *b, const char *key, const struct hub_box *box)
{
	json_open(b, key);
	json_str(b, "id", box->id);
	json_str(b, "tenant", box->tenant);
	json_str(b, "template", box->template_asked);
	json_str(b, "means", box->template_used);
	json_str(b, "state", hub_state_name(box->state));
	json_str(b, "reason", box->reason);
	json_str(b, "tier", box->tier == WALL_NONE ? NULL : wall_name(box->tier));
	json_str(b, "tier_why", box->tier_why);
	json_str(b, "warning", box->warning);
	json_bool(b, "from_pool", box->from_pool);
	rest_json_time(b, "created", box->created_us);
	rest_json_time(b, "started", box->started_us);
	rest_json_time(b, "since", box->state_us);
	rest_json_time(b, "ends", box->end_us);
	json_str(b, "on_timeout", box->on_timeout == HUB_TIMEOUT_PAUSE ? "pause" : "kill");
	json_bool(b, "auto_resume", box->auto_resume);
	json_u64(b, "cpus", box->cpu_count);
	put_limits(b, &box->limits);
	json_str(b, "user", box->user);
	json_str(b, "workdir", box->workdir);
	json_open(b, "metadata");
	for (unsigned i = 0; i < box->metadata_count; i++)
		json_str(b, box->metadata[i].key, box->metadata[i].value);
	json_close(b);
	json_close(b);
}

static void put_known(struct buf *b, const char *key, uint64_t v)
{
	if (v == UINT64_MAX)
		json_null(b, key);
	else
		json_u64(b, key, v);
}

void rest_json_sample(struct buf *b, const char *key, const struct hub_sample *s)
{
	json_open(b, key);
	rest_json_time(b, "at", s->at_us);
	put_known(b, "cpu_us", s->cpu_us);
	put_known(b, "cpu_milli", s->cpu_milli);
	put_known(b, "mem_used", s->mem_used);
	put_known(b, "mem_cache", s->mem_cache);
	put_known(b, "mem_total", s->mem_total);
	put_known(b, "disk_used", s->disk_used);
	put_known(b, "disk_total", s->disk_total);
	put_known(b, "pids", s->pids);
	put_known(b, "net_in", s->net_in);
	put_known(b, "net_out", s->net_out);
	json_close(b);
}
