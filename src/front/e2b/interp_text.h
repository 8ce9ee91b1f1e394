/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_INTERP_TEXT_H
#define WARD_FRONT_E2B_INTERP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * Appends a JSON string with everything past ASCII escaped: clients decode each piece of the
 * network by itself, so a character must not be cut in two. Bytes that are no UTF-8 become U+FFFD.
 */
void interp_add_text(struct buf *b, const char *text, size_t len);

/* How many bytes at the end of @text are the beginning of a character that is not all there. */
size_t interp_cut(const char *text, size_t len);

/*
 * What a driver writes: text of the user's code, and between it marked lines of the driver's own.
 * The mark is a control character and a token that the daemon chose for this driver.
 */
enum { INTERP_TOKEN = 32 };

struct interp_events {
	void (*text)(void *ctx, const char *text, size_t len); /* the user's, whole characters */
	void (*line)(void *ctx, const char *line, size_t len); /* one JSON object */
	void (*end)(void *ctx);                                /* the cell is over */
};

struct interp_reader {
	char mark[1 + INTERP_TOKEN + 1]; /* with its NUL */
	struct buf kept;                 /* of a mark, a line or a character that is not whole */
	bool in_line;
};

void interp_reader_init(struct interp_reader *r, const char token[INTERP_TOKEN + 1]);
void interp_reader_done(struct interp_reader *r);
/* Forgets what is kept, and its memory. */
void interp_reader_reset(struct interp_reader *r);
/* 0, or -EMSGSIZE when a line is longer than FRONT_LINE_MAX. */
int interp_read(struct interp_reader *r, const char *data, size_t len,
	const struct interp_events *events, void *ctx);
/* No more comes: what is kept is text. */
void interp_read_end(struct interp_reader *r, const struct interp_events *events, void *ctx);

#endif
