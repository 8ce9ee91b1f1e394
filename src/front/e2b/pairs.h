/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_PAIRS_H
#define WARD_FRONT_E2B_PAIRS_H

#include <stddef.h>

#include "base/err.h"

/* Names and values, in order; each string is one allocation. */
struct pairs {
	char **names, **values;
	size_t count, cap;
};

void pairs_done(struct pairs *p);
#define own_pairs __attribute__((cleanup(pairs_done)))
int pairs_add(struct pairs *p, const char *name, const char *value, struct err *e);
/* For jin_each_str(). */
int pairs_add_each(void *pairs, const char *name, const char *value, struct err *e);
const char *pairs_get(const struct pairs *p, const char *name);

/*
 * The metadata filter of a list. @text has been decoded once, as any value of a query is; here it
 * is decoded again as a whole, cut at '&' and '=', and each part decoded a third time.
 */
int pairs_from_filter(struct pairs *p, const char *text, struct err *e);

#endif
