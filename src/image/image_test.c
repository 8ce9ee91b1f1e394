/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/image_test.c - names, headers, documents and challenges of images and registries.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "image/auth.h"
#include "image/http.h"
#include "image/manifest.h"
#include "image/names.h"
#include "template/record.h"

static void names(void **state)
{
	static const struct {
		const char *raw;
		int want;
		enum name_kind kind;
		const char *parent, *base;
	} cases[] = {
		{ "a", 0, NAME_PLAIN, "", "a" },
		{ "a/b/c", 0, NAME_PLAIN, "a/b", "c" },
		{ "./a//b/./c/", 0, NAME_PLAIN, "a/b", "c" },
		{ ".", 0, NAME_PLAIN, "", "" },
		{ "./", 0, NAME_PLAIN, "", "" },
		{ "/", 0, NAME_PLAIN, "", "" },
		{ "...", 0, NAME_PLAIN, "", "..." },
		{ "..a/b..", 0, NAME_PLAIN, "..a", "b.." },
		{ "d/.wh.x", 0, NAME_WHITEOUT, "d", "x" },
		{ "d/.wh..x", 0, NAME_WHITEOUT, "d", ".x" },
		{ "d/.wh..wh..opq", 0, NAME_OPAQUE, "d", ".wh..wh..opq" },
		{ ".wh..wh..opq", 0, NAME_OPAQUE, "", ".wh..wh..opq" },
		{ "x.wh.y", 0, NAME_PLAIN, "", "x.wh.y" },
		{ "", -EINVAL, 0, NULL, NULL },
		{ "/a", -EINVAL, 0, NULL, NULL },
		{ "//a", -EINVAL, 0, NULL, NULL },
		{ "..", -EINVAL, 0, NULL, NULL },
		{ "a/..", -EINVAL, 0, NULL, NULL },
		{ "a/../b", -EINVAL, 0, NULL, NULL },
		{ "./../b", -EINVAL, 0, NULL, NULL },
		{ ".wh.", -EINVAL, 0, NULL, NULL },
		{ "a/.wh..", -EINVAL, 0, NULL, NULL },
		{ "a/.wh...", -EINVAL, 0, NULL, NULL },
		{ ".wh..wh.aufs", -EINVAL, 0, NULL, NULL },
		{ ".wh.a/b", -EINVAL, 0, NULL, NULL },
		{ "x/.wh.a/b", -EINVAL, 0, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct entry_name n;
		struct err e = { 0 };

		assert_int_equal(entry_name_parse(cases[i].raw, &n, &e), cases[i].want);
		if (cases[i].want < 0) {
			assert_true(e.msg[0] != '\0');
			continue;
		}
		assert_int_equal(n.kind, cases[i].kind);
		assert_string_equal(n.parent, cases[i].parent);
		assert_string_equal(n.base, cases[i].base);
	}
}

static void long_names(void **state)
{
	char raw[IMAGE_NAME_MAX + 2];
	struct entry_name n;

	(void)state;
	memset(raw, 'a', sizeof(raw));
	raw[255] = '\0';
	assert_int_equal(entry_name_parse(raw, &n, NULL), 0);
	raw[255] = 'a';
	raw[256] = '\0';
	assert_int_equal(entry_name_parse(raw, &n, NULL), -ENAMETOOLONG);
	for (size_t i = 0; i < sizeof(raw) - 1; i++)
		raw[i] = i % 200 == 199 ? '/' : 'a';
	raw[IMAGE_NAME_MAX] = '\0';
	assert_int_equal(entry_name_parse(raw, &n, NULL), 0);
	raw[IMAGE_NAME_MAX] = 'a';
	raw[IMAGE_NAME_MAX + 1] = '\0';
	assert_int_equal(entry_name_parse(raw, &n, NULL), -ENAMETOOLONG);
	for (size_t i = 0; i < 2 * IMAGE_TREE_DEPTH_MAX + 1; i++)
		raw[i] = i % 2 ? '/' : 'a';
	raw[2 * IMAGE_TREE_DEPTH_MAX - 1] = '\0';
	assert_int_equal(entry_name_parse(raw, &n, NULL), 0);
	raw[2 * IMAGE_TREE_DEPTH_MAX - 1] = '/';
	raw[2 * IMAGE_TREE_DEPTH_MAX + 1] = '\0';
	assert_int_equal(entry_name_parse(raw, &n, NULL), -ELOOP);
}

/* A tar header of @type with @size bytes of @data after it. */
static size_t header(char out[2048], char type, const void *data, size_t size, const char *octal)
{
	memset(out, 0, 2048);
	memcpy(out, "name", 4);
	memcpy(out + 124, octal, strlen(octal));
	out[156] = type;
	memcpy(out + 512, data, size);
	return 512 + (size + 511) / 512 * 512 + 512; /* and an empty header after it */
}

static void raw_headers(void **state)
{
	static const struct {
		char type;
		const char *data;
		size_t size;
		const char *octal;
		int want;
	} cases[] = {
		{ '0', "", 0, "00000000000", 0 }, { 'x', "10 path=a\n", 10, "00000000012", 0 },
		{ 'x', "12 path=a\0b\n", 12, "00000000014", -EINVAL },
		{ 'x', "16 linkpath=a\0b\n", 16, "00000000020", -EINVAL },
		{ 'g', "12 path=a\0b\n", 12, "00000000014", -EINVAL },
		{ 'x', "15 comment=a\0b\n", 15, "00000000017", 0 },
		{ 'x', "10 path=a\n12 path=a\0b\n", 22, "00000000026", -EINVAL },
		{ 'x', "99999999999 path=a\n", 19, "00000000023",
			0 }, /* nonsense: the reader's business */
		{ 'L', "a/b\0", 4, "00000000004", 0 }, { 'L', "a\0b\0", 4, "00000000004", -EINVAL },
		{ 'K', "a\0b", 3, "00000000003", -EINVAL }, { 'x', "", 0, "77777777777", -EINVAL },
		{ 'x', "", 0, "zzz", -EINVAL },
		{ 'x', "", 0, "00000100000", -EINVAL }, /* longer than what is there */
	};
	char block[2048];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len =
			header(block, cases[i].type, cases[i].data, cases[i].size, cases[i].octal);

		assert_int_equal(raw_header_check(block, len, NULL), cases[i].want);
	}
	assert_int_equal(raw_header_check(block, 100, NULL), 0);
}

static void challenges(void **state)
{
	static const struct {
		const char *text;
		int want;
		const char *realm, *service, *scope;
	} cases[] = {
		{ "Bearer realm=\"https://a.test/t\",service=\"s\",scope=\"x:y,z\"", 0,
			"https://a.test/t", "s", "x:y,z" },
		{ "Bearer service=s, realm=\"r\"", 0, "r", "s", "" },
		{ "Bearer realm=\"a\\\"b\"", 0, "a\"b", "", "" },
		{ "Bearer realm=r", 0, "r", "", "" },
		{ "Bearer realm=\"r\", Basic realm=\"x\"", 0, "r", "", "" },
		{ "Bearer", -EBADMSG, "", "", "" },
		{ "Bearer ", -EBADMSG, "", "", "" },
		{ "Bearer service=\"s\"", -EBADMSG, "", "", "" },
		{ "Bearer realm=\"open", -EBADMSG, "", "", "" },
		{ "Bearer realm=", -EBADMSG, "", "", "" },
		{ "Bearer =\"x\"", -EBADMSG, "", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct challenge c;

		assert_int_equal(challenge_parse(cases[i].text, &c, NULL), cases[i].want);
		if (cases[i].want == 0) {
			assert_string_equal(c.realm, cases[i].realm);
			assert_string_equal(c.service, cases[i].service);
			assert_string_equal(c.scope, cases[i].scope);
		}
	}
}

static void urls(void **state)
{
	static const struct {
		const char *url;
		enum http_plain plain;
		int want;
	} cases[] = {
		{ "https://a.test/x", PLAIN_HERE, 0 },
		{ "http://localhost:5000/x", PLAIN_HERE, 0 },
		{ "http://127.0.0.1/x", PLAIN_HERE, 0 },
		{ "http://[::1]:5000/x", PLAIN_HERE, 0 },
		{ "http://a.test/x", PLAIN_ANYWHERE, 0 },
		{ "http://a.test/x", PLAIN_HERE, -EPERM },
		{ "http://localhost/x", PLAIN_NOWHERE, -EPERM },
		{ "https://localhost/x", PLAIN_NOWHERE, 0 },
		{ "http://localhost.a.test/x", PLAIN_HERE, -EPERM },
		{ "https://u:p@a.test/x", PLAIN_HERE, -EINVAL },
		{ "http://localhost@a.test/", PLAIN_HERE, -EINVAL },
		{ "file:///etc/passwd", PLAIN_ANYWHERE, -EINVAL },
		{ "ftp://a.test/x", PLAIN_ANYWHERE, -EINVAL },
		{ "", PLAIN_ANYWHERE, -EINVAL },
		{ "/x", PLAIN_ANYWHERE, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(http_url_check(cases[i].url, cases[i].plain, NULL), cases[i].want);
	assert_true(http_same_origin("https://a.test/x", "https://A.test:443/y"));
	assert_false(http_same_origin("https://a.test/x", "http://a.test/x"));
	assert_false(http_same_origin("https://a.test/x", "https://a.test:444/x"));
	assert_false(http_same_origin("https://a.test/x", "https://b.a.test/x"));
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OCI "application/vnd.oci.image."

static void load(struct buf *b, const char *text)
{
	buf_init(b, SIZE_MAX);
	buf_add_str(b, text);
}

static void documents(void **state)
{
	static const struct platform p = { "linux", "amd64" };
	static const struct {
		const char *text, *tag;
		int want;
		enum document kind;
	} cases[] = {
		{ "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" OCI
		  "config.v1+json\",\"digest\":\"sha256:" HEX
		  "\",\"size\":2},\"layers\":[{\"mediaType\":\"" OCI
		  "layer.v1.tar\",\"digest\":\"sha256:" HEX "\",\"size\":3}]}",
			NULL, 0, DOCUMENT_MANIFEST },
		{ "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" OCI
		  "manifest.v1+json\",\"digest\":\"sha256:" HEX "\",\"size\":2}]}",
			"", 0, DOCUMENT_INDEX },
		{ "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" OCI
		  "manifest.v1+json\",\"digest\":\"sha256:" HEX "\",\"size\":2}]}",
			"v1", -ENOENT, 0 },
		{ "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" OCI
		  "manifest.v1+json\",\"digest\":\"sha256:" HEX "\",\"size\":9000000000}]}",
			NULL, -EFBIG, 0 },
		{ "{\"schemaVersion\":2,\"manifests\":{}}", NULL, -EBADMSG, 0 },
		{ "{\"schemaVersion\":2,\"manifests\":[1,\"x\",null,[],{}]}", NULL, -ENOENT, 0 },
		{ "{\"schemaVersion\":2,\"layers\":[1]}", NULL, -EINVAL, 0 },
		{ "{\"schemaVersion\":\"2\"}", NULL, -EINVAL, 0 },
		{ "null", NULL, -EBADMSG, 0 },
		{ "", NULL, -EBADMSG, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct manifest m;
		struct descriptor child;
		enum document kind;
		struct buf b;

		load(&b, cases[i].text);
		assert_int_equal(document_parse(&b, &p, cases[i].tag, &kind, &m, &child, NULL),
			cases[i].want);
		if (cases[i].want == 0)
			assert_int_equal(kind, cases[i].kind);
		buf_done(&b);
	}
}

static void configurations(void **state)
{
	static const struct platform p = { "linux", "amd64" };
	struct record *rec = calloc(1, sizeof(*rec));
	struct config c = { 0 };
	struct buf b;

	(void)state;
	load(&b, "{\"rootfs\":{\"diff_ids\":[\"sha256:" HEX
		 "\"]},\"config\":{\"Env\":[\"A=1\"],\"Cmd\":null}}");
	assert_int_equal(config_parse(&b, &p, 1, &c, rec, NULL), 0);
	assert_string_equal(c.diff_ids[0], "sha256:" HEX);
	assert_string_equal(rec->env[0], "A=1");
	assert_int_equal(rec->cmd_count, 0);
	assert_string_equal(rec->user, "");
	config_done(&c);
	assert_int_equal(config_parse(&b, &p, 2, &c, rec, NULL), -EBADMSG);
	buf_done(&b);
	free(rec);
}

static void tokens(void **state)
{
	static const struct {
		const char *text, *want; /* NULL: refused */
	} cases[] = {
		{ "{\"token\":\"abc\"}", "Bearer abc" },
		{ "{\"access_token\":\"abc\"}", "Bearer abc" },
		{ "{\"token\":\"a b\"}", NULL },
		{ "{\"token\":\"a\\r\\nX: y\"}", NULL },
		{ "{\"token\":\"0123456789012345678901234567890123456789\"}", NULL },
		{ "{}", NULL },
		{ "[]", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[32];
		struct buf b;

		load(&b, cases[i].text);
		assert_int_equal(
			token_parse(&b, out, sizeof(out), NULL), cases[i].want ? 0 : -EBADMSG);
		if (cases[i].want)
			assert_string_equal(out, cases[i].want);
		buf_done(&b);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(long_names),
		cmocka_unit_test(raw_headers),
		cmocka_unit_test(challenges),
		cmocka_unit_test(urls),
		cmocka_unit_test(documents),
		cmocka_unit_test(configurations),
		cmocka_unit_test(tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
