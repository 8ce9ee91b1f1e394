/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_PACK_H
#define WARD_IMAGE_PACK_H

#include <stdint.h>

#include "base/err.h"

struct build_copy;
struct plan_root;

/*
 * Writes the tar of a layer to @fd that brings @copies on top of @base. SRC is a file, a link's
 * target or a folder with all in it; DST is absolute, and with a '/' at its end the folder that SRC
 * goes into. The folders above DST look as they do in @base.
 */
int pack_copies(int fd, const char *state_dir, const struct plan_root *base,
	const struct build_copy *copies, unsigned count, uint64_t max_bytes, struct err *e);

/* The same of what a sandbox wrote: the upper folder of a kept one. Owners are those inside it. */
int pack_upper(int fd, const char *upper, uint64_t max_bytes, struct err *e);

#endif
