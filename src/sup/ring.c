/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/ring.c - the replay buffer of one process.
 *
 * Owns:  its memory: a mapping of which only the pages that were written exist.
 * Rules: one bit per byte tells stdout from stderr, so that no pattern of writes, however small its
 *        pieces, makes the buffer hold less than it says.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "sup/ring.h"

enum { CAP = SUP_RING_BYTES, MAP_BYTES = CAP + CAP / 8 };

_Static_assert((CAP & (CAP - 1)) == 0, "places become offsets with a mask");

static uint8_t *bits_of(const struct ring *r)
{
	return r->mem + CAP;
}

void ring_done(struct ring *r)
{
	if (r->mem)
		munmap(r->mem, MAP_BYTES);
	r->mem = NULL;
	r->tail = r->head;
}

static void mark(uint8_t *bits, size_t from, size_t len, bool of_stderr)
{
	for (size_t at = from; at < from + len;) {
		if (at % 8 == 0 && from + len - at >= 8) {
			size_t whole = (from + len - at) / 8;

			memset(bits + at / 8, of_stderr ? 0xff : 0, whole);
			at += whole * 8;
			continue;
		}
		if (of_stderr)
			bits[at / 8] |= (uint8_t)(1u << at % 8);
		else
			bits[at / 8] &= (uint8_t) ~(1u << at % 8);
		at++;
	}
}

int ring_put(struct ring *r, const uint8_t *data, size_t len, bool of_stderr)
{
	if (!r->mem) {
		void *p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

		if (p == MAP_FAILED)
			return -ENOMEM;
		r->mem = p;
		r->tail = r->head;
	}
	while (len) {
		size_t at = (size_t)(r->head & (CAP - 1));
		size_t n = len < CAP - at ? len : CAP - at;

		memcpy(r->mem + at, data, n);
		mark(bits_of(r), at, n, of_stderr);
		r->head += n;
		data += n;
		len -= n;
	}
	if (r->head - r->tail > CAP)
		r->tail = r->head - CAP;
	return 0;
}

static bool bit_at(const uint8_t *bits, size_t at)
{
	return bits[at / 8] >> at % 8 & 1;
}

/* How many bits from @at on, at most @max, are as the first. */
static size_t run_of(const uint8_t *bits, size_t at, size_t max)
{
	const bool first = bit_at(bits, at);
	size_t n = 1;

	while (n < max) {
		size_t i = at + n;

		if (i % 8 == 0 && max - n >= 8 && bits[i / 8] == (first ? 0xff : 0))
			n += 8;
		else if (bit_at(bits, i) == first)
			n++;
		else
			break;
	}
	return n;
}

size_t ring_peek(const struct ring *r, uint64_t at, const uint8_t **ret_data, bool *ret_stderr)
{
	size_t from = (size_t)(at & (CAP - 1)), max;

	if (at < r->tail || at >= r->head)
		return 0;
	max = (size_t)(r->head - at);
	max = max < CAP - from ? max : CAP - from;
	*ret_data = r->mem + from;
	*ret_stderr = bit_at(bits_of(r), from);
	return run_of(bits_of(r), from, max);
}
