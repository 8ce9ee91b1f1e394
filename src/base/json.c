/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/json.c - writes JSON.
 *
 * Owns:  nothing; the bytes are the caller's struct buf.
 * Rules: whatever the strings hold, the output is valid JSON and valid UTF-8.
 */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"

static void comma(struct buf *b)
{
	char last = b->len ? b->data[b->len - 1] : '\0';

	if (last && last != '{' && last != '[' && last != ':' && last != '\n')
		buf_add(b, ",", 1);
}

/* Length of the well-formed UTF-8 sequence at @p, or 0. Refuses overlong forms and surrogates. */
static size_t utf8_len(const unsigned char *p, size_t left)
{
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (left < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
		(p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static void escape_one(struct buf *b, unsigned char c)
{
	switch (c) {
	case '"':
		buf_add(b, "\\\"", 2);
		break;
	case '\\':
		buf_add(b, "\\\\", 2);
		break;
	case '\n':
		buf_add(b, "\\n", 2);
		break;
	case '\t':
		buf_add(b, "\\t", 2);
		break;
	case '\r':
		buf_add(b, "\\r", 2);
		break;
	default:
		buf_add_fmt(b, "\\u%04x", c);
	}
}

static void quoted(struct buf *b, const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + len, *plain = p;

	buf_add(b, "\"", 1);
	while (p < end) {
		size_t n = utf8_len(p, (size_t)(end - p));

		if (n && *p >= 0x20 && *p != '"' && *p != '\\' && *p != 0x7f) {
			p += n;
			continue;
		}
		buf_add(b, plain, (size_t)(p - plain));
		if (n)
			escape_one(b, *p);
		else
			buf_add(b, "\\ufffd", 6);
		plain = ++p;
	}
	buf_add(b, plain, (size_t)(end - plain));
	buf_add(b, "\"", 1);
}

static void name(struct buf *b, const char *key)
{
	comma(b);
	if (!key)
		return;
	quoted(b, key, strlen(key));
	buf_add(b, ":", 1);
}

void json_open(struct buf *b, const char *key)
{
	name(b, key);
	buf_add(b, "{", 1);
}

void json_close(struct buf *b)
{
	buf_add(b, "}", 1);
}

void json_array(struct buf *b, const char *key)
{
	name(b, key);
	buf_add(b, "[", 1);
}

void json_array_end(struct buf *b)
{
	buf_add(b, "]", 1);
}

void json_strn(struct buf *b, const char *key, const char *value, size_t len)
{
	name(b, key);
	quoted(b, value, len);
}

void json_str(struct buf *b, const char *key, const char *value)
{
	if (!value)
		json_null(b, key);
	else
		json_strn(b, key, value, strlen(value));
}

void json_u64(struct buf *b, const char *key, uint64_t value)
{
	name(b, key);
	buf_add_fmt(b, "%" PRIu64, value);
}

void json_i64(struct buf *b, const char *key, int64_t value)
{
	name(b, key);
	buf_add_fmt(b, "%" PRId64, value);
}

void json_bool(struct buf *b, const char *key, bool value)
{
	name(b, key);
	buf_add_str(b, value ? "true" : "false");
}

void json_null(struct buf *b, const char *key)
{
	name(b, key);
	buf_add_str(b, "null");
}
