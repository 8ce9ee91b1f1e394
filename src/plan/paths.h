/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PLAN_PATHS_H
#define WARD_PLAN_PATHS_H

#include <stdbool.h>

/* Absolute, shorter than WARD_PATH_MAX, without "//", "." and "..". */
bool path_is_clean(const char *p);
/* Is it, or does it lie below, a place where ward puts its own mounts? Nobody else's go there. */
bool path_is_reserved(const char *dst);

#endif
