/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_form.c - multipart/form-data.
 *
 * Input: the first byte is the size of the pieces in which the rest is fed, 0 for all at once; then
 * a Content-Type up to the first line end, then the body.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/limits.h"
#include "wire/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	unsigned parts, open;
	size_t bytes;
};

static int on_begin(void *ctx, const struct multipart_part *p)
{
	struct seen *s = ctx;

	if (s->open++ || strlen(p->name) > WIRE_PART_NAME_MAX)
		abort();
	s->parts++;
	return 0;
}

static int on_data(void *ctx, const void *data, size_t len)
{
	struct seen *s = ctx;

	if (!s->open || !len || !data)
		abort();
	s->bytes += len;
	return 0;
}

static int on_end(void *ctx)
{
	struct seen *s = ctx;

	if (!s->open--)
		abort();
	return 0;
}

static const struct multipart_events events = { on_begin, on_data, on_end };

static int feed(const char *type, const char *body, size_t size, size_t piece, struct seen *s)
{
	struct multipart *m;
	int r = multipart_create(type, &events, s, &m);

	if (r < 0)
		return r;
	for (size_t at = 0; at < size && r == 0; at += piece)
		r = multipart_feed(m, body + at, size - at < piece ? size - at : piece);
	if (r == 0)
		r = multipart_finish(m);
	if (r == 0 && s->open)
		abort();
	multipart_destroy(m);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *end = size ? memchr(data + 1, '\n', size - 1) : NULL;
	struct seen whole = { 0 }, parts = { 0 };
	char type[256] = "";
	size_t n, rest;
	int r;

	if (!end)
		return 0;
	n = (size_t)(end - (const char *)data) - 1;
	rest = size - 2 - n;
	if (n >= sizeof(type))
		return 0;
	memcpy(type, data + 1, n);
	r = feed(type, end + 1, rest, rest ? rest : 1, &whole);
	if (feed(type, end + 1, rest, data[0] ? data[0] : 1, &parts) != r ||
		(r == 0 && (whole.parts != parts.parts || whole.bytes != parts.bytes)))
		abort();
	return 0;
}
