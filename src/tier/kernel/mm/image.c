/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/mm/image.c - a guest's memory as pages in a list.
 *
 * Owns:  struct mm_image.
 * Rules: under the kernel lock. Both lists are sorted and nothing overlaps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/mm/image.h"
#include "tier/kernel/task/task.h"

void mm_image_free(struct mm_image *image)
{
	if (!image)
		return;
	for (uint32_t i = 0; i < image->page_count; i++)
		free(image->pages[i].bytes);
	free(image->pages);
	free(image->regions);
	free(image);
}

static int room(void **list, uint32_t count, uint32_t *cap, size_t size)
{
	uint32_t grown = *cap ? *cap * 2 : 16;
	void *more;

	if (count < *cap)
		return 0;
	more = realloc(*list, grown * size);
	if (!more)
		return -ENOMEM;
	*list = more;
	*cap = grown;
	return 0;
}

int mm_image_add_region(struct mm_image *m, uint64_t from, uint64_t to, uint32_t flags)
{
	if (from >= to || to > GUEST_ADDR_END || (from | to) % IMAGE_PAGE ||
		(m->region_count && m->regions[m->region_count - 1].to > from) ||
		m->region_count >= IMAGE_REGIONS_MAX)
		return -EINVAL;
	if (room((void **)&m->regions, m->region_count, &m->region_cap, sizeof(*m->regions)) < 0)
		return -ENOMEM;
	m->regions[m->region_count++] = (struct mm_region){ from, to, flags & REGION_FLAGS };
	return 0;
}

/* The first page at or behind @at. */
static uint32_t page_from(const struct mm_image *m, uint64_t at)
{
	uint32_t low = 0, high = m->page_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (m->pages[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static const struct mm_region *region_at(const struct mm_image *m, uint64_t at)
{
	uint32_t low = 0, high = m->region_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (m->regions[mid].to <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < m->region_count && m->regions[low].from <= at ? &m->regions[low] : NULL;
}

static int insert_page(struct mm_image *m, uint32_t n, uint64_t at)
{
	uint8_t *bytes;

	if (m->page_count >= IMAGE_PAGES_MAX ||
		room((void **)&m->pages, m->page_count, &m->page_cap, sizeof(*m->pages)) < 0)
		return -ENOMEM;
	bytes = calloc(1, IMAGE_PAGE);
	if (!bytes)
		return -ENOMEM;
	memmove(&m->pages[n + 1], &m->pages[n], (m->page_count - n) * sizeof(*m->pages));
	m->pages[n] = (struct mm_page){ at, bytes };
	m->page_count++;
	return 0;
}

int mm_image_add_page(struct mm_image *m, uint64_t at, uint8_t **ret_bytes)
{
	int r;

	if (at % IMAGE_PAGE || !region_at(m, at) ||
		(m->page_count && m->pages[m->page_count - 1].at >= at))
		return -EINVAL;
	r = insert_page(m, m->page_count, at);
	if (r == 0)
		*ret_bytes = m->pages[m->page_count - 1].bytes;
	return r;
}

/* The part of [@at, @at + @len) in one page that may be used as @flag says; 0: none. */
static size_t usable(const struct mm_image *m, uint64_t at, size_t len, uint32_t flag)
{
	const struct mm_region *r = m ? region_at(m, at) : NULL;
	size_t left = IMAGE_PAGE - at % IMAGE_PAGE;

	if (!r || !(r->flags & flag))
		return 0;
	return len < left ? len : left;
}

static ssize_t image_read(struct mm *mm, void *dst, uint64_t src, size_t len)
{
	size_t done = 0, n;

	while (done < len && (n = usable(mm->image, src + done, len - done, REGION_READ)) > 0) {
		uint64_t at = src + done, page = at - at % IMAGE_PAGE;
		uint32_t i = page_from(mm->image, page);

		if (i < mm->image->page_count && mm->image->pages[i].at == page)
			memcpy((char *)dst + done, mm->image->pages[i].bytes + at % IMAGE_PAGE, n);
		else
			memset((char *)dst + done, 0, n);
		done += n;
	}
	return done || !len ? (ssize_t)done : -EFAULT;
}

static ssize_t image_write(struct mm *mm, uint64_t dst, const void *src, size_t len)
{
	size_t done = 0, n;

	while (done < len && (n = usable(mm->image, dst + done, len - done, REGION_WRITE)) > 0) {
		uint64_t at = dst + done, page = at - at % IMAGE_PAGE;
		uint32_t i = page_from(mm->image, page);

		if ((i == mm->image->page_count || mm->image->pages[i].at != page) &&
			insert_page(mm->image, i, page) < 0)
			break;
		memcpy(mm->image->pages[i].bytes + at % IMAGE_PAGE, (const char *)src + done, n);
		done += n;
	}
	return done || !len ? (ssize_t)done : -EFAULT;
}

const struct mm_ops mm_image_ops = { image_read, image_write };
