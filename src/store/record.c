/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/record.c - key=value lines, escaped so that any string goes in and comes out.
 *
 * Owns:  the escaping.
 * Rules: no heap; what does not fit is an error, never cut.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "host/host.h"
#include "store/record.h"

void record_init(struct record *r)
{
	/* Not all of it: the text is 64 KiB, and most records touch one page. */
	r->len = 0;
	r->bad = false;
}

static void put(struct record *r, const char *data, size_t len)
{
	if (r->bad || len > sizeof(r->text) - r->len) {
		r->bad = true;
		return;
	}
	memcpy(r->text + r->len, data, len);
	r->len += len;
}

static bool is_plain(unsigned char c)
{
	return c > 0x20 && c != 0x7f && c != '%';
}

static void put_word(struct record *r, const char *word)
{
	static const char hex[] = "0123456789abcdef";

	for (const char *p = word; *p;) {
		unsigned char c;
		size_t n = 0;

		while (p[n] && is_plain((unsigned char)p[n]))
			n++;
		put(r, p, n);
		p += n;
		c = (unsigned char)*p;
		if (c) {
			put(r, (char[]){ '%', hex[c >> 4], hex[c & 15] }, 3);
			p++;
		}
	}
}

static void put_key(struct record *r, const char *key)
{
	put(r, key, strlen(key));
	put(r, "=", 1);
}

void record_add_words(struct record *r, const char *key, const char *const *words, size_t count)
{
	put_key(r, key);
	for (size_t i = 0; i < count; i++) {
		if (i)
			put(r, " ", 1);
		put_word(r, words[i]);
	}
	put(r, "\n", 1);
}

void record_add(struct record *r, const char *key, const char *value)
{
	if (value)
		record_add_words(r, key, &value, 1);
}

void record_add_num(struct record *r, const char *key, long long value)
{
	char text[24];

	if (str_fmt(text, sizeof(text), "%lld", value) < 0)
		r->bad = true;
	else
		record_add(r, key, text);
}

void record_add_argv(struct record *r, const char *key, const char *const *argv)
{
	size_t start;

	if (!argv || !argv[0])
		return;
	put_key(r, key);
	start = r->len;
	for (size_t i = 0; argv[i]; i++) {
		size_t before = r->len;

		if (i)
			put(r, " ", 1);
		/* Escaping can make three bytes of one; what is sure not to fit is not tried. */
		if (strlen(argv[i]) <= RECORD_COMMAND_MAX)
			put_word(r, argv[i]);
		if (strlen(argv[i]) > RECORD_COMMAND_MAX || r->len - start > RECORD_COMMAND_MAX) {
			r->len = before;
			put(r, i ? " ..." : "...", i ? 4 : 3);
			break;
		}
	}
	put(r, "\n", 1);
}

void record_add_raw(struct record *r, const struct record_line *line)
{
	put(r, line->key, line->key_len + 1 + line->value_len + 1); /* with '=' and newline */
}

bool record_next(const struct record *r, size_t *at, struct record_line *ret)
{
	while (*at < r->len) {
		const char *line = r->text + *at;
		const char *end = memchr(line, '\n', r->len - *at);
		const char *eq;

		if (!end)
			return false;
		*at = (size_t)(end + 1 - r->text);
		eq = memchr(line, '=', (size_t)(end - line));
		if (!eq)
			continue;
		ret->key = line;
		ret->key_len = (size_t)(eq - line);
		ret->value = eq + 1;
		ret->value_len = (size_t)(end - eq - 1);
		return true;
	}
	return false;
}

bool record_key_is(const struct record_line *line, const char *key)
{
	return strlen(key) == line->key_len && memcmp(line->key, key, line->key_len) == 0;
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static int unescape(const char *p, size_t len, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int c = (unsigned char)p[i];

		if (c == '%') {
			int hi = len - i > 2 ? nibble(p[i + 1]) : -1;
			int lo = len - i > 2 ? nibble(p[i + 2]) : -1;

			c = hi < 0 || lo < 0 ? 0 : hi << 4 | lo;
			if (!c)
				return -EINVAL; /* not an escape, or a NUL that would cut the string
						 */
			i += 2;
		}
		if (n + 1 >= cap)
			return -ENAMETOOLONG;
		out[n++] = (char)c;
	}
	out[n] = '\0';
	return 0;
}

int record_word(const struct record_line *line, size_t index, char *out, size_t cap)
{
	const char *p = line->value, *end = line->value + line->value_len, *stop;

	for (;; index--, p = stop + 1) {
		stop = memchr(p, ' ', (size_t)(end - p));
		if (index == 0)
			return unescape(p, (size_t)((stop ? stop : end) - p), out, cap);
		if (!stop)
			return -ENOENT;
	}
}

bool record_find(const struct record *r, const char *key, struct record_line *ret)
{
	struct record_line line;
	bool found = false;

	for (size_t at = 0; record_next(r, &at, &line);) {
		if (!record_key_is(&line, key))
			continue;
		*ret = line;
		found = true;
	}
	return found;
}

int record_get(const struct record *r, const char *key, char *out, size_t cap)
{
	struct record_line line;

	if (!record_find(r, key, &line))
		return -ENOENT;
	return record_word(&line, 0, out, cap);
}

int record_load(struct record *r, int fd)
{
	ssize_t n;

	record_init(r);
	do {
		n = host_pread(fd, r->text + r->len, sizeof(r->text) - r->len, (off_t)r->len);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		r->len += (size_t)n;
	} while (n != 0 && r->len < sizeof(r->text));
	return r->len == sizeof(r->text) ? -EFBIG : 0;
}
