/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_CONTAINER_OVERLAY_H
#define WARD_TIER_CONTAINER_OVERLAY_H

#include <stdbool.h>

#include "base/err.h"

struct overlay_layers {
	const int *lowers; /* uppermost first */
	unsigned count;
	unsigned first_number; /* by_paths: the folders of the lowers are numbered from here */
	const char *up, *work; /* folders of the upper mount */
};

/*
 * An overlay with two folders of @upper. by_fds: nothing is attached anywhere; Linux 6.13.
 * by_paths: @upper is attached to this mount namespace and the lowers become attached below it,
 * since older kernels take layers by path and from this namespace only; @ret_fd is the mount at
 * @upper/@at, a folder that exists.
 */
int overlay_by_fds(const struct overlay_layers *l, int upper, int *ret_fd, struct err *e);
int overlay_by_paths(const struct overlay_layers *l, int upper, const char *at, bool user_xattr,
	int *ret_fd, struct err *e);

#endif
