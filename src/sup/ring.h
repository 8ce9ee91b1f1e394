/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_RING_H
#define WARD_SUP_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/*
 * The last SUP_RING_BYTES that a process wrote, stdout and stderr in the order in which they came.
 * Every byte has a place: the number of bytes before it. Readers keep a place of their own.
 */
struct ring {
	uint8_t *mem;        /* the bytes, then one bit for each: is it stderr's; NULL: empty */
	uint64_t head, tail; /* [tail, head) is here */
};

void ring_done(struct ring *r);
/* Overwrites the oldest. -ENOMEM: nothing was kept. */
int ring_put(struct ring *r, const uint8_t *data, size_t len, bool of_stderr);
/* What lies at @at, as far as it is of one kind and in one piece; 0 bytes at the head. @at is in
 * [tail, head]. */
size_t ring_peek(const struct ring *r, uint64_t at, const uint8_t **ret_data, bool *ret_stderr);

#endif
