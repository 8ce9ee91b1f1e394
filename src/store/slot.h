/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_SLOT_H
#define WARD_STORE_SLOT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"
#include "store/record.h"
#include "store/undo.h"

/*
 * A live sandbox occupies one slot: the file slots/<number>, locked by the ward that runs it. The
 * number is also the reservation of a range of host ids. A slot whose lock can be had belongs to a
 * ward that is gone; what it says is then undone, and only after that is the number free again.
 *
 * The lock is a POSIX record lock: children do not inherit it and kill -9 ends it. The price: a
 * process that opens and closes a slot of its own loses the lock, so a sweep is told hooks->own.
 */
struct slot {
	int fd; /* -1: none */
	unsigned number;
	int state_fd;        /* borrowed */
	unsigned undo_count; /* lines written so far */
	bool written;
};

struct slot_record {
	const char *id, *tier;
	const char *const *argv; /* the command, NULL-terminated */
	const struct undo *undo; /* everything that is about to exist */
	unsigned undo_count;
};

/* Takes a free slot. -EUSERS when all SLOTS_MAX are taken. Its file is one that was a slot before,
 * where there is one, and becomes one again (store/spare.h). */
int slot_take(int state_fd, const char *id, struct slot *ret, struct err *e);
/* Writes what is about to exist, in one write; call it before anything of it is made. */
int slot_write(struct slot *s, const struct slot_record *rec, struct err *e);
/* One more thing that is about to exist. */
int slot_add(struct slot *s, const char *id, const struct undo *item, struct err *e);
/* Everything is undone: gives the slot back. Safe on a zeroed or freed one whose fd is -1. */
void slot_free(struct slot *s);
/* Its sandbox is over, but not all of it could be removed: the next sweep tries again. */
void slot_leave(struct slot *s);

struct sweep_report {
	unsigned checked; /* slots looked at */
	unsigned live;    /* of these, held by a running ward */
	unsigned swept;   /* dead ones, now gone */
	unsigned failed;  /* dead ones that stay, because something could not be undone */
};

/*
 * Sweeps up to @max_checked slots (0: all) of dead wards. @hooks may be NULL. Fails only when the
 * slots cannot be read; what could not be undone is counted and told to hooks->failed. Each swept
 * sandbox gets an audit line "run.swept".
 */
int slot_sweep(int state_fd, unsigned max_checked, const struct sweep_hooks *hooks,
	struct sweep_report *ret, struct err *e);

/* What `ward ls` sees of a slot. */
struct slot_view {
	unsigned number;
	bool live;
	pid_t pid; /* of the ward that holds it, when live */
	const struct record *record;
};

/* Calls @each for every slot with a readable record, until it returns non-zero; returns that. */
int slot_list(int state_fd, int (*each)(void *arg, const struct slot_view *view), void *arg,
	struct err *e);

#endif
