/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/interp_text.c - what drivers of the code interpreter say, and how it is passed on.
 *
 * Owns:  struct interp_reader.
 * Rules: pure. The output is the user's: a token that user code found out can end its own cell
 * early, and nothing else.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "front/e2b/interp_text.h"
#include "front/limits.h"

/* Bytes of the character at @p, 0 when it is none; -1 when it is cut off. */
static int utf8_len(const unsigned char *p, size_t left)
{
	int n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	for (int i = 1; i < n; i++) {
		if ((size_t)i >= left)
			return -1;
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		if (i == 1 &&
			((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
				(p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f)))
			return 0;
	}
	return n;
}

static uint32_t utf8_value(const unsigned char *p, int n)
{
	uint32_t v = n == 2 ? p[0] & 0x1f : n == 3 ? p[0] & 0x0f : p[0] & 0x07;

	for (int i = 1; i < n; i++)
		v = v << 6 | (p[i] & 0x3f);
	return v;
}

static void add_escaped(struct buf *b, uint32_t v)
{
	if (v >= 0x10000) {
		v -= 0x10000;
		buf_add_fmt(b, "\\u%04x\\u%04x", 0xd800 + (v >> 10), 0xdc00 + (v & 0x3ff));
	} else {
		buf_add_fmt(b, "\\u%04x", v);
	}
}

void interp_add_text(struct buf *b, const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + len;

	buf_add(b, "\"", 1);
	while (p < end) {
		const unsigned char *plain = p;
		int n;

		while (p < end && *p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\')
			p++;
		buf_add(b, plain, (size_t)(p - plain));
		if (p == end)
			break;
		n = utf8_len(p, (size_t)(end - p));
		if (*p == '"' || *p == '\\')
			buf_add_fmt(b, "\\%c", *p);
		else if (*p == '\n')
			buf_add(b, "\\n", 2);
		else
			add_escaped(b, n <= 0 ? 0xfffd : n == 1 ? *p : utf8_value(p, n));
		p += n <= 0 ? 1 : n;
	}
	buf_add(b, "\"", 1);
}

size_t interp_cut(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;

	for (size_t back = 1; back <= 3 && back <= len; back++) {
		unsigned char c = p[len - back];

		if (c < 0x80)
			return 0;
		if (c >= 0xc0)
			return utf8_len(p + len - back, back) < 0 ? back : 0;
	}
	return 0;
}

void interp_reader_init(struct interp_reader *r, const char token[INTERP_TOKEN + 1])
{
	r->mark[0] = '\x1e';
	memcpy(r->mark + 1, token, INTERP_TOKEN + 1);
	r->in_line = false;
	buf_init(&r->kept, FRONT_LINE_MAX + 1024);
}

void interp_reader_done(struct interp_reader *r)
{
	buf_done(&r->kept);
}

void interp_reader_reset(struct interp_reader *r)
{
	buf_done(&r->kept);
	buf_init(&r->kept, FRONT_LINE_MAX + 1024);
	r->in_line = false;
}

static bool is_json_text(const char *line, size_t len)
{
	if (len < 2 || line[0] != '{' || line[len - 1] != '}')
		return false;
	for (size_t i = 0; i < len; i++)
		if (line[i] < ' ' || line[i] > '~')
			return false;
	return true;
}

/* A whole marked line, without its end: "." or "=" and JSON. */
static void tell_line(const char *line, size_t len, const struct interp_events *events, void *ctx)
{
	if (len == 1 && line[0] == '.')
		events->end(ctx);
	else if (len > 1 && line[0] == '=' && is_json_text(line + 1, len - 1))
		events->line(ctx, line + 1, len - 1);
}

/* How much of the end of @text may be the beginning of a mark. */
static size_t mark_begins(const struct interp_reader *r, const char *text, size_t len)
{
	size_t most = strlen(r->mark) - 1;

	for (size_t n = len < most ? len : most; n; n--)
		if (memcmp(text + len - n, r->mark, n) == 0)
			return n;
	return 0;
}

/* Eats one thing of @text: how much, 0 when more must come. */
static size_t eat(struct interp_reader *r, const char *text, size_t len,
	const struct interp_events *events, void *ctx)
{
	size_t mark = strlen(r->mark), keep;
	const char *found;

	if (r->in_line) {
		const char *nl = memchr(text, '\n', len);

		if (!nl)
			return 0;
		r->in_line = false;
		tell_line(text, (size_t)(nl - text), events, ctx);
		return (size_t)(nl - text) + 1;
	}
	found = memmem(text, len, r->mark, mark);
	if (found == text) {
		r->in_line = true;
		return mark;
	}
	if (found) {
		len = (size_t)(found - text);
		keep = 0;
	} else {
		keep = mark_begins(r, text, len);
		if (!keep)
			keep = interp_cut(text, len);
	}
	if (len > keep)
		events->text(ctx, text, len - keep);
	return len - keep;
}

int interp_read(struct interp_reader *r, const char *data, size_t len,
	const struct interp_events *events, void *ctx)
{
	size_t at = 0, n;

	if (r->kept.len) {
		/* A line that is still not whole: no use in looking at all of it again. */
		bool more = r->in_line && !memchr(data, '\n', len);

		buf_add(&r->kept, data, len);
		if (r->kept.bad || (r->in_line && r->kept.len > FRONT_LINE_MAX && more))
			return -EMSGSIZE;
		if (more)
			return 0;
		data = r->kept.data;
		len = r->kept.len;
	}
	while (at < len && (n = eat(r, data + at, len - at, events, ctx)) > 0)
		at += n;
	if (data == r->kept.data) {
		memmove(r->kept.data, r->kept.data + at, len - at);
		buf_cut(&r->kept, len - at);
	} else {
		buf_add(&r->kept, data + at, len - at);
	}
	return r->kept.bad ? -EMSGSIZE : 0;
}

void interp_read_end(struct interp_reader *r, const struct interp_events *events, void *ctx)
{
	if (r->kept.len && !r->in_line)
		events->text(ctx, r->kept.data, r->kept.len);
	buf_cut(&r->kept, 0);
	r->in_line = false;
}
