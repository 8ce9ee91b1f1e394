/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_CONSOLE_H
#define WARD_TIER_VM_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

/* What is kept of a guest's console: one line, the one that most likely says why it did not come
 * up. Printable, whatever the guest wrote. */
enum { CONSOLE_LINE = 160 };

struct console {
	char line[CONSOLE_LINE + 1]; /* being written */
	unsigned len;
	char last[CONSOLE_LINE + 1]; /* the last whole one of the kernel or of our init */
	bool found;                  /* @last is our init's own complaint, or a panic: it stays */
};

void console_byte(struct console *c, uint8_t byte);
/* "(nothing)" when it said nothing. */
const char *console_words(const struct console *c);

#endif
