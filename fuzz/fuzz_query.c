/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_query.c - queries and the small texts of headers: escapes, base64, dates, ranges.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/limits.h"
#include "wire/query.h"
#include "wire/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void query(const char *text)
{
	struct query q;

	if (query_parse(&q, text) < 0)
		return;
	if (q.count > WIRE_QUERY_PAIRS_MAX)
		abort();
	for (unsigned i = 0; i < q.count; i++) {
		if (strlen(q.pairs[i].key) + strlen(q.pairs[i].value) > strlen(text))
			abort();
		if (!query_get(&q, q.pairs[i].key))
			abort();
	}
	query_done(&q);
}

/* What is escaped comes back as it was. */
static void escapes(const char *text, size_t len)
{
	char *out = malloc(3 * len + 1), *back = malloc(len + 1);
	int n;

	if (out && back) {
		n = percent_encode(text, len, out, 3 * len + 1);
		if (n < 0 || percent_decode(out, (size_t)n, PERCENT_PLUS_SPACE, back, len + 1) !=
				     (int)len)
			abort();
		if (memcmp(back, text, len) != 0)
			abort();
		percent_decode(text, len, PERCENT_PLUS_KEEP, back, len + 1);
	}
	free(out);
	free(back);
}

/* Whatever can be read was written in one way: with or without padding, in either alphabet. */
static void base64(const char *text, size_t len)
{
	unsigned char *bytes = malloc(BASE64_BYTES(len) + 1);
	char *again = malloc(BASE64_LEN(BASE64_BYTES(len)) + 1);
	ssize_t n;

	if (bytes && again) {
		n = base64_decode(text, len, bytes);
		if (n >= 0) {
			size_t m = base64_encode(bytes, (size_t)n, again);

			if (m < len || m > len + 2)
				abort();
			for (size_t i = 0; i < len; i++)
				if (text[i] != again[i] && text[i] != '-' && text[i] != '_')
					abort();
		}
	}
	free(bytes);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	uint64_t from, len;
	int64_t us;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	query(text);
	escapes(text, strlen(text));
	base64((const char *)data, size);
	rfc3339_parse(text, &us);
	if (http_range(text, 1000, &from, &len) == 1 && (!len || from + len > 1000))
		abort();
	http_accepts(text, "gzip");
	free(text);
	return 0;
}
