/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/envelope.c - messages with a length before them.
 *
 * Owns:  the message that is being put together.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/envelope.h"
#include "wire/limits.h"

enum { FIRST_BYTES = 512 };

void envelope_put_head(uint8_t out[ENVELOPE_HEAD], uint8_t flags, uint32_t len)
{
	out[0] = flags;
	for (int i = 0; i < 4; i++)
		out[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

static size_t length_of(const struct envelope_reader *r)
{
	return (size_t)r->head[1] << 24 | (size_t)r->head[2] << 16 | (size_t)r->head[3] << 8 |
	       r->head[4];
}

void envelope_reader_init(struct envelope_reader *r, size_t max)
{
	*r = (struct envelope_reader){ .max = max < WIRE_ENVELOPE_MAX ? max : WIRE_ENVELOPE_MAX };
}

void envelope_reader_done(struct envelope_reader *r)
{
	free(r->data);
	*r = (struct envelope_reader){ 0 };
}

/* Room for @need bytes and a NUL; at most twice what has arrived. */
static int make_room(struct envelope_reader *r, size_t need)
{
	size_t cap = r->cap ? r->cap : FIRST_BYTES;
	char *data;

	if (need < r->cap)
		return 0;
	while (cap <= need)
		cap *= 2;
	data = realloc(r->data, cap);
	if (!data)
		return -ENOMEM;
	r->data = data;
	r->cap = cap;
	return 0;
}

static size_t take(void *to, size_t want, const void **data, size_t *len)
{
	size_t n = want < *len ? want : *len;

	if (n)
		memcpy(to, *data, n);
	*data = (const char *)*data + n;
	*len -= n;
	return n;
}

int envelope_read(struct envelope_reader *r, const void **data, size_t *len, uint8_t *ret_flags,
	const char **ret_msg, size_t *ret_len)
{
	size_t total, have, n;

	if (r->at < ENVELOPE_HEAD)
		r->at += take(r->head + r->at, ENVELOPE_HEAD - r->at, data, len);
	if (r->at < ENVELOPE_HEAD)
		return 0;
	total = length_of(r);
	if (total > r->max)
		return -EMSGSIZE;
	have = r->at - ENVELOPE_HEAD;
	n = total - have < *len ? total - have : *len;
	if (make_room(r, have + n) < 0)
		return -ENOMEM;
	r->at += take(r->data + have, n, data, len);
	if (have + n < total)
		return 0;
	r->data[total] = '\0';
	r->at = 0;
	*ret_flags = r->head[0];
	*ret_msg = r->data;
	*ret_len = total;
	return 1;
}
