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

struct mm_image {
	struct mm_region {
		uint64_t from, to;
		uint32_t flags; /* REGION_* */
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
int mm_image_add_region(struct mm_image *image, uint64_t from, uint64_t to, uint32_t flags);
int mm_image_add_page(struct mm_image *image, uint64_t at, uint8_t **ret_bytes);

#endif
