/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_PATH_H
#define WARD_FRONT_E2B_PATH_H

#include <stddef.h>

#include "base/err.h"

/*
 * What a client calls a path, made absolute: "" is @workdir (or @home), "~" and "~/x" are below
 * @home, "x" too, "/x" is itself. "~name" and a NUL or an overlong path are -EINVAL. "." and ".."
 * are resolved by name alone, which keeps the answer's `path` clean; nothing rests on it, since the
 * path is opened inside the sandbox.
 */
int path_resolve(const char *given, const char *home, const char *workdir, char *out, size_t cap,
	struct err *e);

/* The last part of an absolute, resolved path; "/" for the top. */
const char *path_base(const char *path);

#endif
