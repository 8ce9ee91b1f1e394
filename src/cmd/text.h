/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_TEXT_H
#define WARD_CMD_TEXT_H

#include <stdio.h>

#include "base/buf.h"

/* Escape sequences, or empty strings when the output is not a terminal. */
struct ink {
	const char *good, *warn, *bad, *dim, *bold, *off;
};

const struct ink *ink_for(FILE *f);

/* Prints @text in lines of at most TEXT_WIDTH columns, from column @at, each new line from @indent.
 */
void text_wrap(FILE *f, unsigned at, unsigned indent, const char *text);

/* Prints a finished report and a line feed; the exit status of the command. */
int text_report(const char *name, const struct buf *b);
/* What was printed must have arrived; the exit status of the command. */
int text_end(const char *name);

#endif
