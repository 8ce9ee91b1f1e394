/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SHIM_BLOB_H
#define WARD_TIER_KERNEL_SHIM_BLOB_H

#include <stddef.h>

/* The linked shim, made by tools/shim-to-c; struct shim_head is at its start. */
extern const unsigned char shim_blob[];
extern const size_t shim_blob_len;

#endif
