/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/memory.c - address spaces, saved and built again as images.
 *
 * Owns:  nothing.
 * Rules: a page that is all zero is not written down. What the engine keeps of a memory (its host
 *        process, slots, call sites) is not walked: it is made again with the process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/fs/proc.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/mm/image.h"
#include "tier/kernel/mm/lock.h"
#include "tier/kernel/sys/aio.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/backings.h"
#include "tier/kernel/walk/hostmem.h"
#include "tier/kernel/walk/memory.h"

static void drop_mm(void *p)
{
	mm_unref(p);
}

static void fields_walk(struct mm *mm, struct walk *w)
{
	struct file *exe = mm->exe;
	uint32_t locks = mm->lock_count;

	walk_u64(w, "brk_start", &mm->brk_start);
	walk_u64(w, "arg_start", &mm->arg_start);
	walk_u64(w, "arg_end", &mm->arg_end);
	walk_u64(w, "env_start", &mm->env_start);
	walk_u64(w, "env_end", &mm->env_end);
	walk_u64(w, "stack_top", &mm->stack_top);
	walk_u64(w, "auxv_at", &mm->auxv_at);
	walk_u64(w, "auxv_len", &mm->auxv_len);
	walk_bool(w, "dumpable", &mm->dumpable);
	walk_bool(w, "thp_disable", &mm->thp_disable);
	walk_bool(w, "lock_future", &mm->lock_future);
	walk_bool(w, "place_shut", &mm->place_shut);
	walk_bool(w, "place_many", &mm->place_many);
	walk_str(w, "exe_path", &mm->exe_path);
	walk_ref(w, "exe", WALK_FILE, (void **)&exe);
	if (w->mode == WALK_LOAD && exe && !w->err)
		mm->exe = file_ref(exe);
	walk_list(w, "locks", &locks, MM_LOCKS_MAX);
	for (uint32_t i = 0; i < locks && !w->err; i++) {
		struct mm_range r = i < mm->lock_count ? mm->locks[i] : (struct mm_range){ 0 };

		walk_u64(w, "from", &r.from);
		walk_u64(w, "to", &r.to);
		if (w->mode == WALK_LOAD && !w->err)
			walk_fail(w, r.from < r.to && mm->lock_count == i
					     ? mm_lock(mm, r.from, r.to)
					     : -EBADMSG);
	}
}

/* But for where it begins, or that there is none. */
static void region_walk(struct mm_region *r, struct walk *w)
{
	walk_u64(w, "to", &r->to);
	walk_u32(w, "flags", &r->flags);
	walk_ref(w, "backing", WALK_BACKING, (void **)&r->backing);
	walk_u64(w, "offset", &r->offset);
}

/* Saving: which regions there are, then what is in them. */

struct saver {
	struct mm *mm;
	struct walk *w;
	struct hostmem host;
	bool of_file; /* what is left out is as in the file, not zero */
};

static int page_save(void *arg, uint64_t at, uint8_t *page)
{
	static const uint8_t zero[IMAGE_PAGE];
	struct saver *s = arg;

	place_clean(s->mm, at, page);
	if (!s->of_file && memcmp(page, zero, sizeof(zero)) == 0)
		return 0;
	walk_u64(s->w, "at", &at);
	walk_bytes(s->w, "page", page, IMAGE_PAGE);
	return s->w->err;
}

static int region_save(struct saver *s, struct mm_region r)
{
	walk_u64(s->w, "from", &r.from);
	region_walk(&r, s->w);
	return s->w->err;
}

static int host_region(void *arg, const struct proc_range *r)
{
	struct saver *s = arg;
	struct mm_region region = {
		.from = r->from, .to = r->to, .backing = backing_of(s->w->wanted->backings, r)
	};

	region.flags = (r->readable ? REGION_READ : 0u) | (r->writable ? REGION_WRITE : 0u) |
		       (r->executable ? REGION_EXEC : 0u) | (r->shared ? REGION_SHARED : 0u) |
		       (r->time ? REGION_TIME : 0u);
	region.offset = region.backing ? r->offset : 0;
	return region_save(s, region);
}

static int host_pages(void *arg, const struct proc_range *r)
{
	struct saver *s = arg;
	struct mm_backing *b = backing_of(s->w->wanted->backings, r);

	s->of_file = b && b->inode;
	return hostmem_each(&s->host, r, s->of_file, page_save, s);
}

static int regions_save(struct kernel *k, struct saver *s)
{
	const struct mm_image *image = s->mm->image;
	struct task *t = task_of_mm(k, s->mm);
	int r = 0;

	if (s->mm->fake_base)
		return region_save(s, (struct mm_region){ .from = s->mm->fake_start,
					      .to = s->mm->fake_start + s->mm->fake_len,
					      .flags = REGION_READ | REGION_WRITE });
	for (uint32_t i = 0; image && i < image->region_count && r == 0; i++)
		r = region_save(s, image->regions[i]);
	return image || !t ? r : proc_host_each_used(t, host_region, s);
}

static int image_pages(const struct mm_image *image, struct saver *s)
{
	const struct mm_region *at = image->regions;
	int r = 0;

	for (uint32_t i = 0; i < image->page_count && r == 0; i++) {
		while (at->to <= image->pages[i].at) /* each page lies in a region */
			at++;
		s->of_file = at->backing && at->backing->inode;
		r = page_save(s, image->pages[i].at, image->pages[i].bytes);
	}
	return r;
}

static int pages_save(struct kernel *k, struct saver *s)
{
	const struct mm_image *image = s->mm->image;
	struct task *t = task_of_mm(k, s->mm);
	int r = 0;

	for (uint64_t at = 0; at < s->mm->fake_len && r == 0; at += IMAGE_PAGE)
		r = page_save(s, s->mm->fake_start + at, s->mm->fake_base + at);
	if (image)
		return image_pages(image, s);
	if (s->mm->fake_base || !t)
		return r;
	r = hostmem_open(&s->host, k, s->mm->host_pid);
	if (r == 0) {
		r = proc_host_each_used(t, host_pages, s);
		hostmem_close(&s->host);
	}
	return r;
}

static void image_save(struct kernel *k, struct mm *mm, struct walk *w)
{
	struct saver s = { .mm = mm, .w = w };
	uint64_t end = UINT64_MAX;
	int r = regions_save(k, &s);

	/* Each list ends with a number that no address is. */
	walk_u64(w, "from", &end);
	if (r == 0)
		r = pages_save(k, &s);
	walk_u64(w, "at", &end);
	/* It is dead, and we have not heard of it; or there is nothing in it yet. */
	walk_fail(w, r == -ESRCH || r == -ENOENT ? -EBUSY : r);
}

static void image_load(struct mm_image *image, struct walk *w)
{
	struct mm_region region = { .from = 0 };
	uint64_t at = 0;
	uint8_t *bytes;
	int r;

	while (!w->err) {
		walk_u64(w, "from", &region.from);
		if (w->err || region.from == UINT64_MAX)
			break;
		region_walk(&region, w);
		r = w->err ? 0 : mm_image_add_region(image, &region);
		walk_fail(w, r == -EINVAL ? -EBADMSG : r);
	}
	while (!w->err) {
		walk_u64(w, "at", &at);
		if (w->err || at == UINT64_MAX)
			break;
		r = mm_image_add_page(image, at, &bytes);
		walk_fail(w, r == -EINVAL ? -EBADMSG : r);
		if (!w->err)
			walk_bytes(w, "page", bytes, IMAGE_PAGE);
	}
}

static struct mm *make(struct walk *w)
{
	struct mm *mm = calloc(1, sizeof(*mm));

	if (!mm) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	mm->refs = 1;
	mm->ops = &mm_image_ops;
	walk_keep(w, mm, drop_mm);
	if (w->err)
		return NULL;
	walk_number(w, WALK_MM, mm);
	mm->image = calloc(1, sizeof(*mm->image));
	if (!mm->image)
		walk_fail(w, -ENOMEM);
	return w->err ? NULL : mm;
}

static void drop_backing(void *p)
{
	mm_backing_unref(p);
}

/* What is loaded as a file must be one whose contents we keep. */
static void backing_load(struct inode *i, struct walk *w)
{
	struct mm_backing *b;

	if (w->err || (i && (i->ops != &tree_ops || !S_ISREG(i->mode)))) {
		walk_fail(w, -EBADMSG);
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		walk_fail(w, -ENOMEM);
		return;
	}
	b->refs = 1;
	b->inode = i ? inode_ref(i) : NULL;
	walk_keep(w, b, drop_backing);
	if (!w->err)
		walk_number(w, WALK_BACKING, b);
}

static void backings_walk(struct walk *w)
{
	uint32_t n = walk_count_of(w, WALK_BACKING);

	walk_list(w, "backings", &n, IMAGE_REGIONS_MAX);
	for (uint32_t i = 1; i <= n && !w->err; i++) {
		struct mm_backing *b = w->mode == WALK_SAVE ? walk_get(w, WALK_BACKING, i) : NULL;
		struct inode *inode = b ? b->inode : NULL;

		walk_ref(w, "inode", WALK_INODE, (void **)&inode);
		if (w->mode == WALK_LOAD)
			backing_load(inode, w);
	}
}

void memories_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = walk_count_of(w, WALK_MM);

	backings_walk(w);
	walk_list(w, "memories", &n, GUEST_TASKS_MAX);
	for (uint32_t i = 1; i <= n && !w->err; i++) {
		struct mm *mm = w->mode == WALK_SAVE ? walk_get(w, WALK_MM, i) : make(w);

		if (!mm)
			return;
		fields_walk(mm, w);
		aio_walk(k, mm, w);
		if (w->mode == WALK_SAVE)
			image_save(k, mm, w);
		else if (!w->err)
			image_load(mm->image, w);
	}
}
