/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_STR_H
#define WARD_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Formats into @buf; 0, or -ENAMETOOLONG (with @buf empty) when it does not fit. Never cuts. */
int str_fmt(char *buf, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * Copies what a stranger wrote so that it can stand in an error line: control characters and bytes
 * past ASCII come out as \xHH, and what does not fit ends in "...". Returns @out.
 */
const char *str_show(char *out, size_t cap, const char *s);

/* Copies @src; 0, or -ENAMETOOLONG (with @buf empty). */
int str_copy(char *buf, size_t cap, const char *src);

static inline bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* Along a PATH: the next file that @name may mean, of those that fit; *dirs is what is left of the
 * list, NULL at its end. */
bool str_search(const char **dirs, const char *name, char *out, size_t cap);

/* The rest of @s after @prefix, or NULL when it does not start with that. */
static inline const char *str_after(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

#endif
