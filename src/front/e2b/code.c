/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/code.c - error codes of the wire.
 *
 * Owns:  the one table from errno to Connect code and HTTP status.
 * Rules: pure.
 */
#include <errno.h>
#include <stddef.h>

#include "base/ckd.h"
#include "front/e2b/code.h"

static const struct {
	const char *name;
	int http;
} codes[] = {
#define CODE(id, name, http) [CODE_##id] = { name, http },
#include "front/e2b/codes.def"
#undef CODE
};

/* HTTP differs from the code's own status where REST clients look for another one. */
static const struct {
	int err;
	enum code code;
	int http;
} errnos[] = {
	{ ENOENT, CODE_NOT_FOUND, 404 },
	{ ESRCH, CODE_NOT_FOUND, 404 },
	{ EEXIST, CODE_ALREADY_EXISTS, 409 },
	{ EINVAL, CODE_INVALID_ARGUMENT, 400 },
	{ EISDIR, CODE_INVALID_ARGUMENT, 400 },
	{ ENOTDIR, CODE_INVALID_ARGUMENT, 400 },
	{ ENAMETOOLONG, CODE_INVALID_ARGUMENT, 400 },
	{ ELOOP, CODE_INVALID_ARGUMENT, 400 },
	{ E2BIG, CODE_INVALID_ARGUMENT, 400 },
	{ EFBIG, CODE_INVALID_ARGUMENT, 413 },
	{ EMSGSIZE, CODE_INVALID_ARGUMENT, 413 },
	{ EACCES, CODE_PERMISSION_DENIED, 403 },
	{ EPERM, CODE_PERMISSION_DENIED, 403 },
	{ EROFS, CODE_PERMISSION_DENIED, 403 },
	{ ENOTEMPTY, CODE_FAILED_PRECONDITION, 400 },
	{ EXDEV, CODE_FAILED_PRECONDITION, 400 },
	{ EBUSY, CODE_FAILED_PRECONDITION, 409 },
	{ EALREADY, CODE_FAILED_PRECONDITION, 409 },
	{ ENOSPC, CODE_RESOURCE_EXHAUSTED, 507 },
	{ EDQUOT, CODE_RESOURCE_EXHAUSTED, 507 },
	{ EAGAIN, CODE_RESOURCE_EXHAUSTED, 429 },
	{ EUSERS, CODE_RESOURCE_EXHAUSTED, 429 },
	{ ENOSYS, CODE_UNIMPLEMENTED, 501 },
	{ EOPNOTSUPP, CODE_UNIMPLEMENTED, 501 },
	{ ETIME, CODE_DEADLINE_EXCEEDED, 504 },
	{ ETIMEDOUT, CODE_DEADLINE_EXCEEDED, 504 },
	{ ECANCELED, CODE_CANCELED, 499 },
	{ EPIPE, CODE_UNAVAILABLE, 502 },
	{ ENOTCONN, CODE_UNAVAILABLE, 502 },
	{ ECONNRESET, CODE_UNAVAILABLE, 502 },
	{ EHOSTDOWN, CODE_UNAVAILABLE, 502 },
	{ EKEYREJECTED, CODE_UNAUTHENTICATED, 401 },
};

const char *code_name(enum code c)
{
	return codes[c].name;
}

int code_http(enum code c)
{
	return codes[c].http;
}

enum code code_of_errno(int err)
{
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (errnos[i].err == err)
			return errnos[i].code;
	return CODE_INTERNAL;
}

int http_of_errno(int err)
{
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (errnos[i].err == err)
			return errnos[i].http;
	return 500;
}
