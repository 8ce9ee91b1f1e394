/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/envd.c - the small REST calls of a sandbox.
 *
 * Owns:  /health, /metrics, /envs and /files/compose of the sandbox plane.
 * Rules: asking for its health does not wake a sandbox that is paused.
 */
#include <inttypes.h>

#include "base/json.h"
#include "front/call.h"
#include "front/e2b/handlers.h"
#include "front/front_impl.h"
#include "front/limits.h"

enum { MIB = 1 << 20 };

void envd_health(struct call *c)
{
	if (call_box_runs(c))
		call_empty(c, 204);
}

static uint64_t known(uint64_t v)
{
	return v == UINT64_MAX ? 0 : v;
}

static void on_metrics(void *arg, const struct hub_fail *fail, const struct hub_box *box,
	const struct hub_sample *samples, unsigned count)
{
	const struct hub_sample none = { 0 }, *s = count ? &samples[count - 1] : &none;
	struct call *c = arg;
	own_buf struct buf b = { 0 };
	uint64_t tenths;

	if (call_verb_failed(c, fail))
		return;
	tenths = known(s->cpu_milli) / (box->cpu_count ? box->cpu_count : 1);
	buf_init(&b, FRONT_JSON_MAX);
	json_open(&b, NULL);
	json_i64(&b, "ts", s->at_us / 1000000);
	json_u64(&b, "cpu_count", box->cpu_count);
	buf_add_fmt(&b, ",\"cpu_used_pct\":%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
	json_u64(&b, "mem_total", known(s->mem_total));
	json_u64(&b, "mem_used", known(s->mem_used));
	json_u64(&b, "mem_cache", known(s->mem_cache));
	json_u64(&b, "mem_total_mib", known(s->mem_total) / MIB);
	json_u64(&b, "mem_used_mib", known(s->mem_used) / MIB);
	json_u64(&b, "disk_used", known(s->disk_used));
	json_u64(&b, "disk_total", known(s->disk_total));
	json_close(&b);
	call_json(c, 200, &b);
}

void envd_metrics(struct call *c)
{
	c->verb = hub_metrics(c->front->hub, &c->who, c->id, 0, 0, on_metrics, c);
}

void envd_envs(struct call *c)
{
	struct hub_fail f = { 0 };
	struct hub_box box;
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_JSON_MAX);
	if (hub_find(c->front->hub, &c->who, c->id, &box, &f) < 0) {
		call_fail_hub(c, &f);
		return;
	}
	json_open(&b, NULL);
	for (unsigned i = 0; i < box.env_count; i++)
		json_str(&b, box.env[i].key, box.env[i].value);
	json_close(&b);
	call_json(c, 200, &b);
}

void envd_compose(struct call *c)
{
	call_fail(c, 501, "composing files is not supported: use `cat` in the sandbox");
}
