/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_BASE64_H
#define WARD_FRONT_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Characters that @len bytes become, padded, without a NUL. */
static inline size_t base64_len(size_t len)
{
	return (len + 2) / 3 * 4;
}

/* Appends the standard alphabet with padding. */
void base64_add(struct buf *b, const void *data, size_t len);

/*
 * Decodes the standard or the URL alphabet, padded or not; appends to @out. -EINVAL when there is
 * anything else in it.
 */
int base64_decode(const char *text, size_t len, struct buf *out);

#endif
