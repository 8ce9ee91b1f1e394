/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_LISTING_H
#define WARD_CMD_LISTING_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "cmd/common.h"
#include "db/db.h"

/* `ward key ls`, `ward pool ls`: rows of the database, as a table or as JSON. */
struct listing {
	struct db *db;
	bool json;
	struct buf out;
};

/* What a listing shows: @head is its first line, @each adds all rows to @l->out. */
struct listing_of {
	const char *command; /* "key" */
	const char *what;    /* "keys" */
	const char *head;
	int (*each)(struct listing *l, struct err *e);
};

/* The whole of `ward COMMAND ls [--json]`: the exit status. No database yet is an empty list. */
int listing_show(const struct listing_of *of, int argc, char **argv, const struct globals *g);

#endif
