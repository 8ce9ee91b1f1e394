/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/console.c - the one line of a guest's console that is worth keeping.
 *
 * Owns:  two lines of bounded length.
 */
#include <string.h>

#include "base/str.h"
#include "tier/vm/console.h"

static void take_line(struct console *c)
{
	bool telling = strstr(c->line, "ward-init: ") || strstr(c->line, "Kernel panic");

	if (!c->found && c->line[0])
		str_copy(c->last, sizeof(c->last), c->line);
	c->found |= telling;
	c->len = 0;
	c->line[0] = '\0';
}

void console_byte(struct console *c, uint8_t byte)
{
	if (byte == '\n' || byte == '\r') {
		take_line(c);
		return;
	}
	if (c->len == CONSOLE_LINE)
		return;
	c->line[c->len++] = (char)(byte >= ' ' && byte < 0x7f ? byte : '?');
	c->line[c->len] = '\0';
}

const char *console_words(const struct console *c)
{
	if (c->last[0])
		return c->last;
	return c->line[0] ? c->line : "(nothing)";
}
