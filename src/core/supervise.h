/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_SUPERVISE_H
#define WARD_CORE_SUPERVISE_H

#include <stddef.h>

#include "base/err.h"
#include "plan/wall.h"

struct supervise {
	const char *state_dir;
	const char *id;          /* must be the request's own; NULL: not checked */
	enum wall ahead;         /* make one ahead, and wait at request_fd; WALL_NONE: do not */
	int request_fd, link_fd; /* taken; link_fd -1: nobody is connected yet */
	char *args;              /* for plan->args */
	size_t args_len;
};

/*
 * Makes the sandbox that the request describes and serves it to its end (sup/serve.h). Returns the
 * exit status of the process: 0 whenever there was a sandbox, however it ended; 125 with @e when
 * there was none. In both cases an end record is left, unless the request could not even be read.
 * With ->ahead request_fd is a socket (sup_spawn_ahead()); 0 also when no request came.
 */
int core_supervise(const struct supervise *in, struct err *e);

#endif
