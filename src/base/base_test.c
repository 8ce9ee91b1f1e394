/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/base_test.c - numbers, strings, JSON and hashes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/sha256.h"
#include "base/str.h"

static void sizes(void **state)
{
	static const struct {
		const char *text;
		int want;
		uint64_t bytes;
	} cases[] = {
		{ "0", 0, 0 },
		{ "4096", 0, 4096 },
		{ "64k", 0, 64 << 10 },
		{ "512M", 0, 512ULL << 20 },
		{ "2GiB", 0, 2ULL << 30 },
		{ "1T", 0, 1ULL << 40 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 M", -EINVAL, 0 },
		{ "1X", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1.5G", -EINVAL, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "16777216T", -ERANGE, 0 },
		{ "2T", -ERANGE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t v = 77;

		assert_int_equal(parse_size(cases[i].text, 0, 1ULL << 40, &v), cases[i].want);
		assert_int_equal(v, cases[i].want ? 77 : cases[i].bytes);
	}
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		int want;
		uint64_t ms;
	} cases[] = {
		{ "30", 0, 30000 },
		{ "1.5s", 0, 1500 },
		{ "0.25", 0, 250 },
		{ "500ms", 0, 500 },
		{ "5m", 0, 300000 },
		{ "2h", 0, 7200000 },
		{ "0", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ ".5", -EINVAL, 0 },
		{ "5d", -EINVAL, 0 },
		{ "99999999999999999999", -ERANGE, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t v = 77;

		assert_int_equal(parse_duration(cases[i].text, 1, 1ULL << 40, &v), cases[i].want);
		assert_int_equal(v, cases[i].want ? 77 : cases[i].ms);
	}
}

static void cpus(void **state)
{
	uint64_t v = 77;

	(void)state;
	assert_int_equal(parse_milli("0.5", 10, 1024000, &v), 0);
	assert_int_equal(v, 500);
	assert_int_equal(parse_milli("2", 10, 1024000, &v), 0);
	assert_int_equal(v, 2000);
	assert_int_equal(parse_milli("1.2345", 10, 1024000, &v), 0);
	assert_int_equal(v, 1234);
	assert_int_equal(parse_milli("0", 10, 1024000, &v), -ERANGE);
	assert_int_equal(parse_milli("1x", 10, 1024000, &v), -EINVAL);
	assert_int_equal(v, 1234);
}

static void strings_never_cut(void **state)
{
	char b[8];

	(void)state;
	assert_int_equal(str_fmt(b, sizeof(b), "%s", "1234567"), 0);
	assert_string_equal(b, "1234567");
	assert_int_equal(str_fmt(b, sizeof(b), "%s", "12345678"), -ENAMETOOLONG);
	assert_string_equal(b, "");
	assert_int_equal(str_copy(b, sizeof(b), "12345678"), -ENAMETOOLONG);
	assert_string_equal(b, "");
}

static void names_along_a_path(void **state)
{
	const char *dirs = "/bin::/a/very/long/directory:/sbin:";
	char out[16];

	assert_true(str_search(&dirs, "ls", out, sizeof(out)));
	assert_string_equal(out, "/bin/ls");
	assert_true(str_search(&dirs, "ls", out, sizeof(out)));
	assert_string_equal(out, "ls");
	assert_true(str_search(&dirs, "ls", out, sizeof(out))); /* past what does not fit */
	assert_string_equal(out, "/sbin/ls");
	assert_true(str_search(&dirs, "ls", out, sizeof(out)));
	assert_string_equal(out, "ls");
	assert_false(str_search(&dirs, "ls", out, sizeof(out)));
}

static void errors_nest(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(err_set(&e, ENOENT, "opening '%s'", "x"), -ENOENT);
	assert_int_equal(err_wrap(&e, -ENOENT, "template '%s'", "py"), -ENOENT);
	assert_string_equal(e.msg, "template 'py': opening 'x': No such file or directory");
	assert_int_equal(e.code, ENOENT);
	assert_int_equal(err_set(NULL, EPERM, "x"), -EPERM);
}

static void json_is_valid(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4096);
	json_open(&b, NULL);
	json_str(&b, "plain", "a\"b\\c\n\x01");
	json_str(&b, "bad utf8", "x\xff\xc0\xafy");
	json_str(&b, "good utf8", "\xc3\xa9");
	json_str(&b, "none", NULL);
	json_array(&b, "list");
	json_u64(&b, NULL, UINT64_MAX);
	json_i64(&b, NULL, -1);
	json_array_end(&b);
	json_bool(&b, "yes", true);
	json_close(&b);
	assert_false(b.bad);
	assert_string_equal(b.data,
		"{\"plain\":\"a\\\"b\\\\c\\n\\u0001\",\"bad utf8\":\"x\\ufffd\\ufffd\\ufffdy\","
		"\"good "
		"utf8\":\"\xc3\xa9\",\"none\":null,\"list\":[18446744073709551615,-1],\"yes\":"
		"true}");
	buf_done(&b);
}

static void buffers_stop_at_their_limit(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 4);
	buf_add_str(&b, "1234");
	assert_false(b.bad);
	buf_add_str(&b, "5");
	assert_true(b.bad);
	assert_string_equal(b.data, "1234");
	buf_done(&b);
}

static void sha256_vectors(void **state)
{
	char hex[SHA256_HEX + 1], million[1000];
	struct sha256 s;
	uint8_t out[SHA256_BYTES];

	(void)state;
	sha256_hex("", 0, hex);
	assert_string_equal(
		hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sha256_hex("abc", 3, hex);
	assert_string_equal(
		hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	memset(million, 'a', sizeof(million));
	sha256_init(&s);
	for (int i = 0; i < 1000; i++)
		sha256_add(&s, million, sizeof(million));
	sha256_end(&s, out);
	assert_int_equal(out[0], 0xcd);
	assert_int_equal(out[31], 0xd0);
}

static void ids_are_safe_names(void **state)
{
	char id[ID_LEN + 1];

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(id_make(id), 0);
		assert_true(id_is_valid(id));
		assert_true(id[0] >= 'a' && id[0] <= 'z');
	}
	assert_false(id_is_valid("../../../etc"));
	assert_false(id_is_valid("short"));
}

static void moments(void **state)
{
	static const struct {
		const char *text;
		int want;
		const char *back;
	} cases[] = {
		{ "1970-01-01", 0, "1970-01-01T00:00:00.000000Z" },
		{ "2000-02-29T12:34", 0, "2000-02-29T12:34:00.000000Z" },
		{ "2025-06-01T10:00:00.125Z", 0, "2025-06-01T10:00:00.125000Z" },
		{ "2025-12-31T23:59:59.9999999Z", 0, "2025-12-31T23:59:59.999999Z" },
		{ "2100-03-01T00:00:00Z", 0, "2100-03-01T00:00:00.000000Z" },
		{ "2025-06-01 10:00", -EINVAL, NULL },
		{ "2025-13-01", -EINVAL, NULL },
		{ "2025-6-1", -EINVAL, NULL },
		{ "2025-06-01T", -EINVAL, NULL },
		{ "2025-06-01T10:00:00.", -EINVAL, NULL },
		{ "2025-06-01Zx", -EINVAL, NULL },
		{ "", -EINVAL, NULL },
		{ "now", -EINVAL, NULL },
	};
	char text[CLOCK_TEXT], again[CLOCK_TEXT];
	int64_t us = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(clock_parse(cases[i].text, &us), cases[i].want);
		if (cases[i].want < 0)
			continue;
		clock_text_at(us, text);
		assert_string_equal(text, cases[i].back);
	}
	clock_text(text);
	assert_int_equal(clock_parse(text, &us), 0);
	clock_text_at(us, again);
	assert_string_equal(text, again);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(durations),
		cmocka_unit_test(cpus),
		cmocka_unit_test(strings_never_cut),
		cmocka_unit_test(names_along_a_path),
		cmocka_unit_test(errors_nest),
		cmocka_unit_test(json_is_valid),
		cmocka_unit_test(buffers_stop_at_their_limit),
		cmocka_unit_test(sha256_vectors),
		cmocka_unit_test(ids_are_safe_names),
		cmocka_unit_test(moments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
