/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/frame.c - frames out of a stream of bytes.
 *
 * Owns:  nothing; the reader's buffer is in the caller's struct.
 * Rules: no allocation, no system call. A length is looked at before anything is kept for it.
 */
#include <errno.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/le.h"

void frame_put_head(
	uint8_t head[FRAME_HEAD], uint32_t len, uint16_t type, uint16_t flags, uint32_t stream)
{
	le_put32(head, len);
	le_put16(head + 4, type);
	le_put16(head + 6, flags);
	le_put32(head + 8, stream);
}

void frame_reader_init(struct frame_reader *r)
{
	/* Not the buffer: most readers never touch more than its first page. */
	r->at = r->len = 0;
}

void *frame_space(struct frame_reader *r, size_t *ret_cap)
{
	if (r->at == r->len) {
		r->at = r->len = 0;
	} else if (r->at) {
		memmove(r->buf, r->buf + r->at, r->len - r->at);
		r->len -= r->at;
		r->at = 0;
	}
	*ret_cap = sizeof(r->buf) - r->len;
	return r->buf + r->len;
}

void frame_fed(struct frame_reader *r, size_t len)
{
	r->len += (uint32_t)len;
}

int frame_next(struct frame_reader *r, struct frame *ret)
{
	const uint8_t *head = r->buf + r->at;
	uint32_t have = r->len - r->at, len;

	if (have < FRAME_HEAD)
		return 0;
	len = le_get32(head);
	if (len > FRAME_PAYLOAD_MAX)
		return -EPROTO;
	if (have - FRAME_HEAD < len)
		return 0;
	*ret = (struct frame){
		.type = le_get16(head + 4),
		.flags = le_get16(head + 6),
		.stream = le_get32(head + 8),
		.data = head + FRAME_HEAD,
		.len = len,
	};
	r->at += FRAME_HEAD + len;
	return 1;
}
