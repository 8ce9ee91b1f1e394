/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PLAN_WALL_H
#define WARD_PLAN_WALL_H

/*
 * How hard a wall is. The first five are ordered: a higher one may always stand in for a lower
 * one. js and wasm stand beside them, for code that needs no operating system.
 */
enum wall {
	WALL_NONE = 0,
	WALL_WORKSPACE,
	WALL_CONTAINER,
	WALL_KERNEL,
	WALL_VM,
	WALL_JS,
	WALL_WASM,
	WALL_COUNT,
};

const char *wall_name(enum wall w);                    /* "container"; "none" for WALL_NONE */
int wall_parse(const char *text, enum wall *ret_wall); /* -EINVAL */

#endif
