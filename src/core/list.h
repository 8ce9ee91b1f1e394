/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_LIST_H
#define WARD_CORE_LIST_H

#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"
#include "store/record.h"

/* Every sandbox that the state directory knows of. */
enum box_state {
	BOX_RUNNING,
	BOX_KEPT, /* ended, and kept with --keep */
	BOX_DEAD, /* its ward is gone; the next sweep takes down what is left */
};

struct box_row {
	char id[ID_LEN + 1];
	enum box_state state;
	pid_t pid;                   /* of the ward that runs it; 0 when none does */
	const struct record *record; /* what is written down about it */
};

const char *box_state_name(enum box_state s);

/* Calls @each for each of them, running ones first, until it returns non-zero; returns that. */
int box_list(
	int state_fd, int (*each)(void *arg, const struct box_row *row), void *arg, struct err *e);

struct sweep_hooks;
/* Removes a kept sandbox, and says so in the audit log. One that runs is refused: -EBUSY. */
int box_remove(int state_fd, const char *id, const struct sweep_hooks *hooks, struct err *e);

#endif
