/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_SELF_H
#define WARD_FRONT_E2B_SELF_H

#include <stdbool.h>

#include "hub/hub.h"

/*
 * What a sandbox is told about itself: E2B_SANDBOX, E2B_SANDBOX_ID and E2B_TEMPLATE_ID, as
 * variables of every command and as files in /run/e2b.
 */
struct front;

enum { SELF_VARS = 3, SELF_TEXT = 300 };

/* "E2B_SANDBOX=true" and the others, for the end of an environment, where they win. */
struct self {
	char vars[SELF_VARS][SELF_TEXT];
};

/* Is it one of the names? */
bool self_owns(const char *name);
void self_vars(struct self *s, const char *id, const char *template);

/* Writes the files. Nobody waits for them: what is started afterwards comes after them anyway. */
void self_write(struct front *f, const struct hub_caller *who, const struct hub_box *box);

#endif
