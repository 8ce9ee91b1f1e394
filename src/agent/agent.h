/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_AGENT_H
#define WARD_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * How a machine's first process stands still for a snapshot (renew.c, proto/keeper.h). It is in the
 * cgroup @inside to begin with, and so is everything that it starts. -1: it cannot hold.
 */
struct keeper {
	int link;            /* the connection to the host's KEEPER_PORT; -1: over */
	int inside, outside; /* cgroup.procs of that cgroup, and of its parent */
	int freeze, events;  /* cgroup.freeze and cgroup.events of it */
	int room;            /* a folder for a small file of its own */
	/* Calls port @port of the host, 0: the channel's; a connected socket, or -1. */
	int (*dial)(unsigned port);
};

/*
 * The agent: the first process of a sandbox. It serves docs/PROTOCOL.md on one channel, starts
 * commands, reaps what is orphaned, and ends when the channel closes or a START with the LAST flag
 * is over.
 */
struct agent_config {
	int channel;           /* a stream socket; taken */
	struct keeper *keeper; /* of a machine that can be copied; NULL: there is none. Borrowed */
	bool not_init; /* not PID 1: be the subreaper instead, and end by killing what is left */
	bool fresh; /* nobody before it has ignored a signal: 62 calls less, where calls are dear */
	/* A first command that runs already, as a child of this process: as if a START with LAST
	 * and STDIO_FDS on @stream had begun it. 0: none. */
	pid_t command;
	uint32_t stream;
	bool standby; /* PID 1 only: the first command's process is made before it is asked for */
	/* Optional: what the limits inside did so far, where nobody outside can see it. */
	void (*limits)(void *arg, uint64_t *ret_oom_kills, uint64_t *ret_pids_refused);
	void *arg;
};

/*
 * Serves until the end; returns the exit status for the process: 0, or 1 when the client broke the
 * protocol or the agent could not begin. The caller must exit with it: as PID 1 that is what ends
 * everything else. Changes the signal mask, the action for SIGCHLD and the set of open descriptors
 * of the process for good.
 */
int agent_run(const struct agent_config *config);
/* The same from a command line: ward-agent FD [fresh [STREAM PID]]. */
int agent_main(int argc, char **argv);

#endif
