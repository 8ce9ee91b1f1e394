/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/text.c - small encodings: base64, dates, ranges, lists of codings.
 *
 * Owns:  nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "wire/h1.h"
#include "wire/text.h"

/* ---- base64 ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const void *data, size_t len, char *out)
{
	const unsigned char *p = data;
	char *to = out;

	for (; len >= 3; len -= 3, p += 3) {
		unsigned v = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];

		*to++ = alphabet[v >> 18];
		*to++ = alphabet[v >> 12 & 63];
		*to++ = alphabet[v >> 6 & 63];
		*to++ = alphabet[v & 63];
	}
	if (len) {
		unsigned v = (unsigned)p[0] << 16 | (len == 2 ? (unsigned)p[1] << 8 : 0);

		*to++ = alphabet[v >> 18];
		*to++ = alphabet[v >> 12 & 63];
		*to++ = len == 2 ? alphabet[v >> 6 & 63] : '=';
		*to++ = '=';
	}
	*to = '\0';
	return (size_t)(to - out);
}

static int sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

ssize_t base64_decode(const char *text, size_t len, void *out)
{
	unsigned char *to = out;
	unsigned v = 0, bits = 0;

	if (len % 4 == 0 && len && text[len - 1] == '=')
		len -= text[len - 2] == '=' ? 2 : 1;
	if (len % 4 == 1)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		int s = sextet(text[i]);

		if (s < 0)
			return -EINVAL;
		v = (v << 6 | (unsigned)s) & 0xffffff;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*to++ = (unsigned char)(v >> bits);
		}
	}
	if (v & ((1u << bits) - 1)) /* two texts must not mean the same bytes */
		return -EINVAL;
	return to - (unsigned char *)out;
}

/* ---- secrets ---- */

bool secret_eq_bytes(const void *a, const void *b, size_t len)
{
	const volatile unsigned char *x = a, *y = b;
	unsigned char differs = 0;

	for (size_t i = 0; i < len; i++)
		differs |= x[i] ^ y[i];
	return differs == 0;
}

bool secret_eq(const char *a, const char *b)
{
	size_t n = strlen(a);

	return n == strlen(b) && secret_eq_bytes(a, b, n);
}

/* ---- time ---- */

void http_date(int64_t unix_s, char out[HTTP_DATE])
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug",
		"Sep", "Oct", "Nov", "Dec" };
	time_t t = (time_t)unix_s;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || tm.tm_year > 9999 - 1900 || tm.tm_year < -1900) {
		t = 0;
		gmtime_r(&t, &tm);
	}
	snprintf(out, HTTP_DATE, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday],
		(unsigned)tm.tm_mday % 100, months[tm.tm_mon],
		(unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
		(unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

/* Minutes of "Z", "+02:00", "-00:30" at the end of @text, of which it is cut off. */
static int cut_offset(char *text, int *ret_min)
{
	size_t n = strlen(text);
	char *p;

	*ret_min = 0;
	if (n && (text[n - 1] == 'Z' || text[n - 1] == 'z')) {
		text[n - 1] = '\0';
		return 0;
	}
	if (n < 6 || (text[n - 6] != '+' && text[n - 6] != '-') || text[n - 3] != ':')
		return -EINVAL;
	p = text + n - 6;
	for (int i = 1; i < 6; i++)
		if (i != 3 && !isdigit((unsigned char)p[i]))
			return -EINVAL;
	*ret_min = ((p[1] - '0') * 10 + p[2] - '0') * 60 + (p[4] - '0') * 10 + p[5] - '0';
	if (p[1] > '2' || (p[1] == '2' && p[2] > '3') || p[4] > '5')
		return -EINVAL;
	if (*p == '-')
		*ret_min = -*ret_min;
	*p = '\0';
	return 0;
}

int rfc3339_parse(const char *text, int64_t *ret_us)
{
	char copy[64], *fraction;
	int64_t us;
	int min, r;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, strlen(text) + 1);
	r = cut_offset(copy, &min);
	if (r < 0)
		return r;
	/* clock_parse() is more generous than RFC 3339: date, hour, minute and second are required.
	 */
	if (strlen(copy) < 19 || (copy[10] != 'T' && copy[10] != 't' && copy[10] != ' '))
		return -EINVAL;
	copy[10] = 'T';
	/* Digits past the microsecond are cut. */
	fraction = copy + 19;
	if (*fraction == '.') {
		size_t digits = strspn(fraction + 1, "0123456789");

		if (!digits || fraction[1 + digits])
			return -EINVAL;
		if (digits > 6)
			fraction[7] = '\0';
	}
	r = clock_parse(copy, &us);
	if (r == 0)
		*ret_us = us - (int64_t)min * 60 * 1000000;
	return r;
}

/* ---- headers ---- */

static const char *digits(const char *p, uint64_t *ret)
{
	uint64_t v = 0;

	if (!isdigit((unsigned char)*p))
		return NULL;
	for (; isdigit((unsigned char)*p); p++)
		if (ckd_mul(&v, v, 10) || ckd_add(&v, v, (unsigned)(*p - '0')))
			return NULL;
	*ret = v;
	return p;
}

int http_range(const char *value, uint64_t size, uint64_t *ret_from, uint64_t *ret_len)
{
	uint64_t from, to = UINT64_MAX;

	if (!value || strncasecmp(value, "bytes=", 6) != 0 || strchr(value, ','))
		return 0;
	value += 6;
	if (*value == '-') { /* the last bytes */
		value = digits(value + 1, &from);
		if (!value || *value)
			return 0;
		if (!from || !size)
			return -ERANGE;
		*ret_len = from < size ? from : size;
		*ret_from = size - *ret_len;
		return 1;
	}
	value = digits(value, &from);
	if (!value || *value++ != '-')
		return 0;
	if (*value) {
		value = digits(value, &to);
		if (!value || *value || to < from)
			return 0;
	}
	if (from >= size)
		return -ERANGE;
	*ret_from = from;
	*ret_len = (to < size ? to + 1 : size) - from;
	return 1;
}

/* "gzip;q=0.5": is the weight above 0? */
static bool weight_is_positive(const char *p, const char *end)
{
	const char *q = memchr(p, ';', (size_t)(end - p));

	if (!q)
		return true;
	for (q++; q < end && (*q == ' ' || *q == '\t'); q++)
		;
	if (end - q < 3 || (*q != 'q' && *q != 'Q') || q[1] != '=')
		return true;
	for (q += 2; q < end; q++)
		if (*q >= '1' && *q <= '9')
			return true;
	return false;
}

static bool is_accepted(const char *list, const char *coding, bool any)
{
	const char *word;
	size_t len, want = strlen(coding);

	while (list && h1_list_next(&list, &word, &len)) {
		size_t n = strcspn(word, "; \t,");

		n = n < len ? n : len;
		if (n == want && strncasecmp(word, coding, n) == 0)
			return weight_is_positive(word, word + len);
		if (n == 1 && *word == '*')
			any = weight_is_positive(word, word + len);
	}
	return any;
}

bool http_accepts(const char *accept_encoding, const char *coding)
{
	return is_accepted(accept_encoding, coding, false);
}

bool http_accepts_plain(const char *accept_encoding)
{
	return is_accepted(accept_encoding, "identity", true);
}
