/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/wire/more.c - the test server's forms, gzip and proxy.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "wire/multipart.h"
#include "wire/zip.h"

static void say(struct call *c, const char *text)
{
	size_t n = strlen(c->text), m = strlen(text);

	if (n + m < sizeof(c->text))
		memcpy(c->text + n, text, m + 1);
}

/* ---- forms: each part as "name|filename|type|bytes|sum" ---- */

static int part_begin(void *ctx, const struct multipart_part *p)
{
	struct call *c = ctx;

	c->bytes = c->sum = 0;
	say(c, p->name);
	say(c, "|");
	say(c, p->filename ? p->filename : "-");
	say(c, "|");
	say(c, p->type ? p->type : "-");
	return 0;
}

static int part_data(void *ctx, const void *data, size_t len)
{
	struct call *c = ctx;
	const unsigned char *p = data;

	c->bytes += len;
	for (size_t i = 0; i < len; i++)
		c->sum = c->sum * 31 + p[i];
	return 0;
}

static int part_end(void *ctx)
{
	struct call *c = ctx;
	char text[64];

	snprintf(text, sizeof(text), "|%llu|%llu\n", (unsigned long long)c->bytes,
		(unsigned long long)c->sum);
	say(c, text);
	return 0;
}

static const struct multipart_events part_events = { part_begin, part_data, part_end };

static void form_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	struct call *c = ctx;

	(void)q;
	if (!c->failed)
		c->failed = multipart_feed(c->form, data, len);
}

static void form_end(void *ctx, struct wire_req *q, int r)
{
	struct call *c = ctx;

	if (r == 0)
		r = c->failed ? c->failed : multipart_finish(c->form);
	if (r < 0)
		wire_reply_text(q, wire_status_of(r), "%s", strerror(-r));
	else
		wire_reply(q, 200, "text/plain", c->text, strlen(c->text));
}

static const struct wire_events form_events = { form_body, form_end, NULL, call_ended };

void on_form(struct call *c)
{
	const char *type = wire_header(c->q, "content-type");

	if (!type || multipart_create(type, &part_events, c, &c->form) < 0) {
		wire_reply_text(c->q, 415, "not a form");
		return;
	}
	wire_on(c->q, &form_events, c);
	wire_body_accept(c->q, UINT64_MAX);
}

/* ---- gzip ---- */

static void zip_body(void *ctx, struct wire_req *q, const void *data, size_t len)
{
	struct call *c = ctx;

	(void)q;
	if (!c->failed)
		c->failed = zip_feed(c->zip, data, len);
}

static void gunzip_end(void *ctx, struct wire_req *q, int r)
{
	struct call *c = ctx;

	if (r == 0)
		r = c->failed ? c->failed : zip_finish(c->zip);
	if (r < 0)
		wire_reply_text(q, wire_status_of(r), "%s", strerror(-r));
	else
		wire_reply_text(q, 200, "%llu %llu", (unsigned long long)c->bytes,
			(unsigned long long)c->sum);
}

static const struct wire_events gunzip_events = { zip_body, gunzip_end, NULL, call_ended };

void on_gunzip(struct call *c)
{
	if (zip_inflate_create(call_number(c, "max", 1 << 30), part_data, c, &c->zip) < 0) {
		wire_reply_text(c->q, 503, "no memory");
		return;
	}
	wire_on(c->q, &gunzip_events, c);
	wire_body_accept(c->q, UINT64_MAX);
}

static int gzip_put(void *ctx, const void *data, size_t len)
{
	struct call *c = ctx;

	return wire_reply_write(c->q, data, len) < 0 ? -EPIPE : 0;
}

static void gzip_end(void *ctx, struct wire_req *q, int r)
{
	struct call *c = ctx;

	if (r < 0 || c->failed || zip_finish(c->zip) < 0)
		wire_reply_abort(q);
	else
		wire_reply_end(q);
}

static const struct wire_events gzip_events = { zip_body, gzip_end, NULL, call_ended };

void on_gzip(struct call *c)
{
	if (zip_deflate_create(6, gzip_put, c, &c->zip) < 0) {
		wire_reply_text(c->q, 503, "no memory");
		return;
	}
	wire_on(c->q, &gzip_events, c);
	wire_reply_header(c->q, "Content-Encoding", "gzip");
	wire_reply_start(c->q, 200, -1);
	wire_body_accept(c->q, UINT64_MAX);
}
