/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/str.c - strings into buffers of a known size.
 *
 * Owns:  nothing.
 * Rules: what does not fit is an error and leaves an empty string, never a cut one; only what is
 *        shown to people is cut, and says so.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"

int str_fmt(char *buf, size_t cap, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, cap, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < cap)
		return 0;
	buf[0] = '\0';
	return -ENAMETOOLONG;
}

int str_copy(char *buf, size_t cap, const char *src)
{
	size_t n = strlen(src);

	if (n >= cap) {
		buf[0] = '\0';
		return -ENAMETOOLONG;
	}
	memcpy(buf, src, n + 1);
	return 0;
}

const char *str_show(char *out, size_t cap, const char *s)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0, kept = 0; /* @kept: how much fits together with the dots */

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		bool plain = c >= ' ' && c < 0x7f && c != '\\';

		if (at + (plain ? 1 : 4) >= cap) {
			memcpy(out + kept, "...", 4);
			return out;
		}
		if (plain) {
			out[at++] = (char)c;
		} else {
			out[at++] = '\\';
			out[at++] = 'x';
			out[at++] = hex[c >> 4];
			out[at++] = hex[c & 15];
		}
		if (at + 4 <= cap)
			kept = at;
	}
	out[at] = '\0';
	return out;
}

bool str_search(const char **dirs, const char *name, char *out, size_t cap)
{
	size_t len = strlen(name);

	while (*dirs) {
		const char *from = *dirs, *end = strchr(from, ':');
		size_t n = end ? (size_t)(end - from) : strlen(from);

		*dirs = end ? end + 1 : NULL;
		if (n + 1 + len >= cap)
			continue;
		memcpy(out, from, n);
		out[n] = '/';
		memcpy(out + (n ? n + 1 : 0), name, len + 1); /* nothing: here */
		return true;
	}
	return false;
}
