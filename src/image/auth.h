/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_AUTH_H
#define WARD_IMAGE_AUTH_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* What a registry asks for: the parameters of a Bearer challenge. */
struct challenge {
	char realm[1024], service[512], scope[1024]; /* empty: not there */
};

/* @text: `Bearer realm="...",service="...",scope="..."`. -EBADMSG when there is no realm. */
int challenge_parse(const char *text, struct challenge *ret, struct err *e);

/*
 * The value of an Authorization header for @host: from @credential ("user:password"), or from the
 * file that `docker login` writes. 1 when there is one, 0 when not.
 */
int credential_find(const char *host, const char *credential, char *ret, size_t cap, struct err *e);

/* The token in the answer of a token server; visible ASCII only. */
int token_parse(const struct buf *text, char *ret, size_t cap, struct err *e);

#endif
