/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan/wall.c - the names of the walls.
 *
 * Owns:  the name table.
 * Rules: names are part of the command line and of stored records; never rename one.
 */
#include <errno.h>

#include "base/str.h"
#include "plan/wall.h"

static const char *const names[WALL_COUNT] = {
	[WALL_NONE] = "none",
	[WALL_WORKSPACE] = "workspace",
	[WALL_CONTAINER] = "container",
	[WALL_KERNEL] = "kernel",
	[WALL_VM] = "vm",
	[WALL_JS] = "js",
	[WALL_WASM] = "wasm",
};

const char *wall_name(enum wall w)
{
	return names[w];
}

int wall_parse(const char *text, enum wall *ret_wall)
{
	for (int i = WALL_WORKSPACE; i < WALL_COUNT; i++) {
		if (str_eq(text, names[i])) {
			*ret_wall = (enum wall)i;
			return 0;
		}
	}
	return -EINVAL;
}
