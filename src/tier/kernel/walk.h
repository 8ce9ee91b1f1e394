/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_H
#define WARD_TIER_KERNEL_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What lives can be walked. Each live struct has ONE function that names every field that must
 * survive; saving, loading, dumping and comparing all go through it, so that there is no second
 * list to forget. When loading, the same calls fill the fields.
 *
 *	void pipe_walk(struct pipe *p, struct walk *w)
 *	{
 *		walk_u32(w, "head", &p->head);
 *		walk_bytes(w, "ring", p->ring, sizeof(p->ring));
 *		walk_ref(w, "inode", WALK_INODE, (void **)&p->inode);
 *	}
 */
enum walk_mode { WALK_SAVE, WALK_LOAD };

/* Kinds of objects that others point at; a reference is saved as (kind, number). */
enum walk_kind {
	WALK_TASK,
	WALK_PROC,
	WALK_FILE,
	WALK_INODE,
	WALK_DENTRY,
	WALK_MOUNT,
	WALK_FILES,
	WALK_FS,
	WALK_CRED,
	WALK_SIGHAND,
	WALK_PGRP,
	WALK_SESSION,
	WALK_SOCK,
	WALK_TTY,
	WALK_TIMER,
	WALK_IPC,
	WALK_KINDS
};

struct walk {
	enum walk_mode mode;
	unsigned char *buf;
	size_t len, cap, at;
	int err; /* first error; later calls do nothing */
	unsigned depth;
	/* An object's number, given on first sight; and back. Set by whoever starts the walk. */
	struct walk_ids *ids;
};

void walk_u8(struct walk *w, const char *name, uint8_t *v);
void walk_u32(struct walk *w, const char *name, uint32_t *v);
void walk_i32(struct walk *w, const char *name, int32_t *v);
void walk_u64(struct walk *w, const char *name, uint64_t *v);
void walk_i64(struct walk *w, const char *name, int64_t *v);
void walk_bool(struct walk *w, const char *name, bool *v);
void walk_bytes(struct walk *w, const char *name, void *p, size_t len);
/* A heap buffer with its length; loading allocates (at most @max). */
void walk_blob(struct walk *w, const char *name, void **p, size_t *len, size_t max);
void walk_str(struct walk *w, const char *name, char **s); /* heap string, may be NULL */
/* The number of elements of a list that follows; loading checks it against @max. */
void walk_count(struct walk *w, const char *name, uint32_t *n, uint32_t max);
void walk_ref(struct walk *w, const char *name, enum walk_kind kind, void **ref);

int walk_save_begin(struct walk *w);
int walk_load_begin(struct walk *w, const void *buf, size_t len); /* borrows @buf */
/* Gives @p the next number of its kind; when loading, call it in the same order as in saving. */
uint32_t walk_number(struct walk *w, enum walk_kind kind, void *p);
void walk_done(struct walk *w);

#endif
