/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/proxy_head.c - heads on their way through a proxy.
 *
 * Owns:  nothing.
 * Rules: what concerns one connection (RFC 9110, 7.6.1) stays on it, and so does what the
 * Connection header names. Framing is written anew from what was understood, never copied.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "wire/proxy_impl.h"

bool proxy_is_hop(const char *name)
{
	static const char *const hops[] = { "Connection", "Keep-Alive", "Proxy-Connection",
		"Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding",
		"Upgrade", "Content-Length", "Expect", "HTTP2-Settings" };

	for (unsigned i = 0; i < ARRAY_LEN(hops); i++)
		if (strcasecmp(hops[i], name) == 0)
			return true;
	return false;
}

static bool is_listed(const char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (strcasecmp(*list, name) == 0)
			return true;
	return false;
}

static void add_header(struct buf *b, const char *name, const char *value)
{
	buf_add_str(b, name);
	buf_add_str(b, ": ");
	buf_add_str(b, value);
	buf_add_str(b, "\r\n");
}

static void add_framing(struct buf *b, const struct wire_req *q)
{
	const char *upgrade = wire_upgrade_asked(q);
	int64_t length = wire_body_length(q);

	if (length < 0)
		buf_add_str(b, "Transfer-Encoding: chunked\r\n");
	else if (length > 0 || wire_method(q) == WIRE_POST || wire_method(q) == WIRE_PUT ||
		 wire_method(q) == WIRE_PATCH)
		buf_add_fmt(b, "Content-Length: %" PRId64 "\r\n", length);
	if (upgrade) {
		add_header(b, "Connection", "Upgrade");
		add_header(b, "Upgrade", upgrade);
	} else {
		add_header(b, "Connection", "close");
	}
}

static bool is_legal(const struct wire_proxy_options *o)
{
	if (o->host && !h1_host_is_legal(o->host))
		return false;
	for (const char *p = o->target; p && *p; p++)
		if (*p <= ' ' || *p > '~')
			return false;
	for (unsigned i = 0; o->add && o->add[i]; i += 2)
		if (!h1_is_token(o->add[i]) || !o->add[i + 1] || !h1_is_value(o->add[i + 1]))
			return false;
	return true;
}

int proxy_write_head(
	struct buf *b, const struct wire_req *q, const struct wire_proxy_options *options)
{
	const char *name, *value, *query = wire_query(q);

	if (!is_legal(options))
		return -EINVAL;
	buf_add_str(b, wire_method_name(q));
	buf_add_str(b, " ");
	if (options->target) {
		buf_add_str(b, options->target);
	} else {
		buf_add_str(b, wire_path_raw(q));
		buf_add_str(b, *query ? "?" : "");
		buf_add_str(b, query);
	}
	buf_add_str(b, " HTTP/1.1\r\n");
	add_header(b, "Host", options->host ? options->host : wire_authority(q));
	for (unsigned i = 0; wire_header_at(q, i, &name, &value); i++) {
		if (strcasecmp(name, "Host") == 0 || proxy_is_hop(name) ||
			is_listed(options->drop, name) || wire_header_has(q, "Connection", name))
			continue;
		add_header(b, name, value);
	}
	for (unsigned i = 0; options->add && options->add[i]; i += 2)
		add_header(b, options->add[i], options->add[i + 1]);
	add_framing(b, q);
	buf_add_str(b, "\r\n");
	return b->bad ? -ENOMEM : 0;
}

static bool is_named_by_connection(const struct h1_head *h, const char *name)
{
	for (unsigned i = 0; i < h->count; i++)
		if (strcasecmp(h->fields[i].name, "Connection") == 0 &&
			h1_list_has(h->fields[i].value, name))
			return true;
	return false;
}

void proxy_copy_headers(struct wire_req *q, const struct h1_head *h)
{
	for (unsigned i = 0; i < h->count; i++) {
		const char *name = h->fields[i].name;

		if (!proxy_is_hop(name) && !is_named_by_connection(h, name))
			wire_reply_header(q, name, h->fields[i].value);
	}
}
