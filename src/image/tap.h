/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_TAP_H
#define WARD_IMAGE_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/digest.h"

struct archive;
struct archive_entry;

/*
 * From a blob to the entries of its tar: decompress, tap, read.
 *
 *	blob --gzip/zstd/none--> bytes --+--> tar reader --> entries
 *	                                 +--> hash (the diff id), count, raw headers
 */
struct tap {
	struct archive *in, *tar;
	struct hash hash;
	uint64_t total, max; /* bytes of tar so far, and at most */
	bool has_entry, in_header, ended;
	struct buf window; /* the tar's bytes from @window_at on that the reader has not used up */
	uint64_t window_at;
	struct err err; /* what went wrong inside the reader's callback */
};

/* @max: bytes of tar. @blob stays the caller's and is read from where it stands. */
int tap_open(struct tap *t, int blob, uint64_t max, struct err *e);
/* 1 and an entry that is good until the next call, 0 at the end, or a negative errno. */
int tap_next(struct tap *t, struct archive_entry **ret, struct err *e);
/* A piece of the entry's contents: 1, 0 at their end, or a negative errno. */
int tap_data(struct tap *t, const void **ret, size_t *ret_len, uint64_t *ret_at, struct err *e);
/* Reads to the very end and tells the digest of all the tar's bytes. */
int tap_end(struct tap *t, char diff_id[DIGEST_TEXT], struct err *e);
void tap_done(struct tap *t);

#define own_tap __attribute__((cleanup(tap_done)))

#endif
