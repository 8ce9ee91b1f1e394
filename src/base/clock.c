/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/clock.c - the wall clock as text.
 *
 * Owns:  nothing.
 * Rules: no time zone files are read: UTC, by arithmetic.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"

void clock_text_at(int64_t us, char out[CLOCK_TEXT])
{
	int64_t fraction = us % 1000000;
	time_t seconds;
	struct tm tm;

	if (fraction < 0)
		fraction += 1000000;
	seconds = (time_t)((us - fraction) / 1000000);
	if (!gmtime_r(&seconds, &tm) ||
		str_fmt(out, CLOCK_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900,
			tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
			(int)fraction) < 0)
		str_copy(out, CLOCK_TEXT, "1970-01-01T00:00:00.000000Z");
}

int64_t clock_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void clock_text(char out[CLOCK_TEXT])
{
	clock_text_at(clock_now_us(), out);
}

/* Takes @digits digits off *@p as a number between @min and @max. */
static bool eat_digits(const char **p, int digits, int min, int max, int *ret)
{
	int v = 0;

	for (int i = 0; i < digits; i++, ++*p) {
		if (**p < '0' || **p > '9')
			return false;
		v = v * 10 + (**p - '0');
	}
	*ret = v;
	return v >= min && v <= max;
}

static bool eat_char(const char **p, char c)
{
	if (**p != c)
		return false;
	++*p;
	return true;
}

/* Up to six digits count; more are read and dropped. */
static bool eat_fraction(const char **p, int64_t *ret_us)
{
	int64_t unit = 100000, v = 0;
	const char *start = *p;

	for (; **p >= '0' && **p <= '9'; ++*p, unit /= 10)
		v += (**p - '0') * unit;
	*ret_us = v;
	return *p != start;
}

/* Days since 1970 of a date in the Gregorian calendar, by whole eras of 400 years. */
static int64_t days_of(int year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = y / 400, in_era = y % 400;
	int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

int clock_parse(const char *text, int64_t *ret_us)
{
	int year, month, day, hour = 0, minute = 0, second = 0;
	int64_t fraction = 0;
	const char *p = text;

	if (!eat_digits(&p, 4, 1970, 9999, &year) || !eat_char(&p, '-') ||
		!eat_digits(&p, 2, 1, 12, &month) || !eat_char(&p, '-') ||
		!eat_digits(&p, 2, 1, 31, &day))
		return -EINVAL;
	if (eat_char(&p, 'T') &&
		(!eat_digits(&p, 2, 0, 23, &hour) || !eat_char(&p, ':') ||
			!eat_digits(&p, 2, 0, 59, &minute) ||
			(eat_char(&p, ':') &&
				(!eat_digits(&p, 2, 0, 60, &second) ||
					(eat_char(&p, '.') && !eat_fraction(&p, &fraction))))))
		return -EINVAL;
	eat_char(&p, 'Z');
	if (*p)
		return -EINVAL;
	*ret_us = ((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60000000 +
		  (int64_t)second * 1000000 + fraction;
	return 0;
}
