/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_QUERY_H
#define WARD_WIRE_QUERY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Percent-decoding, and queries ("a=1&b=x+y&a=2").
 *
 * Decodes %XX in @text into @out (@cap bytes, with a NUL at the end). @plus: a + is a space.
 * Returns the length, -EINVAL (a broken escape), -EILSEQ (%00) or -ENAMETOOLONG. @out may be @text.
 */
enum percent_plus { PERCENT_PLUS_KEEP, PERCENT_PLUS_SPACE };
int percent_decode(const char *text, size_t len, enum percent_plus plus, char *out, size_t cap);
/* Escapes everything but letters, digits and -._~ ; the length, or -ENAMETOOLONG. */
int percent_encode(const char *text, size_t len, char *out, size_t cap);

struct query_pair {
	const char *key, *value; /* decoded; a key without = has the value "" */
};

struct query {
	struct query_pair *pairs; /* in order; keys may repeat */
	unsigned count;
	char *text; /* what they point into */
};

/*
 * Decodes all of @text; a broken escape stands for itself, as browsers and other servers have it.
 * -E2BIG: more than WIRE_QUERY_PAIRS_MAX pairs; -EILSEQ: a %00; -ENOMEM.
 */
int query_parse(struct query *q, const char *text);
void query_done(struct query *q);
/* The first value of @key, or NULL. */
const char *query_get(const struct query *q, const char *key);
/* The next value of @key from *@at on, or NULL; start with 0. */
const char *query_next(const struct query *q, const char *key, unsigned *at);

#endif
