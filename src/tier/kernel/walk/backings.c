/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/backings.c - which file is behind which mapping.
 *
 * Owns:  struct backings.
 * Rules: changes nothing. What the host says about a mapping is looked up among the files that we
 *        have; a mapping of one that is gone, or was never ours, still has what others share of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tier/kernel/fs/proc.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/mm/image.h"
#include "tier/kernel/walk/backings.h"

/* By two numbers, open addressing. */
struct pairs {
	struct pair {
		uint64_t a, b;
		void *p; /* NULL: free */
	} * slots;
	uint32_t cap, count;
};

struct backings {
	struct pairs files; /* inodes by device and number, or by OF_STORE and their number there */
	struct pairs known; /* backings by device and number */
	struct walk *w;
	void (*add)(void *arg, struct inode *i);
	void *arg;
};

#define OF_STORE UINT64_MAX

static struct pair *slot_of(const struct pairs *m, uint64_t a, uint64_t b)
{
	uint32_t at = (uint32_t)((a * 31 + b) * 0x9e3779b97f4a7c15ULL >> 32) & (m->cap - 1);

	while (m->slots[at].p && (m->slots[at].a != a || m->slots[at].b != b))
		at = (at + 1) & (m->cap - 1);
	return &m->slots[at];
}

static void *pair_get(const struct pairs *m, uint64_t a, uint64_t b)
{
	return m->cap ? slot_of(m, a, b)->p : NULL;
}

static int pairs_room(struct pairs *m)
{
	struct pairs more = { .cap = m->cap ? m->cap * 2 : 256, .count = m->count };

	if (m->count * 2 < m->cap)
		return 0;
	more.slots = calloc(more.cap, sizeof(*more.slots));
	if (!more.slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->cap; i++)
		if (m->slots[i].p)
			*slot_of(&more, m->slots[i].a, m->slots[i].b) = m->slots[i];
	free(m->slots);
	*m = more;
	return 0;
}

static int pair_put(struct pairs *m, uint64_t a, uint64_t b, void *p)
{
	struct pair *at;

	if (pairs_room(m) < 0)
		return -ENOMEM;
	at = slot_of(m, a, b);
	m->count += at->p == NULL;
	*at = (struct pair){ a, b, p };
	return 0;
}

struct task *task_of_mm(struct kernel *k, const struct mm *mm)
{
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->mm == mm && t->state != TASK_DEAD)
				return t;
	return NULL;
}

static int file_add(struct backings *b, struct inode *i)
{
	const struct node *n;
	struct stat st;

	if (!i || i->ops != &tree_ops || !S_ISREG(i->mode))
		return 0;
	n = node_of(i);
	if (n->content == CONTENT_LOWER)
		return pair_put(&b->files, n->host_dev, n->host_ino, i);
	if (n->content != CONTENT_STORE)
		return 0;
	if (n->store_id && !n->is_memfd)
		return pair_put(&b->files, OF_STORE, n->store_id, i);
	if (n->fd < 0 || fstat(n->fd, &st) < 0)
		return 0;
	return pair_put(&b->files, st.st_dev, st.st_ino, i);
}

static int files_add(struct backings *b, struct kernel *k, const struct walk_wanted *wanted)
{
	int r = 0;

	for (unsigned n = 0; n < DENTRY_BUCKETS; n++)
		for (struct dentry *d = k->vfs->buckets[n]; d && r == 0; d = d->hash_next)
			r = file_add(b, d->inode);
	for (uint32_t n = 0; n < wanted->inode_count && r == 0; n++)
		r = file_add(b, wanted->inodes[n]);
	return r;
}

static int see_range(void *arg, const struct proc_range *r)
{
	struct backings *b = arg;
	struct mm_backing *new;
	struct inode *i;

	if (!r->file || r->time || pair_get(&b->known, r->dev, r->ino))
		return 0;
	i = r->store_id ? pair_get(&b->files, OF_STORE, r->store_id)
			: pair_get(&b->files, r->dev, r->ino);
	new = calloc(1, sizeof(*new));
	if (!new || pair_put(&b->known, r->dev, r->ino, new) < 0) {
		free(new);
		return -ENOMEM;
	}
	new->refs = 1;
	new->inode = i ? inode_ref(i) : NULL;
	walk_number(b->w, WALK_BACKING, new);
	if (i)
		b->add(b->arg, i);
	return 0;
}

static void see_image(struct backings *b, const struct mm_image *image)
{
	for (uint32_t i = 0; i < image->region_count; i++) {
		struct mm_backing *at = image->regions[i].backing;

		if (!at)
			continue;
		walk_number(b->w, WALK_BACKING, at);
		if (at->inode)
			b->add(b->arg, at->inode);
	}
}

int backings_make(struct backings **ret, struct kernel *k, struct walk *w,
	const struct walk_wanted *wanted, void (*add)(void *arg, struct inode *i), void *arg)
{
	struct backings *b = calloc(1, sizeof(*b));
	int r;

	*ret = b;
	if (!b)
		return -ENOMEM;
	b->w = w;
	b->add = add;
	b->arg = arg;
	r = files_add(b, k, wanted);
	for (uint32_t n = 1; n <= walk_count_of(w, WALK_MM) && r == 0; n++) {
		struct mm *mm = walk_get(w, WALK_MM, n);
		struct task *t = task_of_mm(k, mm);

		if (mm->image)
			see_image(b, mm->image);
		else if (t && !mm->fake_base)
			r = proc_host_each_used(t, see_range, b);
	}
	return r;
}

struct mm_backing *backing_of(struct backings *b, const struct proc_range *r)
{
	return r->file && !r->time ? pair_get(&b->known, r->dev, r->ino) : NULL;
}

void backings_free(struct backings *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < b->known.cap; i++)
		mm_backing_unref(b->known.slots[i].p);
	free(b->known.slots);
	free(b->files.slots);
	free(b);
}
