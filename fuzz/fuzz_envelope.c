/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_envelope.c - Connect envelopes, and gzip.
 *
 * Input: the first byte is the size of the pieces in which the rest is fed, 0 for all at once.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/envelope.h"
#include "wire/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 4096, UNPACKED_MAX = 1 << 20 };

static void envelopes(const uint8_t *data, size_t size, size_t piece)
{
	struct envelope_reader r;
	size_t eaten = 0;
	int got = 0;

	envelope_reader_init(&r, MAX);
	for (size_t at = 0; at < size && got >= 0; at += piece) {
		const void *p = data + at;
		size_t len = size - at < piece ? size - at : piece, n;
		const char *msg;
		uint8_t flags;

		while ((got = envelope_read(&r, &p, &len, &flags, &msg, &n)) == 1) {
			eaten += ENVELOPE_HEAD + n;
			if (n > MAX || msg[n] || eaten > size)
				abort();
		}
		if (got == 0 && len)
			abort();
	}
	if (r.cap > MAX * 2 + 2)
		abort();
	envelope_reader_done(&r);
}

static int count(void *ctx, const void *data, size_t len)
{
	(void)data;
	*(size_t *)ctx += len;
	return *(size_t *)ctx > UNPACKED_MAX ? abort(), -1 : 0;
}

static void gzip(const uint8_t *data, size_t size, size_t piece)
{
	struct zip *z;
	size_t total = 0;
	int r = 0;

	if (zip_inflate_create(UNPACKED_MAX, count, &total, &z) < 0)
		return;
	for (size_t at = 0; at < size && r == 0; at += piece)
		r = zip_feed(z, data + at, size - at < piece ? size - at : piece);
	if (r == 0)
		zip_finish(z);
	zip_destroy(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece;

	if (!size)
		return 0;
	piece = data[0] ? data[0] : size;
	envelopes(data + 1, size - 1, piece);
	gzip(data + 1, size - 1, piece);
	return 0;
}
