/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/parse.c - the numbers of the command line: sizes, durations, CPUs.
 *
 * Owns:  nothing.
 * Rules: whatever the text, a result is inside its bounds, and an error leaves it untouched.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/parse.h"
#include "plan/wall.h"

enum { TEXT_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef int parser(const char *text, uint64_t min, uint64_t max, uint64_t *ret);

static void try_parser(parser *parse, const char *text, uint64_t min, uint64_t max)
{
	const uint64_t untouched = 0x5a5a5a5a5a5a5a5a;
	uint64_t value = untouched;
	int r = parse(text, min, max, &value);

	if (r == 0 && (value < min || value > max))
		abort();
	if (r != 0 && (value != untouched || (r != -EINVAL && r != -ERANGE)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static parser *const parsers[] = { parse_u64, parse_size, parse_duration, parse_milli };
	char text[TEXT_MAX + 1];
	enum wall wall;
	size_t n = size < TEXT_MAX ? size : TEXT_MAX;

	memcpy(text, data, n);
	text[n] = '\0';
	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++) {
		try_parser(parsers[i], text, 0, UINT64_MAX);
		try_parser(parsers[i], text, 1, 1000000);
	}
	if (id_is_valid(text) && strlen(text) != ID_LEN)
		abort();
	if (wall_parse(text, &wall) == 0 && strcmp(wall_name(wall), text) != 0)
		abort();
	return 0;
}
