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

#include "base/ckd.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/mm/image.h"
#include "tier/kernel/task/task.h"
#include "tier/kernel/vfs/inode.h"

void mm_backing_unref(struct mm_backing *b)
{
	if (!b || --b->refs)
		return;
	inode_unref(b->inode);
	free(b);
}

void mm_image_free(struct mm_image *image)
{
	if (!image)
		return;
	for (uint32_t i = 0; i < image->region_count; i++)
		mm_backing_unref(image->regions[i].backing);
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

int mm_image_add_region(struct mm_image *m, const struct mm_region *r)
{
	uint64_t end;

	if (r->from >= r->to || r->to > GUEST_ADDR_END ||
		(r->from | r->to | r->offset) % IMAGE_PAGE ||
		(m->region_count && m->regions[m->region_count - 1].to > r->from) ||
		m->region_count >= IMAGE_REGIONS_MAX || ckd_add(&end, r->offset, r->to - r->from) ||
		end > INT64_MAX)
		return -EINVAL;
	if (room((void **)&m->regions, m->region_count, &m->region_cap, sizeof(*m->regions)) < 0)
		return -ENOMEM;
	m->regions[m->region_count] = *r;
	m->regions[m->region_count++].flags &= REGION_FLAGS;
	if (r->backing)
		r->backing->refs++;
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

/* The file of which it is a part; NULL: none. */
static struct inode *file_of(const struct mm_region *r)
{
	return r->backing ? r->backing->inode : NULL;
}

static bool is_files(const struct mm_region *r)
{
	return (r->flags & REGION_SHARED) && file_of(r);
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
	const struct mm_region *region = at % IMAGE_PAGE ? NULL : region_at(m, at);
	int r;

	if (!region || is_files(region) || (m->page_count && m->pages[m->page_count - 1].at >= at))
		return -EINVAL;
	r = insert_page(m, m->page_count, at);
	if (r == 0)
		*ret_bytes = m->pages[m->page_count - 1].bytes;
	return r;
}

/* The region of @at, if it may be used as @flag says, and how much of one page is left there. */
static const struct mm_region *usable(
	const struct mm_image *m, uint64_t at, size_t *len, uint32_t flag)
{
	const struct mm_region *r = m ? region_at(m, at) : NULL;
	size_t left = IMAGE_PAGE - at % IMAGE_PAGE;

	if (!r || !(r->flags & flag))
		return NULL;
	*len = *len < left ? *len : left;
	return r;
}

/* What is there as long as nobody has written: zeros, or a file's. */
static bool first_bytes(const struct mm_region *r, void *dst, uint64_t at, size_t len)
{
	if (file_of(r))
		return store_peek(file_of(r), dst, len, (int64_t)(r->offset + (at - r->from))) == 0;
	memset(dst, 0, len);
	return true;
}

static ssize_t image_read(struct mm *mm, void *dst, uint64_t src, size_t len)
{
	const struct mm_region *r;
	size_t done = 0, n = len;

	while (done < len && (r = usable(mm->image, src + done, &n, REGION_READ))) {
		uint64_t at = src + done, page = at - at % IMAGE_PAGE;
		uint32_t i = page_from(mm->image, page);

		if (i < mm->image->page_count && mm->image->pages[i].at == page)
			memcpy((char *)dst + done, mm->image->pages[i].bytes + at % IMAGE_PAGE, n);
		else if (!first_bytes(r, (char *)dst + done, at, n))
			break;
		done += n;
		n = len - done;
	}
	return done || !len ? (ssize_t)done : -EFAULT;
}

/* The bytes of the page at @page, which is there from now on; NULL: it cannot be. */
static uint8_t *own_page(struct mm_image *m, const struct mm_region *r, uint64_t page)
{
	uint8_t first[IMAGE_PAGE];
	uint32_t i = page_from(m, page);

	if (i < m->page_count && m->pages[i].at == page)
		return m->pages[i].bytes;
	if (!first_bytes(r, first, page, sizeof(first)) || insert_page(m, i, page) < 0)
		return NULL;
	return memcpy(m->pages[i].bytes, first, sizeof(first));
}

static ssize_t image_write(struct mm *mm, uint64_t dst, const void *src, size_t len)
{
	const struct mm_region *r;
	size_t done = 0, n = len;

	while (done < len && (r = usable(mm->image, dst + done, &n, REGION_WRITE))) {
		uint64_t at = dst + done, off = at % IMAGE_PAGE;
		const char *from = (const char *)src + done;
		uint8_t *page = is_files(r) ? NULL : own_page(mm->image, r, at - off);

		if (page)
			memcpy(page + off, from, n);
		else if (!is_files(r) ||
			 store_poke(file_of(r), from, n, (int64_t)(r->offset + (at - r->from))) < 0)
			break;
		done += n;
		n = len - done;
	}
	return done || !len ? (ssize_t)done : -EFAULT;
}

const struct mm_ops mm_image_ops = { .read = image_read, .write = image_write };
