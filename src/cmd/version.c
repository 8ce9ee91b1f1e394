/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/version.c - `ward version`.
 *
 * Owns:  nothing.
 * Rules: the number comes from the build.
 */
#include <stdio.h>

#include "cmd/cmd.h"

int cmd_version(int argc, char **argv, const struct globals *g)
{
	(void)argv;
	(void)g;
	if (argc > 1)
		return cmd_usage("version", "takes no arguments");
	printf("ward %s\n", WARD_VERSION);
	return 0;
}
