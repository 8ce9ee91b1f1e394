/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_PROCESS_H
#define WARD_AGENT_PROCESS_H

#include "agent/state.h"

extern const struct stream_ops process_ops;     /* pipes or a terminal of ours */
extern const struct stream_ops process_fds_ops; /* the client's own descriptors */

/* start.c: a START of the LAST command, with descriptors of its own, that somebody else has
 * answered: it runs. */
void start_taken(struct agent *a, uint32_t id, pid_t pid);

/* A terminal: our end, twice, and the command's end. Returns 0 or a negative errno. */
struct pty {
	int master, master_in, slave;
};

int pty_open(struct pty *p, unsigned rows, unsigned cols);

#endif
