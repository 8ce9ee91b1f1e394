/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/body_test.c - what bodies are made of: forms, envelopes, gzip, and the queue out.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "wire/envelope.h"
#include "wire/limits.h"
#include "wire/multipart.h"
#include "wire/out.h"
#include "wire/zip.h"

/* ---- forms ---- */

struct form {
	struct buf text; /* "[name|filename|type:data]" for each part */
	int fail_at;     /* 1: begin, 2: data, 3: end */
};

static int on_begin(void *ctx, const struct multipart_part *p)
{
	struct form *f = ctx;

	buf_add_fmt(&f->text, "[%s|%s|%s:", p->name, p->filename ? p->filename : "-",
		p->type ? p->type : "-");
	return f->fail_at == 1 ? -EPERM : 0;
}

static int on_data(void *ctx, const void *data, size_t len)
{
	struct form *f = ctx;

	assert_true(len > 0);
	buf_add(&f->text, data, len);
	return f->fail_at == 2 ? -EPERM : 0;
}

static int on_end(void *ctx)
{
	struct form *f = ctx;

	buf_add_str(&f->text, "]");
	return f->fail_at == 3 ? -EPERM : 0;
}

static const struct multipart_events form_events = { on_begin, on_data, on_end };

static int read_form(struct form *f, const char *type, const char *body, size_t len, size_t piece)
{
	struct multipart *m = NULL;
	int r = multipart_create(type, &form_events, f, &m);

	for (size_t at = 0; r == 0 && at < len; at += piece)
		r = multipart_feed(m, body + at, len - at < piece ? len - at : piece);
	if (r == 0)
		r = multipart_finish(m);
	multipart_destroy(m);
	return r;
}

#define CD "Content-Disposition: form-data; "
#define TYPE "multipart/form-data; boundary=XX"

static void forms(void **state)
{
	static const struct {
		const char *name, *body;
		int want;
		const char *text;
	} cases[] = {
		{ "one", "--XX\r\n" CD "name=\"a\"\r\n\r\nhello\r\n--XX--\r\n", 0,
			"[a|-|-:hello]" },
		{ "no line end behind", "--XX\r\n" CD "name=a\r\n\r\nhello\r\n--XX--", 0,
			"[a|-|-:hello]" },
		{ "empty form", "--XX--\r\n", 0, "" },
		{ "empty part", "--XX\r\n" CD "name=\"a\"\r\n\r\n\r\n--XX--", 0, "[a|-|-:]" },
		{ "file",
			"--XX\r\n" CD "name=\"f\"; filename=\"a/b c.txt\"\r\nContent-Type: "
			"text/plain\r\n\r\nx\r\n--XX--",
			0, "[f|a/b c.txt|text/plain:x]" },
		{ "escapes",
			"--XX\r\n" CD "name=\"a%22b\"; filename=\"x%0D%0ay%41\\z\\\"q\"\r\n\r\n\r\n"
			"--XX--",
			0, "[a\"b|x\r\ny%41\\z\"q|-:]" },
		{ "semicolon inside", "--XX\r\n" CD "name=\"a;b=c\"\r\n\r\n\r\n--XX--", 0,
			"[a;b=c|-|-:]" },
		{ "two", "--XX\r\n" CD "name=a\r\n\r\n1\r\n--XX\r\n" CD "name=b\r\n\r\n2\r\n--XX--",
			0, "[a|-|-:1][b|-|-:2]" },
		{ "preamble and epilogue",
			"hi\r\n--XX\r\n" CD "name=a\r\n\r\n1\r\n--XX--\r\nbye--XX", 0,
			"[a|-|-:1]" },
		{ "padding", "--XX \t\r\n" CD "name=a\r\n\r\n1\r\n--XX--", 0, "[a|-|-:1]" },
		{ "nearly a boundary", "--XX\r\n" CD "name=a\r\n\r\n\r\r\n\r\n--X\r\n-\r\r\n--XX--",
			0, "[a|-|-:\r\r\n\r\n--X\r\n-\r]" },
		{ "boundary inside a line", "--XX\r\n" CD "name=a\r\n\r\na--XX\r\n--XX--", 0,
			"[a|-|-:a--XX]" },
		{ "no name", "--XX\r\n" CD "x=y\r\n\r\n1\r\n--XX--", 0, "[|-|-:1]" },
		{ "no headers", "--XX\r\n\r\n1\r\n--XX--", 0, "[|-|-:1]" },
		{ "other headers", "--XX\r\nX: y\r\n" CD "name=a\r\n\r\n1\r\n--XX--", 0,
			"[a|-|-:1]" },
		{ "cut in the data", "--XX\r\n" CD "name=a\r\n\r\n1", -EPROTO, NULL },
		{ "cut in the head", "--XX\r\n" CD, -EPROTO, NULL },
		{ "cut in the end", "--XX\r\n" CD "name=a\r\n\r\n1\r\n--XX-", -EPROTO, NULL },
		{ "nothing", "", -EPROTO, NULL },
		{ "no boundary", "hello", -EPROTO, NULL },
		{ "boundary goes on", "--XX\r\n" CD "name=a\r\n\r\n1\r\n--XXY\r\n", -EPROTO, NULL },
		{ "bare LF", "--XX\n" CD "name=a\n\n1\n--XX--", -EPROTO, NULL },
		{ "bare LF in the head", "--XX\r\n" CD "name=a\n\r\n1\r\n--XX--", -EPROTO, NULL },
		{ "not form-data",
			"--XX\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--XX--",
			-EPROTO, NULL },
		{ "open quote", "--XX\r\n" CD "name=\"a\r\n\r\n1\r\n--XX--", -EPROTO, NULL },
		{ "two dispositions", "--XX\r\n" CD "name=a\r\n" CD "name=b\r\n\r\n1\r\n--XX--",
			-EPROTO, NULL },
		{ "header without colon", "--XX\r\nX\r\n\r\n1\r\n--XX--", -EPROTO, NULL },
		{ "folded header", "--XX\r\nX: y\r\n z\r\n\r\n1\r\n--XX--", -EPROTO, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].body);

		for (size_t piece = 1; piece <= len + 1; piece++) {
			struct form f = { 0 };
			int r;

			buf_init(&f.text, 1 << 20);
			r = read_form(&f, TYPE, cases[i].body, len, piece);
			if (r != cases[i].want)
				fail_msg("%s by %zu: %d", cases[i].name, piece, r);
			if (r == 0)
				assert_string_equal(f.text.data ? f.text.data : "", cases[i].text);
			buf_done(&f.text);
		}
	}
}

static void form_types(void **state)
{
	static const struct {
		const char *type;
		int want;
	} cases[] = {
		{ "multipart/form-data; boundary=XX", 0 },
		{ "Multipart/Form-Data;BOUNDARY=\"XX\"", 0 },
		{ "multipart/form-data; charset=utf-8; boundary=XX", 0 },
		{ "multipart/form-data; boundary=XX;", 0 },
		{ "multipart/form-data", -EINVAL },
		{ "multipart/form-data; boundary=", -EINVAL },
		{ "multipart/form-data; boundary=\"\"", -EINVAL },
		{ "multipart/form-data; boundary=\"XX", -EINVAL },
		{ "multipart/form-data; boundary=\"X \"", -EINVAL },
		{ "multipart/form-data; boundary=X\"X", -EINVAL },
		{ "multipart/form-data; boundary=XX; boundary=YY", -EINVAL },
		{ "multipart/form-datax; boundary=XX", -EINVAL },
		{ "multipart/mixed; boundary=XX", -EINVAL },
		{ "text/plain; boundary=XX", -EINVAL },
		{ "", -EINVAL },
		{ "multipart/form-data; "
		  "boundary="
		  "01234567890123456789012345678901234567890123456789012345678901234567890",
			-EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct multipart *m = NULL;
		int r = multipart_create(cases[i].type, &form_events, NULL, &m);

		if (r != cases[i].want)
			fail_msg("%s: %d", cases[i].type, r);
		multipart_destroy(m);
	}
}

static void form_limits(void **state)
{
	static const char one[] = "--XX\r\n\r\n\r\n";
	own_buf struct buf many, head, name;
	struct form f = { 0 };

	(void)state;
	buf_init(&f.text, 1 << 20);
	buf_init(&many, 1 << 20);
	for (unsigned i = 0; i <= WIRE_PARTS_MAX; i++)
		buf_add_str(&many, one);
	assert_int_equal(read_form(&f, TYPE, many.data, many.len, 1000), -E2BIG);
	buf_init(&head, 1 << 20);
	buf_add_str(&head, "--XX\r\nX: ");
	for (unsigned i = 0; i < WIRE_PART_HEAD_MAX; i++)
		buf_add_str(&head, "y");
	assert_int_equal(read_form(&f, TYPE, head.data, head.len, 1000), -E2BIG);
	buf_init(&name, 1 << 20);
	buf_add_str(&name, "--XX\r\n" CD "name=");
	for (unsigned i = 0; i <= WIRE_PART_NAME_MAX; i++)
		buf_add_str(&name, "y");
	buf_add_str(&name, "\r\n\r\n\r\n--XX--");
	assert_int_equal(read_form(&f, TYPE, name.data, name.len, 1000), -E2BIG);
	buf_done(&f.text);
}

static void form_callbacks_can_refuse(void **state)
{
	static const char body[] = "--XX\r\n" CD "name=a\r\n\r\nhello\r\n--XX--";

	(void)state;
	for (int at = 1; at <= 3; at++) {
		struct form f = { .fail_at = at };

		buf_init(&f.text, 1 << 20);
		assert_int_equal(read_form(&f, TYPE, body, sizeof(body) - 1, 3), -EPERM);
		buf_done(&f.text);
	}
}

/* ---- envelopes ---- */

static void envelopes(void **state)
{
	static const char *const messages[] = { "", "a", "{\"process\":1}", "" };
	uint8_t wire[200];
	size_t total = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
		size_t n = strlen(messages[i]);

		envelope_put_head(wire + total, i == 3 ? ENVELOPE_END : 0, (uint32_t)n);
		memcpy(wire + total + ENVELOPE_HEAD, messages[i], n);
		total += ENVELOPE_HEAD + n;
	}
	for (size_t piece = 1; piece <= total; piece++) {
		struct envelope_reader r;
		unsigned seen = 0;

		envelope_reader_init(&r, 100);
		for (size_t at = 0; at < total; at += piece) {
			const void *data = wire + at;
			size_t len = total - at < piece ? total - at : piece, n;
			const char *msg;
			uint8_t flags;

			while (envelope_read(&r, &data, &len, &flags, &msg, &n) == 1) {
				assert_string_equal(msg, messages[seen]);
				assert_int_equal(n, strlen(messages[seen]));
				assert_int_equal(flags, seen == 3 ? ENVELOPE_END : 0);
				seen++;
			}
			assert_int_equal(len, 0);
		}
		assert_int_equal(seen, 4);
		assert_true(envelope_is_between(&r));
		envelope_reader_done(&r);
	}
}

static void envelope_limits(void **state)
{
	static const struct {
		const char *head;
		size_t max;
		int want;
	} cases[] = {
		{ "\0\0\0\0\5", 5, 0 },
		{ "\0\0\0\0\6", 5, -EMSGSIZE },
		{ "\0\xff\xff\xff\xff", SIZE_MAX, -EMSGSIZE },
		{ "\0\3\xff\xff\xff", SIZE_MAX, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct envelope_reader r;
		const void *data = cases[i].head;
		size_t len = 5, n;
		const char *msg;
		uint8_t flags;

		envelope_reader_init(&r, cases[i].max);
		assert_int_equal(envelope_read(&r, &data, &len, &flags, &msg, &n), cases[i].want);
		assert_true(r.cap < 4096); /* announced is not arrived */
		envelope_reader_done(&r);
	}
}

/* ---- gzip ---- */

static int zip_to_buf(void *ctx, const void *data, size_t len)
{
	buf_add(ctx, data, len);
	return 0;
}

static int zip_refuses(void *ctx, const void *data, size_t len)
{
	(void)ctx;
	(void)data;
	(void)len;
	return -EPERM;
}

static void pack(struct buf *out, const char *data, size_t len)
{
	struct zip *z = NULL;

	assert_int_equal(zip_deflate_create(6, zip_to_buf, out, &z), 0);
	for (size_t at = 0; at < len; at += 1000)
		assert_int_equal(zip_feed(z, data + at, len - at < 1000 ? len - at : 1000), 0);
	assert_int_equal(zip_finish(z), 0);
	zip_destroy(z);
}

static int unpack(struct buf *out, const char *data, size_t len, size_t piece, uint64_t max)
{
	struct zip *z = NULL;
	int r = zip_inflate_create(max, zip_to_buf, out, &z);

	for (size_t at = 0; r == 0 && at < len; at += piece)
		r = zip_feed(z, data + at, len - at < piece ? len - at : piece);
	if (r == 0)
		r = zip_finish(z);
	zip_destroy(z);
	return r;
}

static void gzip_there_and_back(void **state)
{
	static char data[300000];
	own_buf struct buf packed, back;
	unsigned seed = 3;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(rand_r(&seed) % 7);
	buf_init(&packed, 1 << 20);
	buf_init(&back, 1 << 20);
	pack(&packed, data, sizeof(data));
	for (size_t piece = 1; piece < packed.len * 2; piece = piece * 3 + 1) {
		buf_cut(&back, 0);
		assert_int_equal(unpack(&back, packed.data, packed.len, piece, sizeof(data)), 0);
		assert_int_equal(back.len, sizeof(data));
		assert_memory_equal(back.data, data, sizeof(data));
	}
	assert_int_equal(unpack(&back, packed.data, packed.len, 5000, sizeof(data) - 1), -EMSGSIZE);
	assert_int_equal(unpack(&back, packed.data, packed.len - 1, 5000, 1 << 30), -EPROTO);
	packed.data[packed.len - 6] ^= 1; /* its checksum */
	assert_int_equal(unpack(&back, packed.data, packed.len, 5000, 1 << 30), -EPROTO);
	assert_int_equal(unpack(&back, "hello, this is text", 19, 100, 1 << 30), -EPROTO);
	assert_int_equal(unpack(&back, "", 0, 100, 1 << 30), -EPROTO);
}

static void gzip_bomb_and_members(void **state)
{
	static char zeros[1 << 20];
	own_buf struct buf packed, back;

	(void)state;
	buf_init(&packed, 1 << 20);
	buf_init(&back, 4 << 20);
	pack(&packed, zeros, sizeof(zeros));
	assert_int_equal(unpack(&back, packed.data, packed.len, 100, 65536 * 3), -EMSGSIZE);
	assert_true(back.len <= 65536 * 3);
	/* Two members in a row are one file; rubbish behind one is not. */
	buf_cut(&back, 0);
	pack(&packed, "tail", 4);
	assert_int_equal(unpack(&back, packed.data, packed.len, 77, 2 << 20), 0);
	assert_int_equal(back.len, sizeof(zeros) + 4);
	buf_add_str(&packed, "rubbish");
	assert_int_equal(unpack(&back, packed.data, packed.len, 77, 2 << 20), -EPROTO);
}

static void gzip_flush_and_refusal(void **state)
{
	own_buf struct buf packed, back;
	struct zip *in = NULL, *out = NULL;

	(void)state;
	buf_init(&packed, 1 << 20);
	buf_init(&back, 1 << 20);
	assert_int_equal(zip_deflate_create(1, zip_to_buf, &packed, &out), 0);
	assert_int_equal(zip_inflate_create(1000, zip_to_buf, &back, &in), 0);
	assert_int_equal(zip_feed(out, "now", 3), 0);
	assert_int_equal(zip_flush(out), 0);
	assert_int_equal(zip_feed(in, packed.data, packed.len), 0);
	assert_string_equal(back.data, "now");
	zip_destroy(in);
	zip_destroy(out);
	assert_int_equal(zip_deflate_create(1, zip_refuses, NULL, &out), 0);
	assert_int_equal(zip_feed(out, "x", 1), -EPERM); /* the header of gzip is put at once */
	assert_int_equal(zip_feed(out, "x", 1), -EPERM);
	assert_int_equal(zip_finish(out), -EPERM);
	zip_destroy(out);
}

/* ---- the queue out ---- */

static int make_file(const char *text)
{
	int fd = memfd_create("out", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void queue_keeps_order(void **state)
{
	static char big[100000];
	struct out o = { 0 };
	struct iovec iov[4];
	char got[200];

	(void)state;
	memset(big, 'b', sizeof(big));
	assert_int_equal(out_put(&o, "one", 3), 0);
	assert_int_equal(out_put(&o, "two", 3), 0);
	assert_int_equal(out_front(&o, iov, 4), 1); /* small ones share */
	assert_int_equal(iov[0].iov_len, 6);
	assert_int_equal(out_put_file(&o, make_file("0123456789"), 2, 5), 0);
	assert_int_equal(out_put(&o, "three", 5), 0);
	assert_int_equal(out_put(&o, big, sizeof(big)), 0);
	assert_int_equal(o.bytes, 11 + sizeof(big));
	assert_int_equal(o.file_bytes, 5);
	assert_int_equal(out_front(&o, iov, 4), 1); /* up to the file */
	out_gone(&o, 1);
	assert_int_equal(out_read(&o, got, 17), 17);
	assert_memory_equal(got, "netwo23456threebb", 17);
	assert_int_equal(o.bytes, sizeof(big) - 2);
	out_gone(&o, sizeof(big) - 2);
	assert_true(out_is_empty(&o));
	assert_int_equal(out_read(&o, got, 10), 0);
	/* It can be used again, and dropped with something in it. */
	assert_int_equal(out_put(&o, "x", 1), 0);
	assert_int_equal(out_put_file(&o, make_file("abc"), 0, 3), 0);
	out_done(&o);
}

static void queue_sees_a_short_file(void **state)
{
	struct out o = { 0 };
	char got[20];

	(void)state;
	assert_int_equal(out_put_file(&o, make_file("abc"), 1, 10), 0);
	assert_int_equal(out_read(&o, got, 2), 2);
	assert_int_equal(out_read(&o, got, 2), -ENODATA);
	out_done(&o);
	assert_int_equal(out_put_file(&o, make_file("abc"), 0, 0), 0); /* nothing: closed at once */
	assert_true(out_is_empty(&o));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms),
		cmocka_unit_test(form_types),
		cmocka_unit_test(form_limits),
		cmocka_unit_test(form_callbacks_can_refuse),
		cmocka_unit_test(envelopes),
		cmocka_unit_test(envelope_limits),
		cmocka_unit_test(gzip_there_and_back),
		cmocka_unit_test(gzip_bomb_and_members),
		cmocka_unit_test(gzip_flush_and_refusal),
		cmocka_unit_test(queue_keeps_order),
		cmocka_unit_test(queue_sees_a_short_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
