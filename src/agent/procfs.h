/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_PROCFS_H
#define WARD_AGENT_PROCFS_H

#include <stdint.h>
#include <sys/types.h>

#include "agent/dirents.h"

/* Walks /proc. Its numbers are of the pid namespace it was mounted for. */
struct procfs {
	struct dirents dir;
};

struct procfs_stat {
	pid_t ppid;
	char state;
	char name[64]; /* printable */
};

int procfs_open(struct procfs *p);
void procfs_close(struct procfs *p);
pid_t procfs_self(struct procfs *p); /* what /proc calls us; negative errno */
pid_t procfs_next(struct procfs *p); /* the next process; 0 at the end */
/* -ESRCH when it has ended meanwhile. */
int procfs_stat(struct procfs *p, pid_t pid, struct procfs_stat *ret);
/* Its arguments, each ending in NUL, cut to @cap; how many bytes, 0 when there are none. */
ssize_t procfs_cmdline(struct procfs *p, pid_t pid, char *out, size_t cap);

#endif
