/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_DIFF_H
#define WARD_CORE_DIFF_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "tier/workspace/workspace.h"

/* The verb `diff`: what a kept workspace changed, by source. */
enum diff_form { DIFF_PATCH, DIFF_STAT, DIFF_NAMES, DIFF_JSON };

struct diff_request {
	const char *state_dir, *id;
	enum diff_form form;
	bool colour;
	int out;          /* where git prints; for all forms but DIFF_JSON */
	struct buf *json; /* DIFF_JSON: one object is added */
};

int core_diff(const struct diff_request *req, struct err *e);

/* Reads the record of a kept workspace, and checks that it is one. Free it with free(). */
int workspace_open(
	const char *state_dir, const char *id, struct workspace_record **ret, struct err *e);
/* boxes/<id>: where the scratch folders of a look are made. */
int workspace_dir(const char *state_dir, const char *id, char ret[WARD_PATH_MAX], struct err *e);

#endif
