/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_RECORD_H
#define WARD_STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

/*
 * "key=word word..." lines: the text of a slot and of a kept box. Bytes that could be mistaken
 * (blanks, control bytes, '%') are written as %XX, so a word can be any string. A key may come more
 * than once; the last one counts, unless the key is a list ("undo", "source").
 * Never on the heap. Adding to a full record marks it bad; the writer checks once, at the end.
 */
struct record {
	size_t len;
	bool bad;
	char text[RECORD_BYTES_MAX];
};

/* One line of a record; points into it. */
struct record_line {
	const char *key, *value;
	size_t key_len, value_len;
};

void record_init(struct record *r);
void record_add(struct record *r, const char *key, const char *value); /* NULL: no line */
void record_add_num(struct record *r, const char *key, long long value);
void record_add_words(struct record *r, const char *key, const char *const *words, size_t count);
/* A command, NULL-terminated; past RECORD_COMMAND_MAX bytes the rest becomes one word "...". */
void record_add_argv(struct record *r, const char *key, const char *const *argv);

void record_add_raw(struct record *r, const struct record_line *line); /* a line of another one */

/* The next complete line from *@at on; false at the end. Start with 0. A torn last line is none. */
bool record_next(const struct record *r, size_t *at, struct record_line *ret);
bool record_key_is(const struct record_line *line, const char *key);
/* Word @index of @line as a string: 0, -ENOENT (no such word), -EINVAL (bad escape), -ENAMETOOLONG.
 */
int record_word(const struct record_line *line, size_t index, char *out, size_t cap);
/* The last line with @key, its first word; as record_word(). */
int record_get(const struct record *r, const char *key, char *out, size_t cap);
/* The last line with @key; false when there is none. */
bool record_find(const struct record *r, const char *key, struct record_line *ret);
/* Reads the file @fd from its start. -EFBIG when it cannot be a record. */
int record_load(struct record *r, int fd);

#endif
