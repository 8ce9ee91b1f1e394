/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_LS_H
#define WARD_CMD_LS_H

#include <stdbool.h>

#include "base/buf.h"
#include "cmd/cmd.h"

/* The list on its way to the screen: first what the daemon has, then what the state directory has.
 */
struct ls {
	bool json, all, colour;
	struct buf out;
	unsigned rows;
	/* True for a sandbox that is in the list already; NULL: none is. */
	bool (*has)(void *arg, const char *id);
	void *arg;
};

/* 0, or -1 with *@ret_status set: --help, or an option that is none. */
int ls_options(int argc, char **argv, struct ls *ls, int *ret_status);
/* The head, once. */
void ls_head(struct ls *ls);
/* What `ward run` made and keeps; prints, and gives the exit status. */
int ls_finish(struct ls *ls, const struct globals *g);
/* "45s", "12m", "3h", "9d" since a moment. */
void ls_age(const char *created, char out[16]);

#endif
