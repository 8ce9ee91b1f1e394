/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/rpc_code.c - error codes of the wire.
 *
 * Owns:  the one table from errno to Connect code and HTTP status.
 * Rules: pure.
 */
#include <errno.h>
#include <stddef.h>

#include "base/ckd.h"
#include "front/e2b/rpc_code.h"

static const struct {
	const char *name;
	int http;
} codes[] = {
#define RPC(id, name, http) [RPC_##id] = { name, http },
#include "front/e2b/rpc_codes.def"
#undef RPC
};

/* HTTP differs from the code's own status where REST clients look for another one. */
static const struct {
	int err;
	enum rpc_code code;
	int http;
} errnos[] = {
	{ ENOENT, RPC_NOT_FOUND, 404 },
	{ ESRCH, RPC_NOT_FOUND, 404 },
	{ EEXIST, RPC_ALREADY_EXISTS, 409 },
	{ EINVAL, RPC_INVALID_ARGUMENT, 400 },
	{ EISDIR, RPC_INVALID_ARGUMENT, 400 },
	{ ENOTDIR, RPC_INVALID_ARGUMENT, 400 },
	{ ENAMETOOLONG, RPC_INVALID_ARGUMENT, 400 },
	{ ELOOP, RPC_INVALID_ARGUMENT, 400 },
	{ E2BIG, RPC_INVALID_ARGUMENT, 400 },
	{ ENXIO, RPC_INVALID_ARGUMENT, 400 }, /* a fifo that nobody reads */
	{ EFBIG, RPC_INVALID_ARGUMENT, 413 },
	{ EMSGSIZE, RPC_INVALID_ARGUMENT, 413 },
	{ EACCES, RPC_PERMISSION_DENIED, 403 },
	{ EPERM, RPC_PERMISSION_DENIED, 403 },
	{ EROFS, RPC_PERMISSION_DENIED, 403 },
	{ ENOTEMPTY, RPC_FAILED_PRECONDITION, 400 },
	{ EXDEV, RPC_FAILED_PRECONDITION, 400 },
	{ EBUSY, RPC_FAILED_PRECONDITION, 409 },
	{ EALREADY, RPC_FAILED_PRECONDITION, 409 },
	{ ENOSPC, RPC_RESOURCE_EXHAUSTED, 507 },
	{ EDQUOT, RPC_RESOURCE_EXHAUSTED, 507 },
	{ EAGAIN, RPC_RESOURCE_EXHAUSTED, 429 },
	{ EUSERS, RPC_RESOURCE_EXHAUSTED, 429 },
	{ ENOSYS, RPC_UNIMPLEMENTED, 501 },
	{ EOPNOTSUPP, RPC_UNIMPLEMENTED, 501 },
	{ ETIME, RPC_DEADLINE_EXCEEDED, 504 },
	{ ETIMEDOUT, RPC_DEADLINE_EXCEEDED, 504 },
	{ ECANCELED, RPC_CANCELED, 499 },
	{ EPIPE, RPC_UNAVAILABLE, 502 },
	{ ENOTCONN, RPC_UNAVAILABLE, 502 },
	{ ECONNRESET, RPC_UNAVAILABLE, 502 },
	{ EHOSTDOWN, RPC_UNAVAILABLE, 502 },
	{ ENOKEY, RPC_UNAUTHENTICATED, 401 },
};

const char *rpc_code_name(enum rpc_code c)
{
	return codes[c].name;
}

int rpc_code_http(enum rpc_code c)
{
	return codes[c].http;
}

enum rpc_code rpc_code_of(int err)
{
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (errnos[i].err == err)
			return errnos[i].code;
	return RPC_INTERNAL;
}

int http_status_of(int err)
{
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (errnos[i].err == err)
			return errnos[i].http;
	return 500;
}
