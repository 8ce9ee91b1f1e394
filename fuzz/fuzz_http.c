/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_http.c - heads of requests and responses, and chunked bodies.
 *
 * Input: the first byte says what it is (its lowest two bits) and the size of the pieces in which
 * the rest is fed, 0 for all at once.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_text(const char *s)
{
	const volatile char *p = s;

	while (p && *p)
		p++;
}

static size_t piece_of(uint8_t first, size_t size)
{
	return first >> 2 ? first >> 2 : size ? size : 1;
}

static void check_target(struct h1_head *h)
{
	struct h1_target t;
	struct h1_fault f;
	char name[WIRE_HEAD_MAX];

	if (h1_split_target((char *)h->target, h->method, &t, &f) < 0)
		return;
	touch_text(t.authority);
	touch_text(t.query);
	if (*t.path != '/' && strcmp(t.path, "*") != 0)
		abort();
	if (h->host)
		h1_host_name(h->host, name);
}

/* What a handler may rely on. */
static void check_head(struct h1_head *h, int is_request)
{
	if (h->chunked && h->length >= 0)
		abort();
	for (unsigned i = 0; i < h->count; i++) {
		if (!h1_is_token(h->fields[i].name) || !h1_is_value(h->fields[i].value))
			abort();
	}
	touch_text(h->upgrade);
	if (is_request) {
		if (!h1_is_token(h->method) || (h->minor && !h->host))
			abort();
		check_target(h);
	} else if (h->status < 100 || h->status > 999) {
		abort();
	}
}

static void head(const char *data, size_t size, size_t piece, int is_request)
{
	struct h1_fault f = { 0 };
	struct h1_head h;
	size_t seen = 0, have = 0;
	int n = 0;

	while (n == 0 && have < size) {
		have = size - have < piece ? size : have + piece;
		n = h1_head_end(data, have, &seen, &f);
	}
	if (n > 0) {
		char *copy = malloc((size_t)n);
		int r;

		if (!copy)
			return;
		memcpy(copy, data, (size_t)n);
		r = is_request ? h1_parse_request(&h, copy, (size_t)n, &f)
			       : h1_parse_response(&h, copy, (size_t)n, &f);
		if (r == 0)
			check_head(&h, is_request);
		else if (f.status < 400 || f.status > 599 || !f.why)
			abort();
		free(copy);
	}
}

/* The same bytes in pieces and at once are the same body. */
static void chunks(const char *data, size_t size, size_t piece)
{
	struct h1_chunks whole = { 0 }, parts = { 0 };
	const char *p = data, *got;
	size_t left = size, n, total = 0, other = 0, at = 0;
	int r, s = H1_MORE;

	while ((r = h1_chunks_next(&whole, &p, &left, &got, &n)) == H1_DATA)
		total += n;
	while (at < size && s == H1_MORE) {
		size_t m = size - at < piece ? size - at : piece, rest = m;

		p = data + at;
		while ((s = h1_chunks_next(&parts, &p, &rest, &got, &n)) == H1_DATA)
			other += n;
		at += m - rest;
	}
	if (r != s || total != other || total > size)
		abort();
	if (r == H1_END && size - left != at)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	size_t piece;

	if (!size)
		return 0;
	piece = piece_of(data[0], size);
	switch (data[0] & 3) {
	case 0:
		head(text, size - 1, piece, 1);
		break;
	case 1:
		head(text, size - 1, piece, 0);
		break;
	default:
		chunks(text, size - 1, piece);
	}
	return 0;
}
