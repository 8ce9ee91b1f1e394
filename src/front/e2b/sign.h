/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_SIGN_H
#define WARD_FRONT_E2B_SIGN_H

#include <stdbool.h>

enum { SIGN_TEXT = 3 + 43 + 1 }; /* "v1_", the digest without padding, NUL */

/*
 * The signature of a file address: over what the query says before anything is made of it. @path
 * and @user are "" when the query has none; @op is "read" or "write"; @expires NULL when there is
 * no end.
 */
struct sign {
	const char *path, *op, *user, *expires;
};

void sign_make(const struct sign *s, const char *token, char out[SIGN_TEXT]);

/* Takes as long for a wrong one as for the right one. Does not look at the clock. */
bool sign_matches(const struct sign *s, const char *token, const char *given);

#endif
