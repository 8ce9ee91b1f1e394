/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/text.c - how reports look: colours, wrapped lines, and whether they arrived.
 *
 * Owns:  nothing.
 * Rules: plain text when the output is not a terminal, the same words either way.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/common.h"
#include "cmd/text.h"

enum { TEXT_WIDTH = 96 };

const struct ink *ink_for(FILE *f)
{
	static const struct ink colour = { "\033[32m", "\033[33m", "\033[31m", "\033[2m", "\033[1m",
		"\033[0m" };
	static const struct ink plain = { "", "", "", "", "", "" };

	return cmd_colour(f) ? &colour : &plain;
}

void text_wrap(FILE *f, unsigned at, unsigned indent, const char *text)
{
	const char *before = "";

	while (*text) {
		unsigned word = (unsigned)strcspn(text, " ");

		if (*before && at + 1 + word > TEXT_WIDTH) {
			fprintf(f, "\n%*s", (int)indent, "");
			at = indent;
			before = "";
		}
		fprintf(f, "%s%.*s", before, (int)word, text);
		at += (unsigned)strlen(before) + word;
		before = " ";
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', f);
}

int text_end(const char *name)
{
	struct err e = { 0 };

	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	err_set(&e, errno ? errno : EIO, "writing to standard output");
	return cmd_fail(name, &e);
}

int text_report(const char *name, const struct buf *b)
{
	struct err e = { 0 };

	if (b->bad) {
		err_set(&e, ENOMEM, "writing the report as JSON");
		return cmd_fail(name, &e);
	}
	fwrite(b->data, 1, b->len, stdout);
	fputc('\n', stdout);
	return text_end(name);
}
