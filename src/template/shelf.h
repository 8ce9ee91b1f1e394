/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_SHELF_H
#define WARD_TEMPLATE_SHELF_H

#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"

struct record;

/*
 * Where templates and layers are kept, STATE/templates and STATE/layers, and the one lock over
 * both. Functions that say so want the lock.
 */
struct shelf {
	int layers, templates; /* the two folders */
	int boxes;             /* kept sandboxes, which may need layers too; -1: none yet */
	int lock_;
};

/* @make: create what is missing; otherwise -ENOENT without a message when there is none. */
int shelf_open(const char *state_dir, bool make, struct shelf *ret, struct err *e);
void shelf_done(struct shelf *s);
int shelf_lock(struct shelf *s, struct err *e); /* waits; held for moments only */
void shelf_unlock(struct shelf *s);

/*
 * A folder for work that may take long: STATE/layers/.tmp-RANDOM, locked as long as the descriptor
 * lives, and swept by anybody once its maker is gone. Takes and releases the shelf's lock.
 */
int shelf_work_begin(struct shelf *s, char name[ID_LEN + 6], int *ret_fd, struct err *e);
/* Wants the lock, or another reason why @layer cannot be swept right now (then @s may be NULL).
 * From now on, as long as the folder @work lives, no sweep removes @layer. */
int shelf_pin(struct shelf *s, int work, const char *layer, struct err *e);
/* The template @name is part of the work: when its maker dies, the sweep removes it too. */
int shelf_work_owns(int work, const char *name, struct err *e);
/* Removes it and all in it; never fails: what cannot be removed now is swept later. */
void shelf_work_end(struct shelf *s, const char *name, int *fd);

/* Wants the lock. Replaces what was there; layers still in use under the old record stay. */
int shelf_put(struct shelf *s, const char *name, const struct record *r, struct err *e);
/* Wants the lock. -ENOENT: no such template; -EBUSY: a sandbox runs from it. */
int shelf_check_removable(struct shelf *s, const char *name, struct err *e);
int shelf_remove(struct shelf *s, const char *name, struct err *e);

/* Calls @fn with the name of each template, sorted; stops at its first negative result. */
int shelf_each(struct shelf *s, int (*fn)(const char *name, void *data), void *data, struct err *e);

/* What `ward gc` calls: image_sweep(state_dir) is shelf_open, shelf_sweep, shelf_done. */
struct sweep_count {
	unsigned works, layers, records; /* folders of dead imports; unused layers; old records */
};
int shelf_sweep(
	struct shelf *s, struct sweep_count *ret, struct err *e); /* takes the lock itself */
int image_sweep(const char *state_dir, struct sweep_count *ret, struct err *e);

#endif
