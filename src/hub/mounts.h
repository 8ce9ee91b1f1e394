/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_MOUNTS_H
#define WARD_HUB_MOUNTS_H

#include "base/limits.h"
#include "hub/config.h"
#include "hub/hub.h"

/*
 * May a request over the API mount this? Its source, with every link resolved, must lie below a
 * root that ward.toml lists (for writing: below a writable one), and below no part of ward's own
 * state. @ret_src is the resolved path, which the supervisor mounts; FORBIDDEN otherwise, with the
 * same words whether the path is there or not.
 */
int mount_check(const struct config *c, const char *state_dir, const struct hub_mount *m,
	char ret_src[WARD_PATH_MAX], struct hub_fail *f);

#endif
