/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_TEMPLATE_H
#define WARD_CMD_TEMPLATE_H

#include "base/err.h"
#include "cmd/cmd.h"

/* `ward template import` and `ward template build`: argv[0] is the verb. */
int template_import(int argc, char **argv, const struct globals *g);
int template_build(int argc, char **argv, const struct globals *g);

/*
 * One option at argv[*at] of the form --NAME VALUE or --NAME=VALUE: 1 and the value, with *at moved
 * on to the last word used; 0 when it is another option; -EINVAL when the value is missing.
 */
int template_option(char **argv, int *at, const char *name, const char **ret, struct err *e);

#endif
