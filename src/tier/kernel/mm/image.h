/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_MM_IMAGE_H
#define WARD_TIER_KERNEL_MM_IMAGE_H

#include <stdint.h>

#include "tier/kernel/mm/copy.h"

/*
 * A guest's memory without a guest: what a walk has brought along, until somebody runs it. Regions
 * in order, and the pages of them that are not all zero.
 */
enum { IMAGE_PAGE = 4096, IMAGE_REGIONS_MAX = 1 << 17, IMAGE_PAGES_MAX = 1 << 26 };
enum {
	REGION_READ = 1,
	REGION_WRITE = 2,
	REGION_EXEC = 4,
	REGION_SHARED = 8,
	REGION_TIME = 16, /* the host's own page, where its clock is read */
	REGION_FLAGS = 31
};

struct inode;

/* What several mappings may have in common: a file, or shared memory that has none. */
struct mm_backing {
	unsigned refs;
	struct inode *inode; /* a regular file of a tree, reference; NULL: none that we know */
};
void mm_backing_unref(struct mm_backing *b);

/* Of a known file only what differs from it is in the pages; of one that is shared, nothing. */
struct mm_image {
	struct mm_region {
		uint64_t from, to;
		uint32_t flags;             /* REGION_* */
		struct mm_backing *backing; /* reference; NULL: private memory of its own */
		uint64_t offset;
	} * regions;
	struct mm_page {
		uint64_t at;
		uint8_t *bytes;
	} * pages;
	uint32_t region_count, region_cap, page_count, page_cap;
};

extern const struct mm_ops mm_image_ops;

void mm_image_free(struct mm_image *image);
/* Each behind the last: 0, -EINVAL, -ENOMEM. A page's bytes are zero at first. */
int mm_image_add_region(struct mm_image *image, const struct mm_region *r); /* copies */
int mm_image_add_page(struct mm_image *image, uint64_t at, uint8_t **ret_bytes);

#endif
