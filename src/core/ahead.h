/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_AHEAD_H
#define WARD_CORE_AHEAD_H

#include "plan/plan.h"
#include "plan/trail.h"
#include "store/slot.h"

/*
 * A sandbox before there is a request for it: its id, its slot and as much of its wall as no
 * request changes (tier_waits()). The supervisor that made it becomes that of the sandbox, or ends.
 */
struct ahead {
	struct plan plan;
	struct trail trail;
	int state_fd; /* ours, like all below, until launch_prepare() takes them; -1, NULL: taken */
	struct slot slot;
	struct box *box;
};

/* On failure nothing is left. */
int ahead_make(const char *state_dir, const char *id, enum wall wall, char *args, size_t args_len,
	struct ahead **ret, struct err *e);
/*
 * Tells whoever holds the other end of @sock when it is ready, and waits there for a request: its
 * descriptors come to lie where a supervisor finds them (sup/request.h). 0: there is one.
 * -ENOTCONN: there will be none.
 */
int ahead_wait(struct ahead *a, int sock, struct err *e);
/* What was not taken goes: it is of no use. */
void ahead_undo(struct ahead *a);
/* The same, and @a with it. NULL is fine. */
void ahead_drop(struct ahead *a);

#endif
