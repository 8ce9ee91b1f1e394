/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_AGENT_H
#define WARD_AGENT_AGENT_H

#include <stdbool.h>

/*
 * The agent: the first process of a sandbox. It serves docs/PROTOCOL.md on one channel, starts
 * commands, reaps what is orphaned, and ends when the channel closes or a START with the LAST flag
 * is over.
 */
struct agent_config {
	int channel;    /* a stream socket; taken */
	bool not_init;  /* not PID 1: be the subreaper instead, and end by killing what is left */
};

/* Serves until the end; returns the exit status for the process. */
int agent_run(const struct agent_config *config);

#endif
