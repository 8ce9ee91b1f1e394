/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_B64_H
#define WARD_FRONT_B64_H

#include "base/buf.h"

/* Appends @len bytes in padded base64. */
void b64_add(struct buf *b, const void *data, size_t len);

#endif
