/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_FAIL_H
#define WARD_HUB_FAIL_H

#include "base/err.h"

/* How a verb failed. codes.def is the one table from here to what any front answers. */
enum hub_code {
	HUB_OK = 0,
#define HUB_CODE(name, text, http, plane, connect) HUB_##name,
#include "hub/codes.def"
#undef HUB_CODE
	HUB_CODES,
};

struct hub_fail {
	enum hub_code code;
	unsigned retry_after_s; /* TOO_MANY and BUSY: whole seconds, at least 1; else 0 */
	char msg[376];          /* one line, printable; holds no key and no value of a variable */
};

const char *hub_code_name(enum hub_code c);    /* "not-found" */
int hub_code_http(enum hub_code c);            /* 404 */
int hub_code_plane_http(enum hub_code c);      /* 502: "gone" on the sandbox plane */
const char *hub_code_connect(enum hub_code c); /* "unavailable" */

/* Fills @f (which may be NULL); returns a negative errno that belongs to @c, so that failing is one
 * line. */
int hub_fail(struct hub_fail *f, enum hub_code c, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* From an error of a layer below. */
int hub_fail_err(struct hub_fail *f, const struct err *e);

#endif
