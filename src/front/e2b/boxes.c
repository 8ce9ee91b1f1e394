/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/boxes.c - sandboxes as E2B clients read them.
 *
 * Owns:  the shapes Sandbox, ListedSandbox, SandboxDetail and SandboxMetric.
 * Rules: pure. Every field that some client insists on is always there.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "front/e2b/boxes.h"

enum { MIB = 1 << 20 };

static void put_time(struct buf *b, const char *key, int64_t us)
{
	char text[CLOCK_TEXT];

	clock_text_at(us, text);
	json_str(b, key, text);
}

void box_json_sandbox(struct buf *b, const struct hub_box *box, const char *domain)
{
	json_open(b, NULL);
	json_str(b, "sandboxID", box->id);
	json_str(b, "templateID", box->template_asked);
	json_str(b, "alias", box->template_asked);
	json_str(b, "clientID", "ward");
	json_str(b, "envdVersion", E2B_ENVD_VERSION);
	if (box->envd_token)
		json_str(b, "envdAccessToken", box->envd_token);
	json_str(b, "trafficAccessToken", box->traffic_token);
	json_str(b, "domain", domain);
	json_close(b);
}

/* "Never" is the last moment that every client can read. */
static int64_t end_of(const struct hub_box *box)
{
	return box->end_us ? box->end_us : INT64_C(253402300799000000);
}

static void put_listed(struct buf *b, const struct hub_box *box)
{
	bool paused = box->state == HUB_PAUSED || box->state == HUB_PAUSING;

	json_str(b, "sandboxID", box->id);
	json_str(b, "templateID", box->template_asked);
	json_str(b, "alias", box->template_asked);
	json_str(b, "clientID", "ward");
	put_time(b, "startedAt", box->started_us);
	put_time(b, "endAt", end_of(box));
	json_u64(b, "cpuCount", box->cpu_count);
	json_u64(b, "memoryMB", box->limits.memory_bytes / MIB);
	json_u64(b, "diskSizeMB", box->limits.disk_bytes / MIB);
	json_str(b, "state", paused ? "paused" : "running");
	json_str(b, "envdVersion", E2B_ENVD_VERSION);
	json_open(b, "metadata");
	for (unsigned i = 0; i < box->metadata_count; i++)
		json_str(b, box->metadata[i].key, box->metadata[i].value);
	json_close(b);
}

void box_json_listed(struct buf *b, const struct hub_box *box)
{
	json_open(b, NULL);
	put_listed(b, box);
	json_close(b);
}

static void put_names(struct buf *b, const char *key, const char *const *names)
{
	json_array(b, key);
	for (; names && *names; names++)
		json_str(b, NULL, *names);
	json_array_end(b);
}

static void put_network(struct buf *b, const struct hub_network *net)
{
	json_open(b, "network");
	put_names(b, "allowOut", net->allow_out);
	put_names(b, "denyOut", net->deny_out);
	json_bool(b, "allowPublicTraffic", !net->private_ports);
	if (net->mask_host && *net->mask_host)
		json_str(b, "maskRequestHost", net->mask_host);
	json_close(b);
}

void box_json_detail(struct buf *b, const struct hub_box *box, const char *domain)
{
	json_open(b, NULL);
	put_listed(b, box);
	if (box->envd_token)
		json_str(b, "envdAccessToken", box->envd_token);
	json_str(b, "domain", domain);
	json_bool(b, "allowInternetAccess", !box->network.deny_internet);
	put_network(b, &box->network);
	json_open(b, "lifecycle");
	json_str(b, "onTimeout", box->on_timeout == HUB_TIMEOUT_PAUSE ? "pause" : "kill");
	json_bool(b, "autoResume", box->auto_resume);
	json_close(b);
	json_close(b);
}

static void put_known(struct buf *b, const char *key, uint64_t value)
{
	json_u64(b, key, value == UINT64_MAX ? 0 : value); /* clients insist on a number */
}

void box_json_metric(struct buf *b, const struct hub_box *box, const struct hub_sample *s)
{
	uint64_t milli = s->cpu_milli == UINT64_MAX ? 0 : s->cpu_milli;
	uint64_t cpus = box->cpu_count ? box->cpu_count : 1;
	uint64_t tenths = milli / cpus; /* of a percent: thousandths of all its CPUs */

	json_open(b, NULL);
	put_time(b, "timestamp", s->at_us);
	json_i64(b, "timestampUnix", s->at_us / 1000000);
	json_u64(b, "cpuCount", cpus);
	buf_add_fmt(b, ",\"cpuUsedPct\":%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
	put_known(b, "memUsed", s->mem_used);
	put_known(b, "memTotal", s->mem_total);
	put_known(b, "memCache", s->mem_cache);
	put_known(b, "diskUsed", s->disk_used);
	put_known(b, "diskTotal", s->disk_total);
	json_close(b);
}
