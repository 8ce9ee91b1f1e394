/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_GUESTKERNEL_H
#define WARD_CORE_GUESTKERNEL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/limits.h"

/*
 * The verbs of `ward kernel`: which Linux the guests of the vm tier run. Each is a folder
 * kernels/<id> of the state directory; kernels/default is a link to the one in use. None becomes
 * the default that did not come up on this very host.
 */
enum { GUEST_KERNEL_ID = 16 };

struct guest_kernel_request {
	const char *state_dir;
	const char *file;    /* vmlinux or vmlinuz; NULL: Debian's package for clouds */
	const char *config;  /* with no file: build one, "full", "ci" or from that file; or NULL */
	unsigned jobs;       /* of the build */
	const char *modules; /* its folder below /lib/modules, or NULL: everything is built in */
	bool no_xsave;       /* the CPU template: hide XSAVE and what needs it */
	bool no_acpi;        /* it has no ACPI: its devices are named on the command line */
	bool untested;       /* take it also when it does not come up */
	unsigned timeout_ms;
	/* Told of each step; may be NULL. */
	void (*progress)(void *arg, const char *what);
	void (*counted)(void *arg, unsigned done, unsigned total); /* of a build; may be NULL */
	void *arg;
};

int guest_kernel_use(
	const struct guest_kernel_request *q, char ret_id[GUEST_KERNEL_ID + 1], struct err *e);

struct guest_kernel {
	char id[GUEST_KERNEL_ID + 1];
	char version[128]; /* as the kernel calls itself; "": not known */
	bool is_default;
};

int guest_kernel_each(const char *state_dir, void (*each)(void *arg, const struct guest_kernel *k),
	void *arg, struct err *e);
/* -EBUSY for the default one. */
int guest_kernel_remove(const char *state_dir, const char *id, struct err *e);

#endif
