/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/base64.c - bytes in JSON.
 *
 * Owns:  nothing.
 * Rules: pure. Strict about length and padding, so that two texts never mean the same bytes by
 *        accident of a lenient reader.
 */
#include <errno.h>

#include "front/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_add(struct buf *b, const void *data, size_t len)
{
	const uint8_t *p = data;
	char part[1024];
	size_t n = 0;

	for (size_t i = 0; i < len; i += 3) {
		size_t have = len - i < 3 ? len - i : 3;
		uint32_t v = (uint32_t)p[i] << 16;

		if (have > 1)
			v |= (uint32_t)p[i + 1] << 8;
		if (have > 2)
			v |= p[i + 2];
		part[n] = alphabet[v >> 18];
		part[n + 1] = alphabet[v >> 12 & 63];
		part[n + 2] = have > 1 ? alphabet[v >> 6 & 63] : '=';
		part[n + 3] = have > 2 ? alphabet[v & 63] : '=';
		n += 4;
		if (n == sizeof(part)) {
			buf_add(b, part, n);
			n = 0;
		}
	}
	buf_add(b, part, n);
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	if (c == '/' || c == '_')
		return 63;
	return -1;
}

int base64_decode(const char *text, size_t len, struct buf *out)
{
	uint32_t v = 0;
	unsigned bits = 0;

	if (len && len % 4 == 0 && text[len - 1] == '=')
		len -= text[len - 2] == '=' ? 2 : 1;
	if (len % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		int d = value_of(text[i]);
		uint8_t byte;

		if (d < 0)
			return -EINVAL;
		v = v << 6 | (uint32_t)d;
		bits += 6;
		if (bits < 8)
			continue;
		bits -= 8;
		byte = (uint8_t)(v >> bits);
		buf_add(out, &byte, 1);
	}
	if (v & ((1u << bits) - 1))
		return -EINVAL; /* bits that no byte holds */
	return out->bad ? -ENOMEM : 0;
}
