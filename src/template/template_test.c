/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/template_test.c - references, records, and what a --template word means.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/tree.h"
#include "template/record.h"
#include "template/ref.h"
#include "template/template.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void references(void **state)
{
	static const struct {
		const char *text, *host, *path, *tag, *digest; /* host NULL: refused */
	} cases[] = {
		{ "alpine", "", "alpine", "latest", "" },
		{ "alpine:3.19", "", "alpine", "3.19", "" },
		{ "a/b", "", "a/b", "latest", "" },
		{ "localhost/a", "localhost", "a", "latest", "" },
		{ "localhost:5000/x/y:T-1_2.3", "localhost:5000", "x/y", "T-1_2.3", "" },
		{ "r.test/x@sha256:" HEX, "r.test", "x", "", "sha256:" HEX },
		{ "r.test/x:1@sha256:" HEX, "r.test", "x", "", "sha256:" HEX },
		{ "[::1]:5000/x", "[::1]:5000", "x", "latest", "" },
		{ "127.0.0.1:5000/a__b/c--d/e.f", "127.0.0.1:5000", "a__b/c--d/e.f", "latest", "" },
		{ "", NULL, "", "", "" },
		{ "/", NULL, "", "", "" },
		{ "A", NULL, "", "", "" },
		{ "a/", NULL, "", "", "" },
		{ "a//b", NULL, "", "", "" },
		{ "a/../b", NULL, "", "", "" },
		{ "a:", NULL, "", "", "" },
		{ "a:.x", NULL, "", "", "" },
		{ "a:b:c", NULL, "", "", "" },
		{ "a___b", NULL, "", "", "" },
		{ "a-_b", NULL, "", "", "" },
		{ "a..b", NULL, "", "", "" },
		{ "-a", NULL, "", "", "" },
		{ "a@sha256:12", NULL, "", "", "" },
		{ "a@sha512:" HEX, NULL, "", "", "" },
		{ "a@sha256:" HEX "0", NULL, "", "", "" },
		{ "localhost:port/x", NULL, "", "", "" },
		{ "localhost:123456/x", NULL, "", "", "" },
		{ "-x.test/x", NULL, "", "", "" },
		{ "[::1/x", NULL, "", "", "" },
		{ "u:p@r.test/x", NULL, "", "", "" },
		{ "a b", NULL, "", "", "" },
		{ "a\nb", NULL, "", "", "" },
		{ "a?b", NULL, "", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ref r, again;
		char text[TEMPLATE_NAME_MAX + 1];
		struct err e = { 0 };

		if (!cases[i].host) {
			assert_int_equal(ref_parse(cases[i].text, &r, &e), -EINVAL);
			assert_null(strchr(e.msg, '\n'));
			continue;
		}
		assert_int_equal(ref_parse(cases[i].text, &r, &e), 0);
		assert_string_equal(r.host, cases[i].host);
		assert_string_equal(r.path, cases[i].path);
		assert_string_equal(r.tag, cases[i].tag);
		assert_string_equal(r.digest, cases[i].digest);
		assert_int_equal(ref_text(&r, text), 0);
		assert_int_equal(ref_parse(text, &again, &e), 0);
		assert_memory_equal(&r, &again, sizeof(r));
	}
}

static void long_references_are_refused(void **state)
{
	char text[TEMPLATE_NAME_MAX + 2];
	struct ref r;

	(void)state;
	memset(text, 'a', sizeof(text));
	text[TEMPLATE_NAME_MAX + 1] = '\0';
	assert_int_equal(ref_parse(text, &r, NULL), -ENAMETOOLONG);
	text[TEMPLATE_NAME_MAX] = '\0'; /* fits, but not with its tag */
	assert_int_equal(ref_parse(text, &r, NULL), -ENAMETOOLONG);
	text[TEMPLATE_NAME_MAX - 7] = '\0';
	assert_int_equal(ref_parse(text, &r, NULL), 0);
}

static void loopback_hosts(void **state)
{
	static const struct {
		const char *host;
		bool want;
	} cases[] = {
		{ "localhost", true },
		{ "localhost:5000", true },
		{ "127.0.0.1", true },
		{ "127.1.2.3:80", true },
		{ "[::1]", true },
		{ "[::1]:5000", true },
		{ "127.example.com", false },
		{ "127.0.0.1.example.com", false },
		{ "128.0.0.1", false },
		{ "localhost.example.com", false },
		{ "[::2]:1", false },
		{ "127.0.0.", false },
		{ "127.0.1", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(ref_host_is_loopback(cases[i].host), cases[i].want);
}

static void names_become_files_and_back(void **state)
{
	static const char *const names[] = { "py3", "a.b_c-d", "localhost:5000/x/y:1",
		("r.test/x@sha256:" HEX) };
	char file[TEMPLATE_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(record_file_name(names[i], file), 0);
		assert_null(strchr(file, '/'));
		record_file_name_back(file);
		assert_string_equal(file, names[i]);
	}
	assert_true(template_name_is_valid("py3"));
	assert_false(template_name_is_valid("host"));
	assert_false(template_name_is_valid(""));
	assert_false(template_name_is_valid(".."));
	assert_false(template_name_is_valid("a/b"));
	assert_false(template_name_is_valid("A"));
	assert_false(template_name_is_valid("-a"));
}

static void records_survive_the_trip(void **state)
{
	struct record r = { .kind = RECORD_LAYERS,
		.by_root = true,
		.source = "localhost:5000/x:1",
		.digest = "sha256:" HEX,
		.created = "now",
		.stamp = "",
		.workdir = "/a\\b\nc",
		.user = "",
		.layers = { "sha256-" HEX, "/srv/base" },
		.layer_count = 2,
		.env = { "A=1\n2", "B=" },
		.env_count = 2,
		.cmd = { "", "\\n" },
		.cmd_count = 2 };
	struct record back;
	struct buf b;

	(void)state;
	assert_int_equal(record_format(&r, &b, NULL), 0);
	assert_int_equal(record_parse(strdup(b.data), &back, NULL), 0);
	buf_done(&b);
	assert_string_equal(back.workdir, r.workdir);
	assert_string_equal(back.env[0], "A=1\n2");
	assert_string_equal(back.env[1], "B=");
	assert_null(back.env[2]);
	assert_string_equal(back.cmd[0], "");
	assert_string_equal(back.cmd[1], "\\n");
	assert_string_equal(back.layers[0], "sha256-" HEX);
	assert_string_equal(back.layers[1], "/srv/base");
	assert_true(back.by_root);
	record_done(&back);
}

static void bad_records_are_refused(void **state)
{
	static const char *const cases[] = {
		"",
		"kind=layers\n",
		"kind=layers",
		("layer=sha256-" HEX "\nkind=layers\n"),
		("kind=other\nlayer=sha256-" HEX "\n"),
		"kind=layers\nlayer=../../etc\n",
		("kind=layers\nlayer=sha256-" HEX "/..\n"),
		"kind=layers\nlayer=sha256-1\n",
		("kind=dir\nlayer=sha256-" HEX "\n"),
		"kind=dir\nlayer=/a\nlayer=/b\n",
		("kind=layers\nlayer=sha256-" HEX "\nnew=1\n"),
		("kind=layers\nlayer=sha256-" HEX "\nenv=A\n"),
		("kind=layers\nlayer=sha256-" HEX "\nuser=\\x\n"),
		("kind=layers\nlayer=sha256-" HEX "\nuser=\\\n"),
		("kind=layers\nlayer=sha256-" HEX "\nnothing\n"),
		("kind=layers\nlayer=sha256-" HEX "\nuser=x"),
		("kind=layers\nowner=me\nlayer=sha256-" HEX "\n"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct record r;

		assert_int_equal(record_parse(strdup(cases[i]), &r, NULL), -EBADMSG);
	}
}

static void put(const char *dir, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	assert_int_equal(str_fmt(path, sizeof(path), "%s/%s", dir, name), 0);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void words_resolve(void **state)
{
	char dir[] = "/tmp/ward-template-test-XXXXXX", path[512], word[600];
	struct template t;
	struct err e = { 0 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(template_resolve(dir, "host", &t, &e), 0);
	assert_int_equal(t.root.kind, ROOT_HOST);
	assert_null(t.env[0]);
	template_done(&t);

	assert_int_equal(template_resolve(dir, "dir:/usr/bin/../bin", &t, &e), 0);
	assert_int_equal(t.root.kind, ROOT_DIR);
	assert_string_equal(t.root.layers[0], "/usr/bin");
	template_done(&t);
	assert_int_equal(template_resolve(dir, "./no-such-thing", &t, &e), -ENOENT);
	assert_int_equal(template_resolve(dir, "/etc/passwd", &t, &e), -ENOTDIR);
	assert_int_equal(template_resolve(dir, "dir:", &t, &e), -EINVAL);
	assert_int_equal(template_resolve(dir, dir, &t, &e), -EINVAL);
	assert_int_equal(template_resolve(dir, "What is this?", &t, &e), -EINVAL);
	assert_int_equal(template_resolve(dir, "", &t, &e), -EINVAL);

	assert_int_equal(template_resolve(dir, "py3", &t, &e), -ENOENT);
	assert_false(t.needs_import);
	assert_int_equal(template_resolve(dir, "localhost:5000/x", &t, &e), -ENOENT);
	assert_true(t.needs_import);

	assert_int_equal(str_fmt(path, sizeof(path), "%s/templates", dir), 0);
	assert_true(mkdir(path, 0700) == 0 || errno == EEXIST); /* `host` made it */
	assert_int_equal(str_fmt(path, sizeof(path), "%s/templates/py3", dir), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	put(path, "template", "kind=dir\nlayer=/usr\nenv=A=1\ncmd=sh\n");
	assert_int_equal(template_resolve(dir, "py3", &t, &e), 0);
	assert_int_equal(t.root.kind, ROOT_DIR);
	assert_string_equal(t.root.layers[0], "/usr");
	assert_string_equal(t.env[0], "A=1");
	assert_string_equal(t.cmd[0], "sh");
	assert_null(t.workdir);
	template_done(&t);
	put(path, "template",
		geteuid() ? "kind=layers\nowner=user\nlayer=sha256-" HEX "\n"
			  : "kind=layers\nowner=root\nlayer=sha256-" HEX "\n");
	assert_int_equal(template_resolve(dir, "py3", &t, &e), -ENOTDIR); /* the layer is gone */
	put(path, "template",
		geteuid() ? "kind=layers\nowner=root\nlayer=sha256-" HEX "\n"
			  : "kind=layers\nowner=user\nlayer=sha256-" HEX "\n");
	assert_int_equal(template_resolve(dir, "py3", &t, &e), -EPERM);

	assert_int_equal(str_fmt(word, sizeof(word), "oci:%s/templates", dir), 0);
	assert_int_equal(template_resolve(dir, word, &t, &e), -ENOENT);
	assert_false(t.needs_import);
	assert_int_equal(str_fmt(word, sizeof(word), "oci:%s/template:v1", path), 0);
	assert_int_equal(template_resolve(dir, word, &t, &e), -ENOENT);
	assert_true(t.needs_import);

	assert_int_equal(tree_remove(dir, &e), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(references),
		cmocka_unit_test(long_references_are_refused),
		cmocka_unit_test(loopback_hosts),
		cmocka_unit_test(names_become_files_and_back),
		cmocka_unit_test(records_survive_the_trip),
		cmocka_unit_test(bad_records_are_refused),
		cmocka_unit_test(words_resolve),
	};

	unsetenv("WARD_REGISTRY");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
