/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/err.c - the error that a caller owns.
 *
 * Owns:  nothing.
 * Rules: never allocates, never fails; a message that does not fit is cut, not dropped.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static void append(struct err *e, size_t at, const char *text)
{
	if (at < sizeof(e->msg))
		snprintf(e->msg + at, sizeof(e->msg) - at, "%s", text);
}

__attribute__((format(printf, 2, 0))) static size_t format(
	struct err *e, const char *fmt, va_list ap)
{
	int n = vsnprintf(e->msg, sizeof(e->msg), fmt, ap);

	return n < 0 ? 0 : (size_t)n;
}

int(err_set)(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (!e)
		return -code;
	va_start(ap, fmt);
	n = format(e, fmt, ap);
	va_end(ap);
	append(e, n, ": ");
	append(e, n + 2, strerror(code));
	e->code = code;
	return -code;
}

int(err_say)(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -code;
	va_start(ap, fmt);
	format(e, fmt, ap);
	va_end(ap);
	e->code = code;
	return -code;
}

int(err_wrap)(struct err *e, int r, const char *fmt, ...)
{
	char inner[sizeof(e->msg)];
	va_list ap;
	size_t n;

	if (!e)
		return r;
	memcpy(inner, e->msg, sizeof(inner));
	va_start(ap, fmt);
	n = format(e, fmt, ap);
	va_end(ap);
	append(e, n, ": ");
	append(e, n + 2, inner);
	if (!e->code)
		e->code = -r;
	return r;
}
