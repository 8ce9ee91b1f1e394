/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/listing.c - a copy of a directory's entries, each name once.
 *
 * Owns:  struct listing.
 * Rules: no longer than LISTING_BYTES_MAX.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/fs/listing.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/walk.h"

struct entry {
	uint64_t ino;
	uint16_t len;
	uint8_t type;
	char name[];
} __attribute__((packed));

static uint32_t hash_name(const char *name, size_t len)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 16777619u;
	return h;
}

/* The slot of the name, or the free one where it belongs. */
static uint32_t *find_slot(const struct listing *l, const char *name, size_t len)
{
	uint32_t at = hash_name(name, len) & (l->set_cap - 1);

	while (l->set[at]) {
		const struct entry *e = (const void *)(l->buf + l->set[at] - 1);

		if (e->len == len && memcmp(e->name, name, len) == 0)
			break;
		at = (at + 1) & (l->set_cap - 1);
	}
	return &l->set[at];
}

bool listing_has(const struct listing *l, const char *name, size_t len)
{
	return l->set_cap && *find_slot(l, name, len);
}

static int grow_set(struct listing *l)
{
	struct listing old = *l;

	if (l->count * 2 < l->set_cap)
		return 0;
	l->set_cap = old.set_cap ? old.set_cap * 2 : 64;
	l->set = calloc(l->set_cap, sizeof(*l->set));
	if (!l->set) {
		*l = old;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < old.set_cap; i++) {
		const struct entry *e = (const void *)(l->buf + old.set[i] - 1);

		if (old.set[i])
			*find_slot(l, e->name, e->len) = old.set[i];
	}
	free(old.set);
	return 0;
}

static int grow_buf(struct listing *l, size_t more)
{
	size_t cap = l->cap ? l->cap : 2048;
	char *buf;

	if (l->len + more > LISTING_BYTES_MAX)
		return -ENOMEM;
	while (cap < l->len + more)
		cap *= 2;
	if (cap == l->cap)
		return 0;
	buf = realloc(l->buf, cap);
	if (!buf)
		return -ENOMEM;
	l->buf = buf;
	l->cap = cap;
	return 0;
}

int listing_add(struct listing *l, const char *name, size_t len, uint64_t ino, unsigned char type)
{
	struct entry *e;
	uint32_t *slot;

	if (grow_buf(l, sizeof(*e) + len) < 0 || grow_set(l) < 0)
		return -ENOMEM;
	slot = find_slot(l, name, len);
	if (*slot)
		return 0;
	*slot = (uint32_t)l->len + 1;
	e = (void *)(l->buf + l->len);
	e->ino = ino;
	e->len = (uint16_t)len;
	e->type = type;
	memcpy(e->name, name, len);
	l->len += sizeof(*e) + len;
	l->count++;
	return 0;
}

void listing_done(struct listing *l)
{
	free(l->buf);
	free(l->set);
	memset(l, 0, sizeof(*l));
}

static int emit_from(struct listing *l, struct file *f, struct dir_emit *emit)
{
	if (f->pos < 0 || f->pos >= (int64_t)l->count)
		return 0;
	if (f->pos < (int64_t)l->at) {
		l->at = 0;
		l->at_off = 0;
	}
	while (l->at_off < l->len) {
		const struct entry *e = (const void *)(l->buf + l->at_off);

		if ((int64_t)l->at >= f->pos) {
			if (!emit->add(emit, e->name, e->len, e->ino, (int64_t)l->at + 1, e->type))
				return 0;
			f->pos = (int64_t)l->at + 1;
		}
		l->at++;
		l->at_off += sizeof(*e) + e->len;
	}
	return 0;
}

int listing_iterate(struct file *f, struct dir_emit *emit, listing_fill *fill)
{
	struct listing *l = f->priv;
	int r;

	if (!l) {
		l = f->priv = calloc(1, sizeof(*l));
		if (!l)
			return -ENOMEM;
	}
	if (f->pos == 0) {
		listing_done(l);
		r = fill(f, l);
		if (r < 0)
			return r;
	}
	return emit_from(l, f, emit);
}

void listing_release(struct file *f)
{
	if (f->priv)
		listing_done(f->priv);
	free(f->priv);
}

bool listing_is_over(const struct listing *l)
{
	return l && l->at_off >= l->len;
}

static void entry_load(struct listing *l, struct walk *w)
{
	char *name = NULL;
	uint64_t ino = 0;
	uint8_t type = 0;

	walk_str(w, "name", &name);
	walk_u64(w, "ino", &ino);
	walk_u8(w, "type", &type);
	if (!w->err && (!name || strlen(name) > UINT16_MAX))
		walk_fail(w, -EBADMSG);
	if (!w->err)
		walk_fail(w, listing_add(l, name, strlen(name), ino, type));
	free(name);
}

static void entry_save(struct entry *e, struct walk *w)
{
	uint64_t ino = e->ino;
	char *name = strndup(e->name, e->len);

	if (!name)
		walk_fail(w, -ENOMEM);
	walk_str(w, "name", &name);
	walk_u64(w, "ino", &ino);
	walk_u8(w, "type", &e->type);
	free(name);
}

void listing_walk(struct file *f, struct walk *w)
{
	struct listing *l = f->priv;
	bool any = l != NULL;
	uint32_t n = l ? l->count : 0;

	walk_bool(w, "listing", &any);
	if (!any || w->err)
		return;
	if (!l)
		l = f->priv = calloc(1, sizeof(*l));
	if (!l) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_list(w, "entries", &n, LISTING_BYTES_MAX);
	for (size_t at = 0; w->mode == WALK_SAVE && at < l->len;) {
		struct entry *e = (void *)(l->buf + at);

		entry_save(e, w);
		at += sizeof(*e) + e->len;
	}
	for (; w->mode == WALK_LOAD && n > 0 && !w->err; n--)
		entry_load(l, w);
}
