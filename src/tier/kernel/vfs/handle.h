/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_VFS_HANDLE_H
#define WARD_TIER_KERNEL_VFS_HANDLE_H

#include <stdint.h>

/* What a file handle looks like: for name_to_handle_at and for fanotify's events. */
enum { HANDLE_MAX = 128, HANDLE_TYPE = 1 };

struct handle_head {
	uint32_t bytes;
	int32_t type;
};

struct handle_body {
	uint64_t dev, ino;
};

#endif
