/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_JIN_H
#define WARD_FRONT_JIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * JSON that comes in. A document is read once, with its size and depth limited, and asked for typed
 * fields: what has the wrong type is -EINVAL with the field's name in the message. A field that is
 * absent or null is "not there". Strings are borrowed from the document. (jansson.h and base/json.h
 * share names, so this header hides the former.)
 */
struct jin; /* any value */

/* Takes an object only; an empty body is an empty object. -EINVAL says what is wrong and where. */
int jin_parse(const char *text, size_t len, size_t max, struct jin **ret, struct err *e);
void jin_destroy(struct jin *doc);
static inline void jin_done_(struct jin **doc)
{
	jin_destroy(*doc);
}
#define own_jin __attribute__((cleanup(jin_done_)))

/* Each: 1 found, 0 not there (@ret untouched), -EINVAL wrong type. @o NULL: nothing is there. */
int jin_str(const struct jin *o, const char *key, const char **ret, struct err *e);
int jin_i64(const struct jin *o, const char *key, int64_t min, int64_t max, int64_t *ret,
	struct err *e);
int jin_bool(const struct jin *o, const char *key, bool *ret, struct err *e);
int jin_obj(const struct jin *o, const char *key, const struct jin **ret, struct err *e);
int jin_list(const struct jin *o, const char *key, const struct jin **ret, struct err *e);

/* The same, but -EINVAL when it is not there. */
int jin_need_str(const struct jin *o, const char *key, const char **ret, struct err *e);
int jin_need_obj(const struct jin *o, const char *key, const struct jin **ret, struct err *e);

/* Is @key there at all, null included? */
bool jin_has(const struct jin *o, const char *key);

/* Calls @each for every pair of an object of strings, in its order; stops when it fails. */
int jin_each_str(const struct jin *o, const char *key, size_t max,
	int (*each)(void *arg, const char *name, const char *value, struct err *e), void *arg,
	struct err *e);

/* A list: its length, and element @i as a string or an object; -EINVAL names "@key[@i]". */
size_t jin_len(const struct jin *list);
int jin_str_at(const struct jin *list, const char *key, size_t i, const char **ret, struct err *e);
int jin_obj_at(
	const struct jin *list, const char *key, size_t i, const struct jin **ret, struct err *e);

/* The value as compact JSON; free() it. NULL: out of memory. */
char *jin_dump(const struct jin *v);

#endif
