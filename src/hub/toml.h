/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_TOML_H
#define WARD_HUB_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * A strict reader of the part of TOML 1.0 that ward.toml needs: comments, [table] and [table.name],
 * key = value with strings ("..." and '...'), whole numbers, true and false, and arrays of strings.
 * Whatever else TOML has is refused, with the line. What it accepts, every TOML reader accepts and
 * reads the same way.
 */
enum {
	TOML_BYTES_MAX = 256 * 1024,
	TOML_KEYS_MAX = 1024, /* of one file */
	TOML_TEXT_MAX = 4096, /* bytes of one string */
	TOML_ITEMS_MAX = 64,  /* of one array */
};

enum toml_kind { TOML_STRING, TOML_NUMBER, TOML_BOOL, TOML_ARRAY };

struct toml_value {
	enum toml_kind kind;
	const char *text;         /* STRING */
	int64_t number;           /* NUMBER */
	bool truth;               /* BOOL */
	const char *const *items; /* ARRAY */
	unsigned count;
};

struct toml_entry {
	const char *table; /* "" before the first table */
	const char *name;  /* of [table.name]; "" */
	const char *key;
	struct toml_value value;
	unsigned line;
};

/*
 * Calls @each for every key in order; a negative answer of it ends the reading and is returned,
 * with "<file>:<line>: " put before its message. @text need not end in NUL.
 */
int toml_read(const char *file, const char *text, size_t len,
	int (*each)(void *arg, const struct toml_entry *entry, struct err *e), void *arg,
	struct err *e);

const char *toml_kind_name(enum toml_kind k); /* "a string" */

#endif
