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
	WALK_MM,
	WALK_PIPE,
	WALK_SUPER,
	WALK_IPC,
	WALK_BACKING,
	WALK_KEY,
	WALK_NS,
	WALK_LANDLOCK,
	WALK_KINDS
};

/* What is pointed at from outside the tables that a walk goes through by itself; saving only. */
struct walk_wanted {
	struct inode **inodes;
	struct dentry **dentries;
	struct cred **creds;
	uint32_t inode_count, dentry_count, cred_count;
	struct backings *backings; /* walk/backings.h */
};

struct walk {
	enum walk_mode mode;
	unsigned char *buf;
	size_t len, cap, at;
	int err;           /* first error; later calls do nothing */
	const char *wrong; /* the field at which it came, for messages */
	bool contents;     /* with the bytes of files that have no other place */
	int64_t shift;     /* loading: what the clock has moved on since, ns */
	const struct walk_wanted *wanted;
	struct walk_ids *ids;
	struct walk_kept *kept;
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
/* The same, where each element is bytes of the walk too: there cannot be more than are left. */
void walk_list(struct walk *w, const char *name, uint32_t *n, uint32_t max);
/* When something is due, CLOCK_MONOTONIC in ns; 0 stays 0. What would be before this host's clock
 * began is due at once. */
void walk_time(struct walk *w, const char *name, int64_t *ns);
/* When something was, by the same clock: that may be before it began. */
void walk_past(struct walk *w, const char *name, int64_t *ns);
/* An object that has its number. Loading: borrowed from the walk, NULL where it was. */
void walk_ref(struct walk *w, const char *name, enum walk_kind kind, void **ref);
/* The same for one that must be there. */
void walk_need(struct walk *w, const char *name, enum walk_kind kind, void **ref);

int walk_save_begin(struct walk *w);
int walk_load_begin(struct walk *w, const void *buf, size_t len); /* borrows @buf */
/* Gives @p the next number of its kind, if it has none; when loading, call it in the same order as
 * in saving. The number. */
uint32_t walk_number(struct walk *w, enum walk_kind kind, void *p);
uint32_t walk_count_of(const struct walk *w, enum walk_kind kind);
void *walk_get(const struct walk *w, enum walk_kind kind, uint32_t number); /* NULL: none */
bool walk_knows(const struct walk *w, enum walk_kind kind, const void *p);
/* Loading: @drop(@p) when the walk is over, also after an error. What has a number is held like
 * this, so that no reference leads to something that is gone. */
void walk_keep(struct walk *w, void *p, void (*drop)(void *p));
void walk_fail(struct walk *w, int err); /* the first one stays */
/* @len bytes of the host file @fd, holes left out. Loading: the file is empty. */
void walk_sparse(struct walk *w, const char *name, int fd, uint64_t len);
void walk_done(struct walk *w); /* before the kernel that was loaded into */

#endif
