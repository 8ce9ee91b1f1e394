/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_BUF_H
#define WARD_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes that grow up to a limit. A failed append marks the buffer bad and later appends do nothing,
 * so that a writer checks once, at the end.
 */
struct buf {
	char *data; /* always NUL-terminated once anything was appended */
	size_t len, cap, max;
	bool bad; /* out of memory, or past @max */
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_add_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_cut(struct buf *b, size_t len); /* back to @len bytes */

#define own_buf __attribute__((cleanup(buf_done)))

#endif
