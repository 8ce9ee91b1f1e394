/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_LISTING_H
#define WARD_TIER_KERNEL_FS_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a directory held when its listing began. getdents reads from this copy, so that entries may
 * be made and removed meanwhile; going back to the start makes a new one.
 */
struct dir_emit;
struct file;

struct listing {
	char *buf;
	size_t len, cap;
	uint32_t count;
	uint32_t *set; /* offsets of names + 1, open addressing: "is it there already?" */
	uint32_t set_cap;
	/* where the reader is */
	uint32_t at;
	size_t at_off;
};

/* 0 (also when it was there already), -ENOMEM. */
int listing_add(struct listing *l, const char *name, size_t len, uint64_t ino, unsigned char type);
bool listing_has(const struct listing *l, const char *name, size_t len);
void listing_done(struct listing *l);
/* file_ops.walk of those whose priv is a listing, or NULL: none has begun. */
struct walk;
void listing_walk(struct file *f, struct walk *w);
/* Was everything in it told? NULL: it has not begun. */
bool listing_is_over(const struct listing *l);
/* file_ops.iterate and .release of those whose priv is a listing: `fill` reads the directory anew
 * whenever the reader is at its start. */
typedef int listing_fill(struct file *f, struct listing *l);
int listing_iterate(struct file *f, struct dir_emit *emit, listing_fill *fill);
void listing_release(struct file *f);

#endif
