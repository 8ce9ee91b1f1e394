/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/h1_chunk.c - chunked bodies (RFC 9112, 7.1).
 *
 * Owns:  nothing.
 * Rules: no blanks, no bare LF, sizes of a few digits. Extensions and trailers are read and
 * dropped, within limits, so that they cannot be used to feed the server for nothing.
 */
#include <errno.h>
#include <string.h>

#include "wire/h1.h"

enum state {
	SIZE,    /* hex digits */
	EXT,     /* from ; to CR */
	SIZE_LF, /* LF of the size line */
	DATA,    /* @left bytes */
	DATA_CR, /* CR LF behind them */
	DATA_LF,
	TRAIL,    /* first character of a trailer line */
	TRAIL_IN, /* inside one */
	TRAIL_LF, /* its LF */
	LAST_LF,  /* LF of the empty line */
	OVER,
};

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/*
 * A size line is dear to us and cheap to them. What it takes beyond a fair size (16 bytes, and two
 * for each byte of data) adds up, and data that follows pays it off.
 */
static int line_over(struct h1_chunks *c)
{
	uint64_t fair = 16 + 2 * c->left;
	unsigned owed = c->excess + c->line + 2;

	c->excess = fair >= owed ? 0 : owed - (unsigned)fair;
	c->line = c->digits = 0;
	return c->excess > WIRE_CHUNK_OVERHEAD_MAX ? -EPROTO : 0;
}

static int size_step(struct h1_chunks *c, char ch)
{
	int v = hex_value(ch);

	if (v >= 0) {
		if (++c->digits > WIRE_CHUNK_SIZE_DIGITS)
			return -EPROTO;
		c->left = c->left << 4 | (unsigned)v;
		return 0;
	}
	if (!c->digits || (ch != ';' && ch != '\r'))
		return -EPROTO;
	c->state = ch == ';' ? EXT : SIZE_LF;
	return 0;
}

static int ext_step(struct h1_chunks *c, char ch)
{
	if (ch == '\r')
		c->state = SIZE_LF;
	else if (((unsigned char)ch < ' ' && ch != '\t') || ch == 0x7f)
		return -EPROTO;
	return 0;
}

static int trailer_step(struct h1_chunks *c, char ch)
{
	if (++c->trailer > WIRE_TRAILER_MAX)
		return -EPROTO;
	if (ch == '\r') {
		c->state = c->state == TRAIL ? LAST_LF : TRAIL_LF;
		return 0;
	}
	/* A folded line, or one without a name. */
	if (c->state == TRAIL && (ch == ' ' || ch == '\t' || ch == ':'))
		return -EPROTO;
	if (((unsigned char)ch < ' ' && ch != '\t') || ch == 0x7f)
		return -EPROTO;
	c->state = TRAIL_IN;
	return 0;
}

/* One character that is not data. */
static int step(struct h1_chunks *c, char ch)
{
	switch ((enum state)c->state) {
	case SIZE:
	case EXT:
		if (++c->line > WIRE_CHUNK_LINE_MAX)
			return -EPROTO;
		return c->state == SIZE ? size_step(c, ch) : ext_step(c, ch);
	case SIZE_LF:
		c->state = c->left ? DATA : TRAIL;
		return ch == '\n' ? line_over(c) : -EPROTO;
	case DATA_CR:
		c->state = DATA_LF;
		return ch == '\r' ? 0 : -EPROTO;
	case DATA_LF:
		c->state = SIZE;
		return ch == '\n' ? 0 : -EPROTO;
	case TRAIL:
	case TRAIL_IN:
		return trailer_step(c, ch);
	case TRAIL_LF:
		c->state = TRAIL;
		return ch == '\n' ? 0 : -EPROTO;
	case LAST_LF:
		c->state = OVER;
		return ch == '\n' ? 0 : -EPROTO;
	case DATA:
	case OVER:
		break;
	}
	return -EPROTO;
}

int h1_chunks_next(
	struct h1_chunks *c, const char **data, size_t *len, const char **ret, size_t *ret_len)
{
	while (*len && c->state != OVER) {
		if (c->state == DATA) {
			size_t n = c->left < *len ? (size_t)c->left : *len;

			*ret = *data;
			*ret_len = n;
			*data += n;
			*len -= n;
			c->left -= n;
			if (!c->left)
				c->state = DATA_CR;
			return H1_DATA;
		}
		if (step(c, **data) < 0)
			return -EPROTO;
		++*data;
		--*len;
	}
	return c->state == OVER ? H1_END : H1_MORE;
}
