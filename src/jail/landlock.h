/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_JAIL_LANDLOCK_H
#define WARD_JAIL_LANDLOCK_H

#include "base/err.h"

/* What may be done at and below a path. */
enum {
	LL_READ = 1,       /* read files, list folders */
	LL_EXEC = 2,       /* execute files */
	LL_WRITE = 4,      /* write and truncate; make, move and remove anything but device nodes */
	LL_IOCTL = 8,      /* ioctl on devices (asked for since ABI 5; free before) */
	LL_IF_EXISTS = 16, /* a path that is not there is no error */
};

struct landlock_rule {
	const char *path;
	unsigned may;
};

/* What else to close. */
enum {
	LL_SCOPE_ABSTRACT = 1, /* abstract unix sockets made outside (ABI 6) */
	LL_SCOPE_SIGNAL = 2,   /* signals to processes outside (ABI 6) */
	LL_NO_TCP = 4,         /* every TCP bind and connect (ABI 4) */
};

/* The kernel's ABI version, 1 or more; -ENOSYS (not built in) or -EOPNOTSUPP (switched off). */
int landlock_abi(void);

/* Those of @flags that ABI version @abi can keep. */
unsigned landlock_keeps(int abi, unsigned flags);

/*
 * Confines this thread, and all that it starts from now on, to @rules. Every file-system right that
 * the kernel knows is handled, so what no rule allows is refused. Rights and flags that are newer
 * than the kernel are left out; whoever cannot do without one asks landlock_keeps() first. A rule
 * on something that is not a folder gives only what a file can have.
 *
 * no_new_privs must be set. Allocates nothing: for use between clone and exec. -ENOSYS or
 * -EOPNOTSUPP when the kernel has no Landlock.
 */
int landlock_confine(
	const struct landlock_rule *rules, unsigned count, unsigned flags, struct err *e);

#endif
