/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_KERNELBUILD_H
#define WARD_CORE_KERNELBUILD_H

#include <stdbool.h>

#include "base/err.h"

/* One build of a guest kernel. The result is `vmlinux` and `version` in the folder. */
struct kernel_build {
	const char *dir;    /* empty, and the caller's to remove */
	const char *log;    /* the file that gets all that the build prints */
	const char *config; /* "full", "ci", or a file */
	unsigned jobs;
	/* Told of each step, and of each file that is compiled; @total 0: not known. May be NULL.
	 */
	void (*progress)(void *arg, const char *what);
	void (*counted)(void *arg, unsigned done, unsigned total);
	void *arg;
};

int kernel_build(const struct kernel_build *b, struct err *e);
/* After it: was ACPI configured? */
bool kernel_has_acpi(const struct kernel_build *b);

#endif
