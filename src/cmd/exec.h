/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_EXEC_H
#define WARD_CMD_EXEC_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "cmd/client.h"

/* A command of a sandbox whose output comes here. */
struct session {
	struct client *client;
	const char *id;         /* of the sandbox */
	const char *path;       /* what is asked for */
	const struct buf *body; /* NULL: GET */
	bool interactive;       /* our stdin is its */
	bool tty;               /* our terminal is its */
};

/* Until it ends: the status to exit with, or a negative errno. */
int session_run(struct session *s, struct err *e);

#endif
