/* SPDX-License-Identifier: Apache-2.0 */
/* front: the codecs, which need no daemon. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/ckd.h"
#include "base/json.h"
#include "base/str.h"
#include "front/b64.h"
#include "front/e2b/dict.h"
#include "front/e2b/entry.h"
#include "front/e2b/interp_text.h"
#include "front/e2b/rpc_code.h"
#include "front/e2b/sign.h"
#include "front/e2b/where.h"
#include "front/jin.h"
#include "front/limits.h"
#include "front/route.h"

static void test_sign(void **state)
{
	static const struct {
		struct sign s;
		const char *token, *want;
	} cases[] = {
		{ { "/home/user/a.txt", "read", "user", NULL }, "tok",
			"v1_p0WqJQYCLtO6YX+e4h7VbpybRsdJbMbIw7clYpulIJk" },
		{ { "a b", "write", "", "1700000000" }, "tok",
			"v1_B7NHBGZbchLq3srxwvtbmjLwxGg2SY3IIVCXXxmFUV8" },
		{ { "", "read", "", NULL }, "t", "v1_KrqyVX6xuNbqodmstBr5QZvfVNU2CrcNi6PLbn6GRZs" },
	};
	char out[SIGN_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		sign_make(&cases[i].s, cases[i].token, out);
		assert_string_equal(out, cases[i].want);
		assert_true(sign_matches(&cases[i].s, cases[i].token, cases[i].want));
		assert_false(sign_matches(&cases[i].s, "other", cases[i].want));
		assert_false(sign_matches(&cases[i].s, cases[i].token, ""));
		assert_false(sign_matches(&cases[i].s, cases[i].token, "v1_"));
		out[5] ^= 1;
		assert_false(sign_matches(&cases[i].s, cases[i].token, out));
	}
}

static void test_where(void **state)
{
	static const struct {
		const char *id, *port, *host, *path;
		bool is_signed;
		enum where_kind kind;
		const char *want_id;
		uint16_t want_port;
	} cases[] = {
		{ NULL, NULL, "127.0.0.1:7700", "/v2/sandboxes", false, WHERE_CONTROL, "", 0 },
		{ NULL, NULL, "api.ward.test", "/sandboxes", false, WHERE_CONTROL, "", 0 },
		{ NULL, NULL, NULL, "/files", true, WHERE_SIGNED, "", 0 },
		{ NULL, NULL, "localhost", "/files", false, WHERE_CONTROL, "", 0 },
		{ NULL, NULL, "localhost", "/file", true, WHERE_CONTROL, "", 0 },
		{ NULL, NULL, "localhost", "/health", true, WHERE_SIGNED, "", 0 },
		{ NULL, NULL, "localhost", "/health", false, WHERE_CONTROL, "", 0 },
		{ "abcdefghijkl", "49983", "x", "/", false, WHERE_SANDBOX, "abcdefghijkl", 49983 },
		{ "abcdefghijkl-c1", "80", "x", "/", false, WHERE_SANDBOX, "abcdefghijkl", 80 },
		{ "i0123456789abcdefghij", "80", "x", "/", false, WHERE_SANDBOX, "", 80 },
		{ "abcdefghijkl", NULL, "x", "/", false, WHERE_BAD, "", 0 },
		{ NULL, "80", "x", "/", false, WHERE_BAD, "", 0 },
		{ "ABC", "80", "x", "/", false, WHERE_BAD, "", 0 },
		{ "", "80", "x", "/", false, WHERE_BAD, "", 0 },
		{ "../../etc", "80", "x", "/", false, WHERE_BAD, "", 0 },
		{ "abcdefghijkl", "0", "x", "/", false, WHERE_BAD, "abcdefghijkl", 0 },
		{ "abcdefghijkl", "65536", "x", "/", false, WHERE_BAD, "abcdefghijkl", 0 },
		{ "abcdefghijkl", "080", "x", "/", false, WHERE_BAD, "abcdefghijkl", 0 },
		{ "abcdefghijkl", "-1", "x", "/", false, WHERE_BAD, "abcdefghijkl", 0 },
		{ NULL, NULL, "3000-ABCDEFGHIJKL.Ward.Test", "/", false, WHERE_SANDBOX,
			"abcdefghijkl", 3000 },
		{ NULL, NULL, "3000-abcdefghijkl.ward.test:8443", "/", false, WHERE_SANDBOX,
			"abcdefghijkl", 3000 },
		{ NULL, NULL, "3000-abcdefghijkl-c1.ward.test", "/", true, WHERE_SANDBOX,
			"abcdefghijkl", 3000 },
		{ NULL, NULL, "99999-abcdefghijkl.x", "/", false, WHERE_BAD, "", 0 },
		{ NULL, NULL, "3000-ABC.x", "/", false, WHERE_SANDBOX, "", 3000 },
		{ NULL, NULL, "3000-a_c.x", "/", false, WHERE_BAD, "", 3000 },
		{ NULL, NULL, "3000-abcdefghijkl", "/", false, WHERE_CONTROL, "", 0 },
		{ NULL, NULL, "10.0.0.1", "/", false, WHERE_CONTROL, "", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct where w;

		where_find(&w, cases[i].id, cases[i].port, cases[i].host, cases[i].path,
			cases[i].is_signed);
		assert_int_equal(w.kind, cases[i].kind);
		if (w.kind == WHERE_SANDBOX) {
			assert_string_equal(w.id, cases[i].want_id);
			assert_int_equal(w.port, cases[i].want_port);
		}
		assert_true(w.kind != WHERE_BAD || w.why);
	}
}

static void test_filter(void **state)
{
	static const struct {
		const char *text;
		int want;
		const char *name, *value;
		size_t count;
	} cases[] = {
		{ "", 0, NULL, NULL, 0 },
		{ "k%25201=a%2526b", 0, "k 1", "a&b", 1 },
		{ "a=b&c=d", 0, "c", "d", 2 },
		{ "a%3Db%26c%3Dd", 0, "a", "b", 2 },
		{ "a=", 0, "a", "", 1 },
		{ "a=%25C3%25BC", 0, "a", "\xc3\xbc", 1 },
		{ "&&a=b&", 0, "a", "b", 1 },
		{ "a", -EINVAL, NULL, NULL, 0 },
		{ "a=%zz", -EINVAL, NULL, NULL, 0 },
		{ "a=%", -EINVAL, NULL, NULL, 0 },
		{ "a=%2500", -EINVAL, NULL, NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		own_dict struct dict d = { 0 };
		struct err e = { 0 };

		assert_int_equal(dict_from_filter(&d, cases[i].text, &e), cases[i].want);
		if (cases[i].want < 0) {
			assert_true(e.msg[0]);
			continue;
		}
		assert_int_equal(d.count, cases[i].count);
		if (cases[i].name)
			assert_string_equal(dict_get(&d, cases[i].name), cases[i].value);
	}
}

static void test_jin_refuses(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "[]", "must be a JSON object" },
		{ "{", "not JSON" },
		{ "{} x", "not JSON" },
		{ "{\"a\":1,\"a\":2}", "not JSON" },
		{ "{\"a\":\"\\u0000\"}", "NUL" },
		{ "\xff\xfe", "not JSON" },
		{ "{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
		  "]]]]]"
		  "]]]]}",
			"nested" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct jin *doc = NULL;
		struct err e = { 0 };

		assert_int_equal(
			jin_parse(cases[i].text, strlen(cases[i].text), 4096, &doc, &e), -EINVAL);
		assert_non_null(strstr(e.msg, cases[i].says));
	}
}

/* A document of many values costs the parser far more than its bytes. */
static void test_jin_counts_values(void **state)
{
	for (size_t n = FRONT_JSON_VALUES / 2 - 2; n <= FRONT_JSON_VALUES / 2 + 2; n += 4) {
		struct buf b;
		struct jin *doc = NULL;
		struct err e = { 0 };
		int r;

		buf_init(&b, 1 << 20);
		buf_add_str(&b, "{\"a\":[[]");
		for (size_t i = 0; i < n; i++)
			buf_add_str(&b, ",[]");
		buf_add_str(&b, ",\",[,[,[,[,[,[,[\"]}");
		r = jin_parse(b.data, b.len, 1 << 20, &doc, &e);
		assert_int_equal(r, n < FRONT_JSON_VALUES / 2 ? 0 : -EINVAL);
		assert_true(r == 0 || strstr(e.msg, "values"));
		jin_destroy(doc);
		buf_done(&b);
	}
}

static void test_jin_fields(void **state)
{
	static const char text[] =
		"{\"s\":\"x\",\"n\":60,\"f\":60.0,\"t\":\"60\",\"h\":1.5,\"b\":true,"
		"\"z\":null,\"o\":{\"k\":\"v\"},\"l\":[\"a\",2]}";
	own_jin struct jin *doc = NULL;
	const struct jin *o = NULL, *l = NULL;
	const char *s = NULL;
	struct err e = { 0 };
	int64_t n = 0;
	bool b = false;

	assert_int_equal(jin_parse(text, strlen(text), 4096, &doc, &e), 0);
	assert_int_equal(jin_str(doc, "s", &s, &e), 1);
	assert_string_equal(s, "x");
	assert_int_equal(jin_str(doc, "none", &s, &e), 0);
	assert_int_equal(jin_str(doc, "z", &s, &e), 0);
	assert_int_equal(jin_str(doc, "n", &s, &e), -EINVAL);
	assert_string_equal(e.msg, "field 'n' must be a string");
	assert_int_equal(jin_i64(doc, "n", 0, 100, &n, &e), 1);
	assert_int_equal(n, 60);
	assert_int_equal(jin_i64(doc, "f", 0, 100, &n, &e), 1);
	assert_int_equal(jin_i64(doc, "t", 0, 100, &n, &e), 1);
	assert_int_equal(jin_i64(doc, "h", 0, 100, &n, &e), -EINVAL);
	assert_int_equal(jin_i64(doc, "n", 0, 59, &n, &e), -EINVAL);
	assert_string_equal(e.msg, "field 'n' must be between 0 and 59");
	assert_int_equal(jin_bool(doc, "b", &b, &e), 1);
	assert_true(b);
	assert_int_equal(jin_bool(doc, "s", &b, &e), -EINVAL);
	assert_int_equal(jin_need_obj(doc, "o", &o, &e), 1);
	assert_int_equal(jin_need_str(o, "missing", &s, &e), -EINVAL);
	assert_string_equal(e.msg, "field 'missing' is missing");
	assert_int_equal(jin_list(doc, "l", &l, &e), 1);
	assert_int_equal(jin_len(l), 2);
	assert_int_equal(jin_str_at(l, "l", 0, &s, &e), 1);
	assert_int_equal(jin_str_at(l, "l", 1, &s, &e), -EINVAL);
	assert_string_equal(e.msg, "field 'l[1]' must be a string");
	assert_int_equal(jin_parse(text, strlen(text), 10, &doc, &e), -EFBIG);
}

static void test_entry(void **state)
{
	static const struct {
		enum file_kind kind;
		uint32_t mode;
		const char *want;
	} cases[] = {
		{ FILE_REGULAR, 0644, "-rw-r--r--" },
		{ FILE_REGULAR, 0, "----------" },
		{ FILE_REGULAR, 04755, "urwxr-xr-x" },
		{ FILE_DIRECTORY, 0755, "drwxr-xr-x" },
		{ FILE_DIRECTORY, 01777, "dtrwxrwxrwx" },
		{ FILE_SYMLINK, 0777, "Lrwxrwxrwx" },
		{ FILE_CHAR_DEVICE, 0666, "Dcrw-rw-rw-" },
	};
	static const char meta[] = "author=me\0x=a=b";
	struct proto_file f = { .kind = FILE_REGULAR,
		.mode = 0100644 & 07777,
		.uid = 1000,
		.gid = 7,
		.size = 5000000000,
		.mtime_ns = 1700000000123456789,
		.owner = "user",
		.link = "/t",
		.meta = meta,
		.meta_len = sizeof(meta) };
	char out[ENTRY_PERMISSIONS];
	own_buf struct buf b = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		entry_permissions(cases[i].kind, cases[i].mode, out);
		assert_string_equal(out, cases[i].want);
	}
	buf_init(&b, 4096);
	entry_json(&b, NULL, "/a/b", &f);
	assert_string_equal(b.data,
		"{\"name\":\"b\",\"type\":\"FILE_TYPE_FILE\",\"path\":\"/a/b\",\"size\":"
		"\"5000000000\",\"mode\":420,\"permissions\":\"-rw-r--r--\",\"owner\":\"user\","
		"\"group\":\"7\",\"modifiedTime\":\"2023-11-14T22:13:20.123456789Z\","
		"\"symlinkTarget\":\"/t\",\"metadata\":{\"author\":\"me\",\"x\":\"a=b\"}}");
	assert_string_equal(entry_name("/"), "/");
	assert_string_equal(entry_name("/x"), "x");
}

static void test_codes(void **state)
{
	static const struct {
		int err;
		enum rpc_code code;
		int http;
	} cases[] = {
		{ ENOENT, RPC_NOT_FOUND, 404 },
		{ EISDIR, RPC_INVALID_ARGUMENT, 400 },
		{ EEXIST, RPC_ALREADY_EXISTS, 409 },
		{ ENOSPC, RPC_RESOURCE_EXHAUSTED, 507 },
		{ EFBIG, RPC_INVALID_ARGUMENT, 413 },
		{ EOPNOTSUPP, RPC_UNIMPLEMENTED, 501 },
		{ ENOTCONN, RPC_UNAVAILABLE, 502 },
		{ 4000, RPC_INTERNAL, 500 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(rpc_code_of(cases[i].err), cases[i].code);
		assert_int_equal(http_status_of(cases[i].err), cases[i].http);
	}
	assert_string_equal(rpc_code_name(RPC_DEADLINE_EXCEEDED), "deadline_exceeded");
	assert_int_equal(rpc_code_http(RPC_CANCELED), 499);
}

static void test_routes(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool want;
		const char *arg;
	} cases[] = {
		{ "/sandboxes", "/sandboxes", true, NULL },
		{ "/sandboxes", "/sandboxes/", false, NULL },
		{ "/sandboxes/{}", "/sandboxes/abc", true, "abc" },
		{ "/sandboxes/{}", "/sandboxes/", false, NULL },
		{ "/sandboxes/{}", "/sandboxes/a/b", false, NULL },
		{ "/templates/{}", "/templates/a%2Fb%3Atag", true, "a/b:tag" },
		{ "/templates/{}", "/templates/a%zz", false, NULL },
		{ "/templates/{}", "/templates/a%00", false, NULL },
		{ "/x/{*}", "/x/a/b/c", true, "a/b/c" },
		{ "/s/{}/pause", "/s/id/pause", true, "id" },
		{ "/s/{}/pause", "/s/id/pausee", false, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *args[2] = { NULL };
		char room[256];

		assert_int_equal(
			route_match(cases[i].pattern, cases[i].path, room, sizeof(room), args, 2),
			cases[i].want);
		if (cases[i].arg)
			assert_string_equal(args[0], cases[i].arg);
	}
}

static void test_route_table(void **state)
{
	static const struct {
		enum plane plane;
		enum wire_method method;
		const char *path;
		enum route_found want;
	} cases[] = {
		{ PLANE_CONTROL, WIRE_POST, "/v2/sandboxes", ROUTE_OK },
		{ PLANE_CONTROL, WIRE_POST, "/sandboxes", ROUTE_OK },
		{ PLANE_CONTROL, WIRE_GET, "/sandboxes/abc", ROUTE_OK },
		{ PLANE_CONTROL, WIRE_HEAD, "/sandboxes/abc", ROUTE_OK },
		{ PLANE_CONTROL, WIRE_PUT, "/sandboxes/abc", ROUTE_NO_METHOD },
		{ PLANE_CONTROL, WIRE_GET, "/files", ROUTE_NO_PATH },
		{ PLANE_CONTROL, WIRE_GET, "/init", ROUTE_NO_PATH },
		{ PLANE_ENVD, WIRE_POST, "/init", ROUTE_NO_PATH },
		{ PLANE_ENVD, WIRE_POST, "/process.Process/Start", ROUTE_OK },
		{ PLANE_ENVD, WIRE_GET, "/process.Process/Start", ROUTE_NO_METHOD },
		{ PLANE_ENVD, WIRE_POST, "/v2/sandboxes", ROUTE_NO_PATH },
		{ PLANE_INTERP, WIRE_DELETE, "/contexts/x", ROUTE_OK },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct route *r = NULL;
		const char *args[2];
		char room[256];

		assert_int_equal(route_find(cases[i].plane, cases[i].method, cases[i].path, room,
					 sizeof(room), args, 2, &r),
			cases[i].want);
	}
}

static void test_b64(void **state)
{
	char data[5000];
	own_buf struct buf b = { 0 };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)i;
	buf_init(&b, 1 << 16);
	b64_add(&b, data, sizeof(data));
	assert_int_equal(b.len, (sizeof(data) + 2) / 3 * 4);
	assert_null(memchr(b.data, '=', b.len - 2));
	buf_cut(&b, 0);
	b64_add(&b, "", 0);
	assert_int_equal(b.len, 0);
}

#define TOKEN "0123456789abcdef0123456789abcdef"
#define MARK "\x1e" TOKEN

struct heard {
	struct buf b;
};

static void on_text(void *ctx, const char *text, size_t len)
{
	buf_add_fmt(&((struct heard *)ctx)->b, "[%.*s]", (int)len, text);
}

static void on_line(void *ctx, const char *line, size_t len)
{
	buf_add_fmt(&((struct heard *)ctx)->b, "<%.*s>", (int)len, line);
}

static void on_end(void *ctx)
{
	buf_add_str(&((struct heard *)ctx)->b, "|");
}

static void test_reader(void **state)
{
	static const struct interp_events events = { on_text, on_line, on_end };
	static const struct {
		const char *parts[4], *want;
	} cases[] = {
		{ { "plain\n" }, "[plain\n]" },
		{ { "a" MARK "={\"x\":1}\nb" MARK ".\n" }, "[a]<{\"x\":1}>[b]|" },
		{ { "a\x1e", TOKEN, ".\nb" }, "[a]|[b]" },
		{ { "\x1e"
		    "012",
			  "other" },
			"[\x1e"
			"012other]" },
		{ { MARK "={\"x\"", ":1", "}\n" }, "<{\"x\":1}>" },
		{ { "\xc3", "\xbc" }, "[\xc3\xbc]" },
		{ { "\xe2\x82", "\xac!" }, "[\xe2\x82\xac!]" },
		{ { "\xff", "x" }, "[\xff][x]" },
		{ { MARK "=\xff\n", MARK "=no\n", MARK "?\n" }, "" }, /* none is a line of ours */
		{ { "cut " MARK }, "[cut ]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct interp_reader r;
		struct heard h;

		buf_init(&h.b, 4096);
		buf_add_str(&h.b, "");
		interp_reader_init(&r, TOKEN);
		for (size_t k = 0; k < 4 && cases[i].parts[k]; k++)
			assert_int_equal(interp_read(&r, cases[i].parts[k],
						 strlen(cases[i].parts[k]), &events, &h),
				0);
		interp_read_end(&r, &events, &h);
		assert_string_equal(h.b.data ? h.b.data : "", cases[i].want);
		interp_reader_done(&r);
		buf_done(&h.b);
	}
}

static void test_ascii(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "plain", "\"plain\"" }, { "\"\\\n\t", "\"\\\"\\\\\\n\\u0009\"" },
		{ "\xc3\xbc", "\"\\u00fc\"" }, { "\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\"" },
		{ "\xff\xc3", "\"\\ufffd\\ufffd\"" },
		{ "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" }, /* half a pair */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		own_buf struct buf b = { 0 };

		buf_init(&b, 4096);
		interp_add_text(&b, cases[i].text, strlen(cases[i].text));
		assert_string_equal(b.data, cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sign),
		cmocka_unit_test(test_where),
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_jin_refuses),
		cmocka_unit_test(test_jin_counts_values),
		cmocka_unit_test(test_jin_fields),
		cmocka_unit_test(test_entry),
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_route_table),
		cmocka_unit_test(test_b64),
		cmocka_unit_test(test_reader),
		cmocka_unit_test(test_ascii),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
