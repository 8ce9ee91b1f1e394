/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/tap.c - from a blob to the entries of its tar.
 *
 * Owns:  the two readers of libarchive, and the bytes between them.
 * Rules: hostile input. One layer of compression, no other archive format, a bound on what comes
 *        out; a warning of the reader is a refusal, since what it warns of is what attackers write.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>

#include "base/limits.h"
#include "base/str.h"
#include "image/names.h"
#include "image/stop.h"
#include "image/tap.h"

static int fail_reader(struct tap *t, struct archive *a, const char *what, struct err *e)
{
	const char *why = archive_error_string(a);
	char shown[160];

	if (t->err.code) { /* our own callback said no, and said why */
		if (e)
			*e = t->err;
		return -t->err.code;
	}
	return err_say(
		e, EBADMSG, "%s: %s", what, str_show(shown, sizeof(shown), why ? why : "broken"));
}

/* What the reader has used up goes; a header that is being read is kept whole. */
static int trim_window(struct tap *t)
{
	uint64_t used;
	size_t n;

	if (t->in_header) {
		if (t->window.len > IMAGE_HEADER_MAX)
			return err_say(&t->err, E2BIG, "an entry has more than %d bytes of headers",
				IMAGE_HEADER_MAX);
		return 0;
	}
	used = (uint64_t)archive_filter_bytes(t->tar, 0);
	n = used > t->window_at ? (size_t)(used - t->window_at) : 0;
	if (n > t->window.len)
		n = t->window.len;
	if (n)
		memmove(t->window.data, t->window.data + n, t->window.len - n);
	buf_cut(&t->window, t->window.len - n);
	t->window_at += n;
	return 0;
}

/* The next piece of decompressed tar: its length, 0 at the end, or a negative errno in t->err. */
static ssize_t pull(struct tap *t, const void **ret)
{
	la_int64_t at;
	size_t len;
	int r;

	do {
		if (t->ended)
			return 0;
		if (stop_check(&t->err) < 0)
			return -EINTR;
		r = archive_read_data_block(t->in, ret, &len, &at);
		if (r == ARCHIVE_EOF) {
			t->ended = true;
			return 0;
		}
		if (r != ARCHIVE_OK)
			return fail_reader(t, t->in, "decompressing it", &t->err);
	} while (!len);
	t->total += len;
	if (t->total > t->max)
		return err_say(&t->err, EFBIG,
			"it unpacks to more than the %llu bytes allowed; --max-size allows more",
			(unsigned long long)t->max);
	hash_add(&t->hash, *ret, len);
	return (ssize_t)len;
}

static la_ssize_t read_tar(struct archive *a, void *data, const void **ret)
{
	struct tap *t = data;
	ssize_t n;

	if (trim_window(t) < 0 || (n = pull(t, ret)) < 0) {
		archive_set_error(a, EIO, "%s", t->err.msg);
		return ARCHIVE_FATAL;
	}
	buf_add(&t->window, *ret, (size_t)n);
	if (t->window.bad) {
		err_set(&t->err, ENOMEM, "reading headers");
		archive_set_error(a, ENOMEM, "out of memory");
		return ARCHIVE_FATAL;
	}
	return n;
}

static int open_in(struct tap *t, int blob, struct err *e)
{
	struct archive_entry *whole;
	int r;

	t->in = archive_read_new();
	/* A warning here would mean an outside program to decompress with. */
	if (!t->in || archive_read_support_filter_gzip(t->in) != ARCHIVE_OK ||
		archive_read_support_filter_zstd(t->in) != ARCHIVE_OK ||
		archive_read_support_format_raw(t->in) != ARCHIVE_OK ||
		archive_read_support_format_empty(t->in) != ARCHIVE_OK)
		return err_say(e, ENOTSUP, "this libarchive cannot read gzip and zstd by itself");
	if (archive_read_open_fd(t->in, blob, 64 * 1024) != ARCHIVE_OK)
		return fail_reader(t, t->in, "reading it", e);
	r = archive_read_next_header(t->in, &whole);
	if (r == ARCHIVE_EOF) {
		t->ended = true;
		return 0;
	}
	if (r != ARCHIVE_OK)
		return fail_reader(t, t->in, "reading it", e);
	if (archive_filter_count(t->in) > 2)
		return err_say(e, EINVAL, "it is compressed more than once");
	return 0;
}

static int open_tar(struct tap *t, struct err *e)
{
	t->tar = archive_read_new();
	if (!t->tar || archive_read_support_format_tar(t->tar) != ARCHIVE_OK ||
		archive_read_support_format_empty(t->tar) != ARCHIVE_OK)
		return err_say(e, ENOTSUP, "this libarchive cannot read tar");
	t->in_header = true;
	if (archive_read_open(t->tar, t, NULL, read_tar, NULL) != ARCHIVE_OK)
		return fail_reader(t, t->tar, "reading its tar", e);
	return 0;
}

int tap_open(struct tap *t, int blob, uint64_t max, struct err *e)
{
	int r;

	memset(t, 0, sizeof(*t));
	t->max = max;
	buf_init(&t->window, SIZE_MAX);
	r = hash_init(&t->hash, e);
	if (r == 0)
		r = open_in(t, blob, e);
	if (r == 0)
		r = open_tar(t, e);
	if (r < 0)
		tap_done(t);
	return r;
}

static int check_raw(struct tap *t, struct err *e)
{
	uint64_t at = (uint64_t)archive_read_header_position(t->tar);

	if (at < t->window_at || at - t->window_at > t->window.len)
		return err_say(e, EBADMSG, "its header is not where the reader says");
	return raw_header_check(t->window.data + (at - t->window_at),
		t->window.len - (size_t)(at - t->window_at), e);
}

int tap_next(struct tap *t, struct archive_entry **ret, struct err *e)
{
	int r;

	if (t->has_entry) /* what is left of its contents is not header; an error shows up below */
		archive_read_data_skip(t->tar);
	t->in_header = true;
	r = archive_read_next_header(t->tar, ret);
	t->in_header = false;
	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK)
		return fail_reader(t, t->tar, "its tar", e);
	t->has_entry = true;
	r = check_raw(t, e);
	return r < 0 ? r : 1;
}

int tap_data(struct tap *t, const void **ret, size_t *ret_len, uint64_t *ret_at, struct err *e)
{
	la_int64_t at;
	int r = archive_read_data_block(t->tar, ret, ret_len, &at);

	if (r == ARCHIVE_EOF)
		return 0;
	if (r != ARCHIVE_OK || at < 0)
		return fail_reader(t, t->tar, "its contents", e);
	*ret_at = (uint64_t)at;
	return 1;
}

int tap_end(struct tap *t, char diff_id[DIGEST_TEXT], struct err *e)
{
	const void *rest;
	ssize_t n;

	while ((n = pull(t, &rest)) > 0)
		;
	if (n < 0) {
		if (e)
			*e = t->err;
		return (int)n;
	}
	hash_end(&t->hash, diff_id);
	return 0;
}

void tap_done(struct tap *t)
{
	archive_read_free(t->tar);
	archive_read_free(t->in);
	t->in = t->tar = NULL;
	hash_done(&t->hash);
	buf_done(&t->window);
}
