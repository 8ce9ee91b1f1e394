/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/vwalk.c - writes fields down, and reads them back.
 *
 * Owns:  the bytes while saving.
 * Rules: nothing here knows what a field means. A length is never taken from the bytes: whoever
 *        walks knows it, or has bounded it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tier/vm/vwalk.h"

enum { GROW = 64 * 1024 };

void vwalk_save(struct vwalk *w)
{
	*w = (struct vwalk){ .loading = false };
}

void vwalk_load(struct vwalk *w, const void *data, size_t len)
{
	*w = (struct vwalk){ .loading = true, .data = (uint8_t *)(uintptr_t)data, .len = len };
}

void vwalk_wrong(struct vwalk *w, const char *name, const char *why)
{
	if (w->wrong)
		return;
	w->wrong = name;
	w->why = why;
}

static bool make_room(struct vwalk *w, size_t len)
{
	size_t cap = w->len + len + GROW;
	uint8_t *p;

	if (len <= w->cap - w->len)
		return true;
	p = realloc(w->data, cap);
	if (!p)
		return false;
	w->data = p;
	w->cap = cap;
	return true;
}

void vwalk_bytes(struct vwalk *w, const char *name, void *p, size_t len)
{
	if (w->loading) {
		if (vwalk_ok(w) && len > w->len - w->at)
			vwalk_wrong(w, name, "is cut short");
		if (!vwalk_ok(w)) {
			memset(p, 0, len);
			return;
		}
		memcpy(p, w->data + w->at, len);
		w->at += len;
		return;
	}
	if (!make_room(w, len)) {
		vwalk_wrong(w, name, "finds no memory");
		return;
	}
	memcpy(w->data + w->len, p, len);
	w->len += len;
}

void vwalk_u8(struct vwalk *w, const char *name, uint8_t *v)
{
	vwalk_bytes(w, name, v, sizeof(*v));
}

void vwalk_u16(struct vwalk *w, const char *name, uint16_t *v)
{
	vwalk_bytes(w, name, v, sizeof(*v));
}

void vwalk_u32(struct vwalk *w, const char *name, uint32_t *v)
{
	vwalk_bytes(w, name, v, sizeof(*v));
}

void vwalk_u64(struct vwalk *w, const char *name, uint64_t *v)
{
	vwalk_bytes(w, name, v, sizeof(*v));
}

void vwalk_bool(struct vwalk *w, const char *name, bool *v)
{
	uint8_t byte = *v;

	vwalk_u8(w, name, &byte);
	if (byte > 1)
		vwalk_wrong(w, name, "is neither yes nor no");
	*v = byte == 1;
}

void vwalk_count(struct vwalk *w, const char *name, uint32_t *v, uint32_t most)
{
	vwalk_u32(w, name, v);
	if (*v > most) {
		vwalk_wrong(w, name, "is too large");
		*v = 0;
	}
}

void vwalk_same(struct vwalk *w, const char *name, uint64_t v)
{
	uint64_t got = v;

	vwalk_u64(w, name, &got);
	if (got != v)
		vwalk_wrong(w, name, "is another one's");
}

int vwalk_end(struct vwalk *w)
{
	if (w->loading && vwalk_ok(w) && w->at != w->len)
		vwalk_wrong(w, "end", "has bytes behind it");
	if (vwalk_ok(w))
		return 0;
	return w->loading ? -EINVAL : -ENOMEM;
}

void vwalk_done(struct vwalk *w)
{
	if (!w->loading)
		free(w->data);
	*w = (struct vwalk){ .loading = false };
}

void vwalk_text(const struct vwalk *w, char *ret, size_t cap)
{
	if (str_fmt(ret, cap, "its '%s' %s", w->wrong ? w->wrong : "", w->why ? w->why : "") < 0 &&
		cap)
		ret[0] = '\0';
}
