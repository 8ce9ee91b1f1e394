/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_DICT_H
#define WARD_FRONT_E2B_DICT_H

#include <stddef.h>

#include "base/err.h"

/* Names and values, in order; each string is one allocation. */
struct dict {
	char **names, **values;
	size_t count, cap;
};

void dict_done(struct dict *p);
#define own_dict __attribute__((cleanup(dict_done)))
int dict_add(struct dict *p, const char *name, const char *value, struct err *e);
/* For jin_each_str(). */
int dict_add_each(void *pairs, const char *name, const char *value, struct err *e);
const char *dict_get(const struct dict *p, const char *name);

/*
 * The metadata filter of a list. @text has been decoded once, as any value of a query is; here it
 * is decoded again as a whole, cut at '&' and '=', and each part decoded a third time.
 */
int dict_from_filter(struct dict *p, const char *text, struct err *e);

#endif
