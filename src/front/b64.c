/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/b64.c - bytes in JSON.
 *
 * Owns:  nothing.
 * Rules: pure.
 */
#include "front/b64.h"
#include "wire/text.h"

enum { PIECE = 3072 };

void b64_add(struct buf *b, const void *data, size_t len)
{
	const char *p = data;
	char text[BASE64_LEN(PIECE) + 1];

	for (; len; p += PIECE) {
		size_t n = len < PIECE ? len : PIECE; /* only the last piece is padded */

		buf_add(b, text, base64_encode(p, n, text));
		len -= n;
	}
}
