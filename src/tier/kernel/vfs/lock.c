/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/lock.c - advisory locks.
 *
 * Owns:  struct lock_list, at inode->locks from the first lock to the inode's end; the list of
 * those who wait for record locks. Rules: under the kernel lock. At most LOCKS_MAX in a sandbox.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/lock.h"
#include "tier/kernel/walk.h"

struct lock {
	struct lock_range r;
	struct lock *next;
};

struct lock_list {
	struct lock *first;
	struct wait_queue queue;
};

/* A process that waits for another: for the search of circles. */
struct lock_waiter {
	struct lock_state *state;
	const void *owner, *blocker;
	struct lock_waiter *next;
};

struct lock_state {
	struct lock_waiter *waiters;
};

static bool overlaps(const struct lock_range *a, const struct lock_range *b)
{
	return a->start <= b->end && b->start <= a->end;
}

/* flock and record locks do not see each other. */
static bool same_family(enum lock_kind a, enum lock_kind b)
{
	return (a == LOCK_FLOCK) == (b == LOCK_FLOCK);
}

static bool mine(const struct lock_range *l, const struct lock_range *r)
{
	return l->kind == r->kind && l->owner == r->owner;
}

const struct lock_range *lock_conflict(const struct inode *i, const struct lock_range *want)
{
	const struct lock_list *list = i->locks;
	const struct lock_range *found = NULL;

	for (const struct lock *l = list ? list->first : NULL; l; l = l->next)
		if (same_family(l->r.kind, want->kind) && !mine(&l->r, want) &&
			overlaps(&l->r, want) && (l->r.write || want->write) &&
			(!found || l->r.start < found->start))
			found = &l->r;
	return found;
}

static struct lock_list *list_of(struct inode *i)
{
	if (!i->locks)
		i->locks = calloc(1, sizeof(struct lock_list));
	return i->locks;
}

static struct lock *lock_new(struct kernel *k, const struct lock_range *r)
{
	struct lock *l = k->vfs->lock_count < LOCKS_MAX ? malloc(sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	l->r = *r;
	l->next = NULL;
	k->vfs->lock_count++;
	return l;
}

static void lock_free(struct kernel *k, struct lock *l)
{
	k->vfs->lock_count--;
	free(l);
}

/* Cuts @range out of the owner's locks. @spare is used when one falls into two; true when it was.
 */
static bool cut(struct kernel *k, struct lock_list *list, const struct lock_range *range,
	struct lock *spare)
{
	struct lock **at = &list->first;
	bool used = false;

	while (*at) {
		struct lock *l = *at;

		if (!mine(&l->r, range) || !overlaps(&l->r, range)) {
			at = &l->next;
		} else if (l->r.start < range->start && l->r.end > range->end) {
			spare->r = l->r;
			spare->r.start = range->end + 1;
			spare->next = l->next;
			l->r.end = range->start - 1;
			l->next = spare;
			used = true;
			break; /* the owner's locks do not overlap each other */
		} else if (l->r.start < range->start) {
			l->r.end = range->start - 1;
			at = &l->next;
		} else if (l->r.end > range->end) {
			l->r.start = range->end + 1;
			at = &l->next;
		} else {
			*at = l->next;
			lock_free(k, l);
		}
	}
	return used;
}

/* One lock where two of the same kind touch. */
static void join(struct kernel *k, struct lock_list *list, struct lock *new_l)
{
	struct lock **at = &list->first;

	while (*at) {
		struct lock *l = *at;
		bool touches =
			l != new_l && mine(&l->r, &new_l->r) && l->r.write == new_l->r.write &&
			((l->r.end != INT64_MAX && l->r.end + 1 == new_l->r.start) ||
				(new_l->r.end != INT64_MAX && new_l->r.end + 1 == l->r.start));

		if (!touches) {
			at = &l->next;
			continue;
		}
		if (l->r.start < new_l->r.start)
			new_l->r.start = l->r.start;
		if (l->r.end > new_l->r.end)
			new_l->r.end = l->r.end;
		*at = l->next;
		lock_free(k, l);
	}
}

int lock_set(struct kernel *k, struct inode *i, const struct lock_range *want)
{
	struct lock_list *list = list_of(i);
	struct lock *l = list ? lock_new(k, want) : NULL;
	struct lock *spare = l ? lock_new(k, want) : NULL;

	if (!spare) {
		if (l)
			lock_free(k, l);
		return -ENOLCK;
	}
	if (!cut(k, list, want, spare))
		lock_free(k, spare);
	l->next = list->first;
	list->first = l;
	if (want->kind != LOCK_FLOCK)
		join(k, list, l);
	wait_wake(&list->queue, 0); /* a write lock may have become a read lock */
	return 0;
}

int lock_clear(struct kernel *k, struct inode *i, const struct lock_range *range)
{
	struct lock_list *list = i->locks;
	struct lock *spare;

	if (!list)
		return 0;
	spare = lock_new(k, range);
	if (!spare)
		return -ENOLCK;
	if (!cut(k, list, range, spare))
		lock_free(k, spare);
	wait_wake(&list->queue, 0);
	return 0;
}

static void waiter_free(void *p)
{
	struct lock_waiter *w = p, **at = &w->state->waiters;

	while (*at && *at != w)
		at = &(*at)->next;
	if (*at)
		*at = w->next;
	free(w);
}

/* Does @blocker, through those that it waits for, wait for @owner? */
static bool is_circle(const struct lock_state *s, const void *owner, const void *blocker)
{
	enum { HOPS_MAX = 64 };

	for (unsigned hops = 0; hops < HOPS_MAX; hops++) {
		const struct lock_waiter *w = s->waiters;

		if (blocker == owner)
			return true;
		while (w && w->owner != blocker)
			w = w->next;
		if (!w)
			return false;
		blocker = w->blocker;
	}
	return false;
}

long lock_wait(struct task *t, struct inode *i, const struct lock_range *want)
{
	struct lock_list *list = i->locks;
	const struct lock_range *in_way = lock_conflict(i, want);
	int r;

	if (want->kind == LOCK_POSIX) {
		struct lock_state *s = t->k->locks;
		struct lock_waiter *w = t->call.own;

		if (!s)
			s = t->k->locks = calloc(1, sizeof(*s));
		if (!s)
			return -ENOLCK;
		if (in_way->kind == LOCK_POSIX && is_circle(s, want->owner, in_way->owner))
			return -EDEADLK;
		if (!w) {
			w = calloc(1, sizeof(*w));
			if (!w)
				return -ENOLCK;
			w->state = s;
			w->next = s->waiters;
			s->waiters = w;
			t->call.own = w;
			t->call.own_free = waiter_free;
		}
		w->owner = want->owner;
		w->blocker = in_way->owner;
	}
	r = wait_on(t, &list->queue, 0);
	return r < 0 ? r : wait_block(t);
}

static void drop_all(struct kernel *k, struct inode *i, enum lock_kind kind, const void *owner)
{
	struct lock_range all = { .kind = kind, .owner = owner, .end = INT64_MAX };
	struct lock_list *list = i->locks;
	bool any = false;

	for (const struct lock *l = list->first; l && !any; l = l->next)
		any = mine(&l->r, &all);
	if (!any)
		return;
	cut(k, list, &all, NULL); /* everything: nothing falls into two */
	wait_wake(&list->queue, 0);
}

void locks_close(struct kernel *k, struct file *f, const struct files *owner)
{
	if (f->inode->locks)
		drop_all(k, f->inode, LOCK_POSIX, owner);
}

void locks_release(struct file *f)
{
	if (!f->inode->locks)
		return;
	drop_all(f->k, f->inode, LOCK_FLOCK, f);
	drop_all(f->k, f->inode, LOCK_OFD, f);
}

void locks_free(struct inode *i)
{
	/* No file is open any more, so no lock is left. */
	free(i->locks);
	i->locks = NULL;
}

bool locks_any(const struct inode *i)
{
	const struct lock_list *list = i->locks;

	return list && list->first;
}

static bool table_has(const struct files *fs, const struct inode *i)
{
	for (unsigned n = 0; n < fs->cap; n++)
		if (fs->slots[n].file && fs->slots[n].file->inode == i)
			return true;
	return false;
}

/* Will it go with its owner? Whoever closes looks at the locks of the inode that is closed. */
static bool lock_ok(const struct inode *i, const struct lock_range *r)
{
	if (!r->owner || r->start < 0 || r->end < r->start)
		return false;
	if (r->kind == LOCK_POSIX)
		return table_has(r->owner, i);
	return ((const struct file *)r->owner)->inode == i;
}

static void range_walk(struct lock_range *r, struct walk *w)
{
	uint32_t kind = r->kind;
	void *owner = (void *)(uintptr_t)r->owner;

	walk_count(w, "kind", &kind, LOCK_OFD);
	r->kind = (enum lock_kind)kind;
	walk_ref(w, "owner", r->kind == LOCK_POSIX ? WALK_FILES : WALK_FILE, &owner);
	r->owner = owner;
	walk_bool(w, "write", &r->write);
	walk_i64(w, "start", &r->start);
	walk_i64(w, "end", &r->end);
	walk_i32(w, "pid", &r->pid);
}

void locks_walk(struct kernel *k, struct inode *i, struct walk *w)
{
	struct lock_list *list = i->locks;
	struct lock **last;
	uint32_t n = 0;

	for (struct lock *l = list ? list->first : NULL; l; l = l->next)
		n++;
	walk_list(w, "locks", &n, LOCKS_MAX);
	if (!n || w->err)
		return;
	list = list_of(i);
	if (!list) {
		walk_fail(w, -ENOMEM);
		return;
	}
	for (last = &list->first; n > 0 && !w->err; n--) {
		struct lock_range r = w->mode == WALK_SAVE ? (*last)->r : (struct lock_range){ 0 };

		range_walk(&r, w);
		if (w->mode == WALK_LOAD && !w->err) {
			if (!lock_ok(i, &r) || lock_conflict(i, &r)) {
				walk_fail(w, -EBADMSG);
				return;
			}
			*last = lock_new(k, &r);
			if (!*last) {
				walk_fail(w, -ENOLCK);
				return;
			}
		}
		if (!w->err)
			last = &(*last)->next;
	}
}
