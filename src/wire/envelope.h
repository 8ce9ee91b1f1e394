/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_ENVELOPE_H
#define WARD_WIRE_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Envelopes of Connect and gRPC: one byte of flags, four of length (big-endian), the message.
 */
enum {
	ENVELOPE_HEAD = 5,
	ENVELOPE_COMPRESSED = 1, /* flags */
	ENVELOPE_END = 2,        /* Connect: the end-of-stream message */
};

void envelope_put_head(uint8_t out[ENVELOPE_HEAD], uint8_t flags, uint32_t len);

struct envelope_reader {
	size_t max; /* bytes of one message */
	size_t at;  /* of the head, then of the message */
	uint8_t head[ENVELOPE_HEAD];
	char *data; /* grows with what has arrived, not with what was announced */
	size_t cap;
};

/* @max at most WIRE_ENVELOPE_MAX. */
void envelope_reader_init(struct envelope_reader *r, size_t max);
void envelope_reader_done(struct envelope_reader *r);
/*
 * Reads from *@data, which is moved on. 1: a message is complete (*@ret_msg, with a NUL behind it,
 * is good until the next call); call again with the rest. 0: all eaten. -EMSGSIZE: a message longer
 * than @max; -ENOMEM. After an error there is no way on.
 */
int envelope_read(struct envelope_reader *r, const void **data, size_t *len, uint8_t *ret_flags,
	const char **ret_msg, size_t *ret_len);
/* Is it between two messages? At the end of a body it must be. */
static inline int envelope_is_between(const struct envelope_reader *r)
{
	return r->at == 0;
}

#endif
