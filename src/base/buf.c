/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/buf.c - bytes that grow up to a limit.
 *
 * Owns:  the memory behind a struct buf.
 * Rules: a bad buffer stays bad until buf_done().
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/ckd.h"

enum { BUF_FIRST = 512 };

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}

static bool make_room(struct buf *b, size_t more)
{
	size_t need, cap = b->cap ? b->cap : BUF_FIRST;
	char *p;

	if (b->bad)
		return false;
	if (ckd_add(&need, b->len, more) || need > b->max) {
		b->bad = true;
		return false;
	}
	if (need + 1 <= b->cap)
		return true;
	while (cap < need + 1)
		cap *= 2;
	p = realloc(b->data, cap);
	if (!p) {
		b->bad = true;
		return false;
	}
	b->data = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!make_room(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_add_fmt(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !make_room(b, (size_t)n)) {
		b->bad = true;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void buf_cut(struct buf *b, size_t len)
{
	if (len >= b->len)
		return;
	b->len = len;
	b->data[len] = '\0';
}
