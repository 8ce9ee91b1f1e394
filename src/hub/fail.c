/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/fail.c - how verbs fail: the one table from codes to what fronts answer.
 *
 * Owns:  what codes.def means.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/ckd.h"
#include "hub/fail.h"

static const struct {
	const char *name;
	int http, plane;
	const char *connect;
} codes[] = {
	[HUB_OK] = { "ok", 200, 200, "ok" },
#define HUB_CODE(name, text, http, plane, connect) [HUB_##name] = { text, http, plane, connect },
#include "hub/codes.def"
#undef HUB_CODE
};

const char *hub_code_name(enum hub_code c)
{
	return codes[c].name;
}

int hub_code_http(enum hub_code c)
{
	return codes[c].http;
}

int hub_code_plane_http(enum hub_code c)
{
	return codes[c].plane;
}

const char *hub_code_connect(enum hub_code c)
{
	return codes[c].connect;
}

/* Both ways; the first row of a code is the errno that hub_fail() returns for it. */
static const struct {
	int error;
	enum hub_code code;
} errors[] = {
	{ EINVAL, HUB_INVALID }, { EKEYREJECTED, HUB_UNAUTHENTICATED }, { EPERM, HUB_FORBIDDEN },
	{ ENOENT, HUB_NOT_FOUND }, { EHOSTDOWN, HUB_NOT_RUNNING }, { EALREADY, HUB_CONFLICT },
	{ EDQUOT, HUB_TOO_MANY }, { EIO, HUB_INTERNAL }, { EOPNOTSUPP, HUB_UNSUPPORTED },
	{ EBUSY, HUB_BUSY }, { ERANGE, HUB_INVALID }, { E2BIG, HUB_INVALID },
	{ ENAMETOOLONG, HUB_INVALID }, { EUSERS, HUB_BUSY }, { ENOSPC, HUB_BUSY },
	{ EAGAIN, HUB_BUSY }, { ENOBUFS, HUB_BUSY }, { EMFILE, HUB_BUSY }, { ENFILE, HUB_BUSY },
	{ ENOMEM, HUB_BUSY },
	{ ENODEV, HUB_UNSUPPORTED }, /* policy: the wall that it demands is not here */
};

static int code_error(enum hub_code c)
{
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i].code == c)
			return errors[i].error;
	return EIO;
}

static enum hub_code error_code(int error)
{
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i].error == error)
			return errors[i].code;
	return HUB_INTERNAL;
}

int hub_fail(struct hub_fail *f, enum hub_code c, const char *fmt, ...)
{
	va_list ap;

	if (f) {
		f->code = c;
		f->retry_after_s = c == HUB_TOO_MANY || c == HUB_BUSY;
		va_start(ap, fmt);
		vsnprintf(f->msg, sizeof(f->msg), fmt, ap);
		va_end(ap);
	}
	return -code_error(c);
}

int hub_fail_err(struct hub_fail *f, const struct err *e)
{
	return hub_fail(f, error_code(e->code), "%s", e->msg);
}
