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

#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/mm/image.h"
#include "tier/kernel/mm/lock.h"
#include "tier/kernel/sys/aio.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/walk.h"
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

/* Saving: one region after the other, wherever they come from. */

struct saver {
	struct mm *mm;
	struct walk *w;
	bool contents; /* the second time */
};

static void page_save(struct saver *s, uint64_t at)
{
	static const uint8_t zero[IMAGE_PAGE];
	uint8_t page[IMAGE_PAGE];
	ssize_t n = s->mm->ops->read(s->mm, page, at, sizeof(page));

	/* What a file that became shorter has left there nobody can read. */
	if (n < (ssize_t)sizeof(page) || memcmp(page, zero, sizeof(page)) == 0)
		return;
	walk_u64(s->w, "at", &at);
	walk_bytes(s->w, "page", page, sizeof(page));
}

static int region_save(void *arg, const struct proc_range *r)
{
	struct saver *s = arg;
	uint64_t from = r->from, to = r->to;
	uint32_t flags = (r->readable ? REGION_READ : 0u) | (r->writable ? REGION_WRITE : 0u) |
			 (r->executable ? REGION_EXEC : 0u) | (r->shared ? REGION_SHARED : 0u);

	if (s->contents) {
		for (uint64_t at = from; r->readable && at < to && !s->w->err; at += IMAGE_PAGE)
			page_save(s, at);
		return s->w->err;
	}
	walk_u64(s->w, "from", &from);
	walk_u64(s->w, "to", &to);
	walk_u32(s->w, "flags", &flags);
	return s->w->err;
}

static int each_region(struct kernel *k, struct saver *s)
{
	struct mm *mm = s->mm;
	int r = 0;

	if (mm->image) {
		for (uint32_t i = 0; i < mm->image->region_count && r == 0; i++) {
			const struct mm_region *at = &mm->image->regions[i];
			struct proc_range one = { at->from, at->to, at->flags & REGION_READ,
				at->flags & REGION_WRITE, false, at->flags & REGION_EXEC,
				at->flags & REGION_SHARED };

			r = region_save(s, &one);
		}
		return r;
	}
	if (mm->fake_base)
		return region_save(s, &(struct proc_range){ .from = mm->fake_start,
					      .to = mm->fake_start + mm->fake_len,
					      .readable = true,
					      .writable = true });
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->mm == mm)
				return proc_host_each(t, region_save, s);
	return 0;
}

static void image_save(struct kernel *k, struct mm *mm, struct walk *w)
{
	struct saver s = { .mm = mm, .w = w };
	uint64_t end = UINT64_MAX;

	/* Which there are, then what is in them: each list ends with a number that no address is.
	 */
	walk_fail(w, each_region(k, &s));
	walk_u64(w, "from", &end);
	s.contents = true;
	walk_fail(w, each_region(k, &s));
	walk_u64(w, "at", &end);
}

static void image_load(struct mm_image *image, struct walk *w)
{
	uint64_t from = 0, to = 0, at = 0;
	uint32_t flags = 0;
	uint8_t *bytes;
	int r;

	while (!w->err) {
		walk_u64(w, "from", &from);
		if (w->err || from == UINT64_MAX)
			break;
		walk_u64(w, "to", &to);
		walk_u32(w, "flags", &flags);
		r = w->err ? 0 : mm_image_add_region(image, from, to, flags);
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

void memories_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = walk_count_of(w, WALK_MM);

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
