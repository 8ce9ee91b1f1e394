/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/h1_test.c - heads and chunks of HTTP/1.1, by tables, in pieces of every size.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "wire/h1.h"

#define HOST "Host: x\r\n"

/* A head of its own block, so that the sanitizer sees a step too far. */
static int parse(
	const char *text, bool is_request, struct h1_head *h, struct h1_fault *f, char **ret)
{
	size_t len = strlen(text), seen = 0;
	char *copy = malloc(len);
	int n;

	assert_non_null(copy);
	memcpy(copy, text, len);
	*ret = copy;
	n = h1_head_end(copy, len, &seen, f);
	if (n <= 0)
		return n < 0 ? -1 : 1;
	assert_int_equal(n, len);
	return is_request ? h1_parse_request(h, copy, len, f) : h1_parse_response(h, copy, len, f);
}

static void requests_are_refused(void **state)
{
	static const struct {
		const char *name, *text;
		unsigned status;
	} cases[] = {
		{ "no blank", "GET\r\n" HOST "\r\n", 400 },
		{ "one blank", "GET /\r\n" HOST "\r\n", 400 },
		{ "three blanks", "GET / HTTP/1.1 x\r\n" HOST "\r\n", 400 },
		{ "empty method", " / HTTP/1.1\r\n" HOST "\r\n", 400 },
		{ "empty target", "GET  HTTP/1.1\r\n" HOST "\r\n", 400 },
		{ "http/1.1", "GET / http/1.1\r\n" HOST "\r\n", 400 },
		{ "HTTP/1.", "GET / HTTP/1.\r\n" HOST "\r\n", 400 },
		{ "HTTP/11", "GET / HTTP/11\r\n" HOST "\r\n", 400 },
		{ "HTTP/2.0", "GET / HTTP/2.0\r\n" HOST "\r\n", 505 },
		{ "separator in the method", "G(T / HTTP/1.1\r\n" HOST "\r\n", 400 },
		{ "high method", "G\xc3\xa9T / HTTP/1.1\r\n" HOST "\r\n", 400 },
		{ "CONNECT", "CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 501 },
		{ "fragment", "GET /#a HTTP/1.1\r\n" HOST "\r\n", 400 },
		{ "DEL in target", "GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400 },
		{ "no colon", "GET / HTTP/1.1\r\n" HOST "A\r\n\r\n", 400 },
		{ "no name", "GET / HTTP/1.1\r\n" HOST ":a\r\n\r\n", 400 },
		{ "blank before colon", "GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400 },
		{ "tab before colon", "GET / HTTP/1.1\r\n" HOST "A\t: b\r\n\r\n", 400 },
		{ "fold", "GET / HTTP/1.1\r\n" HOST "A: b\r\n\tc\r\n\r\n", 400 },
		{ "bare CR", "GET / HTTP/1.1\r\n" HOST "A: b\rc\r\n\r\n", 400 },
		{ "CR at the end", "GET / HTTP/1.1\r\n" HOST "A: b\r\r\n\r\n", 400 },
		{ "bare LF", "GET / HTTP/1.1\n" HOST "\r\n", 400 },
		{ "bell", "GET / HTTP/1.1\r\n" HOST "A: \a\r\n\r\n", 400 },
		{ "no host", "GET / HTTP/1.1\r\nA: b\r\n\r\n", 400 },
		{ "two hosts", "GET / HTTP/1.1\r\n" HOST "hOST: x\r\n\r\n", 400 },
		{ "bad host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400 },
		{ "length twice",
			"GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\ncontent-length: 1\r\n\r\n",
			400 },
		{ "length -1", "GET / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400 },
		{ "length 19 digits",
			"GET / HTTP/1.1\r\n" HOST "Content-Length: 1000000000000000000\r\n\r\n",
			400 },
		{ "length and chunked",
			"GET / HTTP/1.1\r\n" HOST
			"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
			400 },
		{ "coding", "GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", 501 },
		{ "two codings",
			"GET / HTTP/1.1\r\n" HOST
			"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
			400 },
		{ "coding in 1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
		{ "expectation", "GET / HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n", 417 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct h1_fault f = { 0 };
		struct h1_head h;
		char *text;

		if (parse(cases[i].text, true, &h, &f, &text) != -1 || f.status != cases[i].status)
			fail_msg("%s: %u, not %u", cases[i].name, f.status, cases[i].status);
		assert_non_null(f.why);
		free(text);
	}
}

static void requests_are_understood(void **state)
{
	static const struct {
		const char *name, *text, *method, *target, *host, *upgrade;
		unsigned minor, count;
		int64_t length;
		bool chunked, close, expects;
	} cases[] = {
		{ "least", "GET / HTTP/1.1\r\n" HOST "\r\n", "GET", "/", "x", NULL, 1, 1, -1, 0, 0,
			0 },
		{ "1.0", "GET /a HTTP/1.0\r\n\r\n", "GET", "/a", NULL, NULL, 0, 0, -1, 0, 1, 0 },
		{ "1.0 kept", "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET", "/a",
			NULL, NULL, 0, 1, -1, 0, 0, 0 },
		{ "close", "GET / HTTP/1.1\r\n" HOST "Connection: foo , CLOSE\r\n\r\n", "GET", "/",
			"x", NULL, 1, 2, -1, 0, 1, 0 },
		{ "length", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0012\r\n\r\n", "POST", "/",
			"x", NULL, 1, 2, 12, 0, 0, 0 },
		{ "longest", "PUT / HTTP/1.1\r\n" HOST "Content-Length: 999999999999999999\r\n\r\n",
			"PUT", "/", "x", NULL, 1, 2, 999999999999999999, 0, 0, 0 },
		{ "chunked", "PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding:CHUNKED\r\n\r\n", "PUT",
			"/", "x", NULL, 1, 2, -1, 1, 0, 0 },
		{ "expects",
			"PUT / HTTP/1.1\r\n" HOST
			"Content-Length: 1\r\nExpect: 100-Continue\r\n\r\n",
			"PUT", "/", "x", NULL, 1, 3, 1, 0, 0, 1 },
		{ "1.0 cannot expect",
			"PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
			"PUT", "/", NULL, NULL, 0, 2, 1, 0, 1, 0 },
		{ "upgrade",
			"GET / HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: a/1\r\n\r\n",
			"GET", "/", "x", "a/1", 1, 3, -1, 0, 0, 0 },
		{ "upgrade with a body",
			"GET / HTTP/1.1\r\n" HOST
			"Connection: upgrade\r\nUpgrade: a\r\nContent-Length: 1\r\n\r\n",
			"GET", "/", "x", NULL, 1, 4, 1, 0, 0, 0 },
		{ "two upgrades",
			"GET / HTTP/1.1\r\n" HOST
			"Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n\r\n",
			"GET", "/", "x", NULL, 1, 4, -1, 0, 0, 0 },
		{ "high bytes in a value", "GET / HTTP/1.1\r\n" HOST "A: \xc3\xa9\t\r\n\r\n", "GET",
			"/", "x", NULL, 1, 2, -1, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct h1_fault f = { 0 };
		struct h1_head h;
		char *text;

		if (parse(cases[i].text, true, &h, &f, &text) != 0)
			fail_msg("%s: %u %s", cases[i].name, f.status, f.why);
		assert_string_equal(h.method, cases[i].method);
		assert_string_equal(h.target, cases[i].target);
		if (cases[i].host)
			assert_string_equal(h.host, cases[i].host);
		else
			assert_null(h.host);
		if (cases[i].upgrade)
			assert_string_equal(h.upgrade, cases[i].upgrade);
		else
			assert_null(h.upgrade);
		assert_int_equal(h.minor, cases[i].minor);
		assert_int_equal(h.count, cases[i].count);
		assert_int_equal(h.length, cases[i].length);
		assert_int_equal(h.chunked, cases[i].chunked);
		assert_int_equal(h.close, cases[i].close);
		assert_int_equal(h.expects, cases[i].expects);
		free(text);
	}
}

static void responses(void **state)
{
	static const struct {
		const char *name, *text;
		unsigned status; /* 0: refused */
		const char *reason;
		int64_t length;
	} cases[] = {
		{ "plain", "HTTP/1.1 200 OK\r\n\r\n", 200, "OK", -1 },
		{ "length", "HTTP/1.0 404 Not Found\r\nContent-Length: 3\r\n\r\n", 404, "Not Found",
			3 },
		{ "no reason", "HTTP/1.1 200\r\n\r\n", 200, "", -1 },
		{ "reason with high bytes", "HTTP/1.1 200 \xc3\xa9\r\n\r\n", 200, "\xc3\xa9", -1 },
		{ "no status", "HTTP/1.1\r\n\r\n", 0, "", 0 },
		{ "short status", "HTTP/1.1 20\r\n\r\n", 0, "", 0 },
		{ "long status", "HTTP/1.1 2000\r\n\r\n", 0, "", 0 },
		{ "letters", "HTTP/1.1 OK 200\r\n\r\n", 0, "", 0 },
		{ "zero", "HTTP/1.1 099 x\r\n\r\n", 0, "", 0 },
		{ "control byte", "HTTP/1.1 200 \x01\r\n\r\n", 0, "", 0 },
		{ "version", "HTTP/2 200 OK\r\n\r\n", 0, "", 0 },
		{ "both",
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: "
			"chunked\r\n\r\n",
			0, "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct h1_fault f = { 0 };
		struct h1_head h;
		char *text;
		int r = parse(cases[i].text, false, &h, &f, &text);

		if ((r == 0) != (cases[i].status != 0))
			fail_msg("%s: %d %s", cases[i].name, r, f.why ? f.why : "");
		if (r == 0) {
			assert_int_equal(h.status, cases[i].status);
			assert_string_equal(h.reason, cases[i].reason);
			assert_int_equal(h.length, cases[i].length);
		} else {
			assert_int_equal(f.status, 502);
		}
		free(text);
	}
}

/* The end is found at the same place however the head arrives, and not before. */
static void head_end_in_pieces(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\nbody\r\n\r\n";
	const int want = 33;

	(void)state;
	for (size_t piece = 1; piece < sizeof(text); piece++) {
		struct h1_fault f;
		size_t seen = 0;
		int n = 0;

		for (size_t have = piece; n == 0; have += piece) {
			if (have > sizeof(text) - 1)
				have = sizeof(text) - 1;
			n = h1_head_end(text, have, &seen, &f);
			assert_true(n >= 0);
			assert_int_equal(n > 0, have >= (size_t)want);
		}
		assert_int_equal(n, want);
	}
}

static void head_limits(void **state)
{
	static char text[WIRE_HEAD_MAX + 100];
	struct h1_fault f = { 0 };
	size_t seen = 0;

	(void)state;
	memset(text, 'a', sizeof(text));
	assert_int_equal(h1_head_end(text, WIRE_HEAD_MAX, &seen, &f), 0);
	assert_int_equal(h1_head_end(text, WIRE_HEAD_MAX + 1, &seen, &f), -1);
	assert_int_equal(f.status, 431);
	/* Complete, and one byte too long. */
	memcpy(text + WIRE_HEAD_MAX - 3, "\r\n\r\n", 4);
	seen = 0;
	assert_int_equal(h1_head_end(text, WIRE_HEAD_MAX + 1, &seen, &f), -1);
	memcpy(text + WIRE_HEAD_MAX - 4, "\r\n\r\n", 4);
	seen = 0;
	assert_int_equal(h1_head_end(text, sizeof(text), &seen, &f), WIRE_HEAD_MAX);
	text[5] = '\0';
	seen = 0;
	assert_int_equal(h1_head_end(text, 100, &seen, &f), -1);
}

static void targets(void **state)
{
	static const struct {
		const char *text, *method, *authority, *path, *query; /* path NULL: refused */
	} cases[] = {
		{ "/", "GET", "", "/", "" },
		{ "/a/b?c=d?e", "GET", "", "/a/b", "c=d?e" },
		{ "/?", "GET", "", "/", "" },
		{ "//a", "GET", "", "//a", "" },
		{ "*", "OPTIONS", "", "*", "" },
		{ "*", "GET", NULL, NULL, NULL },
		{ "a", "GET", NULL, NULL, NULL },
		{ "?a", "GET", NULL, NULL, NULL },
		{ "http://a", "GET", "a", "/", "" },
		{ "HTTPS://a:1/", "GET", "a:1", "/", "" },
		{ "http://a/b?c", "GET", "a", "/b", "c" },
		{ "http://a?c", "GET", "a", "/", "c" },
		{ "http://[::1]:8/b", "GET", "[::1]:8", "/b", "" },
		{ "http://", "GET", NULL, NULL, NULL },
		{ "http:///a", "GET", NULL, NULL, NULL },
		{ "http://u:p@a/", "GET", NULL, NULL, NULL },
		{ "ws://a/", "GET", NULL, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct h1_fault f;
		struct h1_target t;
		char *copy = strdup(cases[i].text);
		int r = h1_split_target(copy, cases[i].method, &t, &f);

		if ((r == 0) != (cases[i].path != NULL))
			fail_msg("%s: %d", cases[i].text, r);
		if (r == 0) {
			assert_string_equal(t.authority, cases[i].authority);
			assert_string_equal(t.path, cases[i].path);
			assert_string_equal(t.query, cases[i].query);
		}
		free(copy);
	}
}

static void hosts(void **state)
{
	static const struct {
		const char *host, *name; /* NULL: refused */
	} cases[] = {
		{ "", "" },
		{ "a", "a" },
		{ "A.Example.COM:7700", "a.example.com" },
		{ "a:", "a" },
		{ "127.0.0.1:65535", "127.0.0.1" },
		{ "49983-abc.x", "49983-abc.x" },
		{ "[::1]", "::1" },
		{ "[FE80::1]:80", "fe80::1" },
		{ ":80", NULL },
		{ "a:65536", NULL },
		{ "a:123456", NULL },
		{ "a:8x", NULL },
		{ "a:-1", NULL },
		{ "a b", NULL },
		{ "a/b", NULL },
		{ "a@b", NULL },
		{ "a,b", NULL },
		{ "[::1", NULL },
		{ "[]", NULL },
		{ "[::1]x", NULL },
		{ "[::g]", NULL },
		{ "\xc3\xa9", NULL },
	};
	char name[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (h1_host_is_legal(cases[i].host) != (cases[i].name != NULL))
			fail_msg("'%s'", cases[i].host);
		if (!cases[i].name)
			continue;
		h1_host_name(cases[i].host, name);
		assert_string_equal(name, cases[i].name);
	}
}

static void lists(void **state)
{
	(void)state;
	assert_true(h1_list_has("close", "Close"));
	assert_true(h1_list_has(" a ,\tclose ,b", "close"));
	assert_true(h1_list_has(",,close", "close"));
	assert_false(h1_list_has("closed, xclose", "close"));
	assert_false(h1_list_has("", "close"));
	assert_false(h1_list_has("a close", "close"));
}

/* ---- chunks ---- */

/* The body out of @text, fed in pieces of @piece; the return of the last step. */
static int unchunk(
	const char *text, size_t len, size_t piece, char *out, size_t *ret_len, size_t *ret_rest)
{
	struct h1_chunks c = { 0 };
	size_t at = 0;
	int r = H1_MORE;

	*ret_len = 0;
	while (at < len && r == H1_MORE) {
		size_t n = len - at < piece ? len - at : piece, left = n, got;
		const char *p = text + at, *data;

		while ((r = h1_chunks_next(&c, &p, &left, &data, &got)) == H1_DATA) {
			memcpy(out + *ret_len, data, got);
			*ret_len += got;
		}
		at += n - left;
	}
	*ret_rest = len - at;
	return r;
}

static void chunks(void **state)
{
	static const struct {
		const char *name, *text, *body; /* body NULL: refused */
		size_t rest;
	} cases[] = {
		{ "one", "5\r\nhello\r\n0\r\n\r\n", "hello", 0 },
		{ "two", "5\r\nhello\r\n01\r\n!\r\n0\r\n\r\n", "hello!", 0 },
		{ "none", "0\r\n\r\n", "", 0 },
		{ "rest", "1\r\na\r\n0\r\n\r\nGET /", "a", 5 },
		{ "extension", "1;x=\"y;z\"\r\na\r\n0;\r\n\r\n", "a", 0 },
		{ "trailers", "1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n", "a", 0 },
		{ "fifteen digits", "000000000000001\r\na\r\n0\r\n\r\n", "a", 0 },
		{ "sixteen digits", "0000000000000001\r\na\r\n0\r\n\r\n", NULL, 0 },
		{ "no digits", ";x\r\na\r\n", NULL, 0 },
		{ "empty line", "\r\n", NULL, 0 },
		{ "blank", "1 \r\na\r\n", NULL, 0 },
		{ "LF", "1\na\n", NULL, 0 },
		{ "CR x", "1\rx", NULL, 0 },
		{ "no CR after data", "1\r\nab", NULL, 0 },
		{ "no LF after data", "1\r\na\rb", NULL, 0 },
		{ "control byte", "1;\x01\r\na\r\n", NULL, 0 },
		{ "bad trailer", "0\r\n: x\r\n\r\n", NULL, 0 },
		{ "folded trailer", "0\r\nA: b\r\n\tc\r\n\r\n", NULL, 0 },
		{ "end without LF", "0\r\n\rx", NULL, 0 },
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text), got, rest;

		for (size_t piece = 1; piece <= len; piece++) {
			int r = unchunk(cases[i].text, len, piece, out, &got, &rest);

			if (r != (cases[i].body ? (int)H1_END : -EPROTO))
				fail_msg("%s by %zu: %d", cases[i].name, piece, r);
			if (!cases[i].body)
				continue;
			assert_int_equal(got, strlen(cases[i].body));
			assert_memory_equal(out, cases[i].body, got);
			assert_int_equal(rest, cases[i].rest);
		}
	}
}

static void chunk_limits(void **state)
{
	static char line[WIRE_CHUNK_LINE_MAX + 16];
	static char out[16];
	size_t got, rest;
	struct h1_chunks c = { 0 };
	int r = 0;

	(void)state;
	memset(line, 'x', sizeof(line));
	memcpy(line, "1;", 2);
	assert_int_equal(unchunk(line, sizeof(line), 7, out, &got, &rest), -EPROTO);
	/* Long extensions on tiny chunks add up; long chunks pay for theirs. */
	memcpy(line + 200, "\r\na\r\n", 5);
	for (int i = 0; i < 1000 && r != -EPROTO; i++) {
		const char *p = line, *data;
		size_t left = 205, n;

		while ((r = h1_chunks_next(&c, &p, &left, &data, &n)) == H1_DATA)
			;
	}
	assert_int_equal(r, -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_refused),
		cmocka_unit_test(requests_are_understood),
		cmocka_unit_test(responses),
		cmocka_unit_test(head_end_in_pieces),
		cmocka_unit_test(head_limits),
		cmocka_unit_test(targets),
		cmocka_unit_test(hosts),
		cmocka_unit_test(lists),
		cmocka_unit_test(chunks),
		cmocka_unit_test(chunk_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
