/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_REF_H
#define WARD_TEMPLATE_REF_H

#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"

/*
 * What an image is called: [HOST[:PORT]/]PATH[:TAG][@sha256:HEX]. The first part is a host when it
 * holds a '.' or ':' or is "localhost", as everywhere. A digest makes the tag meaningless, so one
 * of the two is empty; without either, the tag is "latest".
 */
struct ref {
	char host[TEMPLATE_NAME_MAX + 1]; /* empty: none was written */
	char path[TEMPLATE_NAME_MAX + 1];
	char tag[129];
	char digest[7 + 64 + 1]; /* "sha256:" and 64 digits, or empty */
};

int ref_parse(const char *text, struct ref *ret, struct err *e);
/* Back to text, in one spelling for one meaning. */
int ref_text(const struct ref *r, char out[TEMPLATE_NAME_MAX + 1]);
/* localhost, 127.0.0.0/8 or [::1], with any port. */
bool ref_host_is_loopback(const char *host);
bool ref_host_is_valid(const char *host);
/* "sha256:" and 64 lower-case hexadecimal digits, nothing after. */
bool ref_digest_is_valid(const char *text);

#endif
