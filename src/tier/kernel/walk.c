/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk.c - the words that walks are made of.
 *
 * Owns:  a walk's buffer when saving.
 * Rules: a buffer that is loaded is untrusted, even if we wrote it: every length is checked. Each
 *        value carries a hash of its name, so that two versions that disagree say so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/walk.h"

struct walk_ids {
	struct {
		void **of;
		uint32_t count, cap;
	} kind[WALK_KINDS];
};

enum { WALK_FIRST = 4096, WALK_OBJECTS_MAX = 1 << 20 };

static bool room(struct walk *w, size_t len)
{
	unsigned char *buf;
	size_t cap = w->cap ? w->cap : WALK_FIRST;

	if (w->err)
		return false;
	while (cap - w->len < len)
		cap *= 2;
	if (cap == w->cap)
		return true;
	buf = realloc(w->buf, cap);
	if (!buf) {
		w->err = -ENOMEM;
		return false;
	}
	w->buf = buf;
	w->cap = cap;
	return true;
}

static void raw(struct walk *w, void *p, size_t len)
{
	if (!len)
		return;
	if (w->mode == WALK_SAVE) {
		if (!room(w, len))
			return;
		memcpy(w->buf + w->len, p, len);
		w->len += len;
		return;
	}
	if (w->err || w->len - w->at < len) {
		w->err = w->err ? w->err : -EBADMSG;
		memset(p, 0, len);
		return;
	}
	memcpy(p, w->buf + w->at, len);
	w->at += len;
}

static void tag(struct walk *w, const char *name)
{
	uint16_t h = 7, seen;

	for (; *name; name++)
		h = (uint16_t)(h * 31 + (unsigned char)*name);
	seen = h;
	raw(w, &seen, sizeof(seen));
	if (seen != h && !w->err)
		w->err = -EBADMSG;
}

void walk_bytes(struct walk *w, const char *name, void *p, size_t len)
{
	tag(w, name);
	raw(w, p, len);
}

void walk_u8(struct walk *w, const char *name, uint8_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_u32(struct walk *w, const char *name, uint32_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_i32(struct walk *w, const char *name, int32_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_u64(struct walk *w, const char *name, uint64_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_i64(struct walk *w, const char *name, int64_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_bool(struct walk *w, const char *name, bool *v)
{
	uint8_t b = *v;

	walk_u8(w, name, &b);
	*v = b != 0;
}

void walk_count(struct walk *w, const char *name, uint32_t *n, uint32_t max)
{
	walk_u32(w, name, n);
	if (w->mode == WALK_LOAD && *n > max) {
		w->err = w->err ? w->err : -EBADMSG;
		*n = 0;
	}
}

void walk_blob(struct walk *w, const char *name, void **p, size_t *len, size_t max)
{
	uint64_t n = *len;

	walk_u64(w, name, &n);
	if (w->mode == WALK_LOAD) {
		*p = NULL;
		*len = 0;
		if (w->err || n > max || n > w->len - w->at) {
			w->err = w->err ? w->err : -EBADMSG;
			return;
		}
		*p = n ? malloc(n) : NULL;
		if (n && !*p) {
			w->err = -ENOMEM;
			return;
		}
		*len = n;
	}
	raw(w, *p, n);
}

void walk_str(struct walk *w, const char *name, char **s)
{
	size_t len = w->mode == WALK_SAVE && *s ? strlen(*s) + 1 : 0;
	void *p = *s;

	walk_blob(w, name, &p, &len, 1 << 20);
	if (w->mode == WALK_LOAD) {
		*s = p;
		if (len && (*s)[len - 1] != '\0')
			w->err = w->err ? w->err : -EBADMSG;
	}
}

static uint32_t number_of(struct walk *w, enum walk_kind kind, void *p)
{
	struct walk_ids *ids = w->ids;
	void **of;

	for (uint32_t i = 0; i < ids->kind[kind].count; i++)
		if (ids->kind[kind].of[i] == p)
			return i + 1;
	if (ids->kind[kind].count == ids->kind[kind].cap) {
		uint32_t cap = ids->kind[kind].cap ? ids->kind[kind].cap * 2 : 64;

		of = realloc(ids->kind[kind].of, cap * sizeof(*of));
		if (!of) {
			w->err = -ENOMEM;
			return 0;
		}
		ids->kind[kind].of = of;
		ids->kind[kind].cap = cap;
	}
	ids->kind[kind].of[ids->kind[kind].count] = p;
	return ++ids->kind[kind].count;
}

void walk_ref(struct walk *w, const char *name, enum walk_kind kind, void **ref)
{
	uint32_t n = w->mode == WALK_SAVE && *ref ? number_of(w, kind, *ref) : 0;

	walk_u32(w, name, &n);
	if (w->mode == WALK_SAVE)
		return;
	*ref = NULL;
	if (n > w->ids->kind[kind].count)
		w->err = w->err ? w->err : -EBADMSG;
	else if (n)
		*ref = w->ids->kind[kind].of[n - 1];
}

uint32_t walk_number(struct walk *w, enum walk_kind kind, void *p)
{
	return number_of(w, kind, p);
}

int walk_save_begin(struct walk *w)
{
	memset(w, 0, sizeof(*w));
	w->mode = WALK_SAVE;
	w->ids = calloc(1, sizeof(*w->ids));
	return w->ids ? 0 : -ENOMEM;
}

int walk_load_begin(struct walk *w, const void *buf, size_t len)
{
	memset(w, 0, sizeof(*w));
	w->mode = WALK_LOAD;
	w->buf = (unsigned char *)(uintptr_t)buf;
	w->len = len;
	w->ids = calloc(1, sizeof(*w->ids));
	return w->ids ? 0 : -ENOMEM;
}

void walk_done(struct walk *w)
{
	for (int i = 0; w->ids && i < WALK_KINDS; i++)
		free(w->ids->kind[i].of);
	free(w->ids);
	if (w->mode == WALK_SAVE)
		free(w->buf);
	memset(w, 0, sizeof(*w));
}
