/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/clock.c - the wall clock as text.
 *
 * Owns:  nothing.
 * Rules: no time zone files are read: UTC, by arithmetic.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"

void clock_text(char out[CLOCK_TEXT])
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (!gmtime_r(&now.tv_sec, &tm) ||
		str_fmt(out, CLOCK_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ", tm.tm_year + 1900,
			tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000) < 0)
		str_copy(out, CLOCK_TEXT, "1970-01-01T00:00:00.000000Z");
}
