/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_ESCAPE_EXTRA_H
#define WARD_ESCAPE_EXTRA_H

/* Subcommands for what does not fit one attempt: privileges of this process, exhaustion, terminals.
 */
struct extra {
	const char *name;
	int args;
	int (*run)(char **args);
};

extern const struct extra extras[];

#endif
