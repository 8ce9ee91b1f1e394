/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/text_test.c - escapes, queries, base64, dates, ranges, codings.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "wire/limits.h"
#include "wire/query.h"
#include "wire/text.h"

static void percent(void **state)
{
	static const struct {
		const char *text;
		enum percent_plus plus;
		int want;
		const char *out;
	} cases[] = {
		{ "", PERCENT_PLUS_KEEP, 0, "" },
		{ "abc", PERCENT_PLUS_KEEP, 3, "abc" },
		{ "a%20b", PERCENT_PLUS_KEEP, 3, "a b" },
		{ "a+b", PERCENT_PLUS_KEEP, 3, "a+b" },
		{ "a+b%2B", PERCENT_PLUS_SPACE, 4, "a b+" },
		{ "%c3%A9", PERCENT_PLUS_KEEP, 2, "\xc3\xa9" },
		{ "%252e", PERCENT_PLUS_KEEP, 3, "%2e" },
		{ "%", PERCENT_PLUS_KEEP, -EINVAL, NULL },
		{ "%2", PERCENT_PLUS_KEEP, -EINVAL, NULL },
		{ "%2g", PERCENT_PLUS_KEEP, -EINVAL, NULL },
		{ "%-1", PERCENT_PLUS_KEEP, -EINVAL, NULL },
		{ "a%00", PERCENT_PLUS_KEEP, -EILSEQ, NULL },
		{ "0123456789", PERCENT_PLUS_KEEP, -ENAMETOOLONG, NULL },
		{ "012345678", PERCENT_PLUS_KEEP, 9, "012345678" },
	};
	char out[10], same[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);
		int r = percent_decode(cases[i].text, len, cases[i].plus, out, sizeof(out));

		if (r != cases[i].want)
			fail_msg("%s: %d", cases[i].text, r);
		if (r < 0)
			continue;
		assert_string_equal(out, cases[i].out);
		memcpy(same, cases[i].text, len);
		assert_int_equal(percent_decode(same, len, cases[i].plus, same, sizeof(same)), r);
		assert_string_equal(same, cases[i].out);
	}
	assert_int_equal(percent_encode("a b/\xc3~", 6, out, sizeof(out)), -ENAMETOOLONG);
	assert_int_equal(percent_encode("a b~", 4, out, sizeof(out)), 6);
	assert_string_equal(out, "a%20b~");
	assert_int_equal(percent_encode("///", 3, out, sizeof(out)), 9);
	assert_int_equal(percent_encode("///a", 4, out, sizeof(out)), -ENAMETOOLONG);
}

static void queries(void **state)
{
	static const struct {
		const char *text;
		unsigned count;
		const char *pairs[8];
	} cases[] = {
		{ "", 0, { NULL } },
		{ "a=1&b=2", 2, { "a", "1", "b", "2" } },
		{ "a=1&a=2", 2, { "a", "1", "a", "2" } },
		{ "a", 1, { "a", "" } },
		{ "a=", 1, { "a", "" } },
		{ "=a", 1, { "", "a" } },
		{ "a=b=c", 1, { "a", "b=c" } },
		{ "&&a=1&", 1, { "a", "1" } },
		{ "a+b=c+d", 1, { "a b", "c d" } },
		{ "%61=%26%3D", 1, { "a", "&=" } },
		{ "a=%zz%", 1, { "a", "%zz%" } },
		{ "a=%2", 1, { "a", "%2" } },
	};
	struct query q;
	char *many;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(query_parse(&q, cases[i].text), 0);
		if (q.count != cases[i].count)
			fail_msg("%s: %u", cases[i].text, q.count);
		for (unsigned k = 0; k < q.count; k++) {
			assert_string_equal(q.pairs[k].key, cases[i].pairs[2 * k]);
			assert_string_equal(q.pairs[k].value, cases[i].pairs[2 * k + 1]);
		}
		query_done(&q);
	}
	assert_int_equal(query_parse(&q, "a=1&b=%00"), -EILSEQ);
	assert_int_equal(query_parse(&q, "%00"), -EILSEQ);
	many = malloc(WIRE_QUERY_PAIRS_MAX + 1);
	assert_non_null(many);
	memset(many, '&', WIRE_QUERY_PAIRS_MAX);
	many[WIRE_QUERY_PAIRS_MAX] = '\0';
	assert_int_equal(query_parse(&q, many), -E2BIG);
	free(many);
}

static void query_lookup(void **state)
{
	struct query q;
	unsigned at = 0;

	(void)state;
	assert_int_equal(query_parse(&q, "a=1&b=2&a=3"), 0);
	assert_string_equal(query_get(&q, "a"), "1");
	assert_null(query_get(&q, "A"));
	assert_string_equal(query_next(&q, "a", &at), "1");
	assert_string_equal(query_next(&q, "a", &at), "3");
	assert_null(query_next(&q, "a", &at));
	query_done(&q);
}

static void base64(void **state)
{
	static const struct {
		const char *text;
		int want; /* bytes, or an error */
		const char *bytes;
	} cases[] = {
		{ "", 0, "" },
		{ "Zg==", 1, "f" },
		{ "Zm8=", 2, "fo" },
		{ "Zm9v", 3, "foo" },
		{ "Zm9vYg==", 4, "foob" },
		{ "Zg", 1, "f" },
		{ "Zm8", 2, "fo" },
		{ "+/+/", 3, "\xfb\xff\xbf" },
		{ "-_-_", 3, "\xfb\xff\xbf" },
		{ "Z", -EINVAL, NULL },
		{ "Zg=", -EINVAL, NULL },
		{ "Zg===", -EINVAL, NULL },
		{ "Z===", -EINVAL, NULL },
		{ "====", -EINVAL, NULL },
		{ "=", -EINVAL, NULL },
		{ "Zh==", -EINVAL, NULL },
		{ "Zm9=", -EINVAL, NULL },
		{ "Zm 9v", -EINVAL, NULL },
		{ "Zm9v\n", -EINVAL, NULL },
		{ "Zg==Zg==", -EINVAL, NULL },
		{ "Zm\xc3\xa9", -EINVAL, NULL },
	};
	unsigned char data[300], back[BASE64_BYTES(400)];
	char text[BASE64_LEN(300) + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ssize_t r = base64_decode(cases[i].text, strlen(cases[i].text), back);

		if (r != cases[i].want)
			fail_msg("%s: %zd", cases[i].text, r);
		if (r > 0)
			assert_memory_equal(back, cases[i].bytes, r);
	}
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7);
	for (size_t n = 0; n <= sizeof(data); n++) {
		size_t len = base64_encode(data, n, text);

		assert_int_equal(len, BASE64_LEN(n));
		assert_int_equal(text[len], 0);
		assert_int_equal(base64_decode(text, len, back), n);
		assert_memory_equal(back, data, n);
	}
}

static void secrets(void **state)
{
	(void)state;
	assert_true(secret_eq("abc", "abc"));
	assert_true(secret_eq("", ""));
	assert_false(secret_eq("abc", "abd"));
	assert_false(secret_eq("abc", "ab"));
	assert_false(secret_eq("", "a"));
	assert_true(secret_eq_bytes("a\0b", "a\0b", 3));
	assert_false(secret_eq_bytes("a\0b", "a\0c", 3));
}

static void dates(void **state)
{
	static const struct {
		const char *text;
		int64_t us; /* -1: refused */
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2025-06-01T10:00:00Z", 1748772000000000 },
		{ "2025-06-01t10:00:00z", 1748772000000000 },
		{ "2025-06-01 10:00:00Z", 1748772000000000 },
		{ "2025-06-01T12:00:00+02:00", 1748772000000000 },
		{ "2025-06-01T09:30:00-00:30", 1748772000000000 },
		{ "2025-06-01T10:00:00.125Z", 1748772000125000 },
		{ "2025-06-01T10:00:00.123456789Z", 1748772000123456 },
		{ "2025-06-01T10:00:00", -1 },
		{ "2025-06-01", -1 },
		{ "2025-06-01T10:00Z", -1 },
		{ "2025-06-01T10:00:00+25:00", -1 },
		{ "2025-06-01T10:00:00+02:60", -1 },
		{ "2025-06-01T10:00:00+0200", -1 },
		{ "2025-06-01T10:00:00.Z", -1 },
		{ "2025-13-01T10:00:00Z", -1 },
		{ "", -1 },
		{ "Z", -1 },
		{ "x", -1 },
	};
	char text[HTTP_DATE];
	int64_t us;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int r = rfc3339_parse(cases[i].text, &us);

		if ((r == 0) != (cases[i].us >= 0) || (r == 0 && us != cases[i].us))
			fail_msg("%s: %d %lld", cases[i].text, r, (long long)us);
	}
	http_date(784111777, text);
	assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
	http_date(INT64_MAX, text);
	assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
}

static void ranges(void **state)
{
	static const struct {
		const char *value;
		uint64_t size;
		int want;
		uint64_t from, len;
	} cases[] = {
		{ NULL, 100, 0, 0, 0 },
		{ "bytes=0-9", 100, 1, 0, 10 },
		{ "bytes=90-", 100, 1, 90, 10 },
		{ "bytes=-10", 100, 1, 90, 10 },
		{ "bytes=-200", 100, 1, 0, 100 },
		{ "bytes=0-1000", 100, 1, 0, 100 },
		{ "Bytes=99-99", 100, 1, 99, 1 },
		{ "bytes=100-", 100, -ERANGE, 0, 0 },
		{ "bytes=-0", 100, -ERANGE, 0, 0 },
		{ "bytes=-5", 0, -ERANGE, 0, 0 },
		{ "bytes=0-", 0, -ERANGE, 0, 0 },
		{ "bytes=5-4", 100, 0, 0, 0 },
		{ "bytes=0-1,5-6", 100, 0, 0, 0 },
		{ "lines=0-1", 100, 0, 0, 0 },
		{ "bytes=a-b", 100, 0, 0, 0 },
		{ "bytes=", 100, 0, 0, 0 },
		{ "bytes=-", 100, 0, 0, 0 },
		{ "bytes=99999999999999999999-", 100, 0, 0, 0 },
		{ "bytes=0-18446744073709551615", 100, 1, 0, 100 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t from = 0, len = 0;
		int r = http_range(cases[i].value, cases[i].size, &from, &len);

		if (r != cases[i].want ||
			(r == 1 && (from != cases[i].from || len != cases[i].len)))
			fail_msg("%s: %d", cases[i].value, r);
	}
}

static void codings(void **state)
{
	(void)state;
	assert_false(http_accepts(NULL, "gzip"));
	assert_false(http_accepts("", "gzip"));
	assert_true(http_accepts("gzip, deflate", "gzip"));
	assert_true(http_accepts("deflate, GZIP;q=0.5", "gzip"));
	assert_true(http_accepts("*", "gzip"));
	assert_false(http_accepts("gzip;q=0", "gzip"));
	assert_false(http_accepts("gzip; q=0.000, *", "gzip"));
	assert_false(http_accepts("*;q=0", "gzip"));
	assert_false(http_accepts("xgzip, gzipx", "gzip"));
	assert_true(http_accepts_plain(NULL));
	assert_true(http_accepts_plain("br"));
	assert_true(http_accepts_plain("*;q=0, identity"));
	assert_false(http_accepts_plain("identity;q=0"));
	assert_false(http_accepts_plain("gzip, *;q=0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percent),
		cmocka_unit_test(queries),
		cmocka_unit_test(query_lookup),
		cmocka_unit_test(base64),
		cmocka_unit_test(secrets),
		cmocka_unit_test(dates),
		cmocka_unit_test(ranges),
		cmocka_unit_test(codings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
