/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/curve.c - how much sandboxes use over time, and the daemon's own numbers.
 *
 * Owns:  the samples of each sandbox; the Prometheus text.
 * Rules: one question to one supervisor every SAMPLE_MS at most; a sandbox that does not answer is
 *        not asked again until it has.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "hub/hub_impl.h"

enum { SAMPLE_MS = 10000, TICK_MS = 250 };

void curve_add(struct sandbox *sb, const struct link_usage *u)
{
	struct hub_sample *s, *before = NULL;

	if (!sb->samples)
		sb->samples = calloc(HUB_SAMPLES_KEPT, sizeof(*sb->samples));
	if (!sb->samples)
		return;
	if (sb->sample_count)
		before = &sb->samples[(sb->sample_at + HUB_SAMPLES_KEPT - 1) % HUB_SAMPLES_KEPT];
	s = &sb->samples[sb->sample_at];
	*s = (struct hub_sample){
		.at_us = clock_now_us(),
		.cpu_us = u->cpu_us,
		.cpu_milli = UINT64_MAX,
		.mem_used = u->mem_used,
		.mem_cache = u->mem_cache,
		.mem_total = u->mem_limit,
		.disk_used = u->disk_used,
		.disk_total = u->disk_total,
		.pids = u->pids,
		.net_in = u->net_in,
		.net_out = u->net_out,
	};
	if (u->cpu_us != UINT64_MAX) {
		uint64_t was = before && before->cpu_us <= u->cpu_us ? before->cpu_us : 0;
		int64_t since = before ? before->at_us : sb->started_us;

		if (s->at_us > since)
			s->cpu_milli = (u->cpu_us - was) * 1000 / (uint64_t)(s->at_us - since);
	}
	sb->sample_at = (sb->sample_at + 1) % HUB_SAMPLES_KEPT;
	if (sb->sample_count < HUB_SAMPLES_KEPT)
		sb->sample_count++;
}

static void on_usage(void *arg, struct link_call *c, const struct link_done *d)
{
	struct sandbox *sb = arg;

	sb->sampling = false;
	curve_add(sb, &d->usage);
}

static void on_no_usage(void *arg, struct link_call *c, const struct link_failed *f)
{
	struct sandbox *sb = arg;

	sb->sampling = false;
}

static void ask(struct sandbox *sb)
{
	static const struct link_handler handler = { .done = on_usage, .failed = on_no_usage };

	if (sb->state != HUB_RUNNING || !sb->link || sb->sampling || !sb->tenant)
		return;
	sb->sampling = link_usage(sb->link, &handler, sb, NULL, NULL) == 0;
}

static void on_tick(void *ctx)
{
	curve_tick(ctx);
}

/* A part of all each time, so that the work is spread. */
void curve_tick(struct hub *hub)
{
	unsigned n = (hub->count * TICK_MS + SAMPLE_MS - 1) / SAMPLE_MS;

	for (; n; n--) {
		if (!hub->sample_next)
			hub->sample_next = hub->first;
		if (!hub->sample_next)
			break;
		ask(hub->sample_next);
		hub->sample_next = hub->sample_next->next;
	}
	loop_timer_set(
		hub->loop, &hub->sampler, hub->count ? TICK_MS : SAMPLE_MS / 10, on_tick, hub);
}

/* --- the verb --- */

static void on_now(void *arg, struct link_call *c, const struct link_done *d)
{
	struct hub_call *call = arg;

	call->asked = NULL;
	curve_add(call->sb, &d->usage);
	call_done(call, NULL, false);
}

/* What was seen before is an answer too. */
static void on_not_now(void *arg, struct link_call *c, const struct link_failed *f)
{
	struct hub_call *call = arg;

	call->asked = NULL;
	call_done(call, NULL, false);
}

struct hub_call *hub_metrics(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t from_us, int64_t to_us, hub_metrics_fn *fn, void *arg)
{
	static const struct link_handler handler = { .done = on_now, .failed = on_not_now };
	struct hub_fail f;
	struct sandbox *sb = registry_see(hub, who, id, &f);
	struct hub_call *call = call_new(hub, CALL_METRICS, sb, arg);

	call->fn.metrics = fn;
	call->from_us = from_us;
	call->to_us = to_us;
	if (!sb) {
		call_done(call, &f, false);
		return call;
	}
	if (!sb->link || link_usage(sb->link, &handler, call, &call->asked, NULL) < 0) {
		call_done(call, NULL, false);
		return call;
	}
	call_wait(call, WAIT_ANSWER);
	return call;
}

/* --- Prometheus --- */

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_add_fmt(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct buf *b, const char *name, const char *type, const char *help, uint64_t v)
{
	head(b, name, type, help);
	buf_add_fmt(b, "%s %" PRIu64 "\n", name, v);
}

static void put_states(struct hub *hub, struct buf *b)
{
	unsigned count[HUB_STATES] = { 0 };

	for (const struct sandbox *sb = hub->first; sb; sb = sb->next)
		count[sb->state]++;
	head(b, "ward_sandboxes", "gauge", "Live sandboxes by state.");
	for (int i = 0; i < HUB_STATES; i++)
		if (lifecycle_is_live((enum hub_state)i))
			buf_add_fmt(b, "ward_sandboxes{state=\"%s\"} %u\n",
				hub_state_name((enum hub_state)i), count[i]);
}

static void put_creates(struct hub *hub, struct buf *b)
{
	static const char *const edges[CREATE_BUCKETS] = { "0.0001", "0.00025", "0.0005", "0.001",
		"0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "1" };
	uint64_t sum = 0;

	head(b, "ward_create_seconds", "histogram",
		"From a create's arrival in the hub until commands can run.");
	for (int i = 0; i < CREATE_BUCKETS; i++) {
		sum += hub->n.create_hist[i];
		buf_add_fmt(
			b, "ward_create_seconds_bucket{le=\"%s\"} %" PRIu64 "\n", edges[i], sum);
	}
	buf_add_fmt(
		b, "ward_create_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", hub->n.create_count);
	buf_add_fmt(b, "ward_create_seconds_sum %.6f\n", (double)hub->n.create_us_sum / 1e6);
	buf_add_fmt(b, "ward_create_seconds_count %" PRIu64 "\n", hub->n.create_count);
	head(b, "ward_creates_total", "counter", "Creates that were answered, by how.");
	buf_add_fmt(b, "ward_creates_total{how=\"warm\"} %" PRIu64 "\n", hub->n.warm);
	buf_add_fmt(b, "ward_creates_total{how=\"cold\"} %" PRIu64 "\n", hub->n.cold);
	buf_add_fmt(b, "ward_creates_total{how=\"failed\"} %" PRIu64 "\n", hub->n.create_failed);
	buf_add_fmt(b, "ward_creates_total{how=\"refused\"} %" PRIu64 "\n", hub->n.refused);
}

/* In a label, a backslash and a quote are escaped. */
static void label(struct buf *b, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_add_str(b, "\\");
		buf_add(b, text, 1);
	}
}

static void put_pools(struct hub *hub, struct buf *b)
{
	static const struct {
		const char *name, *type, *help;
		size_t at;
	} rows[] = {
		{ "ward_pool_hits_total", "counter", "Creates that found a warm sandbox.",
			offsetof(struct pool, hits) },
		{ "ward_pool_misses_total", "counter", "Creates that did not.",
			offsetof(struct pool, misses) },
	};

	head(b, "ward_pool_ready", "gauge", "Warm sandboxes that wait.");
	for (unsigned i = 0; i < hub->pool_count; i++) {
		if (!hub->pools[i].template)
			continue;
		buf_add_str(b, "ward_pool_ready{template=\"");
		label(b, hub->pools[i].template);
		buf_add_fmt(b, "\"} %u\n", hub->pools[i].ready);
	}
	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		head(b, rows[k].name, rows[k].type, rows[k].help);
		for (unsigned i = 0; i < hub->pool_count; i++) {
			if (!hub->pools[i].template)
				continue;
			buf_add_fmt(b, "%s{template=\"", rows[k].name);
			label(b, hub->pools[i].template);
			buf_add_fmt(b, "\"} %" PRIu64 "\n",
				*(const uint64_t *)((const char *)&hub->pools[i] + rows[k].at));
		}
	}
}

static void put_empty(void *arg, const struct hub_empty *m)
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
	} rows[] = {
		{ "ward_empty_ready", "gauge", "Sandboxes made ahead, without a request.",
			m->ready },
		{ "ward_empty_target", "gauge", "How many there should be.", m->target },
		{ "ward_empty_hits_total", "counter", "Creates that found one.", m->hits },
		{ "ward_empty_misses_total", "counter", "Creates that did not.", m->misses },
		{ "ward_empty_lost_total", "counter", "That ended before anybody asked.", m->lost },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		head(arg, rows[i].name, rows[i].type, rows[i].help);
		buf_add_fmt(arg, "%s{tier=\"%s\"} %" PRIu64 "\n", rows[i].name, wall_name(m->tier),
			rows[i].value);
	}
}

static bool may_see(const struct hub_caller *who, const struct tenant *t)
{
	return !who || who->is_operator || str_eq(who->tenant, t->name);
}

static void put_tenants(struct hub *hub, const struct hub_caller *who, struct buf *b)
{
	head(b, "ward_tenant_sandboxes", "gauge", "Live sandboxes of each tenant.");
	for (const struct tenant *t = hub->tenants; t; t = t->next)
		if (may_see(who, t))
			buf_add_fmt(b, "ward_tenant_sandboxes{tenant=\"%s\"} %lld\n", t->name,
				(long long)t->use.sandboxes);
	head(b, "ward_tenant_memory_bytes", "gauge",
		"Memory that each tenant's sandboxes may use.");
	for (const struct tenant *t = hub->tenants; t; t = t->next)
		if (may_see(who, t))
			buf_add_fmt(b, "ward_tenant_memory_bytes{tenant=\"%s\"} %lld\n", t->name,
				(long long)t->use.memory_bytes);
}

void hub_metrics_text(struct hub *hub, const struct hub_caller *who, struct buf *b)
{
	struct rusage ru;

	put_states(hub, b);
	put_creates(hub, b);
	put_pools(hub, b);
	hub_empty_list(hub, put_empty, b);
	put_tenants(hub, who, b);
	one(b, "ward_kills_total", "counter", "Kills that were asked for.", hub->n.killed);
	one(b, "ward_ended_total", "counter", "Sandboxes that ended.", hub->n.ended);
	one(b, "ward_failed_total", "counter", "Sandboxes that failed.", hub->n.failed);
	one(b, "ward_paused_total", "counter", "Pauses.", hub->n.paused);
	one(b, "ward_resumed_total", "counter", "Resumes.", hub->n.resumed);
	one(b, "ward_found_total", "counter", "Sandboxes found after a restart.", hub->n.found);
	one(b, "ward_supervisors_lost_total", "counter", "Supervisors that died.", hub->n.lost);
	one(b, "ward_keys_refused_total", "counter", "Requests without a good key.",
		hub->n.keys_refused);
	one(b, "ward_database_errors_total", "counter", "Writes that failed.", hub->n.db_errors);
	one(b, "ward_events_total", "counter", "Events.", hub->event_seq - hub->event_first);
	one(b, "ward_calls", "gauge", "Verbs under way.", hub->calls);
	if (getrusage(RUSAGE_SELF, &ru) == 0) {
		head(b, "process_cpu_seconds_total", "counter", "CPU time of the daemon.");
		buf_add_fmt(b, "process_cpu_seconds_total %.6f\n",
			(double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
				(double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6);
	}
	for (unsigned i = 0; i < hub->part_count; i++)
		hub->parts[i].add(hub->parts[i].arg, b);
}

void hub_metrics_add(struct hub *hub, void (*fn)(void *arg, struct buf *out), void *arg)
{
	if (hub->part_count < METRICS_PARTS_MAX)
		hub->parts[hub->part_count++] = (struct metrics_part){ fn, arg };
}
