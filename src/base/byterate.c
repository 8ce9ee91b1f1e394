/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/byterate.c - reads how fast something may go.
 *
 * Owns:  nothing.
 */
#include <errno.h>
#include <string.h>

#include "base/byterate.h"
#include "base/parse.h"
#include "base/str.h"

enum { BYTES_MIN = 64 << 10, COUNT_MIN = 10 };
#define BYTES_MAX (1ull << 50)

int parse_byte_rate(const char *text, uint64_t ret[2])
{
	const char *colon = strchr(text, ':');
	size_t n = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t bytes, count = 0;
	char word[32];
	int r;

	if (n >= sizeof(word))
		return -EINVAL;
	memcpy(word, text, n);
	word[n] = '\0';
	r = parse_size(word, BYTES_MIN, BYTES_MAX, &bytes);
	if (r == 0 && colon)
		r = parse_u64(colon + 1, COUNT_MIN, UINT32_MAX, &count);
	if (r < 0)
		return r;
	ret[0] = bytes;
	ret[1] = count;
	return 0;
}
