/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VWALK_H
#define WARD_TIER_VM_VWALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One function per live struct names every field that must survive; the same function writes it
 * down and reads it back. What is read back is hostile: whoever walks checks every value, and says
 * vwalk_wrong() about one that makes no sense. After the first wrong thing nothing more is read,
 * and the rest reads as zeros.
 */
struct vwalk {
	bool loading;
	uint8_t *data; /* saving: ours, grows. Loading: borrowed */
	size_t len, cap, at;
	const char *wrong, *why; /* the first field that was wrong; NULL: none */
};

void vwalk_save(struct vwalk *w);
void vwalk_load(struct vwalk *w, const void *data, size_t len);
/* Loading: all was read? Then 0. -EINVAL, or -ENOMEM, and vwalk_text() says what. */
int vwalk_end(struct vwalk *w);
void vwalk_done(struct vwalk *w);
/* "field 'x' is cut short" */
void vwalk_text(const struct vwalk *w, char *ret, size_t cap);

void vwalk_bytes(struct vwalk *w, const char *name, void *p, size_t len);
void vwalk_u8(struct vwalk *w, const char *name, uint8_t *v);
void vwalk_u16(struct vwalk *w, const char *name, uint16_t *v);
void vwalk_u32(struct vwalk *w, const char *name, uint32_t *v);
void vwalk_u64(struct vwalk *w, const char *name, uint64_t *v);
void vwalk_bool(struct vwalk *w, const char *name, bool *v);
/* A number that must be at most @most. */
void vwalk_count(struct vwalk *w, const char *name, uint32_t *v, uint32_t most);
/* What must be there as it is here: loading, another value is wrong. */
void vwalk_same(struct vwalk *w, const char *name, uint64_t v);
void vwalk_wrong(struct vwalk *w, const char *name, const char *why);

static inline bool vwalk_ok(const struct vwalk *w)
{
	return !w->wrong;
}

#endif
