/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_HOST_H
#define WARD_TEMPLATE_HOST_H

#include "base/err.h"
#include "base/limits.h"

/*
 * The `host` template: a skeleton of empty folders and a curated /etc, on which the container tier
 * puts the host's own /usr and /opt, read-only. It is made on first use, kept below @state_dir, and
 * made anew when the parts of /etc that it copies have changed. As root a folder of device nodes is
 * kept beside it (<state_dir>/dev).
 *
 * The common case is a handful of stat calls. Writes the skeleton's path to @ret.
 */
int template_host_skeleton(const char *state_dir, char ret[WARD_PATH_MAX], struct err *e);

/* Removes the skeletons that are not the current one; only when no sandbox runs. */
int template_host_sweep(const char *state_dir, struct err *e);

#endif
