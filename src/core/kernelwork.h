/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_KERNELWORK_H
#define WARD_CORE_KERNELWORK_H

#include "base/err.h"
#include "base/limits.h"

/* Folders below kernels/ in which a kernel is fetched, built or put together. */
struct kernel_work {
	char path[WARD_PATH_MAX]; /* "": none */
	int lock;                 /* held as long as anybody works in it; -1: none */
};

/* @kind: "build", "fetch" or "new". */
int kernel_work_begin(
	struct kernel_work *w, const char *state_dir, const char *kind, struct err *e);
/* Removes it, with all that is in it; also if there is none. */
void kernel_work_end(struct kernel_work *w);
/* Removes those that nobody works in any more; tells each. */
int kernel_work_sweep(const char *state_dir, void (*removed)(void *arg, const char *path),
	void *arg, struct err *e);

#endif
