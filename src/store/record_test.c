/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/record_test.c - any string goes in and comes out; damaged text is refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "store/record.h"

static void round_trips(void **state)
{
	static const char *const words[] = {
		"plain",
		"",
		"two words",
		"new\nline",
		"tab\tand %25",
		"=",
		"a=b",
		"\x7f\x01",
		"gr\xc3\xbc\xc3\x9f",
		"\xff",
		" ",
		"%",
	};
	static struct record r;
	struct record_line line;
	char out[64];
	size_t at = 0;

	(void)state;
	record_init(&r);
	record_add_words(&r, "list", words, ARRAY_LEN(words));
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		record_add(&r, "one", words[i]);
	assert_false(r.bad);

	assert_true(record_next(&r, &at, &line));
	assert_true(record_key_is(&line, "list"));
	assert_false(record_key_is(&line, "lis"));
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		assert_int_equal(record_word(&line, i, out, sizeof(out)), 0);
		assert_string_equal(out, words[i]);
	}
	assert_int_equal(record_word(&line, ARRAY_LEN(words), out, sizeof(out)), -ENOENT);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		assert_true(record_next(&r, &at, &line));
		assert_int_equal(record_word(&line, 0, out, sizeof(out)), 0);
		assert_string_equal(out, words[i]);
	}
	assert_false(record_next(&r, &at, &line));
	assert_int_equal(record_get(&r, "one", out, sizeof(out)), 0);
	assert_string_equal(out, "%"); /* the last one counts */
	assert_int_equal(record_get(&r, "none", out, sizeof(out)), -ENOENT);
}

static void set_text(struct record *r, const char *text)
{
	record_init(r);
	r->len = strlen(text);
	memcpy(r->text, text, r->len);
}

static void damaged(void **state)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{ "", -ENOENT },
		{ "k", -ENOENT },
		{ "k=v", -ENOENT }, /* torn */
		{ "\n\n\nx\n", -ENOENT },
		{ "k=\n", 0 },
		{ "k=%4\n", -EINVAL },
		{ "k=%\n", -EINVAL },
		{ "k=%00\n", -EINVAL },
		{ "k=%zz\n", -EINVAL },
		{ "k=%41\n", 0 },
		{ "k=12345678\n", -ENAMETOOLONG },
		{ "kk=1\n", -ENOENT },
	};
	static struct record r;
	char out[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		set_text(&r, cases[i].text);
		assert_int_equal(record_get(&r, "k", out, sizeof(out)), cases[i].want);
	}
}

static void commands(void **state)
{
	static char big[RECORD_COMMAND_MAX + 2];
	const char *const cut_first[] = { big, "b", NULL }, *const cut_later[] = { "a b", big, "c",
		NULL };
	const char *const none[] = { NULL };
	static struct record r;
	struct record_line line;
	char out[16];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	record_init(&r);
	record_add_argv(&r, "command", none);
	record_add_argv(&r, "command", NULL);
	assert_int_equal(r.len, 0);
	record_add_argv(&r, "command", cut_first);
	assert_int_equal(record_get(&r, "command", out, sizeof(out)), 0);
	assert_string_equal(out, "...");
	record_add_argv(&r, "command", cut_later);
	assert_true(record_find(&r, "command", &line));
	assert_int_equal(record_word(&line, 0, out, sizeof(out)), 0);
	assert_string_equal(out, "a b");
	assert_int_equal(record_word(&line, 1, out, sizeof(out)), 0);
	assert_string_equal(out, "...");
	assert_int_equal(record_word(&line, 2, out, sizeof(out)), -ENOENT);
}

static void full(void **state)
{
	static char big[4096];
	static struct record r;

	(void)state;
	memset(big, '\n', sizeof(big) - 1); /* three bytes each */
	record_init(&r);
	for (unsigned i = 0; i < 5; i++)
		record_add(&r, "k", big);
	assert_false(r.bad);
	record_add(&r, "k", big);
	assert_true(r.bad);
	assert_true(r.len <= sizeof(r.text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trips),
		cmocka_unit_test(damaged),
		cmocka_unit_test(commands),
		cmocka_unit_test(full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
