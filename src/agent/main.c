/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/main.c - the agent's command line, for tiers that start it with exec.
 *
 * Owns:  nothing.
 * Rules: `ward-agent FD [fresh [STREAM PID]]`: FD is the channel. It is the sandbox's PID 1, or
 * else its subreaper.
 */
#include <stdio.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/parse.h"
#include "base/str.h"

int agent_main(int argc, char **argv)
{
	bool taken = argc == 5, fresh = (argc == 3 || taken) && str_eq(argv[2], "fresh");
	uint64_t fd, stream = 0, pid = 0;

	if ((argc != 2 && !fresh) || parse_u64(argv[1], 0, 1 << 20, &fd) < 0 ||
		(taken && (parse_u64(argv[3], 1, UINT32_MAX, &stream) < 0 ||
				  parse_u64(argv[4], 2, INT32_MAX, &pid) < 0))) {
		fputs("ward-agent: usage: ward-agent FD [fresh [STREAM PID]], the number of the "
		      "channel's descriptor\n",
			stderr);
		return 125;
	}
	return agent_run(&(struct agent_config){ .channel = (int)fd,
		.not_init = getpid() != 1,
		.fresh = fresh,
		.stream = (uint32_t)stream,
		.command = (pid_t)pid });
}
