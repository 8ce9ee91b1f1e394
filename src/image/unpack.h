/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_UNPACK_H
#define WARD_IMAGE_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "image/digest.h"

struct progress;

/* What all layers of one image may use up together; what a layer takes is subtracted. */
struct budget {
	uint64_t bytes_max;  /* as asked for: stands in error lines */
	uint64_t tar_bytes;  /* of tar, decompressed */
	uint64_t file_bytes; /* of files as they say they are: a sparse one counts in full */
	uint64_t entries;
};

void budget_init(struct budget *b, uint64_t bytes_max);

struct layer_info {
	char diff_id[DIGEST_TEXT];
	uint64_t bytes, entries;
	bool hides_all; /* its root is opaque: nothing of the layers below shows */
	uint64_t
		dropped_xattrs; /* attributes that are not user.*: file capabilities and the like */
};

/*
 * Unpacks a layer, a tar that may be compressed with gzip or zstd, into the empty folder @dir, as a
 * layer for overlayfs: deletions become whiteouts. As root, @by_root, ids are kept and marks are
 * trusted.overlay.*; otherwise all belongs to the caller and marks are user.overlay.*. When it
 * fails, what is in @dir is rubbish, but nothing outside of it was touched. @p, unless NULL, is
 * told how much of @blob was read.
 */
int unpack_layer(int blob, int dir, bool by_root, struct budget *b, struct progress *p,
	struct layer_info *ret, struct err *e);

#endif
