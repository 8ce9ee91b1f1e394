/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/front.c - what strangers write to the fronts: JSON bodies, addresses, filters of lists, and
 * what the drivers of the code interpreter print.
 *
 * Owns:  nothing.
 * Rules: the first byte says which reader the rest is for. A reader that takes the text in one
 * piece and in many says the same of it.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "front/e2b/dict.h"
#include "front/e2b/interp_text.h"
#include "front/e2b/rpc_code.h"
#include "front/e2b/where.h"
#include "front/jin.h"
#include "front/limits.h"

enum { TEXT_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int see_pair(void *arg, const char *name, const char *value, struct err *e)
{
	size_t *n = arg;

	*n += strlen(name) + strlen(value);
	return 0;
}

static void try_json(const char *text, size_t len)
{
	static const char *const keys[] = { "process", "path", "timeout", "metadata", "args",
		"pty" };
	struct jin *doc = NULL;
	struct err e = { 0 };
	size_t total = 0;

	if (jin_parse(text, len, FRONT_JSON_MAX, &doc, &e) < 0) {
		if (!e.code || !e.msg[0] || strchr(e.msg, '\n'))
			abort();
		return;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct jin *o = NULL;
		const char *s = NULL;
		int64_t n = 7;
		bool b = false;

		if (jin_str(doc, keys[i], &s, &e) == 1 && !s)
			abort();
		if (jin_i64(doc, keys[i], -5, 5, &n, &e) != 1 && n != 7)
			abort();
		if (n != 7 && (n < -5 || n > 5))
			abort();
		jin_bool(doc, keys[i], &b, &e);
		jin_each_str(doc, keys[i], 100, see_pair, &total, &e);
		if (jin_list(doc, keys[i], &o, &e) == 1)
			for (size_t k = 0; k < jin_len(o); k++)
				jin_str_at(o, keys[i], k, &s, &e);
	}
	jin_destroy(doc);
}

static void try_where(const char *text)
{
	struct where w;

	where_find(&w, text, "80", NULL, "/", false);
	if (w.kind != WHERE_SANDBOX && w.kind != WHERE_BAD)
		abort();
	where_find(&w, "abcdefghijkl", text, NULL, "/", false);
	if (w.kind == WHERE_SANDBOX && !w.port)
		abort();
	where_find(&w, NULL, NULL, text, "/files", true);
	if (w.kind == WHERE_SANDBOX && strlen(w.id) > ID_LEN)
		abort();
}

static void try_filter(const char *text)
{
	own_dict struct dict d = { 0 };
	struct err e = { 0 };

	if (dict_from_filter(&d, text, &e) == 0 && d.count > FRONT_PAIRS_MAX)
		abort();
}

struct heard {
	struct buf text, lines;
	unsigned ends;
};

static void on_text(void *ctx, const char *text, size_t len)
{
	buf_add(&((struct heard *)ctx)->text, text, len);
}

static void on_line(void *ctx, const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (line[i] < ' ' || line[i] > '~')
			abort(); /* what goes to a client is ASCII, and one line */
	buf_add(&((struct heard *)ctx)->lines, line, len);
}

static void on_end(void *ctx)
{
	((struct heard *)ctx)->ends++;
}

static void hear(struct heard *h, const char *text, size_t len, size_t slice)
{
	static const struct interp_events events = { on_text, on_line, on_end };
	struct interp_reader r;

	buf_init(&h->text, 4 * TEXT_MAX);
	buf_init(&h->lines, 4 * TEXT_MAX);
	h->ends = 0;
	/* A short alphabet makes marks likely: the token is all of one letter. */
	interp_reader_init(&r, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	for (size_t at = 0; at < len; at += slice)
		interp_read(&r, text + at, len - at < slice ? len - at : slice, &events, h);
	interp_read_end(&r, &events, h);
	interp_reader_done(&r);
}

static void try_reader(const char *text, size_t len)
{
	struct heard whole, cut;
	struct buf json;

	hear(&whole, text, len, len ? len : 1);
	hear(&cut, text, len, 3);
	if (whole.ends != cut.ends || whole.text.len != cut.text.len ||
		whole.lines.len != cut.lines.len)
		abort();
	if (whole.text.len && memcmp(whole.text.data, cut.text.data, whole.text.len) != 0)
		abort();
	buf_init(&json, 16 * TEXT_MAX);
	interp_add_text(&json, text, len);
	for (size_t i = 0; i < json.len; i++)
		if (json.data[i] < ' ' || json.data[i] > '~')
			abort();
	buf_done(&json);
	buf_done(&whole.text);
	buf_done(&whole.lines);
	buf_done(&cut.text);
	buf_done(&cut.lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;
	size_t len;

	if (size < 1 || size > TEXT_MAX)
		return 0;
	len = size - 1;
	text = malloc(len + 1);
	if (!text)
		return 0;
	memcpy(text, data + 1, len);
	text[len] = '\0';
	switch (data[0] % 4) {
	case 0:
		try_json(text, len);
		break;
	case 1:
		try_where(text);
		break;
	case 2:
		try_filter(text);
		break;
	default:
		try_reader(text, len);
	}
	free(text);
	return 0;
}
