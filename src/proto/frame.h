/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_FRAME_H
#define WARD_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/* A frame: a head of FRAME_HEAD bytes, then the payload. All numbers are little-endian. */
enum { FRAME_HEAD = 12 };

struct frame {
	uint16_t type, flags;
	uint32_t stream;
	const uint8_t *data; /* in the reader's buffer */
	uint32_t len;
};

void frame_put_head(
	uint8_t head[FRAME_HEAD], uint32_t len, uint16_t type, uint16_t flags, uint32_t stream);

/*
 * Bytes in, frames out, in one buffer of fixed size. Receive into what frame_space() gives, tell
 * frame_fed() how much came, then call frame_next() until it has no more.
 */
struct frame_reader {
	uint32_t at, len;
	uint8_t buf[FRAME_HEAD + FRAME_PAYLOAD_MAX];
};

void frame_reader_init(struct frame_reader *r);
/* Never empty once frame_next() has said 0. What frame_next() gave before is gone after this. */
void *frame_space(struct frame_reader *r, size_t *ret_cap);
void frame_fed(struct frame_reader *r, size_t len);
/* 1: @ret is a whole frame. 0: feed more. -EPROTO: no frame can start like this; for good. */
int frame_next(struct frame_reader *r, struct frame *ret);

#endif
