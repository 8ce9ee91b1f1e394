/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VIEWS_H
#define WARD_TIER_VIEWS_H

#include <stdint.h>

#include "base/err.h"
#include "plan/plan.h"

/*
 * Views of host directories: detached copies of their mounts, without devices and setuid, private.
 * @attrs: WARD_MOUNT_ATTR_*.
 */

/* What the host template takes from the host: a folder's name without the slash, or NULL. */
const char *bind_name(unsigned i);
/* Bit i: bind_name(i) is a folder here (and not a link into /usr), and the plan wants it. */
unsigned binds_find(const struct plan *plan);

/*
 * As root. Through the id map of @user_ns, what the host's root owns belongs to the sandbox's root;
 * without (-1) it belongs to nobody, and only what everybody may read can be read.
 */
int view_host(const char *path, unsigned recursive, uint64_t attrs, int user_ns, int *ret_fd,
	struct err *e);
/* As an ordinary user: no id map, the ids are the caller's. */
int view_own(const char *path, uint64_t attrs, int *ret_fd, struct err *e);

#endif
