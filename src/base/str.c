/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/str.c - strings into buffers of a known size.
 *
 * Owns:  nothing.
 * Rules: what does not fit is an error and leaves an empty string, never a cut one.
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
