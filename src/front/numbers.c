/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/numbers.c - what a machine asks about the daemon: /metrics, /health, /ready.
 *
 * Owns:  the front's own numbers.
 * Rules: no tenant's name or id in any of them.
 */
#include <inttypes.h>

#include "base/buf.h"
#include "front/call.h"
#include "front/e2b/handlers.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "front/rest/handlers.h"
#include "front/route.h"

static void put(struct buf *b, const char *name, const char *type, const char *help, uint64_t v)
{
	buf_add_fmt(
		b, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type, name, v);
}

static void put_server(struct buf *b, const struct wire_server *s)
{
	struct wire_stats n;

	wire_server_stats(s, &n);
	put(b, "ward_http_connections", "gauge", "Connections open now.", n.conns);
	put(b, "ward_http_queued_bytes", "gauge", "Answers that are not read yet.", n.queued);
	put(b, "ward_http_held_bytes", "gauge", "What requests make the daemon keep.", n.held);
	put(b, "ward_http_connections_total", "counter", "Connections accepted.", n.accepted);
	put(b, "ward_http_requests_total", "counter", "Requests with a whole head.", n.requests);
	put(b, "ward_http_refused_total", "counter", "Requests that were no HTTP.", n.refused);
	put(b, "ward_http_timeouts_total", "counter", "Peers that were too slow.", n.timeouts);
	put(b, "ward_http_received_bytes_total", "counter", "Bytes received.", n.bytes_in);
	put(b, "ward_http_sent_bytes_total", "counter", "Bytes sent.", n.bytes_out);
}

void front_numbers(void *front, struct buf *out)
{
	static const char *const planes[] = { [PLANE_CONTROL] = "control",
		[PLANE_ENVD] = "envd",
		[PLANE_INTERP] = "interpreter",
		[PLANE_PORT] = "port" };
	const struct front *f = front;

	put(out, "ward_front_requests_live", "gauge", "Requests being served.", f->live);
	put(out, "ward_front_watched_bytes", "gauge", "Events of polled watchers.", f->watched);
	put(out, "ward_front_refused_total", "counter", "Requests without a right to be made.",
		f->failures);
	buf_add_str(out, "# HELP ward_front_requests_total Requests by plane.\n"
			 "# TYPE ward_front_requests_total counter\n");
	for (unsigned i = 0; i < 4; i++)
		buf_add_fmt(out, "ward_front_requests_total{plane=\"%s\"} %" PRIu64 "\n", planes[i],
			f->requests[i]);
	if (f->server)
		put_server(out, f->server);
}

void front_metrics(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LISTING_MAX);
	hub_metrics_text(c->front->hub, c->who.tenant[0] ? &c->who : NULL, &b);
	if (b.bad)
		call_fail_memory(c);
	else
		wire_reply(c->q, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
}

/* Alive: this thread answers. */
void front_health(struct call *c)
{
	wire_reply(c->q, 200, "application/json", "{\"status\":\"ok\"}\n", 16);
}

/* Ready: what was found at the start is known, and nobody has said stop. */
void front_ready(struct call *c)
{
	if (hub_is_ready(c->front->hub))
		wire_reply(c->q, 200, "text/plain", "ready\n", 6);
	else
		wire_reply_text(c->q, 503, "not ready");
}
