/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/query.c - percent-escapes and queries.
 *
 * Owns:  the decoded copy behind a struct query.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/limits.h"
#include "wire/query.h"

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that %XX at @p stands for, or -1; @left bytes are there. */
static int escape_value(const char *p, size_t left)
{
	int high = left >= 3 ? hex_value(p[1]) : -1, low = high >= 0 ? hex_value(p[2]) : -1;

	return low < 0 ? -1 : high << 4 | low;
}

int percent_decode(const char *text, size_t len, enum percent_plus plus, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (c == '%') {
			int v = escape_value(text + i, len - i);

			if (v < 0)
				return -EINVAL;
			if (v == 0)
				return -EILSEQ;
			c = (char)v;
			i += 2;
		} else if (c == '+' && plus == PERCENT_PLUS_SPACE) {
			c = ' ';
		}
		if (n + 1 >= cap)
			return -ENAMETOOLONG;
		out[n++] = c;
	}
	if (n >= cap)
		return -ENAMETOOLONG;
	out[n] = '\0';
	return (int)n;
}

int percent_encode(const char *text, size_t len, char *out, size_t cap)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (isalnum(c) || (c && strchr("-._~", c))) {
			if (n + 1 >= cap)
				return -ENAMETOOLONG;
			out[n++] = (char)c;
			continue;
		}
		if (n + 3 >= cap)
			return -ENAMETOOLONG;
		out[n++] = '%';
		out[n++] = digits[c >> 4];
		out[n++] = digits[c & 15];
	}
	if (n >= cap)
		return -ENAMETOOLONG;
	out[n] = '\0';
	return (int)n;
}

/* In place; the result is never longer. A broken escape stays as it is. */
static int decode_word(char *word)
{
	char *to = word;

	for (const char *p = word; *p; p++) {
		int v = *p == '%' ? escape_value(p, strnlen(p, 3)) : -1;

		if (v == 0)
			return -EILSEQ;
		if (v > 0) {
			*to++ = (char)v;
			p += 2;
		} else {
			*to++ = *p == '+' ? ' ' : *p;
		}
	}
	*to = '\0';
	return 0;
}

static unsigned count_pairs(const char *text)
{
	unsigned n = 1;

	for (; *text; text++)
		n += *text == '&';
	return n;
}

static int parse_pair(struct query *q, char *word)
{
	char *eq = strchr(word, '=');
	int r;

	if (eq)
		*eq++ = '\0';
	r = decode_word(word);
	if (r == 0 && eq)
		r = decode_word(eq);
	q->pairs[q->count++] = (struct query_pair){ word, eq ? eq : "" };
	return r;
}

int query_parse(struct query *q, const char *text)
{
	unsigned most = count_pairs(text);
	char *at;
	int r = 0;

	*q = (struct query){ 0 };
	if (most > WIRE_QUERY_PAIRS_MAX)
		return -E2BIG;
	q->text = strdup(text);
	q->pairs = calloc(most, sizeof(*q->pairs));
	if (!q->text || !q->pairs)
		r = -ENOMEM;
	for (at = q->text; at && r == 0;) {
		char *word = strsep(&at, "&");

		if (*word) /* "a=1&&b=2": nothing between */
			r = parse_pair(q, word);
	}
	if (r < 0)
		query_done(q);
	return r;
}

void query_done(struct query *q)
{
	free(q->pairs);
	free(q->text);
	*q = (struct query){ 0 };
}

const char *query_next(const struct query *q, const char *key, unsigned *at)
{
	while (*at < q->count) {
		const struct query_pair *p = &q->pairs[(*at)++];

		if (str_eq(p->key, key))
			return p->value;
	}
	return NULL;
}

const char *query_get(const struct query *q, const char *key)
{
	unsigned at = 0;

	return query_next(q, key, &at);
}
